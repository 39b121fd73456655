"""Runs commands, and leaves nothing of them behind.

Everything is pulled: whoever iterates `output` or awaits `end` reads what the command writes,
and enforces its limits while doing so. There is no task in the background, so a command
that nobody attends to waits, and ends when its context is left.
"""

import codecs
import math
import os
import signal
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Protocol

import anyio
import anyio.to_thread
from anyio.lowlevel import checkpoint

from rookery import faults
from rookery.core.limits import KIB, MIB, Limits
from rookery.engine.ports.actions import Permit
from rookery.engine.ports.workspace import (
    Artifact,
    CommandEnd,
    Launch,
    RunningCommand,
    WayOut,
    check_not_narrowed,
)
from rookery.errors import Denied, StorageError, ToolError
from rookery.platform.command_environment import command_environment
from rookery.platform.guarded_process import GuardedProcess, guarded, not_started
from rookery.platform.own_programs import find_own_program
from rookery.platform.wardens import Wardens

TAIL = 1 * MIB
"""How much of the end of an oversized output is kept, if the cap allows it."""


class KeptOutput:
    """Writes at most `cap` bytes of output to an artifact, in constant memory.

    Once the beginning has its share, the newest bytes wait in memory until it is known that
    no more will come; only then is it decided which of them were the end. A disk that
    refuses does not stop the command: `error` says so when all is over.
    """

    def __init__(self, artifact: Artifact, cap: int) -> None:
        self.error: StorageError | None = None
        self._artifact = artifact
        self._tail_size = min(TAIL, cap // 2)
        self._room = cap - self._tail_size
        self._tail = bytearray()
        self._dropped = 0
        self._closed = False

    def write(self, data: bytes) -> None:
        head, rest = data[: self._room], data[self._room :]
        self._room -= len(head)
        self._put(head)
        self._tail += rest
        excess = len(self._tail) - self._tail_size
        if excess > 0:
            del self._tail[:excess]
            self._dropped += excess

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        if self._dropped:
            self._put(f"\n[… {self._dropped} bytes dropped …]\n".encode())
        self._put(bytes(self._tail))
        self._artifact.close()

    def _put(self, data: bytes) -> None:
        if not data or self.error:
            return
        try:
            self._artifact.write(data)
        except StorageError as error:
            self.error = error


PIECE = 4 * KIB
GATHERING = 0.005
"""Seconds in which small pieces of output become one, unless they reach `PIECE` first."""
WARDEN_SECONDS = 3.0
"""How much longer than the grace the warden may take before it is killed itself."""
UNSEEN = -1
"""The exit code of a command that nobody saw end."""
ON_A_TERMINAL = {"TERM": "xterm-256color"}


class Launcher(Protocol):
    def __call__(self, shell_argv: Sequence[str], permit: Permit, folder: Path) -> Launch:
        """Given the shell's words, the permit and the folder to run in, what to start. Raises
        `ToolError` if it must not be."""
        ...

    def describe(self, *, confined: bool) -> str:
        """Where commands run and what holds there, in a line for whoever is asked."""
        ...


class AsItIsLauncher:
    """Commands run as they are, confined by nothing."""

    def __call__(self, shell_argv: Sequence[str], permit: Permit, folder: Path) -> Launch:
        check_not_narrowed(permit.writable)
        return Launch(tuple(shell_argv), {})

    def describe(self, *, confined: bool) -> str:
        return ""


class Terminal:
    """The shell of one workspace. Commands run anywhere inside `root`, and nowhere else."""

    def __init__(
        self,
        root: Path,
        limits: Limits,
        launcher: Launcher | None = None,
        wardens: Wardens | None = None,
        shell: str | None = None,
    ) -> None:
        self._root = root.resolve()
        self._limits = limits
        self._launcher = launcher or AsItIsLauncher()
        self._wardens = wardens or Wardens()
        self._shell = shell or find_own_program("bash", self._root) or "/bin/sh"
        self.name = Path(self._shell).name

    def describe(self, *, confined: bool) -> str:
        return self._launcher.describe(confined=confined)

    @asynccontextmanager
    async def run(
        self, permit: Permit, *, seconds: float, keep: Artifact, terminal: bool = False
    ) -> AsyncGenerator[RunningCommand, None]:
        if not permit.command:
            raise Denied("No command was permitted, so none was run.")
        folder = self._folder(permit.cwd)
        words = [self._shell, "-c", permit.command]
        # it may look through the whole workspace for what to shield
        launch = await anyio.to_thread.run_sync(self._launcher, words, permit, folder)
        environment = command_environment(os.environ, confined=permit.confined)
        environment |= ON_A_TERMINAL if terminal else {}
        faults.kp("command.before_start")
        with _opened(launch.way):
            process = guarded(
                self._wardens,
                launch.argv,
                grace=self._limits.command_grace,
                folder=folder,
                environment=environment | dict(launch.environment),
                terminal=terminal,
            )
            kept = KeptOutput(keep, self._limits.output_on_disk)
            command = _Command(process, kept, self._limits, launch.way)
            async with self._attended(command, seconds):
                yield command

    @asynccontextmanager
    async def _attended(self, command: "_Command", seconds: float) -> AsyncGenerator[None, None]:
        """Starts it, and ends it however the context is left."""
        try:
            await command.start(seconds)
            faults.kp("command.started")
            self._wardens.prepare()
            yield
        finally:
            with anyio.CancelScope(shield=True):
                await command.finish()
            faults.kp("command.ended")

    def _folder(self, cwd: str) -> Path:
        folder = (self._root / cwd).resolve()
        if not folder.is_relative_to(self._root):
            raise Denied(f"{cwd} is outside the workspace. Commands run inside it.")
        if not folder.is_dir():
            raise ToolError(f"No such folder: {cwd}. Give one that exists, or none.")
        return folder


@contextmanager
def _opened(way: WayOut | None) -> Iterator[None]:
    if way is None:
        yield
        return
    try:
        way.start()
        yield
    finally:
        way.close()


class _Command:
    """A command that runs, with a limit on its time and on what it writes."""

    pid = 0

    def __init__(
        self,
        process: GuardedProcess,
        kept: KeptOutput,
        limits: Limits,
        way: WayOut | None = None,
    ) -> None:
        self._way = way
        self.warden = process.warden
        self._process = process
        self._store = kept
        self._limits = limits
        self._deadline = math.inf
        self._wait = anyio.CancelScope()
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._gathered = b""
        self._written = 0
        self._stopping = False
        self._timed_out = False
        self._flooded = False
        self._stopped = False

    @property
    def kept(self) -> bool:
        return self._process.kept and not self._stopping and not self._process.gone

    @property
    def blocked(self) -> tuple[str, ...]:
        return self._way.blocked if self._way else ()

    def unreached(self, command: str, said: str) -> tuple[int, ...]:
        return self._way.unreached(command, said) if self._way else ()

    async def start(self, seconds: float) -> None:
        """Wait until the shell runs. Raises `ToolError` if it never will."""
        self._deadline = anyio.current_time() + seconds
        with anyio.CancelScope(deadline=self._deadline):
            while not self._process.pid and not self._process.gone:
                await _first_readable(self._process.sources[:1])
                self._process.listen()
        if not self._process.pid:
            raise not_started(self._process.failure)
        self.pid = self._process.pid

    async def output(self) -> AsyncIterator[str]:
        while data := await self._gather():
            if text := self._decoder.decode(data):
                yield text
        if text := self._decoder.decode(b"", final=True):
            yield text

    async def end(self) -> CommandEnd:
        """Raises `StorageError` if the output could not be kept."""
        await self._run_out()
        if self._store.error:
            raise self._store.error
        code, name = _how(self._process.status)
        return CommandEnd(
            exit_code=code,
            signal=name,
            timed_out=self._timed_out,
            flooded=self._flooded,
            stopped=self._stopped,
        )

    def stop(self) -> None:
        if not self._stopping and self._process.status is None:
            self._stopped = True
        self._stop()

    def keep(self) -> None:
        self._process.keep()
        self._process.kept = True

    def waits_for_input(self) -> bool:
        return self._process.waits_for_input()

    async def finish(self) -> None:
        """End whatever still runs, and keep its last words; or let go of it."""
        self._process.listen()
        if self.kept:
            self._store.close()
            self._process.release()
            return
        self._stop()
        await self._run_out()
        self._process.close()

    async def _gather(self) -> bytes:
        """The next output worth showing; nothing once there is no more. What was gathered when
        a wait is cancelled is given with the next."""
        if not self._gathered:
            self._gathered = await self._pull()
        with anyio.move_on_after(GATHERING):
            while 0 < len(self._gathered) < PIECE and (more := await self._pull()):
                self._gathered += more
        data, self._gathered = self._gathered, b""
        return data

    async def _run_out(self) -> None:
        while await self._pull():
            pass
        self._store.close()

    async def _pull(self) -> bytes:
        """The next bytes of output; nothing once the command and all it started are gone.

        Bytes that were read are returned without another wait, so cancelling loses none.
        """
        while True:
            await checkpoint()
            self._process.listen()
            if anyio.current_time() >= self._deadline:
                self._overrun()
            if data := self._process.read():
                self._take(data)
                return data
            if self._process.gone:
                return b""
            if self._process.status is not None and not self._process.output_open:
                self._stop()  # whoever is left has no more to say to us
            with anyio.CancelScope(deadline=self._deadline) as self._wait:
                await _first_readable(self._process.sources)

    def _take(self, data: bytes) -> None:
        self._store.write(data)
        self._written += len(data)
        if self._written > self._limits.output_total and not self._stopping:
            self._flooded = True
            self._stop()

    def _overrun(self) -> None:
        if self._stopping:
            self._process.kill()
        else:
            self._timed_out = self._process.status is None
            self._stop()

    def _stop(self) -> None:
        if not self._stopping:
            self._stopping = True
            self._deadline = anyio.current_time() + self._limits.command_grace + WARDEN_SECONDS
            self._wait.deadline = self._deadline
            self._process.stop()


def _how(status: int | None) -> tuple[int, str]:
    """Exit code and signal, by the status a command's parent was given.

    A shell says 128 + n of a child that signal n killed, and so do we of the shell itself.
    """
    code = UNSEEN if status is None else os.waitstatus_to_exitcode(status)
    if status is not None and code < 0:
        code = 128 - code
    return code, signal_name(code - 128)


def signal_name(number: int) -> str:
    """The name of a signal; empty for what is none."""
    if 1 <= number <= 31:
        return signal.Signals(number).name
    return f"SIGRTMIN+{number - 34}" if 34 <= number <= 64 else ""


async def _first_readable(files: Sequence[int]) -> None:
    """Wait until one of the files has something to read, or has been closed."""
    async with anyio.create_task_group() as group:

        async def wait(file: int) -> None:
            await anyio.wait_readable(file)
            group.cancel_scope.cancel()

        for file in files:
            group.start_soon(wait, file)
