"""Runs a command line as the user's own deed: in their shell, with their rights, not the model's.

What it starts is one group of processes, which is ended as a whole when it takes too long, or
when nobody wants its output any longer.
"""

import codecs
import os
import signal
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from enum import Enum
from subprocess import DEVNULL, PIPE, STDOUT

import anyio
from anyio.abc import ByteReceiveStream, Process
from msgspec import Struct

from rookery.core.shortened_blocks import shorter
from rookery.core.text.output_preview import Cleaner
from rookery.core.text.terminal_text import harmless

LIMIT_SECONDS = 120.0
GRACE_SECONDS = 2.0
"""Between asking a process to end and ending it."""
LATE_OUTPUT_SECONDS = 0.25
"""How long output is waited for when the shell has ended and others still hold its pipe."""
LINES_KEPT = 2000
LONGEST_KEPT = 4000
"""Characters of a line."""
LONGEST_TOLD = 12_000
"""Characters of output that go into a message."""


class Fate(Enum):
    ENDED = "ended"
    STOPPED = "stopped"
    TOO_LONG = "took too long"
    NOT_STARTED = "not started"


class ShellEnd(Struct, frozen=True):
    fate: Fate
    exit_code: int | None = None
    reason: str = ""

    @property
    def words(self) -> str:
        match self.fate:
            case Fate.ENDED if self.exit_code is not None and self.exit_code < 0:
                return f"ended by signal {-self.exit_code}"
            case Fate.ENDED:
                return f"exit code {self.exit_code}"
            case Fate.STOPPED:
                return "stopped"
            case Fate.TOO_LONG:
                return f"stopped after {LIMIT_SECONDS:.0f} s"
            case Fate.NOT_STARTED:
                return self.reason


class Output:
    """The last lines of what a command wrote, as a terminal may show them."""

    def __init__(self) -> None:
        self._lines: deque[str] = deque(maxlen=LINES_KEPT)
        self._cleaner = Cleaner()
        self._open = False
        """The last line may go on."""
        self.dropped = 0

    @property
    def text(self) -> str:
        return "\n".join(self._lines)

    def add(self, piece: str) -> None:
        self._put(self._cleaner.add(piece))

    def finish(self) -> None:
        self._put(self._cleaner.finish())

    def _put(self, settled: str) -> None:
        if not settled:
            return
        first, *rest = settled.split("\n")
        if self._open:
            self._lines[-1] = (self._lines[-1] + first)[:LONGEST_KEPT]
        else:
            rest = [first, *rest]
        self._open = not settled.endswith("\n")
        if not self._open:
            rest = rest[:-1]
        for line in rest:
            self.dropped += len(self._lines) == LINES_KEPT
            self._lines.append(line[:LONGEST_KEPT])


def as_message(command: str, output: str, end: ShellEnd) -> str:
    """What was run and what came of it, to be put before the next words to the model."""
    told = harmless(shorter(output.rstrip("\n"), LONGEST_TOLD))
    fence = "```"
    while fence in told:
        fence += "`"
    return f"I ran this command ({end.words}):\n{fence}\n$ {command}\n{told}\n{fence}\n"


class ShellLine:
    """One run of a command line."""

    def __init__(self, command: str, folder: str, *, limit: float = LIMIT_SECONDS) -> None:
        self.command = command
        self.output = Output()
        self._folder = folder
        self._limit = limit
        self._stop = anyio.Event()

    def stop(self) -> None:
        self._stop.set()

    async def run(self, news: Callable[[], None]) -> ShellEnd:
        """Until the command has ended. `news` is called whenever it has written something."""
        try:
            process = await anyio.open_process(
                [os.environ.get("SHELL") or "/bin/sh", "-c", self.command],
                cwd=self._folder,
                stdin=DEVNULL,
                stdout=PIPE,
                stderr=STDOUT,
                start_new_session=True,
            )
        except OSError as error:
            why = f"It could not be started in {self._folder}: {error.strerror}."
            return ShellEnd(Fate.NOT_STARTED, reason=why)
        try:
            return await self._attend(process, news)
        finally:
            with anyio.CancelScope(shield=True):
                await process.aclose()

    async def _attend(self, process: Process, news: Callable[[], None]) -> ShellEnd:
        assert process.stdout
        fate = Fate.ENDED
        ended = False
        try:
            async with anyio.create_task_group() as group:
                heard = anyio.Event()
                group.start_soon(self._hear, process.stdout, news, heard)
                fate = await self._wait(process)
                if fate is Fate.ENDED:
                    ended = True
                else:
                    await _end(process)
                with anyio.move_on_after(LATE_OUTPUT_SECONDS):
                    await heard.wait()
                group.cancel_scope.cancel()
        finally:
            if not ended:
                _signal(process, signal.SIGKILL)
        self.output.finish()
        news()
        return ShellEnd(fate, process.returncode)

    async def _wait(self, process: Process) -> Fate:
        """Until it ends, somebody stops it, or its time is over."""
        fate = Fate.TOO_LONG

        async with anyio.create_task_group() as group:

            async def one(end: Fate, wait: Callable[[], object]) -> None:
                nonlocal fate
                await wait()  # type: ignore[misc]
                fate = end
                group.cancel_scope.cancel()

            group.start_soon(one, Fate.ENDED, process.wait)
            group.start_soon(one, Fate.STOPPED, self._stop.wait)
            await anyio.sleep(self._limit)
            group.cancel_scope.cancel()
        return fate

    async def _hear(
        self, stream: ByteReceiveStream, news: Callable[[], None], heard: anyio.Event
    ) -> None:
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        with suppress(anyio.ClosedResourceError, anyio.BrokenResourceError):
            async for data in stream:
                self.output.add(decoder.decode(data))
                news()
        self.output.add(decoder.decode(b"", True))
        heard.set()


async def _end(process: Process) -> None:
    _signal(process, signal.SIGTERM)
    with anyio.move_on_after(GRACE_SECONDS):
        await process.wait()
    _signal(process, signal.SIGKILL)
    await process.wait()


def _signal(process: Process, which: signal.Signals) -> None:
    """To the whole group, which the shell leads."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, which)
