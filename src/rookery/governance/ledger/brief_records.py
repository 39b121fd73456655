"""Records for whoever counts them all: only what sums and coverage need is taken from a line.

To take a whole record apart costs several times as much, which counts for a hundred thousand of
them. A line that is not in our own form is read in the usual way.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import TypeAlias

import msgspec

from rookery.governance.ledger.line_ranges import LineRange
from rookery.governance.ledger.segments import oldest_first
from rookery.governance.ledger.traced import TracedRecord, records_on

_READ_WHOLE = frozenset({"rewind"})
"""Kinds whose files are told in another way."""


class _Hash(msgspec.Struct):
    sha256: str


class BriefFile(msgspec.Struct):
    path: str
    op: str = "modify"
    after: _Hash | None = None
    origin: str = msgspec.field(default="", name="from")
    lines_added: int = 0
    lines_deleted: int = 0

    @property
    def ranges(self) -> tuple[LineRange, ...]:
        """Nobody who counts needs them."""
        return ()


class _Error(msgspec.Struct):
    code: str = ""


class _Approval(msgspec.Struct):
    by: str = ""
    answer: str = ""


class _Own(msgspec.Struct):
    stream: str
    seq: int
    hash: str
    kind: str
    task_id: str = ""
    intent_id: str = ""
    intent_rev: int | None = None
    intent_digest: str = ""
    tool_name: str = ""
    tool_use_id: str = ""
    outcome: str = ""
    scope: str = ""
    error: _Error | None = None
    approval: _Approval | None = None
    files: tuple[BriefFile, ...] = ()


class _Metadata(msgspec.Struct):
    orchestration: _Own


class _Contributor(msgspec.Struct):
    type: str = ""
    model_id: str = ""


class _Talk(msgspec.Struct):
    contributor: _Contributor | None = None


class _Standard(msgspec.Struct):
    path: str
    conversations: tuple[_Talk, ...] = ()


class _Line(msgspec.Struct):
    id: str
    timestamp: str
    metadata: _Metadata
    files: tuple[_Standard, ...] = ()


class BriefRecord:
    """The same names as a `TracedRecord` has, for what is needed to count."""

    __slots__ = ("_line", "_own")

    def __init__(self, line: _Line) -> None:
        self._line = line
        self._own = line.metadata.orchestration

    @property
    def id(self) -> str:
        return self._line.id

    @property
    def time(self) -> str:
        return self._line.timestamp

    @property
    def kind(self) -> str:
        return self._own.kind

    @property
    def task_id(self) -> str:
        return self._own.task_id

    @property
    def intent_id(self) -> str:
        return self._own.intent_id

    @property
    def intent_rev(self) -> int | None:
        return self._own.intent_rev

    @property
    def intent_digest(self) -> str:
        return self._own.intent_digest

    @property
    def tool_name(self) -> str:
        return self._own.tool_name

    @property
    def tool_use_id(self) -> str:
        return self._own.tool_use_id

    @property
    def outcome(self) -> str:
        return self._own.outcome

    @property
    def scope(self) -> str:
        return self._own.scope

    @property
    def error_code(self) -> str:
        return self._own.error.code if self._own.error else ""

    @property
    def approved_by(self) -> str:
        return self._own.approval.by if self._own.approval else ""

    @property
    def approval(self) -> str:
        return self._own.approval.answer if self._own.approval else ""

    @property
    def files(self) -> tuple[BriefFile, ...]:
        return self._own.files

    @property
    def contributor(self) -> str:
        found = self._contributor
        return found.type if found else ""

    @property
    def model_id(self) -> str:
        found = self._contributor
        return found.model_id if found else ""

    @property
    def _contributor(self) -> _Contributor | None:
        files = self._line.files
        return files[0].conversations[0].contributor if files and files[0].conversations else None


Counted: TypeAlias = BriefRecord | TracedRecord
_decode = msgspec.json.Decoder(_Line).decode


def counted_records(folder: Path) -> Iterator[Counted]:
    return (record for _, record in counted_lines(folder))


def counted_lines(folder: Path) -> Iterator[tuple[bytes, Counted]]:
    """Every record with its line, the oldest first."""
    for line in oldest_first(folder):
        try:
            record = BriefRecord(_decode(line))
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            yield from ((line, each) for each in records_on(line))
            continue
        if record.kind in _READ_WHOLE:
            yield from ((line, each) for each in records_on(line))
        else:
            yield line, record
