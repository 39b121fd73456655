"""What a ledger amounts to: calls, refusals, lines, and where they went.

`CountedRecord` is what a record must tell to be counted, so that brief records can be counted too.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from posixpath import splitext
from typing import Protocol, TypeAlias

import msgspec
from msgspec import Struct

from rookery.governance.ledger.records import LineRange
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


BY_PRODUCT_FOLDERS = frozenset(
    {
        "__pycache__",
        ".pytest_cache",
        ".mypy_cache",
        ".ruff_cache",
        ".benchmarks",
        "node_modules",
    }
)
BY_PRODUCT_ENDINGS = frozenset({".pyc"})
CALLS = frozenset({"mutation", "command", "external", "blocked", "recovered"})
REFUSED = frozenset({"blocked", "denied"})


class CountedHash(Protocol):
    @property
    def sha256(self) -> str: ...


class CountedFile(Protocol):
    @property
    def path(self) -> str: ...
    @property
    def op(self) -> str: ...
    @property
    def origin(self) -> str: ...
    @property
    def after(self) -> CountedHash | None: ...
    @property
    def lines_added(self) -> int: ...
    @property
    def lines_deleted(self) -> int: ...
    @property
    def ranges(self) -> tuple[LineRange, ...]: ...


class CountedRecord(Protocol):
    @property
    def id(self) -> str: ...
    @property
    def time(self) -> str: ...
    @property
    def kind(self) -> str: ...
    @property
    def task_id(self) -> str: ...
    @property
    def intent_id(self) -> str: ...
    @property
    def intent_rev(self) -> int | None: ...
    @property
    def intent_digest(self) -> str: ...
    @property
    def tool_name(self) -> str: ...
    @property
    def tool_use_id(self) -> str: ...
    @property
    def outcome(self) -> str: ...
    @property
    def scope(self) -> str: ...
    @property
    def error_code(self) -> str: ...
    @property
    def approved_by(self) -> str: ...
    @property
    def approval(self) -> str: ...
    @property
    def contributor(self) -> str: ...
    @property
    def model_id(self) -> str: ...
    @property
    def files(self) -> Sequence[CountedFile]: ...


class LedgerStatistics(Struct, frozen=True, kw_only=True):
    records: int
    calls: int
    mutations: int
    commands: int
    refused: int
    approvals: int
    by_intent: tuple[tuple[str, int], ...]
    """Calls that changed files."""
    refusals: tuple[tuple[str, int], ...]
    lines_added: int
    lines_deleted: int
    lines_by_model: tuple[tuple[str, int], ...]
    hot_files: tuple[tuple[str, int], ...]


@lru_cache(maxsize=10_000)
def is_by_product(path: str) -> bool:
    """Of a path with forward slashes, by its name alone: nothing is looked up."""
    ending = splitext(path)[1]
    return ending in BY_PRODUCT_ENDINGS or not BY_PRODUCT_FOLDERS.isdisjoint(path.split("/"))


def statistics(records: Iterable[CountedRecord]) -> LedgerStatistics:
    kinds, intents, codes, models, files = (Counter[str]() for _ in range(5))
    refused = added = deleted = 0
    approved: set[tuple[str, str]] = set()
    for record in records:
        kinds[record.kind] += 1
        if record.kind == "blocked" and record.outcome in REFUSED:
            refused += 1
            codes[record.error_code or "without a code"] += 1
        if _let_by_a_person(record):
            # what was decided about a call may stand in a record of its own, too
            approved.add((record.task_id, record.tool_use_id or record.id))
        if record.kind == "mutation":
            intents[record.intent_id or "none"] += 1
        for file in record.files:
            added += file.lines_added
            deleted += file.lines_deleted
            models[record.model_id or record.contributor or "unknown"] += file.lines_added
            files[file.path] += 1
    return LedgerStatistics(
        records=kinds.total(),
        calls=sum(kinds[kind] for kind in CALLS),
        mutations=kinds["mutation"],
        commands=kinds["command"],
        refused=refused,
        approvals=len(approved),
        by_intent=_ranked(intents),
        refusals=_ranked(codes),
        lines_added=added,
        lines_deleted=deleted,
        lines_by_model=_ranked(models),
        hot_files=_ranked(files)[:10],
    )


def told(found: LedgerStatistics) -> str:
    """The figures as people read them."""
    share = f" ({100 * found.refused / found.calls:.1f} %)" if found.calls else ""
    lines = f"+{found.lines_added:,} -{found.lines_deleted:,}"
    if found.lines_by_model:
        lines += f"   by model: {_shares(found.lines_by_model)}"
    rows = [
        f"calls       {found.calls:<5} mutations {found.mutations}   commands {found.commands}   "
        f"refused {found.refused}{share}   approvals {found.approvals}",
        f"by intent   {_changing_calls(found.by_intent)}",
        f"refusals    {_counts(found.refusals)}",
        f"lines       {lines}",
        f"hot files   {_counts(found.hot_files)}",
    ]
    return "\n".join(row.rstrip() for row in rows)


def _let_by_a_person(record: CountedRecord) -> bool:
    yes = record.approval not in {"", "no", "denied"} and record.outcome != "denied"
    return yes and record.approved_by == "human" and record.kind in CALLS | {"decision"}


def _ranked(counts: Counter[str]) -> tuple[tuple[str, int], ...]:
    """Most frequent first, alike ones by name; what never happened is left out."""
    found = [(name, count) for name, count in counts.items() if count]
    return tuple(sorted(found, key=lambda pair: (-pair[1], pair[0])))


def _counts(ranked: Iterable[tuple[str, int]]) -> str:
    return "   ".join(f"{name} {count}" for name, count in ranked)


def _changing_calls(ranked: Iterable[tuple[str, int]]) -> str:
    """What the number of an intent counts is not to be guessed."""
    return "   ".join(
        f"{name} {count} changing call{'' if count == 1 else 's'}" for name, count in ranked
    )


def _shares(ranked: tuple[tuple[str, int], ...]) -> str:
    total = sum(count for _, count in ranked)
    return ", ".join(f"{name} {100 * count / total:.0f} %" for name, count in ranked)
