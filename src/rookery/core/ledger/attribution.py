"""Who wrote the lines of a file, as far as the ledger tells. It never guesses.

A line belongs to the newest record of which a whole range stands in the file, found by its hash
wherever it moved. Of a range that stands there in part, what lies between its lines was edited
since. Content that is too plain to tell records apart counts only where it was recorded.
"""

from collections.abc import Iterable, Sequence
from difflib import SequenceMatcher
from hashlib import sha256
from itertools import accumulate, pairwise
from typing import Literal

from rookery.core.ledger.line_ranges import MARK, LineRange, line_mark
from rookery.core.ledger.records import TracedFile
from rookery.core.ledger.traced import TracedRecord
from rookery.core.values import value

MOVED_LINES = 100
TELLING = 8
"""Letters and digits that a text must have to be recognised in another place."""


@value
class LineOrigin:
    """What is known of one line."""

    certainty: Literal["written", "edited since", "unknown"] = "unknown"
    record: TracedRecord | None = None


UNKNOWN = LineOrigin()


def blame(
    path: str, lines: Sequence[str], records: Iterable[TracedRecord]
) -> tuple[LineOrigin, ...]:
    """The origin of every line of the file, from records that come newest first."""
    page, names = _Page(lines), {path}
    elsewhere: list[tuple[TracedRecord, LineRange]] = []
    for record in records:
        for file in record.files:
            if file.path in names:
                page.place_file(record, file)
                names |= {file.origin} if file.op == "rename" else set()
            else:
                elsewhere += [(record, each) for each in file.ranges if page.may_hold(each)]
        if page.full:
            break
    _place_moved(page, elsewhere)
    return tuple(page.origins)


def _place_moved(page: "_Page", found: list[tuple[TracedRecord, LineRange]]) -> None:
    """Ranges of other files. If records of several intents wrote the same, nobody knows whose
    it is."""
    intents: dict[str, set[str]] = {}
    for record, lines in found:
        intents.setdefault(lines.content_hash, set()).add(record.intent_id)
    for record, lines in found:
        if len(intents[lines.content_hash]) == 1:
            page.place_anywhere(record, lines)


class _Page:
    """The lines of a file, and what was found out about them."""

    def __init__(self, lines: Sequence[str]) -> None:
        self._lines = lines
        self.origins = [UNKNOWN] * len(lines)
        self._windows: dict[int, dict[str, list[int]]] = {}

    @property
    def full(self) -> bool:
        return UNKNOWN not in self.origins

    def place_file(self, record: TracedRecord, file: TracedFile) -> None:
        """Attribute what is left of the ranges that a record wrote into this file."""
        for lines, marks in zip(file.ranges, _marks_by_range(file), strict=True):
            if not self._place(record, lines):
                self._place_matching(record, marks)

    def may_hold(self, lines: LineRange) -> bool:
        """Whether a range of another file is found here. Very long ones are not looked for."""
        return _length(lines) <= MOVED_LINES and bool(self._places(lines))

    def _place(self, record: TracedRecord, lines: LineRange) -> bool:
        """At its recorded place, or wherever it moved."""
        if (at := lines.start - 1) in self._places(lines):
            self._write(record, at, lines)
            return True
        return self.place_anywhere(record, lines)

    def place_anywhere(self, record: TracedRecord, lines: LineRange) -> bool:
        free = [at for at in self._places(lines) if self._free(at, lines)]
        if len(free) != 1 or not self._tells(free[0], lines):
            return False
        self._write(record, free[0], lines)
        return True

    def _place_matching(self, record: TracedRecord, own: list[str]) -> None:
        here = [
            line_mark(line) if origin is UNKNOWN else ""
            for line, origin in zip(self._lines, self.origins, strict=True)
        ]
        blocks = SequenceMatcher(None, own, here, autojunk=False).get_matching_blocks()
        telling = [block for block in blocks if block.size and self._telling(block.b, block.size)]
        for block in telling:
            for at in range(block.b, block.b + block.size):
                self.origins[at] = LineOrigin(certainty="written", record=record)
        for one, other in pairwise(telling):
            between = range(one.b + one.size, other.b)
            if other.a - one.a - one.size and len(between) <= len(own):
                for at in between:
                    if self.origins[at] is UNKNOWN:
                        self.origins[at] = LineOrigin(certainty="edited since", record=record)

    def _write(self, record: TracedRecord, at: int, lines: LineRange) -> None:
        for line in range(at, at + _length(lines)):
            if self.origins[line] is UNKNOWN:
                self.origins[line] = LineOrigin(certainty="written", record=record)

    def _free(self, at: int, lines: LineRange) -> bool:
        """Whether a line there is still nobody's: a newer record has the first word."""
        return UNKNOWN in self.origins[at : at + _length(lines)]

    def _tells(self, at: int, lines: LineRange) -> bool:
        return self._telling(at, _length(lines))

    def _telling(self, at: int, size: int) -> bool:
        text = "".join(self._lines[at : at + size])
        return sum(map(str.isalnum, text)) >= TELLING

    def _places(self, lines: LineRange) -> list[int]:
        size = _length(lines)
        if size not in self._windows:
            self._windows[size] = self._hashes(size)
        return self._windows[size].get(lines.content_hash, [])

    def _hashes(self, size: int) -> dict[str, list[int]]:
        encoded = [f"{line}\n".encode() for line in self._lines]
        found: dict[str, list[int]] = {}
        for at in range(len(encoded) - size + 1):
            mark = sha256(b"".join(encoded[at : at + size])).hexdigest()
            found.setdefault(f"sha256:{mark}", []).append(at)
        return found


def _length(lines: LineRange) -> int:
    return lines.end - lines.start + 1


def _marks_by_range(file: TracedFile) -> list[list[str]]:
    """The marks of each range's lines; none where the record was written without."""
    marks = [file.line_marks[at : at + MARK] for at in range(0, len(file.line_marks), MARK)]
    if len(marks) != sum(map(_length, file.ranges)):
        return [[] for _ in file.ranges]
    ends = list(accumulate(map(_length, file.ranges)))
    return [marks[start:end] for start, end in zip([0, *ends], ends, strict=False)]
