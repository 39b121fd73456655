"""Records found without taking every line of a ledger apart: what wrote lines, newest first, what
has an id, and the decisions about calls. Whether a line may matter is seen in its bytes."""

import json
import re
import unicodedata
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import cached_property
from itertools import islice, pairwise
from pathlib import Path

from rookery.governance.ledger.attribution import MOVED_LINES
from rookery.governance.ledger.line_ranges import MARK, content_hash, line_mark, word_mark
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
