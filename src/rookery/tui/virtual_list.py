"""Rows one below the other, each as high as it needs to be.

A row is laid out when it is needed, a piece at a time, and kept so until it or the width changes;
the height of the others is guessed.
"""

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from typing import TypeAlias

from msgspec.structs import replace
from textual.strip import Strip

from rookery.tui.rows.lines import NOTHING, Family, LazyLines, ShownRow, family_of, gap_between
from rookery.tui.rows.markdown import GrowingMarkdownLines
from rookery.tui.rows.row_view import can_unfold, pieces_of
from rookery.tui.theme import Theme

Name: TypeAlias = tuple[str, int]
"""A row by its task and its `ts`."""
Named: TypeAlias = tuple[Name, ShownRow]
Anchor: TypeAlias = tuple["Row", tuple[int, int]]
"""A row, a piece of it, and a line of that."""
GUESSED_HEIGHT = 3


class Row:
    """A row and its layout, if it has one."""

    __slots__ = ("before", "family", "height", "lines", "name", "shown", "words")

    def __init__(self, name: Name, shown: ShownRow) -> None:
        self.name = name
        self.height = 0
        self.words = GrowingMarkdownLines()
        self.lines: LazyLines | None = None
        self.change(shown)

    def change(self, shown: ShownRow) -> None:
        """Show it differently; until it is laid out it is as high as it was."""
        self.shown = shown
        self.family = family_of(shown)
        self.before, self.lines = self.lines, None
        if self.family is Family.HIDDEN:
            self.height = 0
        else:
            self.height = self.height or GUESSED_HEIGHT

    @property
    def is_tall(self) -> bool:
        """It has more to show than one line."""
        return self.lines is not None and self.lines.is_tall


class VirtualList:
    def __init__(self, theme: Theme) -> None:
        self._theme = theme
        self._width = 0
        self._rows: list[Row] = []
        self._tops: list[int] = [0]
        """Where each row begins, as far as that is known; the last is where the next will."""
        self._all_unfolded = False

    @property
    def rows(self) -> Sequence[Row]:
        return self._rows

    @property
    def height(self) -> int:
        return self.top(len(self._rows))

    def fit(self, width: int, theme: Theme) -> None:
        """Everything is to be laid out anew."""
        self._width, self._theme = width, theme
        for row in self._rows:
            row.before = row.lines = None

    # which rows there are

    def put(self, rows: Iterable[Named]) -> None:
        """These instead of all others; those that are the same keep their layout."""
        known = {row.name: row for row in self._rows}
        self._rows = [self._made(known.get(name), name, shown) for name, shown in rows]
        self._tops = [0]

    def prepend(self, rows: Iterable[Named]) -> None:
        self._rows[:0] = [self._made(None, name, shown) for name, shown in rows]
        self._tops = [0]

    def insert(self, at: int, name: Name, shown: ShownRow) -> None:
        self._rows.insert(at, self._made(None, name, shown))
        self._moved(at)

    def change(self, name: Name, shown: ShownRow) -> None:
        if (at := self.find(name)) is not None:
            self._made(self._rows[at], name, shown)
            for below in self._rows[at + 1 : at + 2]:
                below.lines = None  # how far it stands away depends on what is above it
            self._moved(at)

    def remove(self, name: Name) -> None:
        if (at := self.find(name)) is not None:
            del self._rows[at]
            self._moved(at)

    def _made(self, row: Row | None, name: Name, shown: ShownRow) -> Row:
        unfolded = row.shown.unfolded if row else self._all_unfolded
        if shown.unfolded != unfolded:
            shown = replace(shown, unfolded=unfolded)
        if row is None:
            return Row(name, shown)
        if row.shown != shown:
            row.change(shown)
        return row

    def find(self, name: Name) -> int | None:
        """Nearly always it is one of the last."""
        for at in range(len(self._rows) - 1, -1, -1):
            if self._rows[at].name == name:
                return at
        return None

    # folding

    def toggle(self, at: int) -> None:
        row = self._rows[at]
        row.change(replace(row.shown, unfolded=not row.shown.unfolded))
        self._moved(at)

    def toggle_all(self) -> None:
        self._all_unfolded = not self._all_unfolded
        for at, row in enumerate(self._rows):
            if can_unfold(row.shown) and row.shown.unfolded != self._all_unfolded:
                self.toggle(at)

    # where they are

    def top(self, at: int) -> int:
        tops = self._tops
        while len(tops) <= at:
            tops.append(tops[-1] + self._rows[len(tops) - 1].height)
        return tops[at]

    def _moved(self, at: int) -> None:
        """Whatever is below that row may stand elsewhere now."""
        del self._tops[at + 1 :]

    def at_line(self, line: int) -> int:
        """The row that a line belongs to."""
        self.top(len(self._rows))
        at = bisect_right(self._tops, line) - 1
        return min(max(0, at), max(0, len(self._rows) - 1))

    def strip(self, line: int) -> Strip:
        if not 0 <= line < self.height:
            return NOTHING
        at = self.at_line(line)
        inside = line - self.top(at)
        strip = self._laid_out(at).strip(inside)
        self._measure(at)
        return strip

    def lay_out(self, first: int, last: int) -> bool:
        """What is between two lines. Whether some of it was not laid out before."""
        found = False
        at = self.at_line(first)
        while at < len(self._rows) and self.top(at) <= last:
            top = self.top(at)
            found = self._laid_out(at).lay_out(first - top, last - top) or found
            self._measure(at)
            at += 1
        return found

    def anchor(self, line: int) -> Anchor | None:
        """What stands at a line, however much is laid out above it."""
        if not self._rows:
            return None
        at = self.at_line(line)
        return self._rows[at], self._laid_out(at).anchor(line - self.top(at))

    def line_of(self, anchor: Anchor) -> int | None:
        """Where that stands now; None if it is gone."""
        at = self.find(anchor[0].name)
        return None if at is None else self.top(at) + self._laid_out(at).line_of(anchor[1])

    def _laid_out(self, at: int) -> LazyLines:
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
            self._moved(at)

    def _gap_above(self, at: int) -> int:
        """Empty lines over a row, by what stands above it."""
        for above in range(at - 1, -1, -1):
            row = self._rows[above]
            if row.family is not Family.HIDDEN and row.height:
                return gap_between(row.family, self._rows[at].family, tall=row.is_tall)
        return 1
