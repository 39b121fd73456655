"""Splits Markdown into parts that can be laid out independently.

A part is a group of small blocks, or a section of a block that is too long: rows of a table, items
of a list, lines of a code fence. Growing text is parsed incrementally, so that the cost of an
update does not depend on the length of the answer.
"""

import re
from copy import copy

from msgspec import Struct

PART = 3_000
"""Characters after which a block is split at the next good position."""
MAX_PART = 4 * PART
"""Characters after which a block is split at any line."""
MIN_PART = 500
"""Characters below which the next block is added to the same part."""
PART_LINES = 60
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
_ITEM = re.compile(r"([-*+]|\d{1,9}[.)])(?=\s|$)")
_DELIMITER_ROW = re.compile(r"[ \t]*\|?[ \t]*:?-+:?[ \t]*(\|[ \t]*:?-*:?[ \t]*)*")
_PLACE = re.compile(r"(?<=[.!?])\s+|\s+|(?<=\))")
_CUT_TRIES = 40


class Part(Struct, frozen=True):
    """Markdown that can be laid out on its own."""

    text: str
    continues: bool = False
    """Whether it continues the block above, without a blank line between them."""
    head: str = ""
    """First lines of the block that are needed to parse this part; not shown again."""
    table: str = ""
    """The part in which the table started; the column widths come from it."""
    number: int | None = None
    """Number of the first list item."""


class Parts:
    """Growing text and its parts: finished ones, and those that may still change."""

    def __init__(self) -> None:
        self._begin_text()

    def _begin_text(self) -> None:
        self._text = ""
        self._read = 0
        self._done: list[Part] = []
        self._fence_mark = ""
        self._in_line = False
        self._begin_block()
        self._begin_part(continues=False)

    def of(self, text: str) -> tuple[list[Part], list[Part]]:
        """Return the finished and the unfinished parts of the text.

        If the text extends the previous one, only the new lines are parsed. The first list stays
        the same object as long as it only grows.
        """
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
        """Add a line, or the rest of a long line whose start was parsed already."""
        if self._in_line:
            self._in_line = False
            self._put(line)
        else:
            self._add_line(line)

    def _read_long_line(self) -> None:
        """Parse the start of a long unfinished line, so that it is not parsed again at each
        update."""
        line = self._text[self._read :]
        while len(line) > 2 * PART:
            at = split_position(line)
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
        rest._end_part(continues=False)
        return rest._done

    def _begin_block(self) -> None:
        self._fence = self._table_head = self._first_table = ""
        self._is_list = False
        self._number: int | None = None
        self._items = 0
        self._begins = True

    def _begin_part(self, *, continues: bool) -> None:
        self._lines: list[str] = []
        self._size = 0
        self._continues = continues
        self._head = (f"{self._fence}\n" if self._fence else self._table_head) if continues else ""
        self._part_number: int | None = None
        self._after_blank = False

    def _add_line(self, line: str) -> None:
        if self._fence:
            self._add_to_fence(line)
        elif not line.strip():
            self._add_blank(line)
        elif self._after_blank and not line[0].isspace() and not self._list_continues(line):
            self._end_block()
            self._add_to_block(line)
        else:
            self._add_to_block(line)

    def _end_block(self) -> None:
        """Small blocks share a part, which is cheaper than one part each."""
        if self._continues or self._size >= MIN_PART:
            self._end_part(continues=False)
            self._begin_part(continues=False)
        self._begin_block()

    def _add_blank(self, line: str) -> None:
        if self._lines or self._continues:
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
        if self._continues and not self._lines and self._number is not None:
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
        """Append a line; starts a new part if this one is long enough, and splits a too long
        line."""
        enough = self._size >= PART or len(self._lines) >= PART_LINES
        if self._lines and ((enough and not self._is_list) or self._size >= MAX_PART):
            self._cut()
        while len(line) > PART:
            at = split_position(line)
            self._append(line[:at])
            self._cut()
            line = line[at:]
        self._append(line)

    def _append(self, line: str) -> None:
        self._lines.append(line)
        self._size += len(line) + 1

    def _cut(self) -> None:
        self._end_part(continues=True)
        self._begin_part(continues=True)

    def _end_part(self, *, continues: bool) -> None:
        text = "\n".join(self._lines)
        if not text.strip() and not self._head:
            return
        table = self._first_table
        if self._table_head and continues and not table:
            self._first_table = text
        self._done.append(
            Part(
                text=text,
                continues=self._continues,
                head=self._head,
                table=table,
                number=self._part_number,
            )
        )

    def _list_continues(self, line: str) -> bool:
        """Whether the line continues the list: items may have blank lines between them."""
        return self._is_list and bool(_ITEM.match(line))


def _count_cells(row: str) -> int:
    cells = row.strip().replace("\\|", "").removeprefix("|").removesuffix("|")
    return cells.count("|") + 1


def split_position(line: str, most: int = PART) -> int:
    """Where to split a long line: after a sentence or word, and outside links, code and
    emphasis, if possible."""
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
