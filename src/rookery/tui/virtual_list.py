"""Rows of varying height, laid out on demand.

A row is laid out piece by piece when it is needed, and kept until it or the width changes. The
height of other rows is estimated.
"""

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from typing import TypeAlias

from msgspec.structs import replace
from textual.strip import Strip

from rookery.tui.rows.lines import NOTHING, LazyLines, RowKind, ShownRow, gap_between, kind_of
from rookery.tui.rows.markdown import GrowingMarkdownLines
from rookery.tui.rows.row_view import can_unfold, pieces_of
from rookery.tui.theme import DARK, THEMES, Theme

Name: TypeAlias = tuple[str, int]
"""A row's task id and `ts`."""
NamedRow: TypeAlias = tuple[Name, ShownRow]
Anchor: TypeAlias = tuple["Row", tuple[int, int]]
"""A row, a piece of it, and a line of the piece."""
DEFAULT_HEIGHT = 3
MAX_SEARCHED_LINES = 5_000
"""Lines of a row that are laid out to find a hit in it."""


class Row:
    """A row and its layout, if any."""

    __slots__ = ("before", "height", "kind", "lines", "name", "shown", "words")

    def __init__(self, name: Name, shown: ShownRow) -> None:
        self.name = name
        self.height = 0
        self.words = GrowingMarkdownLines()
        self.lines: LazyLines | None = None
        self.change(shown)

    def change(self, shown: ShownRow) -> None:
        """Change the content; the height is kept until the row is laid out."""
        self.shown = shown
        self.kind = kind_of(shown)
        self.before, self.lines = self.lines, None
        if self.kind is RowKind.HIDDEN:
            self.height = 0
        else:
            self.height = self.height or DEFAULT_HEIGHT

    @property
    def is_tall(self) -> bool:
        """Whether there is more than one line of content."""
        return self.lines is not None and self.lines.is_tall


class VirtualList:
    def __init__(self) -> None:
        self._theme = THEMES[DARK]
        self._width = 0
        self._rows: list[Row] = []
        self._tops: list[int] = [0]
        """First line of each row, as far as computed; the last entry is that of the next row."""
        self._all_unfolded = False

    @property
    def rows(self) -> Sequence[Row]:
        return self._rows

    @property
    def height(self) -> int:
        return self.top(len(self._rows))

    def fit(self, width: int, theme: Theme) -> None:
        """Discard all layouts."""
        self._width, self._theme = width, theme
        for row in self._rows:
            row.before = row.lines = None

    # rows

    def put(self, rows: Iterable[NamedRow]) -> None:
        """Replace all rows; unchanged ones keep their layout."""
        known = {row.name: row for row in self._rows}
        self._rows = [self._upsert(known.get(name), name, shown) for name, shown in rows]
        self._tops = [0]

    def prepend(self, rows: Iterable[NamedRow]) -> None:
        self._rows[:0] = [self._upsert(None, name, shown) for name, shown in rows]
        self._tops = [0]

    def insert(self, at: int, name: Name, shown: ShownRow) -> None:
        self._rows.insert(at, self._upsert(None, name, shown))
        self._drop_tops(at)

    def change(self, name: Name, shown: ShownRow) -> None:
        if (at := self.find(name)) is not None:
            self._upsert(self._rows[at], name, shown)
            for below in self._rows[at + 1 : at + 2]:
                below.lines = None  # its gap depends on the row above
            self._drop_tops(at)

    def remove(self, name: Name) -> None:
        if (at := self.find(name)) is not None:
            del self._rows[at]
            self._drop_tops(at)

    def _upsert(self, row: Row | None, name: Name, shown: ShownRow) -> Row:
        unfolded = row.shown.unfolded if row else self._all_unfolded
        if shown.unfolded != unfolded:
            shown = replace(shown, unfolded=unfolded)
        if row is None:
            return Row(name, shown)
        if row.shown != shown:
            row.change(shown)
        return row

    def find(self, name: Name) -> int | None:
        """Searches from the end, where changes happen."""
        for at in range(len(self._rows) - 1, -1, -1):
            if self._rows[at].name == name:
                return at
        return None

    # folding

    def toggle(self, at: int) -> None:
        row = self._rows[at]
        row.change(replace(row.shown, unfolded=not row.shown.unfolded))
        self._drop_tops(at)

    def toggle_all(self) -> None:
        self._all_unfolded = not self._all_unfolded
        for at, row in enumerate(self._rows):
            if can_unfold(row.shown) and row.shown.unfolded != self._all_unfolded:
                self.toggle(at)

    # layout

    def top(self, at: int) -> int:
        tops = self._tops
        while len(tops) <= at:
            tops.append(tops[-1] + self._rows[len(tops) - 1].height)
        return tops[at]

    def _drop_tops(self, at: int) -> None:
        """Discard the positions below the row."""
        del self._tops[at + 1 :]

    def at_line(self, line: int) -> int:
        """Index of the row at a line."""
        self.top(len(self._rows))
        at = bisect_right(self._tops, line) - 1
        return min(max(0, at), max(0, len(self._rows) - 1))

    def strip(self, line: int) -> Strip:
        if not 0 <= line < self.height:
            return NOTHING
        at = self.at_line(line)
        inside = line - self.top(at)
        strip = self._layout_of(at).strip(inside)
        self._measure(at)
        return strip

    def lay_out(self, first: int, last: int) -> bool:
        """Lay out the rows between two lines. Returns whether anything was new."""
        found = False
        at = self.at_line(first)
        while at < len(self._rows) and self.top(at) <= last:
            top = self.top(at)
            found = self._layout_of(at).lay_out(first - top, last - top) or found
            self._measure(at)
            at += 1
        return found

    def line_with(self, at: int, words: str, number: int) -> int:
        """The line with this occurrence of lower-case words in a row; else the row's first line."""
        top, line = self.top(at), 0
        while line < min(self._rows[at].height, MAX_SEARCHED_LINES):
            count = self.strip(self.top(at) + line).text.lower().count(words)
            if number < count:
                return self.top(at) + line
            number, line = number - count, line + 1
        return top

    def anchor(self, line: int) -> Anchor | None:
        """The position of a line, independent of the layout above it."""
        if not self._rows:
            return None
        at = self.at_line(line)
        return self._rows[at], self._layout_of(at).anchor(line - self.top(at))

    def line_of(self, anchor: Anchor) -> int | None:
        """The current line of an anchor; None if its row is gone."""
        at = self.find(anchor[0].name)
        return None if at is None else self.top(at) + self._layout_of(at).line_of(anchor[1])

    def _layout_of(self, at: int) -> LazyLines:
        row = self._rows[at]
        if row.lines is None:
            pieces = pieces_of(row.shown, self._width, self._theme, row.words)
            row.lines = LazyLines(pieces, self._gap_above(at), row.before)
            row.before = None
            self._measure(at)
        return row.lines

    def _measure(self, at: int) -> None:
        row = self._rows[at]
        if row.lines and row.height != row.lines.height:
            row.height = row.lines.height
            self._drop_tops(at)

    def _gap_above(self, at: int) -> int:
        """Blank lines above a row, depending on the row before it."""
        for above in range(at - 1, -1, -1):
            row = self._rows[above]
            if row.kind is not RowKind.HIDDEN and row.height:
                return gap_between(row.kind, self._rows[at].kind, tall=row.is_tall)
        return 1
