"""Runs commands and ends all processes they started.

There is no background task: iterating `output` or awaiting `end` reads what the command writes and
enforces its limits. A command whose output is not read blocks, and is ended when its context exits.
"""

import codecs
import math
import os
import signal
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, closing, nullcontext
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
from rookery.platform.guarded_process import (
    GuardedProcess,
    command_environment,
    not_started,
    start_guarded,
)
from rookery.platform.user_folders import find_own_program
from rookery.platform.wardens import Wardens

TAIL = 1 * MIB
"""How much of the end of an oversized output is kept, if the cap allows it."""


class KeptOutput:
    """Writes at most `cap` bytes of output to an artifact, in constant memory.

    After the first part, the newest bytes are held in memory until the output ends, because only
    then is it known which are the last. A write error does not stop the command; it is stored in
    `error`.
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
        self._write(head)
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
            self._write(f"\n[… {self._dropped} bytes dropped …]\n".encode())
        self._write(bytes(self._tail))
        self._artifact.close()

    def _write(self, data: bytes) -> None:
        if not data or self.error:
            return
        try:
            self._artifact.write(data)
        except StorageError as error:
            self.error = error


PIECE = 4 * KIB
GATHER_SECONDS = 0.005
"""Seconds in which small pieces of output become one, unless they reach `PIECE` first."""
WARDEN_SECONDS = 3.0
"""Seconds after the grace period before the warden itself is killed."""
UNKNOWN_EXIT_CODE = -1
"""The exit code of a command whose status is unknown."""
TERMINAL_VARIABLES = {"TERM": "xterm-256color"}


class Launcher(Protocol):
    def __call__(self, shell_argv: Sequence[str], permit: Permit, folder: Path) -> Launch:
        """What to start for a command. Raises `ToolError` if it must not run."""
        ...

    def describe(self, *, confined: bool) -> str:
        """One line that says where commands run and how they are confined, for approval
        questions."""
        ...


class AsItIsLauncher:
    """Runs commands without a sandbox."""

    def __call__(self, shell_argv: Sequence[str], permit: Permit, folder: Path) -> Launch:
        check_not_narrowed(permit.writable)
        return Launch(tuple(shell_argv), {})

    def describe(self, *, confined: bool) -> str:
        return ""


class Terminal:
    """Runs commands in one workspace; the working folder must be inside `root`."""

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
        self,
        permit: Permit,
        *,
        seconds: float,
        keep: Artifact,
        terminal: bool = False,
        check: Callable[[], None] = lambda: None,
    ) -> AsyncGenerator[RunningCommand, None]:
        if not permit.command:
            raise Denied("No command was permitted, so none was run.")

        def start() -> tuple[GuardedProcess, WayOut | None]:
            check()
            folder = self._folder(permit.cwd)
            launch = self._launcher([self._shell, "-c", permit.command], permit, folder)
            environment = command_environment(os.environ, confined=permit.confined)
            environment |= TERMINAL_VARIABLES if terminal else {}
            faults.kp("command.before_start")
            try:
                process = start_guarded(
                    self._wardens,
                    launch.argv,
                    grace=self._limits.command_grace,
                    folder=folder,
                    environment=environment | dict(launch.environment),
                    terminal=terminal,
                )
            except BaseException:
                if launch.way:
                    launch.way.close()
                raise
            return process, launch.way

        self._wardens.prepare()
        # in a thread: it may search the whole workspace for protected files, and waits for a fork
        process, way = await anyio.to_thread.run_sync(start)
        with closing(way) if way else nullcontext():
            kept = KeptOutput(keep, self._limits.output_on_disk)
            command = _Command(process, kept, self._limits, way)
            async with self._started(command, seconds):
                yield command

    @asynccontextmanager
    async def _started(self, command: "_Command", seconds: float) -> AsyncGenerator[None, None]:
        """Start the command, and end it when the context exits."""
        try:
            await command.start(seconds)
            faults.kp("command.started")
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


class _Command:
    """A running command, with limits on its time and output."""

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
        """Wait until the shell runs. Raises `ToolError` if it does not start."""
        if self._way:
            self._way.start()
        self._deadline = anyio.current_time() + seconds
        with anyio.CancelScope(deadline=self._deadline):
            while not self._process.pid and not self._process.gone:
                await _first_readable(self._process.sources[:1])
                self._process.listen()
        if not self._process.pid:
            raise not_started(self._process.failure)
        self.pid = self._process.pid

    async def output(self) -> AsyncIterator[str]:
        while data := await self._gather_output():
            if text := self._decoder.decode(data):
                yield text
        if text := self._decoder.decode(b"", final=True):
            yield text

    async def end(self) -> CommandEnd:
        """Wait for the end. Raises `StorageError` if the output could not be stored."""
        await self._drain()
        if self._store.error:
            raise self._store.error
        code, name = _exit_code(self._process.status)
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
        """End what still runs and store the rest of its output, or release it if it was kept."""
        self._process.listen()
        if self.kept:
            self._store.close()
            self._process.release()
            return
        self._stop()
        await self._drain()
        self._process.close()

    async def _gather_output(self) -> bytes:
        """The next output, with small pieces joined; empty at the end. If the wait is cancelled,
        the bytes read so far are returned by the next call."""
        if not self._gathered:
            self._gathered = await self._read_output()
        with anyio.move_on_after(GATHER_SECONDS):
            while 0 < len(self._gathered) < PIECE and (more := await self._read_output()):
                self._gathered += more
        data, self._gathered = self._gathered, b""
        return data

    async def _drain(self) -> None:
        while await self._read_output():
            pass
        self._store.close()

    async def _read_output(self) -> bytes:
        """The next bytes of output; empty once the command and all it started have ended.

        Bytes that were read are returned without another wait, so cancelling loses none.
        """
        await checkpoint()
        while True:
            self._process.listen()
            if anyio.current_time() >= self._deadline:
                self._on_timeout()
            if data := self._process.read():
                self._take(data)
                return data
            if self._process.gone:
                return b""
            if self._process.status is not None and not self._process.output_open:
                self._stop()  # the remaining processes have closed their output
            with anyio.CancelScope(deadline=self._deadline) as self._wait:
                await _first_readable(self._process.watched)

    def _take(self, data: bytes) -> None:
        self._store.write(data)
        self._written += len(data)
        if self._written > self._limits.output_total and not self._stopping:
            self._flooded = True
            self._stop()

    def _on_timeout(self) -> None:
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


def _exit_code(status: int | None) -> tuple[int, str]:
    """Exit code and signal name for a wait status; 128 + n if signal n killed it, as in shells."""
    code = UNKNOWN_EXIT_CODE if status is None else os.waitstatus_to_exitcode(status)
    if status is not None and code < 0:
        code = 128 - code
    return code, signal_name(code - 128)


def signal_name(number: int) -> str:
    """The name of a signal; empty if there is no such signal."""
    if 1 <= number <= 31:
        return signal.Signals(number).name
    return f"SIGRTMIN+{number - 34}" if 34 <= number <= 64 else ""


async def _first_readable(files: Sequence[int]) -> None:
    """Wait until one of the files is readable or closed."""
    if len(files) == 1:
        await anyio.wait_readable(files[0])
        return
    async with anyio.create_task_group() as group:

        async def wait(file: int) -> None:
            await anyio.wait_readable(file)
            group.cancel_scope.cancel()

        for file in files:
            group.start_soon(wait, file)
