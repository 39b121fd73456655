"""Attribution of a file's lines to ledger records. It never guesses.

A line belongs to the newest record of which a whole range is still in the file; ranges are found by
their hash, wherever they moved. If only parts of a range are left, those keep their record and the
lines between them count as "edited since". Parts are compared without white space, so that
re-indenting changes nothing. Content that is too short to identify a record counts only at its
recorded position.
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

from rookery.governance.ledger.records import MARK, LineRange, TracedFile, line_mark, word_mark
from rookery.governance.ledger.segments import newest_first
from rookery.governance.ledger.traced import TracedRecord, records_on

_NOT_PERFORMED = frozenset({"blocked", "denied"})
CallName = tuple[str, str]
"""Ids of a task and of one of its calls."""


def writing_records(
    folder: Path, is_relevant: Callable[[bytes], bool] = lambda line: True
) -> Iterator[TracedRecord]:
    for line in newest_first(folder):
        if (b'"start_line"' in line or b'"rename"' in line) and is_relevant(line):
            for record in records_on(line):
                if record.files and record.outcome not in _NOT_PERFORMED:
                    yield record


_RANGE = re.compile(rb'"content_hash":"(sha256:[0-9a-f]{64})","end_line":(\d+),"start_line":(\d+)')


_MARKS = re.compile(rb'"(line|word)_marks":"([0-9a-f]+)"')


class FileFilter:
    """Whether a ledger line may be about a file: it names it, renames a file, or wrote content
    that is in it."""

    def __init__(self, path: str, lines: Sequence[str]) -> None:
        self._lines = lines
        self._file = _FileLines(lines)
        self._names: list[bytes] = []
        self.add_name(path)

    def add_name(self, path: str) -> None:
        self._names.append(_quoted(unicodedata.normalize("NFC", path)))

    def __call__(self, line: bytes) -> bool:
        if b'"rename"' in line or any(name in line for name in self._names):
            return True
        if b'"orchestration"' not in line:
            return True  # records of other writers have no fixed form
        if any(self._holds(*found.groups()) for found in _RANGE.finditer(line)):
            return True
        return any(self._holds_part(*found.groups()) for found in _MARKS.finditer(line))

    def _holds_part(self, kind: bytes, marks: bytes) -> bool:
        """Whether two adjacent lines of the file were written next to each other."""
        pairs = self._pairs[kind]
        places = range(0, len(marks) - 2 * MARK + 1, MARK)
        return any(marks[at : at + 2 * MARK] in pairs for at in places)

    @cached_property
    def _pairs(self) -> dict[bytes, frozenset[bytes]]:
        return {b"line": self._pairs_of(line_mark), b"word": self._pairs_of(word_mark)}

    def _pairs_of(self, marking: Callable[[str], str]) -> frozenset[bytes]:
        marks = [marking(line).encode() for line in self._lines]
        return frozenset(one + other for one, other in pairwise(marks))

    def _holds(self, hash_: bytes, end: bytes, start: bytes) -> bool:
        return self._file.may_hold(LineRange(int(start), int(end), hash_.decode()))


def decisions(folder: Path, calls: Collection[CallName]) -> dict[CallName, TracedRecord]:
    """The newest decision record for each call that has one."""
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
    """Those of the records that are in the ledger, by id."""
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
    """The newest record whose id starts with `id`, and its predecessor in the stream if that is
    within the `most` lines before it."""
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
    """The text as a JSON string, the way it appears in our lines."""
    return json.dumps(text, ensure_ascii=False).encode("utf-8", "replace")


MAX_MOVED_LINES = 100
MIN_LETTERS = 8
"""Minimum letters and digits of a range to be recognised at another position."""
MIN_PART_LINES, MIN_PART_LETTERS = 2, 24
"""Minimum lines, and letters and digits, of a part to be recognised in another file."""
MAX_PLACES = 50
_Marking: TypeAlias = Callable[[str], str]
_Run: TypeAlias = range
"""Consecutive lines of the file."""


class LineOrigin(Struct, frozen=True, kw_only=True):
    """Origin of one line."""

    certainty: Literal["written", "edited since", "unknown"] = "unknown"
    record: TracedRecord | None = None


UNKNOWN = LineOrigin()


def blame(
    path: str, lines: Sequence[str], records: Iterable[TracedRecord]
) -> tuple[LineOrigin, ...]:
    """The origin of every line of the file. `records` must be newest first."""
    target, names = _FileLines(lines), {path}
    elsewhere: list[tuple[TracedRecord, LineRange]] = []
    parts: list[tuple[TracedRecord, _Run]] = []
    for record in records:
        for file in record.files:
            if file.path in names:
                target.place_file(record, file)
                names |= {file.origin} if file.op == "rename" else set()
                continue
            whole = [each for each in file.ranges if target.may_hold(each)]
            elsewhere += [(record, each) for each in whole]
            if len(whole) < len(file.ranges):
                parts += [(record, run) for run in target.parts_of(file)]
        if target.is_full:
            break
    _place_moved(target, elsewhere)
    _place_parts(target, parts)
    return tuple(target.origins)


def _place_parts(target: "_FileLines", found: "list[tuple[TracedRecord, _Run]]") -> None:
    """Attribute parts of ranges of other files, except lines that several intents wrote."""
    intents: dict[int, set[str]] = {}
    for record, run in found:
        for at in run:
            intents.setdefault(at, set()).add(record.intent_id)
    for record, run in found:
        if all(len(intents[at]) == 1 for at in run):
            target.write_run(record, run)


def _place_moved(target: "_FileLines", found: list[tuple[TracedRecord, LineRange]]) -> None:
    """Attribute ranges of other files, except content that records of several intents wrote."""
    intents: dict[str, set[str]] = {}
    for record, lines in found:
        intents.setdefault(lines.content_hash, set()).add(record.intent_id)
    for record, lines in found:
        if len(intents[lines.content_hash]) == 1:
            target.place_anywhere(record, lines)


class _FileLines:
    """The lines of a file with their origins."""

    def __init__(self, lines: Sequence[str]) -> None:
        self._lines = lines
        self.origins = [UNKNOWN] * len(lines)
        self._windows: dict[int, dict[str, list[int]]] = {}
        self._marks: dict[_Marking, list[str]] = {}
        self._by_mark: dict[_Marking, dict[str, list[int]]] = {}

    @property
    def is_full(self) -> bool:
        return UNKNOWN not in self.origins

    def place_file(self, record: TracedRecord, file: TracedFile) -> None:
        """Attribute what is left of the ranges that a record wrote to this file."""
        marking = _marking(file)
        for lines, marks in zip(file.ranges, _marks_by_range(file), strict=True):
            if self._place(record, lines):
                continue
            self._place_matching(record, marks, marking)
            for run in self._runs(marks, marking):
                if len(run) >= MIN_PART_LINES or self._letters(run) >= MIN_PART_LETTERS:
                    self.write_run(record, run)

    def parts_of(self, file: TracedFile) -> "Iterator[_Run]":
        """Yield the runs of lines that match parts of what was written to another file."""
        for marks in _marks_by_range(file):
            for run in self._runs(marks, _marking(file)):
                if len(run) >= MIN_PART_LINES and self._letters(run) >= MIN_PART_LETTERS:
                    yield run

    def write_run(self, record: TracedRecord, run: "_Run") -> None:
        for at in run:
            if self.origins[at] is UNKNOWN:
                self.origins[at] = LineOrigin(certainty="written", record=record)

    def _runs(self, own: list[str], marking: "_Marking") -> "Iterator[_Run]":
        """Yield the longest runs of these marks that match unattributed lines in one place only."""
        here, places = self._unknown(marking), self._places_of_marks(marking)
        at = 0
        while at < len(own):
            found = [(_overlap(own, at, here, place), place) for place in places.get(own[at], ())]
            size = max((length for length, _ in found), default=0)
            best = [place for length, place in found if length == size]
            if len(best) == 1 and self._is_distinctive(best[0], size):
                yield range(best[0], best[0] + size)
            at += max(size, 1)

    def _places_of_marks(self, marking: "_Marking") -> dict[str, list[int]]:
        """Line numbers by mark, for all lines. Marks in very many places are left out."""
        if marking not in self._by_mark:
            found: dict[str, list[int]] = {}
            for at, line in enumerate(self._lines):
                found.setdefault(marking(line), []).append(at)
            few = {mark: places for mark, places in found.items() if len(places) <= MAX_PLACES}
            self._by_mark[marking] = few
        return self._by_mark[marking]

    def _unknown(self, marking: "_Marking") -> list[str]:
        """The mark of each line, empty for lines that are already attributed."""
        if marking not in self._marks:
            self._marks[marking] = [marking(line) for line in self._lines]
        marks = zip(self._marks[marking], self.origins, strict=True)
        return [mark if origin is UNKNOWN else "" for mark, origin in marks]

    def may_hold(self, lines: LineRange) -> bool:
        """Whether a range of another file is in this one. Very long ranges are not searched for."""
        return 0 < _length(lines) <= MAX_MOVED_LINES and bool(self._places(lines))

    def _place(self, record: TracedRecord, lines: LineRange) -> bool:
        """Attribute a range at its recorded position, or wherever it moved."""
        if (at := lines.start - 1) in self._places(lines):
            self._write(record, at, lines)
            return True
        return self.place_anywhere(record, lines)

    def place_anywhere(self, record: TracedRecord, lines: LineRange) -> bool:
        # lines that are attributed already belong to newer records
        size = _length(lines)
        free = [at for at in self._places(lines) if UNKNOWN in self.origins[at : at + size]]
        if len(free) != 1 or not self._is_distinctive(free[0], size):
            return False
        self._write(record, free[0], lines)
        return True

    def _place_matching(self, record: TracedRecord, own: list[str], marking: "_Marking") -> None:
        here = self._unknown(marking)
        blocks = SequenceMatcher(None, own, here, autojunk=False).get_matching_blocks()
        distinctive = [b for b in blocks if b.size and self._is_distinctive(b.b, b.size)]
        for block in distinctive:
            for at in range(block.b, block.b + block.size):
                self.origins[at] = LineOrigin(certainty="written", record=record)
        for one, other in pairwise(distinctive):
            between = range(one.b + one.size, other.b)
            if other.a - one.a - one.size and len(between) <= len(own):
                for at in between:
                    if self.origins[at] is UNKNOWN:
                        self.origins[at] = LineOrigin(certainty="edited since", record=record)

    def _write(self, record: TracedRecord, at: int, lines: LineRange) -> None:
        for line in range(at, at + _length(lines)):
            if self.origins[line] is UNKNOWN:
                self.origins[line] = LineOrigin(certainty="written", record=record)

    def _is_distinctive(self, at: int, size: int) -> bool:
        return self._letters(range(at, at + size)) >= MIN_LETTERS

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
            digest = sha256(b"".join(encoded[at : at + size])).hexdigest()
            found.setdefault(f"sha256:{digest}", []).append(at)
        return found


def _marking(file: TracedFile) -> "_Marking":
    """The function that made the marks of this record."""
    return word_mark if file.word_marks else line_mark


def _overlap(own: Sequence[str], at: int, here: Sequence[str], place: int) -> int:
    """Number of equal elements from the two positions on."""
    size, most = 0, min(len(own) - at, len(here) - place)
    while size < most and own[at + size] == here[place + size]:
        size += 1
    return size


def _length(lines: LineRange) -> int:
    return lines.end - lines.start + 1


def _marks_by_range(file: TracedFile) -> list[list[str]]:
    """The line marks of each range; empty lists if the record has none."""
    joined = file.word_marks or file.line_marks
    marks = [joined[at : at + MARK] for at in range(0, len(joined), MARK)]
    if len(marks) != sum(map(_length, file.ranges)):
        return [[] for _ in file.ranges]
    ends = list(accumulate(map(_length, file.ranges)))
    return [marks[start:end] for start, end in zip([0, *ends], ends, strict=False)]
