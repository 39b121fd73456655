"""Running hooks: in the workspace, without a terminal and without the user's secrets.

Hooks run outside the sandbox, so PATH and module search paths exclude the workspace: files that the
agent can write must not become programs of a hook.
"""

import os
import re
from codecs import getincrementaldecoder
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import suppress
from fnmatch import translate
from functools import cached_property
from pathlib import Path

import anyio
import anyio.lowlevel

from rookery import ENV_PREFIX
from rookery.core.limits import MIB
from rookery.governance.external_hooks.hook_answers import HookRun
from rookery.governance.external_hooks.hook_config import HookCommand
from rookery.governance.external_hooks.hook_trust import PROJECT_VARIABLES
from rookery.platform.guarded_process import command_environment
from rookery.platform.paths import path_outside
from rookery.platform.piped_process import PipedProcess
from rookery.platform.user_folders import find_own_program

GRACE = 2.0
"""Seconds between terminating a hook and killing it."""
CAPTURE = 1 * MIB
"""Bytes kept of each stream; the rest is discarded."""
FLOOD = 64 * MIB
"""Bytes of one stream after which a hook is terminated."""


class _HookOutput:
    """One output stream of a hook."""

    def __init__(self, read: Callable[[], Awaitable[bytes]]) -> None:
        self._read = read
        self.kept = bytearray()
        self.size = 0

    @property
    def cut(self) -> bool:
        return self.size > len(self.kept)

    @property
    def flooded(self) -> bool:
        return self.size > FLOOD

    @property
    def text(self) -> str:
        return self.kept.decode("utf-8", "replace")

    @property
    def is_text(self) -> bool:
        """Whether the kept output is UTF-8; its last character may be truncated."""
        try:
            getincrementaldecoder("utf-8")().decode(bytes(self.kept), final=not self.cut)
        except UnicodeDecodeError:
            return False
        return True

    async def collect(self) -> None:
        """Read to the end of the stream, unless it is far too long."""
        while not self.flooded and (data := await self._read()):
            self.size += len(data)
            self.kept += data[: CAPTURE - len(self.kept)]
            await anyio.lowlevel.checkpoint()  # reading does not wait while there is output


async def _run(process: PipedProcess, document: bytes, seconds: float) -> HookRun:
    """Give the input to a started hook and wait for its end. When this returns, it and its children
    have ended."""
    output, errors = _HookOutput(process.read), _HookOutput(process.read_errors)
    started = anyio.current_time()
    try:
        with anyio.move_on_after(seconds) as time:
            await _communicate(process, document, (output, errors))
    finally:
        with anyio.CancelScope(shield=True):
            process.stop()
            await process.end()
            with anyio.move_on_after(GRACE):  # a child that the warden left may keep them open
                await output.collect()
                await errors.collect()
            process.close()
    flooded = output.flooded or errors.flooded
    return HookRun(
        status=_exit_status(process.ended),
        stdout=output.text,
        stderr=errors.text,
        timed_out=time.cancelled_caught,
        trouble=f"wrote more than {FLOOD // MIB} MiB and was stopped" if flooded else "",
        cut=output.cut or errors.cut,
        garbled=not output.is_text,
        seconds=anyio.current_time() - started,
    )


async def _communicate(
    process: PipedProcess, document: bytes, streams: Sequence[_HookOutput]
) -> None:
    async def feed() -> None:
        with suppress(BrokenPipeError):  # hooks may ignore their input
            await process.write(document)
            process.close_input()

    async def collect(stream: _HookOutput) -> None:
        await stream.collect()
        if stream.flooded:
            process.stop()

    async with anyio.create_task_group() as group:
        group.start_soon(feed)
        for stream in streams:
            group.start_soon(collect, stream)
        await process.watch()
        group.cancel_scope.cancel()


def _exit_status(status: int | None) -> int | None:
    """The exit status as a shell reports it: 128 plus the signal number if killed."""
    if status is None:
        return None
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code


MAX_CONCURRENT = 8
WITHHELD = ("*KEY*", "*TOKEN*", "*SECRET*", "*PASSWORD*")
"""Withheld from hooks in addition to what commands never get."""
TASK_VARIABLE, INTENT_VARIABLE = f"{ENV_PREFIX}TASK_ID", f"{ENV_PREFIX}INTENT_ID"
_withheld = re.compile("|".join(map(translate, WITHHELD)))


class HookRunner:
    """`env_allow` names variables that hooks get although they look like secrets."""

    def __init__(
        self,
        workspace: Path,
        *,
        environ: Mapping[str, str] | None = None,
        env_allow: Collection[str] = (),
    ) -> None:
        self._workspace = workspace
        self._environ = os.environ if environ is None else environ
        self._env_allow = frozenset(env_allow)

    async def run(
        self, hook: HookCommand, document: bytes, *, task_id: str = "", intent_id: str = ""
    ) -> HookRun:
        """Run a hook to its end. Failures are reported in the result, never raised. Cancellation
        terminates the hook and its children."""
        shell = [self._shell, "-c", hook.command]
        direct = ["/bin/sh", "-c", 'exec "$@"', "sh", hook.command, *(hook.args or ())]
        words = shell if hook.args is None else direct  # programs are looked up in the hook's PATH
        environment = self._environment(hook, task_id, intent_id)
        async with self._limiter:
            try:
                process = PipedProcess(
                    words, folder=self._folder, environment=environment, grace=GRACE
                )
            except (OSError, ValueError) as error:
                why = error.strerror if isinstance(error, OSError) else error
                return HookRun(trouble=f"could not be started ({why})")
            return await _run(process, document, hook.timeout)

    @cached_property
    def _limiter(self) -> anyio.CapacityLimiter:
        return anyio.CapacityLimiter(MAX_CONCURRENT)

    @cached_property
    def _shell(self) -> str:
        return find_own_program("bash", self._workspace) or "/bin/sh"

    @property
    def _folder(self) -> Path:
        """The workspace, or its nearest parent that still exists."""
        above = (self._workspace, *self._workspace.parents)
        return next(folder for folder in above if folder.is_dir())

    def _environment(self, hook: HookCommand, task_id: str, intent_id: str) -> dict[str, str]:
        inherited = command_environment(self._environ, confined=False)
        allowed = {name: self._environ[name] for name in self._env_allow & {*self._environ}}
        return {
            **{name: text for name, text in inherited.items() if not _withheld.match(name.upper())},
            "PATH": path_outside(self._workspace, self._environ.get("PATH", os.defpath)),
            "PYTHONSAFEPATH": "1",
            **allowed,
            **{name: str(self._workspace) for name in PROJECT_VARIABLES},
            TASK_VARIABLE: task_id,
            INTENT_VARIABLE: intent_id,
            **dict(hook.env),
        }
