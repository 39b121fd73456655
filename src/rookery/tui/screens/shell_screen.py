"""A command of the user's own: what it writes, and whether the model shall hear of it."""

import time
from typing import ClassVar

from rich.text import Text
from textual.binding import Binding, BindingType

from rookery.core.text.terminal_text import visible_line
from rookery.tui.interfaces import Desk
from rookery.tui.pickers.background_work import do_beside
from rookery.tui.pickers.current_theme import worn
from rookery.tui.rows.lines import clean
from rookery.tui.rows.pieces import Piece, text_pieces
from rookery.tui.screens.side_screen import ReadingScreen
from rookery.tui.shell_line import ShellEnd, ShellLine, as_message
from rookery.tui.theme import Look

PICTURE_SECONDS = 0.1


class ShellScreen(ReadingScreen[None]):
    """Esc stops the command, and then closes. What it wrote is told to the model only if the
    user puts it into a message."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter,i", "insert", "put it into the message"),
        Binding("escape", "stop", "stop"),
        Binding("escape", "close", "close"),
    ]

    def __init__(self, desk: Desk, command: str) -> None:
        super().__init__(desk)
        self._line = ShellLine(command, desk.about.workspace)
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
            self.tell(f"runs for {seconds} s")
        if not self._news:
            return
        self._news = False
        paper, text, dropped = self.paper, self._line.output.text, self._line.output.dropped
        at_end = paper.scroll_y >= paper.max_scroll_y
        self.write_on(lambda width: drawn_output(text, dropped, self._end, width, worn(self)))
        if at_end:
            paper.scroll_to(y=paper.max_scroll_y, animate=False)
        if self._end:
            self.tell(self._end.words)

    def action_stop(self) -> None:
        self._line.stop()
        self.tell("stopping")

    def action_insert(self) -> None:
        if self._end:
            self.dismiss(None)
            self._desk.insert(as_message(self._line.command, self._line.output.text, self._end))


def drawn_output(
    text: str, dropped: int, end: ShellEnd | None, width: int, look: Look
) -> list[Text | Piece]:
    lines: list[Text | Piece] = []
    if dropped:
        lines.append(Text(f"({dropped} earlier lines are not kept)", look.ink(look.quiet)))
    if text:
        lines += text_pieces(clean(text), width, look.ink(look.words))
    if end:
        ink = look.good if end.exit_code == 0 else look.careful
        lines.append(Text(f"({end.words})", look.ink(ink)))
    return lines
