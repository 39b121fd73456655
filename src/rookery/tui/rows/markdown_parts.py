"""Markdown cut into parts that are small enough to be laid out one at a time.

A part is a block, or a piece of a block that is too long: some rows of a table, some items of a
list, some lines of a code fence. A growing text is read on from where it ended, so that a long
answer costs the same per picture as a short one.
"""

import re
from copy import copy

from msgspec import Struct

PART = 3_000
"""Characters after which a block is cut at the next good place."""
LONGEST_PART = 4 * PART
"""Characters after which it is cut at any place."""
LEAST_PART = 500
"""Characters below which the next block belongs to the same part."""
PART_LINES = 60
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
_ITEM = re.compile(r"([-*+]|\d{1,9}[.)])(?=\s|$)")
_DELIMITER_ROW = re.compile(r"[ \t]*\|?[ \t]*:?-+:?[ \t]*(\|[ \t]*:?-*:?[ \t]*)*")
_PLACE = re.compile(r"(?<=[.!?])\s+|\s+|(?<=\))")
_CUT_TRIES = 40


class Part(Struct, frozen=True):
    """Markdown that can be laid out by itself."""

    text: str
    goes_on: bool = False
    """It belongs to the block above it, without a blank line between them."""
    head: str = ""
    """Lines that the block began with and that its meaning depends on; not shown again."""
    table: str = ""
    """The part in which the table began, which the widths of its columns come from."""
    number: int | None = None
    """The number of its first list item."""


class Parts:
    """A text that may grow, and the parts it consists of: those that stay as they are, and those
    that may still become something else."""

    def __init__(self) -> None:
        self._begin_text()

    def _begin_text(self) -> None:
        self._text = ""
        self._read = 0
        self._done: list[Part] = []
        self._fence_mark = ""
        self._in_line = False
        self._begin_block()
        self._begin_part(goes_on=False)

    def of(self, text: str) -> tuple[list[Part], list[Part]]:
        """The parts of a text; only what is behind the last text is read, if that goes on. The
        first list stays the same object for as long as it only grows."""
        if not text.startswith(self._text):
            self._begin_text()
        self._text = text
        end = text.rfind("\n") + 1
        if end > self._read:
            for line in text[self._read : end].removesuffix("\n").split("\n"):
                self._add_rest(line)
            self._read = end
        self._read_long_line()
        return self._done, self._unfinished(text[self._read :])

    def _add_rest(self, line: str) -> None:
        """A line, or the rest of one that was so long that its beginning was read already."""
        if self._in_line:
            self._in_line = False
            self._put(line)
        else:
            self._add_line(line)

    def _read_long_line(self) -> None:
        """Of a line that is still growing, what is too long to be read again each time."""
        line = self._text[self._read :]
        while len(line) > 2 * PART:
            at = good_place(line)
            self._add_rest(line[:at])
            self._cut()
            self._in_line = True
            self._read += at
            line = line[at:]

    def _unfinished(self, last_line: str) -> list[Part]:
        rest = copy(self)
        rest._done, rest._lines = [], [*self._lines]
        if last_line.strip():
            rest._add_rest(last_line)
        rest._end_part(goes_on=False)
        return rest._done

    def _begin_block(self) -> None:
        self._fence = self._table_head = self._first_table = ""
        self._is_list = False
        self._number: int | None = None
        self._items = 0
        self._begins = True

    def _begin_part(self, *, goes_on: bool) -> None:
        self._lines: list[str] = []
        self._size = 0
        self._goes_on = goes_on
        self._head = (f"{self._fence}\n" if self._fence else self._table_head) if goes_on else ""
        self._part_number: int | None = None
        self._after_blank = False

    def _add_line(self, line: str) -> None:
        if self._fence:
            self._add_to_fence(line)
        elif not line.strip():
            self._add_blank(line)
        elif self._after_blank and not line[0].isspace() and not self._list_goes_on(line):
            self._end_block()
            self._add_to_block(line)
        else:
            self._add_to_block(line)

    def _end_block(self) -> None:
        """Several small blocks are one part, which costs less than one for each."""
        if self._goes_on or self._size >= LEAST_PART:
            self._end_part(goes_on=False)
            self._begin_part(goes_on=False)
        self._begin_block()

    def _add_blank(self, line: str) -> None:
        if self._lines or self._goes_on:
            self._after_blank = True
            self._table_head = self._first_table = ""
            self._put(line)

    def _add_to_block(self, line: str) -> None:
        if self._begins:
            self._is_list = bool(_ITEM.match(line))
        self._begins = self._after_blank = False
        if self._is_list and (item := _ITEM.match(line)):
            self._add_item(item[1])
        if fence := _FENCE.match(line):
            self._fence = line
            self._fence_mark = fence[1]
        elif "-" in line and "|" in line and self._is_table_delimiter(line):
            self._table_head = f"{self._lines[-1]}\n{line}\n"
        self._put(line)

    def _add_item(self, mark: str) -> None:
        if self._size >= PART or len(self._lines) >= PART_LINES:
            self._cut()
        if self._items == 0 and mark[0].isdigit():
            self._number = int(mark[:-1])
        if self._goes_on and not self._lines and self._number is not None:
            self._part_number = self._number + self._items
        self._items += 1

    def _is_table_delimiter(self, line: str) -> bool:
        above = self._lines[-1] if self._lines else ""
        if self._table_head or "|" not in above or not _DELIMITER_ROW.fullmatch(line):
            return False
        return _count_cells(above) == _count_cells(line)

    def _add_to_fence(self, line: str) -> None:
        self._put(line)
        closing = _FENCE.match(line)
        mark = self._fence_mark
        if closing and closing[1][0] == mark[0] and len(closing[1]) >= len(mark):
            self._fence = ""

    def _put(self, line: str) -> None:
        """Cut before the line if the part is long enough; a line that is too long is cut itself."""
        enough = self._size >= PART or len(self._lines) >= PART_LINES
        if self._lines and ((enough and not self._is_list) or self._size >= LONGEST_PART):
            self._cut()
        while len(line) > PART:
            at = good_place(line)
            self._append(line[:at])
            self._cut()
            line = line[at:]
        self._append(line)

    def _append(self, line: str) -> None:
        self._lines.append(line)
        self._size += len(line) + 1

    def _cut(self) -> None:
        self._end_part(goes_on=True)
        self._begin_part(goes_on=True)

    def _end_part(self, *, goes_on: bool) -> None:
        text = "\n".join(self._lines)
        if not text.strip() and not self._head:
            return
        table = self._first_table
        if self._table_head and goes_on and not table:
            self._first_table = text
        self._done.append(
            Part(
                text=text,
                goes_on=self._goes_on,
                head=self._head,
                table=table,
                number=self._part_number,
            )
        )

    def _list_goes_on(self, line: str) -> bool:
        """A list may have blank lines between its items, and a number depends on the one before."""
        return self._is_list and bool(_ITEM.match(line))


def _count_cells(row: str) -> int:
    cells = row.strip().replace("\\|", "").removeprefix("|").removesuffix("|")
    return cells.count("|") + 1


def good_place(line: str, most: int = PART) -> int:
    """Where to cut a line that is too long: behind a sentence or a word, and outside links, code
    and emphasis, if there is such a place."""
    places = [found.end() for found in _PLACE.finditer(line, most // 2, most)]
    for place in places[: -_CUT_TRIES - 1 : -1]:
        if 0 < place < len(line) and _is_balanced(line[:place]):
            return place
    return next((place for place in reversed(places) if place), most)


def _is_balanced(text: str) -> bool:
    pairs = (("[", "]"), ("(", ")"))
    marks = ("`", "**")
    return all(text.count(a) == text.count(b) for a, b in pairs) and not any(
        text.count(mark) % 2 for mark in marks
    )


def parts_of(text: str) -> list[Part]:
    done, rest = Parts().of(text)
    return [*done, *rest]
