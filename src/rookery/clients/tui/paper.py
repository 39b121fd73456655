"""Lines that scroll: as many as there are, laid out for the width there is."""

from collections.abc import Callable

from rich.text import Text
from textual import events
from textual.geometry import Size
from textual.scroll_view import ScrollView
from textual.strip import Strip

from rookery.clients.tui.rows.lines import strip_of

_NOTHING = Strip([], 0)


class Paper(ScrollView, can_focus=False):
    DEFAULT_CSS = "Paper { overflow-x: hidden; overflow-y: auto; }"

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._write: Callable[[int], list[Text]] = lambda width: []
        self._lines: list[Text] = []
        self._written: dict[int, list[Text]] = {}
        """For each width, so that what is long is laid out once."""
        self._written_for = 0

    def show(self, write: Callable[[int], list[Text]]) -> None:
        """Show what `write` makes for a width, from its beginning."""
        self._write = write
        self._written = {}
        self._written_for = 0
        self._lay_out()
        self.scroll_to(0, 0, animate=False)

    def lines_at(self, width: int) -> int:
        """How many lines there are, if it is so wide."""
        return len(self._laid_out(width))

    @property
    def room(self) -> int:
        """How wide the lines are."""
        return max(8, self.scrollable_content_region.width - 1)

    @property
    def is_seen_whole(self) -> bool:
        return len(self._lines) <= self.size.height

    @property
    def position(self) -> tuple[int, int, int]:
        """The first and the last line that are seen, counted from one, and how many there are."""
        first, count = round(self.scroll_y), len(self._lines)
        return first + 1, min(count, first + self.size.height), count

    def on_resize(self, event: events.Resize) -> None:
        self._lay_out()

    def _lay_out(self) -> None:
        width = self.room
        if width != self._written_for:
            self._lines, self._written_for = self._laid_out(width), width
        self.virtual_size = Size(width, len(self._lines))
        self.refresh()

    def _laid_out(self, width: int) -> list[Text]:
        if width not in self._written:
            self._written[width] = self._write(width)
        return self._written[width]

    def render_line(self, y: int) -> Strip:
        line, width = round(self.scroll_y) + y, self.size.width
        strip = strip_of(self._lines[line]) if line < len(self._lines) else _NOTHING
        return strip.adjust_cell_length(width).apply_style(self.rich_style)
