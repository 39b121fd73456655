"""Runs commands, and leaves nothing of them behind.

Everything is pulled: whoever iterates `output` or awaits `end` reads what the command writes,
and enforces its limits while doing so. There is no task in the background, so a command
that nobody attends to waits, and ends when its context is left.
"""

import codecs
import math
import os
import shutil
import signal
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
from anyio.lowlevel import checkpoint

from rookery import faults
from rookery.core.limits import KIB, Limits
from rookery.engine.ports import Artifact, CommandEnd, Permit, RunningCommand
from rookery.errors import Denied, ToolError
from rookery.workspace.command_environment import command_environment
from rookery.workspace.command_output import KeptOutput
from rookery.workspace.guarded_process import GuardedProcess, guarded, not_started

PIECE = 4 * KIB
GATHERING = 0.005
"""Seconds in which small pieces of output become one, unless they reach `PIECE` first."""
WARDEN_SECONDS = 3.0
"""How much longer than the grace the warden may take before it is killed itself."""
UNSEEN = -1
"""The exit code of a command that nobody saw end."""


class Terminal:
    """The shell of one workspace. Commands run anywhere inside `root`, and nowhere else."""

    def __init__(self, root: Path, limits: Limits) -> None:
        self._root = root.resolve()
        self._limits = limits
        self._shell = shutil.which("bash") or "/bin/sh"
        self.name = Path(self._shell).name

    @asynccontextmanager
    async def run(
        self, permit: Permit, *, seconds: float, keep: Artifact
    ) -> AsyncGenerator[RunningCommand, None]:
        if not permit.command:
            raise Denied("No command was permitted, so none was run.")
        folder = self._folder(permit.cwd)
        faults.kp("command.before_start")
        process = guarded(
            [self._shell, "-c", permit.command],
            grace=self._limits.command_grace,
            folder=folder,
            environment=command_environment(os.environ),
        )
        command = _Command(process, KeptOutput(keep, self._limits.output_on_disk), self._limits)
        try:
            await command.start(seconds)
            faults.kp("command.started")
            yield command
        finally:
            with anyio.CancelScope(shield=True):
                await command.finish()
            faults.kp("command.ended")

    def _folder(self, cwd: str) -> Path:
        folder = (self._root / cwd).resolve()
        if not folder.is_relative_to(self._root):
            raise Denied(f"{cwd} is outside the workspace. Commands run inside it.")
        if not folder.is_dir():
            raise ToolError(f"There is no directory {cwd}. Give one that exists, or none.")
        return folder


class _Command:
    """A command that runs, with a limit on its time and on what it writes."""

    pid = 0

    def __init__(self, process: GuardedProcess, kept: KeptOutput, limits: Limits) -> None:
        self._process = process
        self._kept = kept
        self._limits = limits
        self._deadline = math.inf
        self._written = 0
        self._stopping = False
        self._timed_out = False
        self._flooded = False

    async def start(self, seconds: float) -> None:
        """Wait until the shell runs. Raises `ToolError` if it never will."""
        self._deadline = anyio.current_time() + seconds
        while not self._process.pid and not self._process.gone:
            await _first_readable(self._process.sources[:1])
            self._process.listen()
        if not self._process.pid:
            raise not_started(self._process.failure)
        self.pid = self._process.pid

    async def output(self) -> AsyncIterator[str]:
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        while data := await self._gather():
            if text := decoder.decode(data):
                yield text
        if text := decoder.decode(b"", final=True):
            yield text

    async def end(self) -> CommandEnd:
        """Raises `StorageError` if the output could not be kept."""
        await self._run_out()
        if self._kept.error:
            raise self._kept.error
        return command_end(self._process.status, timed_out=self._timed_out, flooded=self._flooded)

    async def finish(self) -> None:
        """End whatever still runs, and keep its last words."""
        self._stop()
        await self._run_out()
        self._process.close()

    async def _gather(self) -> bytes:
        """The next output worth showing; nothing once there is no more."""
        data = await self._pull()
        with anyio.move_on_after(GATHERING):
            while data and len(data) < PIECE and (more := await self._pull()):
                data += more
        return data

    async def _run_out(self) -> None:
        while await self._pull():
            pass
        self._kept.close()

    async def _pull(self) -> bytes:
        """The next bytes of output; nothing once the command and all it started are gone.

        Bytes that were read are returned without another wait, so cancelling loses none.
        """
        while True:
            await checkpoint()
            if anyio.current_time() >= self._deadline:
                self._overrun()
            self._process.listen()
            if data := self._process.read():
                self._take(data)
                return data
            if self._process.gone:
                return b""
            if self._process.status is not None and not self._process.output_open:
                self._stop()  # whoever is left has no more to say to us
            with anyio.CancelScope(deadline=self._deadline):
                await _first_readable(self._process.sources)

    def _take(self, data: bytes) -> None:
        self._kept.write(data)
        self._written += len(data)
        if self._written > self._limits.output_total and not self._stopping:
            self._flooded = True
            self._stop()

    def _overrun(self) -> None:
        if self._stopping:
            self._process.kill()
        else:
            self._timed_out = True
            self._stop()

    def _stop(self) -> None:
        if not self._stopping:
            self._stopping = True
            self._deadline = anyio.current_time() + self._limits.command_grace + WARDEN_SECONDS
            self._process.stop()


def command_end(status: int | None, *, timed_out: bool, flooded: bool) -> CommandEnd:
    """How a command ended, by the status its parent was given.

    A shell says 128 + n of a child that signal n killed, and so do we of the shell itself.
    """
    code = UNSEEN if status is None else os.waitstatus_to_exitcode(status)
    if status is not None and code < 0:
        code = 128 - code
    return CommandEnd(
        exit_code=code, signal=signal_name(code - 128), timed_out=timed_out, flooded=flooded
    )


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
