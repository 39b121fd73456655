"""Lines that scroll: as many as there are, laid out where they are seen."""

from collections.abc import Callable, Iterable

from rich.text import Text
from textual import events
from textual.geometry import Size
from textual.scroll_view import ScrollView
from textual.strip import Strip

from rookery.tui.rows.lines import LazyLines, Piece, together

Write = Callable[[int], Iterable[Text | Piece]]
"""What is written for a width."""
SCREENFUL = 120
"""Lines that are laid out beyond those in sight, so that a short text has its exact height."""


class TextScrollView(ScrollView, can_focus=False):
    DEFAULT_CSS = "TextScrollView { overflow-x: hidden; overflow-y: auto; }"

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._write: Write = lambda width: []
        self._lines = LazyLines([])
        self._written: dict[int, LazyLines] = {}
        """For each width, so that what is long is laid out once."""
        self._written_for = 0

    def show(self, write: Write) -> None:
        """Show what `write` makes for a width, from its beginning."""
        self._write = write
        self._written = {}
        self._written_for = 0
        self._lay_out()
        self.scroll_to(0, 0, animate=False)

    def lines_at(self, width: int) -> int:
        """How many lines there are, if it is so wide; about how many, if it is long."""
        return self._laid_out(width).height

    @property
    def room(self) -> int:
        """How wide the lines are."""
        return max(8, self.scrollable_content_region.width - 1)

    @property
    def is_seen_whole(self) -> bool:
        return self._lines.height <= self.size.height

    @property
    def position(self) -> tuple[int, int, int]:
        """The first and the last line that are seen, counted from one, and how many there are.
        The last one that is seen is the last one only if that was laid out."""
        self._lay_out_near()
        first, count = round(self.scroll_y), self._lines.height
        return first + 1, min(count, first + self.size.height), count

    def on_resize(self, event: events.Resize) -> None:
        self._lay_out()

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        super().watch_scroll_y(old_value, new_value)
        self._lay_out_near()

    def _lay_out(self) -> None:
        width = self.room
        if width != self._written_for:
            self._lines, self._written_for = self._laid_out(width), width
        self._lay_out_near()
        self.virtual_size = Size(width, self._lines.height)
        self.refresh()

    def _lay_out_near(self) -> None:
        """What is in sight, and a screen around it, which stays where it is."""
        lines, height = self._lines, self.size.height
        anchor = lines.anchor(round(self.scroll_y))
        while lines.lay_out(
            lines.line_of(anchor) - height, lines.line_of(anchor) + 2 * height + SCREENFUL
        ):
            pass
        if self.virtual_size.height == lines.height:
            return
        self.virtual_size = Size(self.room, lines.height)
        if (place := lines.line_of(anchor)) != round(self.scroll_y):
            self.scroll_to(0, place, animate=False, force=True)

    def _laid_out(self, width: int) -> LazyLines:
        if width not in self._written:
            lines = self._written[width] = LazyLines(together(self._write(width)))
            lines.lay_out(0, SCREENFUL)
        return self._written[width]

    def render_line(self, y: int) -> Strip:
        strip = self._lines.strip(round(self.scroll_y) + y)
        return strip.adjust_cell_length(self.size.width).apply_style(self.rich_style)
