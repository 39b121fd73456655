"""Runs a command of the user's own in their shell, and shows what it writes.

It runs with the user's rights, not the model's, and the model hears of it only if the user puts
the output into a message. All that it starts is one process group, which is ended as a whole.
"""

import codecs
import os
import signal
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from enum import Enum
from subprocess import DEVNULL, PIPE, STDOUT
from typing import ClassVar

import anyio
from anyio.abc import ByteReceiveStream, Process
from msgspec import Struct
from rich.text import Text
from textual.binding import Binding, BindingType

from rookery.core.blocks import shorter
from rookery.core.text.output_preview import Cleaner
from rookery.core.text.terminal_text import harmless, visible_line
from rookery.tui.interfaces import Controller
from rookery.tui.pickers.pick_list import do_beside
from rookery.tui.rows.lines import Piece, clean, text_pieces
from rookery.tui.screens.side_screen import ReadingScreen
from rookery.tui.theme import Theme, theme_of

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


class ShellEnding(Enum):
    ENDED = "ended"
    STOPPED = "stopped"
    TOO_LONG = "timed out"
    NOT_STARTED = "not started"


class ShellEnd(Struct, frozen=True):
    fate: ShellEnding
    exit_code: int | None = None
    reason: str = ""

    @property
    def words(self) -> str:
        match self.fate:
            case ShellEnding.ENDED if self.exit_code is not None and self.exit_code < 0:
                return f"ended by signal {-self.exit_code}"
            case ShellEnding.ENDED:
                return f"exit code {self.exit_code}"
            case ShellEnding.STOPPED:
                return "stopped"
            case ShellEnding.TOO_LONG:
                return f"stopped after {LIMIT_SECONDS:.0f} s"
            case ShellEnding.NOT_STARTED:
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
            return ShellEnd(ShellEnding.NOT_STARTED, reason=why)
        try:
            return await self._attend(process, news)
        finally:
            with anyio.CancelScope(shield=True):
                await process.aclose()

    async def _attend(self, process: Process, news: Callable[[], None]) -> ShellEnd:
        assert process.stdout
        fate = ShellEnding.ENDED
        ended = False
        try:
            async with anyio.create_task_group() as group:
                heard = anyio.Event()
                group.start_soon(self._hear, process.stdout, news, heard)
                fate = await self._wait(process)
                if fate is ShellEnding.ENDED:
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

    async def _wait(self, process: Process) -> ShellEnding:
        """Until it ends, somebody stops it, or its time is over."""
        fate = ShellEnding.TOO_LONG

        async with anyio.create_task_group() as group:

            async def one(end: ShellEnding, wait: Callable[[], object]) -> None:
                nonlocal fate
                await wait()  # type: ignore[misc]
                fate = end
                group.cancel_scope.cancel()

            group.start_soon(one, ShellEnding.ENDED, process.wait)
            group.start_soon(one, ShellEnding.STOPPED, self._stop.wait)
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


PICTURE_SECONDS = 0.1


class ShellScreen(ReadingScreen[None]):
    """Esc stops the command, and then closes. What it wrote is told to the model only if the
    user puts it into a message."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter,i", "insert", "add it to the message"),
        Binding("escape", "stop", "stop"),
        Binding("escape", "close", "close"),
    ]

    def __init__(self, controller: Controller, command: str) -> None:
        super().__init__(controller)
        self._line = ShellLine(command, controller.about.workspace)
        self._end: ShellEnd | None = None
        self._begun = time.monotonic()
        self._news = True

    def on_mount(self) -> None:
        super().on_mount()
        self.call(f"$ {visible_line(self._line.command)}")
        do_beside(self, self._run)
        self.set_interval(PICTURE_SECONDS, self._picture)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action in ("insert", "close"):
            return self._end is not None
        if action == "stop":
            return self._end is None
        return True

    async def _run(self) -> None:
        self._end = await self._line.run(self._note)
        self._news = True
        self._picture()
        self.change_keys()

    def _note(self) -> None:
        self._news = True

    def _picture(self) -> None:
        """What has come since the last one; the end stays in sight for who looks at it."""
        seconds = int(time.monotonic() - self._begun)
        if self._end is None:
            self.tell(f"running for {seconds} s")
        if not self._news:
            return
        self._news = False
        scroll_view, text, dropped = (
            self.scroll_view,
            self._line.output.text,
            self._line.output.dropped,
        )
        at_end = scroll_view.scroll_y >= scroll_view.max_scroll_y
        self.write_on(lambda width: drawn_output(text, dropped, self._end, width, theme_of(self)))
        if at_end:
            scroll_view.scroll_to(y=scroll_view.max_scroll_y, animate=False)
        if self._end:
            self.tell(self._end.words)

    def action_stop(self) -> None:
        self._line.stop()
        self.tell("stopping")

    def action_insert(self) -> None:
        if self._end:
            self.dismiss(None)
            self._controller.insert(
                as_message(self._line.command, self._line.output.text, self._end)
            )


def drawn_output(
    text: str, dropped: int, end: ShellEnd | None, width: int, theme: Theme
) -> list[Text | Piece]:
    lines: list[Text | Piece] = []
    if dropped:
        lines.append(Text(f"({dropped} earlier lines are not kept)", theme.ink(theme.quiet)))
    if text:
        lines += text_pieces(clean(text), width, theme.ink(theme.words))
    if end:
        ink = theme.good if end.exit_code == 0 else theme.careful
        lines.append(Text(f"({end.words})", theme.ink(ink)))
    return lines
