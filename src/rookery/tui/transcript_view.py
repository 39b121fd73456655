"""The scrolling conversation.

Only rows near the visible part are laid out, and only lines that changed are repainted.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import ClassVar

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.binding import BindingType
from textual.geometry import Region, Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.selection import Selection
from textual.strip import Strip
from textual.widget import Widget

from rookery.tui.keys import TRANSCRIPT_KEYS
from rookery.tui.rows.lines import RowKind, ShownRow
from rookery.tui.rows.row_view import can_unfold
from rookery.tui.theme import theme_of
from rookery.tui.virtual_list import Anchor, Name, NamedRow, Row, VirtualList

AHEAD = 1
"""Screens beyond the visible part that are laid out."""
WHEEL_LINES = 3
_OWN_KEYS = ("j", "k", "space")
MAX_PASSES = 24
"""Maximum layout passes before a frame."""


class TranscriptView(ScrollView, can_focus=True):
    BINDINGS: ClassVar[list[BindingType]] = TRANSCRIPT_KEYS

    class Typed(Message):
        """Posted for a letter that belongs into the input area."""

        def __init__(self, letter: str) -> None:
            super().__init__()
            self.letter = letter

    class AtTop(Message):
        """Posted when the user scrolls to the first line: there may be older rows."""

    DEFAULT_CSS = "TranscriptView { overflow-x: hidden; overflow-y: scroll; }"

    def __init__(self) -> None:
        super().__init__()
        self._virtual_list = VirtualList()
        self._following = True
        """Whether the view sticks to the end."""
        self._at_top = False
        """Whether the view stays at the first line while older rows arrive."""
        self._marked: Name | None = None
        self._words = ""
        """What is highlighted, in lower case."""
        self._unfolded_for_hit: Name | None = None
        self._hit_line = -1
        self._painted: list[Strip] = []

    @property
    def rows(self) -> Sequence[Row]:
        return self._virtual_list.rows

    @property
    def place(self) -> str:
        """Scroll position, unless the end is visible."""
        if self._following:
            return ""
        return f"line {self._first + 1} of {self._virtual_list.height}, End follows"

    def last_text(self, *kinds: RowKind) -> str:
        """Raw text of the last row of these families."""
        for row in reversed(self.rows):
            if row.kind in kinds:
                return row.shown.message.text or ""
        return ""

    # rows

    def clear_rows(self) -> None:
        self._virtual_list.put(())
        self._marked = None
        self._following = True
        self._settle(None)

    def set_rows(self, rows: Iterable[NamedRow]) -> None:
        """Replace all rows."""
        anchor = self._anchor()
        self._virtual_list.put(rows)
        self._settle(anchor)

    def prepend_rows(self, rows: Iterable[NamedRow]) -> None:
        """Insert older rows at the top."""
        anchor = self._anchor()
        self._virtual_list.prepend(rows)
        self._settle(anchor)

    def change_rows(
        self,
        changed: Iterable[NamedRow],
        removed: Iterable[Name],
        added: Iterable[tuple[int, Name, ShownRow]],
    ) -> None:
        """Each added row comes with its index, asked for after the rows before it are in."""
        anchor = self._anchor()
        for name in removed:
            self._virtual_list.remove(name)
        for name, shown in changed:
            self._virtual_list.change(name, shown)
        for at, name, shown in added:
            self._virtual_list.insert(at, name, shown)
        self._settle(anchor)

    # layout

    @property
    def _first(self) -> int:
        """The first visible line."""
        return round(self.scroll_y)

    def _settle(self, anchor: Anchor | None) -> None:
        """Lay out what is near, restore the scroll position, and repaint changed lines."""
        screen = self.size.height
        if not screen:
            return
        for _ in range(MAX_PASSES):  # rows may turn out lower than estimated
            place = self._place(anchor)
            if not self._virtual_list.lay_out(place - AHEAD * screen, place + (1 + AHEAD) * screen):
                break
        if self.virtual_size != (size := Size(self._room, self._virtual_list.height)):
            # assigning `virtual_size` would lay out the whole screen again
            self.set_reactive(Widget.virtual_size, size)
            self._scroll_update(size)
        if self._first != (place := self._place(anchor)):
            self.scroll_target_y = self.scroll_y = place
        self._repaint()

    def _anchor(self) -> Anchor | None:
        """The position to keep; None if the view follows the end."""
        return None if self._following else self._virtual_list.anchor(self._first)

    def _place(self, anchor: Anchor | None) -> int:
        if self._at_top:
            return 0
        last = max(0, self._virtual_list.height - self.size.height)
        line = self._virtual_list.line_of(anchor) if anchor else None
        return last if line is None else min(last, line)

    @property
    def _room(self) -> int:
        return self.scrollable_content_region.width

    def refit(self) -> None:
        """Lay out everything again, after the width or theme changed."""
        anchor = self._anchor()
        self._virtual_list.fit(max(1, self._room - 1), theme_of(self))
        self._painted = []
        self._settle(anchor)
        self.refresh()

    def on_resize(self) -> None:
        self.refit()

    def _repaint(self) -> None:
        """Repaint only the lines that changed."""
        height = self.size.height
        now = [self._virtual_list.strip(self._first + y) for y in range(height)]
        before, self._painted = self._painted, now
        if len(before) != height:
            self.refresh()
            return
        differ = [y for y in range(height) if before[y] is not now[y] and before[y] != now[y]]
        for first, count in _runs(differ):
            self.refresh(Region(0, first, self.size.width, count))

    def render_line(self, y: int) -> Strip:
        line, width, theme = self._first + y, self._room, theme_of(self)
        strip = self._virtual_list.strip(line)
        if y < len(self._painted):
            self._painted[y] = strip
        if self._is_marked(line):
            bar = Segment("▐", theme.fg(theme.accent))
            strip = Strip([*strip.adjust_cell_length(width - 1), bar], width)
        strip = strip.adjust_cell_length(width).apply_style(theme.on(theme.text, theme.background))
        if self._words:
            strip = self._highlighted(strip, line)
        if (selection := self.text_selection) is not None:
            strip = self._selected(strip, line, selection)
        return strip.apply_offsets(0, line)

    # search

    @property
    def rows_to_view_end(self) -> set[Name]:
        """Names of the rows that are not below the visible part."""
        last = self._virtual_list.at_line(self._first + self.size.height - 1) if self.rows else -1
        return {row.name for row in self.rows[: last + 1]}

    def highlight(self, words: str) -> None:
        """Highlight the words in every visible line; nothing if they are empty."""
        self._words, self._hit_line = words.lower(), -1
        if not words:
            self._fold_again(None)
        self._painted = []
        self.refresh()

    def show_hit(self, name: Name, number: int) -> None:
        """Scroll to an occurrence of the highlighted words; unfolds the row meanwhile."""
        self._fold_again(name)
        if (at := self._virtual_list.find(name)) is None:
            return
        row = self.rows[at]
        if can_unfold(row.shown) and not row.shown.unfolded:
            self._unfolded_for_hit = name
            self._toggle(at)
        line = self._virtual_list.line_with(at, self._words, number)
        self._go(line - self.size.height // 3)
        self._hit_line = self._virtual_list.line_with(at, self._words, number)
        self.refresh()

    def _fold_again(self, next_hit: Name | None) -> None:
        """Fold the row that was unfolded for the last hit, unless the next is in it."""
        before = self._unfolded_for_hit
        if before is None or before == next_hit:
            return
        self._unfolded_for_hit = None
        if (at := self._virtual_list.find(before)) is not None:
            self._toggle(at)

    def _highlighted(self, strip: Strip, line: int) -> Strip:
        text = strip.text.lower()
        if self._words not in text or len(text) != len(strip.text):
            return strip
        theme = theme_of(self)
        ground = theme.accent if line == self._hit_line else theme.warning
        parts: list[Strip] = []
        for begin, end in _spans(text, self._words):
            cells = [cell_len(strip.text[:begin]), cell_len(strip.text[:end])]
            before, found, *_ = strip.divide([*cells, strip.cell_length + 1])
            done = sum(part.cell_length for part in parts)
            parts += [before.crop(done), _over(found, theme.on(theme.background, ground))]
        return Strip.join([*parts, strip.crop(sum(part.cell_length for part in parts))])

    def _selected(self, strip: Strip, line: int, selection: Selection) -> Strip:
        if (span := selection.get_span(line)) is None:
            return strip
        start, end = span
        end = strip.cell_length if end == -1 else end
        parts = strip.divide([start, end, strip.cell_length])
        style = self.screen.get_component_rich_style("screen--selection")
        return Strip.join([parts[0], _over(parts[1], style), *parts[2:]])

    def get_selection(self, selection: Selection) -> tuple[str, str] | None:
        first = selection.start.y if selection.start else 0
        last = selection.end.y if selection.end else self._virtual_list.height - 1
        lines = (self._virtual_list.strip(line).text.rstrip() for line in range(first, last + 1))
        return selection.extract("\n" * first + "\n".join(lines)), "\n"

    def selection_updated(self, selection: Selection | None) -> None:
        self.refresh()

    # scrolling

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        super().watch_scroll_y(old_value, new_value)
        if round(old_value) != round(new_value):
            self._following = round(new_value) >= self.max_scroll_y
            self._painted = []
            if round(new_value) == 0:
                self.post_message(self.AtTop())
            else:
                self._at_top = False

    def _go(self, to: float) -> None:
        self._at_top = False
        last = max(0, self._virtual_list.height - self.size.height)
        line = min(max(0, round(to)), last)
        self._following = line >= last
        self.scroll_target_y = self.scroll_y = line
        self._settle(self._anchor())

    def on_key(self, event: events.Key) -> None:
        """Pass text to the input area."""
        letter = event.character or ""
        if event.is_printable and len(letter) == 1 and event.key not in _OWN_KEYS:
            event.stop()
            event.prevent_default()
            self.post_message(self.Typed(letter))

    def show_task(self, task_id: str) -> None:
        """Scroll to the first row of a task."""
        first = next((at for at, row in enumerate(self.rows) if row.name[0] == task_id), None)
        if first is not None:
            self._go(self._virtual_list.top(first))

    def action_scroll_by(self, lines: int) -> None:
        self._go(self.scroll_y + lines)

    def action_half_page(self, direction: int) -> None:
        self._go(self.scroll_y + direction * max(1, self.size.height // 2))

    def action_to_top(self) -> None:
        self._go(0)
        self._at_top = not self._following
        self.post_message(self.AtTop())

    def action_to_bottom(self) -> None:
        self._following, self._at_top = True, False
        self._settle(None)

    def _on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        event.stop()
        self._go(self.scroll_y + WHEEL_LINES)

    def _on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        event.stop()
        self._go(self.scroll_y - WHEEL_LINES)

    # folding

    def action_mark(self, by: int) -> None:
        """Mark the next row that can be unfolded, and scroll to it."""
        foldable = [at for at, row in enumerate(self.rows) if can_unfold(row.shown)]
        if not foldable:
            return
        at = self._next_to_mark(foldable, by)
        self._marked = self.rows[at].name
        top = self._virtual_list.top(at)
        if not self._first <= top < self._first + self.size.height:
            self._go(top - self.size.height // 3)
        self._painted = []
        self.refresh()

    def _next_to_mark(self, foldable: Sequence[int], by: int) -> int:
        here = self._virtual_list.find(self._marked) if self._marked else None
        if here is None:
            seen = self._virtual_list.at_line(self._first + self.size.height - 1)
            return max((at for at in foldable if at <= seen), default=foldable[0])
        if by > 0:
            return next((at for at in foldable if at > here), foldable[-1])
        return next((at for at in reversed(foldable) if at < here), foldable[0])

    def action_unfold(self) -> None:
        if self._marked and (at := self._virtual_list.find(self._marked)) is not None:
            self._toggle(at)

    def toggle_all(self) -> None:
        anchor = self._anchor()
        self._virtual_list.toggle_all()
        self._settle(anchor)

    def on_click(self, event: events.Click) -> None:
        """Toggle a row by a click on its first lines."""
        line = self._first + event.y
        if line < self._virtual_list.height:
            at = self._virtual_list.at_line(line)
            if can_unfold(self.rows[at].shown) and line - self._virtual_list.top(at) < 2:
                self._toggle(at)

    def _toggle(self, at: int) -> None:
        """Fold or unfold a row without moving what is above it."""
        self._following = False
        anchor = self._anchor()
        self._virtual_list.toggle(at)
        self._settle(anchor)
        self._following = self._first >= max(0, self._virtual_list.height - self.size.height)

    def _is_marked(self, line: int) -> bool:
        if self._marked is None or not self.has_focus or not self.rows:
            return False
        return self.rows[self._virtual_list.at_line(line)].name == self._marked


def _over(strip: Strip, style: Style) -> Strip:
    """Apply a style that wins over the strip's own."""
    return Strip(Segment.apply_style(strip, post_style=style), strip.cell_length)


def _spans(text: str, words: str) -> Iterator[tuple[int, int]]:
    begin = text.find(words)
    while begin >= 0:
        yield begin, begin + len(words)
        begin = text.find(words, begin + len(words))


def _runs(numbers: list[int]) -> Iterator[tuple[int, int]]:
    for _, group in groupby(enumerate(numbers), key=lambda pair: pair[1] - pair[0]):
        run = list(group)
        yield run[0][1], len(run)
