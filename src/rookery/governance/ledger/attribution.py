"""Who wrote the lines of a file, as far as the ledger tells. It never guesses.

A line belongs to the newest record of which a whole range stands in the file, found by its hash
wherever it moved. Of a range that stands there in part, what lies between its lines was edited
since; a part that moved keeps its record. Blanks do not count for parts, so that indenting changes
nothing. Content that is too plain to tell records apart counts only where it was recorded.
"""

import json
import re
import unicodedata
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from difflib import SequenceMatcher
from functools import cached_property
from hashlib import sha256
from itertools import accumulate, islice, pairwise
from pathlib import Path
from typing import Literal, TypeAlias

from msgspec import Struct

from rookery.governance.ledger.records import (
    MARK,
    LineRange,
    TracedFile,
    content_hash,
    line_mark,
    word_mark,
)
from rookery.governance.ledger.segments import newest_first
from rookery.governance.ledger.traced import TracedRecord, records_on

_NEVER_DONE = frozenset({"blocked", "denied"})
CallName = tuple[str, str]
"""A task and a call of it."""


def writing_records(
    folder: Path, may_matter: Callable[[bytes], bool] = lambda line: True
) -> Iterator[TracedRecord]:
    for line in newest_first(folder):
        if (b'"start_line"' in line or b'"rename"' in line) and may_matter(line):
            for record in records_on(line):
                if record.files and record.outcome not in _NEVER_DONE:
                    yield record


_RANGE = re.compile(rb'"content_hash":"(sha256:[0-9a-f]{64})","end_line":(\d+),"start_line":(\d+)')


_MARKS = re.compile(rb'"(line|word)_marks":"([0-9a-f]+)"')


class AboutFile:
    """Whether a line may tell of a file: it names the file, renames any, or wrote what is in it."""

    def __init__(self, path: str, lines: Sequence[str]) -> None:
        self._lines = lines
        self._hashes: dict[int, frozenset[bytes]] = {}
        self._names: list[bytes] = []
        self.was_called(path)

    def was_called(self, path: str) -> None:
        self._names.append(_quoted(unicodedata.normalize("NFC", path)))

    def __call__(self, line: bytes) -> bool:
        if b'"rename"' in line or any(name in line for name in self._names):
            return True
        if b'"orchestration"' not in line:
            return True  # others write their lines in other forms
        if any(self._holds(*found.groups()) for found in _RANGE.finditer(line)):
            return True
        return any(self._holds_part(*found.groups()) for found in _MARKS.finditer(line))

    def _holds_part(self, kind: bytes, marks: bytes) -> bool:
        """Whether two lines that stand one after the other were written so."""
        pairs = self._pairs[kind]
        places = range(0, len(marks) - 2 * MARK + 1, MARK)
        return any(marks[at : at + 2 * MARK] in pairs for at in places)

    @cached_property
    def _pairs(self) -> dict[bytes, frozenset[bytes]]:
        return {b"line": self._paired(line_mark), b"word": self._paired(word_mark)}

    def _paired(self, marking: Callable[[str], str]) -> frozenset[bytes]:
        marks = [marking(line).encode() for line in self._lines]
        return frozenset(one + other for one, other in pairwise(marks))

    def _holds(self, mark: bytes, end: bytes, start: bytes) -> bool:
        size = int(end) - int(start) + 1
        if not 0 < size <= MOVED_LINES:
            return False
        if size not in self._hashes:
            places = range(len(self._lines) - size + 1)
            marks = (content_hash(self._lines[at : at + size]) for at in places)
            self._hashes[size] = frozenset(mark.encode() for mark in marks)
        return mark in self._hashes[size]


def decisions(folder: Path, calls: Collection[CallName]) -> dict[CallName, TracedRecord]:
    """The newest decision about each of the calls, of those that have one."""
    left = {call: _quoted(call[1]) for call in calls if call[1]}
    found: dict[CallName, TracedRecord] = {}
    for line in newest_first(folder):
        if not left:
            break
        if b'"decision"' in line and any(needle in line for needle in left.values()):
            for record in records_on(line):
                name = (record.task_id, record.tool_use_id)
                if record.kind == "decision" and name in left:
                    found[name] = record
                    del left[name]
    return found


def records_by_id(folder: Path, ids: Collection[str]) -> dict[str, TracedRecord]:
    """Those of the records that the ledger holds."""
    left = {id: _quoted(id) for id in ids}
    found: dict[str, TracedRecord] = {}
    for line in newest_first(folder):
        if not left:
            break
        if any(needle in line for needle in left.values()):
            for record in records_on(line):
                if left.pop(record.id, None):
                    found[record.id] = record
    return found


def record_and_before(
    folder: Path, id: str, *, most: int
) -> tuple[TracedRecord, TracedRecord | None] | None:
    """The newest record whose id begins so, and the one before it in its stream if it is among
    so many lines before it."""
    lines = newest_first(folder)
    record = next(
        (
            each
            for line in lines
            if id.encode() in line
            for each in records_on(line)
            if each.id.startswith(id)
        ),
        None,
    )
    if record is None:
        return None
    wanted, needle = (record.stream, record.seq - 1), b'"seq":%d,' % (record.seq - 1)
    older = islice(lines, most) if record.chained and record.seq else ()
    found = (each for line in older if needle in line for each in records_on(line))
    return record, next((each for each in found if (each.stream, each.seq) == wanted), None)


def _quoted(text: str) -> bytes:
    """As it stands in a line of ours."""
    return json.dumps(text, ensure_ascii=False).encode("utf-8", "replace")


MOVED_LINES = 100
TELLING = 8
"""Letters and digits that a text must have to be recognised in another place."""
MOVED_PART, TELLING_PART = 2, 24
"""Lines, and letters and digits, that a part of a range must have to be known in another file."""
MOST_PLACES = 50
_Marking: TypeAlias = Callable[[str], str]
_Run: TypeAlias = range
"""Lines of the page, one after the other."""


class LineOrigin(Struct, frozen=True, kw_only=True):
    """What is known of one line."""

    certainty: Literal["written", "edited since", "unknown"] = "unknown"
    record: TracedRecord | None = None


UNKNOWN = LineOrigin()


def blame(
    path: str, lines: Sequence[str], records: Iterable[TracedRecord]
) -> tuple[LineOrigin, ...]:
    """The origin of every line of the file, from records that come newest first."""
    page, names = _FileLines(lines), {path}
    elsewhere: list[tuple[TracedRecord, LineRange]] = []
    parts: list[tuple[TracedRecord, _Run]] = []
    for record in records:
        for file in record.files:
            if file.path in names:
                page.place_file(record, file)
                names |= {file.origin} if file.op == "rename" else set()
                continue
            whole = [each for each in file.ranges if page.may_hold(each)]
            elsewhere += [(record, each) for each in whole]
            if len(whole) < len(file.ranges):
                parts += [(record, run) for run in page.parts_of(file)]
        if page.full:
            break
    _place_moved(page, elsewhere)
    _place_parts(page, parts)
    return tuple(page.origins)


def _place_parts(page: "_FileLines", found: "list[tuple[TracedRecord, _Run]]") -> None:
    """Parts of ranges of other files, unless several intents have written the same."""
    intents: dict[int, set[str]] = {}
    for record, run in found:
        for at in run:
            intents.setdefault(at, set()).add(record.intent_id)
    for record, run in found:
        if all(len(intents[at]) == 1 for at in run):
            page.write_run(record, run)


def _place_moved(page: "_FileLines", found: list[tuple[TracedRecord, LineRange]]) -> None:
    """Ranges of other files. If records of several intents wrote the same, nobody knows whose
    it is."""
    intents: dict[str, set[str]] = {}
    for record, lines in found:
        intents.setdefault(lines.content_hash, set()).add(record.intent_id)
    for record, lines in found:
        if len(intents[lines.content_hash]) == 1:
            page.place_anywhere(record, lines)


class _FileLines:
    """The lines of a file, and what was found out about them."""

    def __init__(self, lines: Sequence[str]) -> None:
        self._lines = lines
        self.origins = [UNKNOWN] * len(lines)
        self._windows: dict[int, dict[str, list[int]]] = {}
        self._marks: dict[_Marking, list[str]] = {}
        self._by_mark: dict[_Marking, dict[str, list[int]]] = {}

    @property
    def full(self) -> bool:
        return UNKNOWN not in self.origins

    def place_file(self, record: TracedRecord, file: TracedFile) -> None:
        """Attribute what is left of the ranges that a record wrote into this file."""
        marking = _marking(file)
        for lines, marks in zip(file.ranges, _marks_by_range(file), strict=True):
            if self._place(record, lines):
                continue
            self._place_matching(record, marks, marking)
            for run in self._runs(marks, marking):
                if len(run) >= MOVED_PART or self._letters(run) >= TELLING_PART:
                    self.write_run(record, run)

    def parts_of(self, file: TracedFile) -> "Iterator[_Run]":
        """Where parts of what was written into another file are found here."""
        for marks in _marks_by_range(file):
            for run in self._runs(marks, _marking(file)):
                if len(run) >= MOVED_PART and self._letters(run) >= TELLING_PART:
                    yield run

    def write_run(self, record: TracedRecord, run: "_Run") -> None:
        for at in run:
            if self.origins[at] is UNKNOWN:
                self.origins[at] = LineOrigin(certainty="written", record=record)

    def _runs(self, own: list[str], marking: "_Marking") -> "Iterator[_Run]":
        """The longest runs of these lines that stand here once and are nobody's yet."""
        here, places = self._unknown(marking), self._places_of_marks(marking)
        at = 0
        while at < len(own):
            found = [(_alike(own, at, here, place), place) for place in places.get(own[at], ())]
            size = max((length for length, _ in found), default=0)
            best = [place for length, place in found if length == size]
            if len(best) == 1 and self._telling(best[0], size):
                yield range(best[0], best[0] + size)
            at += max(size, 1)

    def _places_of_marks(self, marking: "_Marking") -> dict[str, list[int]]:
        """Where each mark is, of all lines. What stands in very many places tells nothing."""
        if marking not in self._by_mark:
            found: dict[str, list[int]] = {}
            for at, line in enumerate(self._lines):
                found.setdefault(marking(line), []).append(at)
            few = {mark: places for mark, places in found.items() if len(places) <= MOST_PLACES}
            self._by_mark[marking] = few
        return self._by_mark[marking]

    def _unknown(self, marking: "_Marking") -> list[str]:
        """The marks of the lines, empty for those that are somebody's."""
        if marking not in self._marks:
            self._marks[marking] = [marking(line) for line in self._lines]
        marks = zip(self._marks[marking], self.origins, strict=True)
        return [mark if origin is UNKNOWN else "" for mark, origin in marks]

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

    def _place_matching(self, record: TracedRecord, own: list[str], marking: "_Marking") -> None:
        here = self._unknown(marking)
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
        return self._letters(range(at, at + size)) >= TELLING

    def _letters(self, run: "_Run") -> int:
        return sum(map(str.isalnum, "".join(self._lines[run.start : run.stop])))

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


def _marking(file: TracedFile) -> "_Marking":
    """How the lines of a file were marked."""
    return word_mark if file.word_marks else line_mark


def _alike(own: Sequence[str], at: int, here: Sequence[str], place: int) -> int:
    """How many lines from there on are the same."""
    size, most = 0, min(len(own) - at, len(here) - place)
    while size < most and own[at + size] == here[place + size]:
        size += 1
    return size


def _length(lines: LineRange) -> int:
    return lines.end - lines.start + 1


def _marks_by_range(file: TracedFile) -> list[list[str]]:
    """The marks of each range's lines; none where the record was written without."""
    held = file.word_marks or file.line_marks
    marks = [held[at : at + MARK] for at in range(0, len(held), MARK)]
    if len(marks) != sum(map(_length, file.ranges)):
        return [[] for _ in file.ranges]
    ends = list(accumulate(map(_length, file.ranges)))
    return [marks[start:end] for start, end in zip([0, *ends], ends, strict=False)]
