"""Lines that end between words, though the words come in pieces.

A piece is written at once. If it turns out that the word it belongs to does not fit, what is
there of the word is wiped out and written again on the next line.
"""

import re

from rookery.core.text.terminal_text import cells_of

_PARTS = re.compile(r"\n|[^\S\n]+|\S+")
_TAB = 8


class WordWrap:
    """What was written on the last line, as far as it matters for what comes next."""

    def __init__(self) -> None:
        self._column = 0
        self._word = ""
        self._too_long = False

    def add(self, text: str, width: int) -> str:
        """What to write on a terminal of this width, so that the text is the next to be seen."""
        # the last column stays free: behind it a terminal's idea of where it is differs
        return "".join(self._written(part, width - 1) for part in _PARTS.findall(text))

    def _written(self, part: str, edge: int) -> str:
        if part == "\n":
            return self._next_line()
        if part.isspace():
            return self._blank(part, edge)
        if self._too_long or self._column + cells_of(part) <= edge:
            return self._go_on(part, edge)
        begun = cells_of(self._word)
        whole = self._word + part
        if begun == self._column or cells_of(whole) > edge:
            self._too_long = True
            return self._go_on(part, edge)
        wipe = "\b" * begun + " " * begun
        return wipe + self._next_line() + self._go_on(whole, edge)

    def _next_line(self) -> str:
        self._column, self._word, self._too_long = 0, "", False
        return "\n"

    def _blank(self, part: str, edge: int) -> str:
        """A blank that would go over the edge is the end of the line."""
        self._word, self._too_long = "", False
        begun = self._column
        for char in part:
            self._column += _TAB - self._column % _TAB if char == "\t" else 1
        if self._column > edge:
            self._column = edge
            return " " * (edge - begun)
        return part

    def _go_on(self, part: str, edge: int) -> str:
        self._word += part
        room = self._column + cells_of(part) <= edge
        self._column = self._column + cells_of(part) if room else self._broken_off(part, edge + 1)
        return part

    def _broken_off(self, part: str, width: int) -> int:
        """Where the cursor is after the terminal itself has broken what is longer than a line."""
        column = self._column
        for cells in map(cells_of, part):
            column = column + cells if column + cells <= width else cells
        return column
