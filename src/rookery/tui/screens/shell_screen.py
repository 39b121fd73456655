"""Runs a command line in the user's own shell, and shows its output.

It runs with the user's rights and without the sandbox. The model does not see it unless the user
keeps the output, which then goes with the next message. The command has its own process group,
which is killed as a whole.
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
from textual.binding import BindingType

from rookery.core.blocks import shorter
from rookery.core.text.output_preview import Cleaner
from rookery.core.text.terminal_text import counted, harmless, visible_line
from rookery.protocol.transcript_text import fenced
from rookery.tui.interfaces import Controller
from rookery.tui.keys import SHELL_KEYS
from rookery.tui.pick_list import run_beside
from rookery.tui.rows.lines import Piece, clean, text_pieces
from rookery.tui.screens.side_screen import ReadingScreen
from rookery.tui.short_texts import one_line
from rookery.tui.theme import Theme, theme_of

LIMIT_SECONDS = 120.0
GRACE_SECONDS = 2.0
"""Seconds between SIGTERM and SIGKILL."""
LATE_OUTPUT_SECONDS = 0.25
"""Seconds to wait for output after the shell has ended, if other processes hold its pipe open."""
MAX_LINES = 2000
MAX_LINE_LENGTH = 4000
"""Characters per line."""
MAX_MESSAGE_OUTPUT = 12_000
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
    """The last lines of a command's output, cleaned for the terminal."""

    def __init__(self) -> None:
        self._lines: deque[str] = deque(maxlen=MAX_LINES)
        self._cleaner = Cleaner()
        self._open = False
        """Whether the last line has not ended."""
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
            self._lines[-1] = (self._lines[-1] + first)[:MAX_LINE_LENGTH]
        else:
            rest = [first, *rest]
        self._open = not settled.endswith("\n")
        if not self._open:
            rest = rest[:-1]
        for line in rest:
            self.dropped += len(self._lines) == MAX_LINES
            self._lines.append(line[:MAX_LINE_LENGTH])


def as_message(command: str, output: str, end: ShellEnd) -> str:
    """The command and its output as text for a message to the model."""
    text = harmless(shorter(output.rstrip("\n"), MAX_MESSAGE_OUTPUT))
    shown = fenced(f"$ {command}\n{text}")
    return f"I ran this command ({end.words}):\n{shown}\n"


class ShellLine:
    """One run of a command line."""

    def __init__(self, command: str, folder: str, *, limit: float = LIMIT_SECONDS) -> None:
        self.command = command
        self.output = Output()
        self._folder = folder
        self._limit = limit
        self._stopping = anyio.CancelScope()

    def stop(self) -> None:
        self._stopping.cancel()

    async def run(self, on_output: Callable[[], None]) -> ShellEnd:
        """Run the command to its end; `on_output` is called for every output."""
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
            return await self._supervise(process, on_output)
        finally:
            with anyio.CancelScope(shield=True):
                await process.aclose()

    async def _supervise(self, process: Process, on_output: Callable[[], None]) -> ShellEnd:
        assert process.stdout
        fate = ShellEnding.STOPPED
        try:
            async with anyio.create_task_group() as group:
                finished = anyio.Event()
                group.start_soon(self._read_output, process.stdout, on_output, finished)
                fate = await self._wait(process)
                if fate is not ShellEnding.ENDED:
                    await _end(process)
                with anyio.move_on_after(LATE_OUTPUT_SECONDS):
                    await finished.wait()
                group.cancel_scope.cancel()
        finally:
            if fate is not ShellEnding.ENDED:
                _signal(process, signal.SIGKILL)
        self.output.finish()
        on_output()
        return ShellEnd(fate, process.returncode)

    async def _wait(self, process: Process) -> ShellEnding:
        """Wait until the command ends, is stopped or times out."""
        with anyio.move_on_after(self._limit), self._stopping:
            await process.wait()
            return ShellEnding.ENDED
        return ShellEnding.STOPPED if self._stopping.cancel_called else ShellEnding.TOO_LONG

    async def _read_output(
        self, stream: ByteReceiveStream, on_output: Callable[[], None], finished: anyio.Event
    ) -> None:
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        with suppress(anyio.ClosedResourceError, anyio.BrokenResourceError):
            async for data in stream:
                self.output.add(decoder.decode(data))
                on_output()
        self.output.add(decoder.decode(b"", True))
        finished.set()


async def _end(process: Process) -> None:
    _signal(process, signal.SIGTERM)
    with anyio.move_on_after(GRACE_SECONDS):
        await process.wait()
    _signal(process, signal.SIGKILL)
    await process.wait()


def _signal(process: Process, which: signal.Signals) -> None:
    """Send a signal to the process group of the shell."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, which)


REDRAW_SECONDS = 0.1


class ShellScreen(ReadingScreen[None]):
    """Esc stops the command, then closes the screen."""

    IS_PANEL = True
    BINDINGS: ClassVar[list[BindingType]] = SHELL_KEYS
    DEFAULT_CSS = "ShellScreen TextScrollView { height: auto; }"

    def __init__(self, controller: Controller, command: str) -> None:
        super().__init__(controller)
        self._line = ShellLine(command, controller.about.workspace)
        self._end: ShellEnd | None = None
        self._started_at = time.monotonic()
        self._has_news = True

    def on_mount(self) -> None:
        super().on_mount()
        self.set_title(f"$ {visible_line(self._line.command)}")
        run_beside(self, self._run)
        self.set_interval(REDRAW_SECONDS, self._redraw)

    def on_resize(self) -> None:
        super().on_resize()
        self.scroll_view.styles.max_height = max(3, self.app.size.height // 2 - 2)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action in ("keep", "close"):
            return self._end is not None
        if action == "stop":
            return self._end is None
        return True

    async def _run(self) -> None:
        self._end = await self._line.run(self._note_output)
        self._has_news = True
        self._redraw()
        self.refresh_keys()

    def _note_output(self) -> None:
        self._has_news = True

    def _redraw(self) -> None:
        """Show new output; keeps the end visible if it was."""
        seconds = int(time.monotonic() - self._started_at)
        if self._end is None:
            self.set_subtitle(f"running for {seconds} s")
        if not self._has_news:
            return
        self._has_news = False
        scroll_view, text, dropped = (
            self.scroll_view,
            self._line.output.text,
            self._line.output.dropped,
        )
        at_end = scroll_view.scroll_y >= scroll_view.max_scroll_y
        self.write_on(lambda width: draw_output(text, dropped, self._end, width, theme_of(self)))
        if at_end:
            scroll_view.scroll_to(y=scroll_view.max_scroll_y, animate=False)
        if self._end:
            self.set_subtitle("")  # the output ends with the exit code

    @property
    def closes_for_text(self) -> bool:
        return self._end is not None

    def action_stop(self) -> None:
        self._line.stop()
        self.set_subtitle("stopping")

    def action_keep(self) -> None:
        if self._end:
            self.dismiss(None)
            command, output = self._line.command, self._line.output.text
            name = f"$ {one_line(command)} ({counted(len(output.splitlines()), 'line')})"
            self._controller.attach_text(name, as_message(command, output, self._end))


def draw_output(
    text: str, dropped: int, end: ShellEnd | None, width: int, theme: Theme
) -> list[Text | Piece]:
    lines: list[Text | Piece] = []
    if dropped:
        lines.append(Text(f"({dropped} earlier lines are not kept)", theme.fg(theme.muted)))
    if text:
        lines += text_pieces(clean(text), width, theme.fg(theme.text))
    if end:
        ink = theme.good if end.exit_code == 0 else theme.warning
        lines.append(Text(f"({end.words})", theme.fg(ink)))
    return lines
