"""Lines that are laid out a piece at a time: exactly where they are needed, guessed elsewhere."""

from bisect import bisect_right
from collections.abc import Sequence

from textual.strip import Strip

from rookery.tui.rows.lines import strip_of
from rookery.tui.rows.pieces import Piece

NOTHING = Strip([], 0)


class LazyLines:
    def __init__(
        self, pieces: Sequence[Piece], gap: int = 0, before: "LazyLines | None" = None
    ) -> None:
        """`gap` blank lines come first, if there is anything at all. What stays as it was
        `before` is not laid out again."""
        self._pieces = pieces
        self._gap = gap
        self._strips: list[list[Strip] | None] = [None] * len(pieces)
        self._heights = [piece.height + self._gap_above(at) for at, piece in enumerate(pieces)]
        self._tops: list[int] = []
        if before and before._gap == gap:
            self._keep(before)

    def _keep(self, before: "LazyLines") -> None:
        for at, (new, old) in enumerate(zip(self._pieces, before._pieces, strict=False)):
            if new.key is None or new.key is not old.key:
                return
            self._strips[at] = before._strips[at]
            self._heights[at] = before._heights[at]

    @property
    def height(self) -> int:
        return self._top(len(self._pieces))

    @property
    def is_tall(self) -> bool:
        """It has more to show than one line."""
        if len(self._pieces) > 1:
            return True
        return sum(bool(strip.cell_length) for strips in self._strips for strip in strips or ()) > 1

    def lay_out(self, first: int, last: int) -> bool:
        """The pieces between two lines. Whether some were not laid out before."""
        found = False
        at = self.piece_at(first)
        while at < len(self._pieces) and self._top(at) <= last:
            found = self._lay_out(at) or found
            at += 1
        return found

    def strip(self, line: int) -> Strip:
        if not 0 <= line < self.height:
            return NOTHING
        at = self.piece_at(line)
        self._lay_out(at)
        strips, inside = self._strips[at], line - self._top(at)
        return strips[inside] if strips and inside < len(strips) else NOTHING

    def piece_at(self, line: int) -> int:
        self._top(len(self._pieces))
        at = bisect_right(self._tops, line) - 1
        return min(max(0, at), max(0, len(self._pieces) - 1))

    def anchor(self, line: int) -> tuple[int, int]:
        """A line by its piece and its place in that, which stay when others are laid out."""
        at = self.piece_at(line)
        return at, line - self._top(at)

    def line_of(self, anchor: tuple[int, int]) -> int:
        at = min(anchor[0], len(self._pieces))
        return self._top(at) + anchor[1]

    def _top(self, at: int) -> int:
        if not self._tops:
            self._tops = [0]
            for height in self._heights:
                self._tops.append(self._tops[-1] + height)
        return self._tops[at]

    def _gap_above(self, at: int) -> int:
        return self._pieces[at].gap if at else self._gap

    def _lay_out(self, at: int) -> bool:
        if self._strips[at] is not None:
            return False
        strips = [strip_of(line) for line in self._pieces[at].draw()]
        if strips:
            strips[:0] = [NOTHING] * self._gap_above(at)
        self._strips[at] = strips
        if self._heights[at] != len(strips):
            self._heights[at] = len(strips)
            self._tops = []
        return True
