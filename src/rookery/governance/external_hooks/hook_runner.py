"""Running hooks: in the workspace, without a terminal and without the user's secrets.

Hooks run outside the sandbox, so PATH and module search paths exclude the workspace: files that the
agent can write must not become programs of a hook.
"""

import os
import re
import shutil
import tempfile
from codecs import getincrementaldecoder
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from fnmatch import translate
from functools import cached_property
from pathlib import Path

import anyio

from rookery import ENV_PREFIX
from rookery.core.limits import KIB, MIB
from rookery.errors import ToolError
from rookery.governance.external_hooks.hook_answers import HookRun
from rookery.governance.external_hooks.hook_config import HookCommand
from rookery.governance.external_hooks.hook_trust import PROJECT_VARIABLES
from rookery.platform.guarded_process import (
    GuardedProcess,
    command_environment,
    not_started,
    start_guarded,
)
from rookery.platform.own_programs import find_own_program
from rookery.platform.wardens import Wardens

GRACE = 2.0
"""Seconds between terminating a hook and killing it."""
WARDEN_SECONDS = 3.0
"""Seconds after the grace period until the warden process itself is killed."""
CAPTURE = 1 * MIB
"""Bytes kept of each stream; the rest is discarded."""
FLOOD = 64 * MIB
"""Bytes of one stream after which a hook is terminated."""
READ_SIZE = 64 * KIB
READY = b"ready\n"
_WITH_STREAMS = (
    'exec 3>&1 <"$1/input" >"$1/output" 2>"$1/errors" || exit 126; '
    'shift; echo ready >&3; exec 3>&-; exec "$@"'
)


class _HookOutput:
    """One output stream of a hook."""

    def __init__(self, path: Path) -> None:
        self.kept = bytearray()
        self.size = 0
        self.file = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)

    @property
    def cut(self) -> bool:
        return self.size > len(self.kept)

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

    def read(self) -> bool:
        """Read what is available. Returns False at the end of the stream."""
        with suppress(BlockingIOError):
            data = os.read(self.file, READ_SIZE)
            self.size += len(data)
            self.kept += data[: CAPTURE - len(self.kept)]
            return bool(data)
        return True


class HookProcess:
    """A process for a single run. When `run` returns, it and its children have ended."""

    def __init__(
        self, wardens: Wardens, argv: Sequence[str], folder: Path, environment: Mapping[str, str]
    ) -> None:
        """Raises `ToolError` if it cannot be started."""
        self._timed_out = self._flooded = False
        self._pipes = Path(tempfile.mkdtemp(prefix="hook-"))
        self._open: list[int] = []
        try:
            for name in ("input", "output", "errors"):
                os.mkfifo(self._pipes / name, 0o600)
            # O_RDWR: opening only for writing would fail until the hook has opened its end
            self._input = os.open(self._pipes / "input", os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
            self._open.append(self._input)
            self._output = _HookOutput(self._pipes / "output")
            self._open.append(self._output.file)
            self._errors = _HookOutput(self._pipes / "errors")
            self._open.append(self._errors.file)
            words = ["/bin/sh", "-c", _WITH_STREAMS, "sh", str(self._pipes), *argv]
            self._process: GuardedProcess = start_guarded(
                wardens, words, grace=GRACE, folder=folder, environment=environment
            )
        except BaseException:
            self._release()
            raise

    async def run(self, document: bytes, *, seconds: float) -> HookRun:
        started = anyio.current_time()
        try:
            with anyio.move_on_after(seconds) as time:
                await self._communicate(document)
            self._timed_out = time.cancelled_caught
        finally:
            with anyio.CancelScope(shield=True):
                await self._finish()
        return HookRun(
            status=_exit_status(self._process.status),
            stdout=self._output.text,
            stderr=self._errors.text,
            timed_out=self._timed_out,
            trouble=f"wrote more than {FLOOD // MIB} MiB and was stopped" if self._flooded else "",
            cut=self._output.cut or self._errors.cut,
            garbled=not self._output.is_text,
            seconds=anyio.current_time() - started,
        )

    async def _communicate(self, document: bytes) -> None:
        await self._start()
        async with anyio.create_task_group() as group:
            group.start_soon(self._feed, document)
            for stream in (self._output, self._errors):
                group.start_soon(self._read_stream, stream)
            while self._process.status is None and not self._process.gone and not self._flooded:
                await self._listen()
            group.cancel_scope.cancel()

    async def _start(self) -> None:
        """Wait until the hook has opened its streams. Raises `ToolError` if it fails before."""
        ready = b""
        while not ready.endswith(READY):
            if self._process.gone or self._process.status is not None:
                raise not_started(self._process.failure)
            await _first_readable(self._process.sources)
            self._process.listen()
            ready += self._process.read()
        # write-only from here on, so that a hook that does not read causes EPIPE
        write_only = os.open(self._pipes / "input", os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        os.dup2(write_only, self._input, inheritable=False)
        os.close(write_only)
        self._remove_pipes()

    async def _feed(self, document: bytes) -> None:
        view = memoryview(document)
        with suppress(BrokenPipeError):  # hooks may ignore their input
            while view:
                try:
                    view = view[os.write(self._input, view) :]
                except BlockingIOError:
                    await anyio.wait_writable(self._input)
        self._close(self._input)

    async def _read_stream(self, stream: _HookOutput) -> None:
        while stream.read():
            if stream.size > FLOOD:
                self._flooded = True
                self._process.stop()
                return
            await anyio.wait_readable(stream.file)

    async def _listen(self) -> None:
        await anyio.wait_readable(self._process.sources[0])
        self._process.listen()

    async def _finish(self) -> None:
        """Terminate what still runs and read the remaining output."""
        self._process.stop()
        with anyio.move_on_after(GRACE + WARDEN_SECONDS):
            while not self._process.gone:
                await self._listen()
        if not self._process.gone:
            self._process.kill()
        self._drain()
        self._process.close()
        self._release()

    def _drain(self) -> None:
        """Read what the pipes contain, with a limit, because a process may still be writing."""
        for stream in (self._output, self._errors):
            for _ in range(CAPTURE // READ_SIZE):
                before = stream.size
                if not stream.read() or stream.size == before:
                    break

    def _close(self, file: int) -> None:
        self._open.remove(file)
        os.close(file)

    def _release(self) -> None:
        while self._open:
            os.close(self._open.pop())
        self._remove_pipes()

    def _remove_pipes(self) -> None:
        shutil.rmtree(self._pipes, ignore_errors=True)


def _exit_status(status: int | None) -> int | None:
    """The exit status as a shell reports it: 128 plus the signal number if killed."""
    if status is None:
        return None
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code


async def _first_readable(files: Sequence[int]) -> None:
    async with anyio.create_task_group() as group:

        async def wait(file: int) -> None:
            await anyio.wait_readable(file)
            group.cancel_scope.cancel()

        for file in files:
            group.start_soon(wait, file)


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
        wardens: Wardens | None = None,
    ) -> None:
        self._workspace = workspace
        self._environ = os.environ if environ is None else environ
        self._env_allow = frozenset(env_allow)
        self._wardens = wardens or Wardens()

    async def run(
        self, hook: HookCommand, document: bytes, *, task_id: str = "", intent_id: str = ""
    ) -> HookRun:
        """Run a hook to its end. Failures are reported in the result, never raised. Cancellation
        terminates the hook and its children."""
        shell = [self._shell, "-c", hook.command]
        words = shell if hook.args is None else [hook.command, *hook.args]
        environment = self._environment(hook, task_id, intent_id)
        async with self._limiter:
            try:
                process = HookProcess(self._wardens, words, self._folder, environment)
                return await process.run(document, seconds=hook.timeout)
            except (ToolError, OSError) as error:
                return HookRun(trouble=f"could not be started ({str(error).rstrip('.')})")

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

    @property
    def _path(self) -> str:
        """The user's PATH without folders of the workspace."""
        root = os.path.realpath(self._workspace)
        return os.pathsep.join(
            folder
            for folder in self._environ.get("PATH", os.defpath).split(os.pathsep)
            if os.path.isabs(folder) and not Path(os.path.realpath(folder)).is_relative_to(root)
        )

    def _environment(self, hook: HookCommand, task_id: str, intent_id: str) -> dict[str, str]:
        inherited = command_environment(self._environ, confined=False)
        allowed = {name: self._environ[name] for name in self._env_allow & {*self._environ}}
        return {
            **{name: text for name, text in inherited.items() if not _withheld.match(name.upper())},
            "PATH": self._path,
            "PYTHONSAFEPATH": "1",
            **allowed,
            **{name: str(self._workspace) for name in PROJECT_VARIABLES},
            TASK_VARIABLE: task_id,
            INTENT_VARIABLE: intent_id,
            **dict(hook.env),
        }
