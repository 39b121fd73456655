"""Statistics of a ledger: calls, refusals, lines and files.

Only the counted fields of a record are decoded, so that a long ledger is counted quickly.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from functools import lru_cache
from pathlib import Path
from posixpath import splitext

import msgspec
from msgspec import Struct

from rookery.core.text.terminal_text import counted
from rookery.governance.ledger.records import TracedFile
from rookery.governance.ledger.segments import oldest_first
from rookery.governance.ledger.traced import TracedRecord, records_on

_READ_WHOLE = frozenset({"rewind"})
"""Kinds whose changed files are not all in `files`."""


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
    intent_id: str | None = ""
    intent_rev: int | None = None
    intent_digest: str = ""
    tool_name: str = ""
    tool_use_id: str = ""
    outcome: str = ""
    scope: str = ""
    error: _Error | None = None
    approval: _Approval | None = None
    files: tuple[TracedFile, ...] = ()


class _Metadata(msgspec.Struct):
    orchestration: _Own


class _Contributor(msgspec.Struct):
    type: str = ""
    model_id: str = ""


class _Conversation(msgspec.Struct):
    contributor: _Contributor | None = None


class _Standard(msgspec.Struct):
    path: str
    conversations: tuple[_Conversation, ...] = ()


class _Line(msgspec.Struct):
    id: str
    timestamp: str
    metadata: _Metadata
    files: tuple[_Standard, ...] = ()


_decode = msgspec.json.Decoder(_Line).decode


def _brief(line: _Line) -> TracedRecord:
    own, files = line.metadata.orchestration, line.files
    first = files[0].conversations[0] if files and files[0].conversations else _Conversation()
    error, approval = own.error or _Error(), own.approval or _Approval()
    contributor = first.contributor or _Contributor()
    return TracedRecord(
        id=line.id,
        time=line.timestamp,
        kind=own.kind,
        task_id=own.task_id,
        intent_id=own.intent_id or "",
        intent_rev=own.intent_rev,
        intent_digest=own.intent_digest,
        tool_name=own.tool_name,
        tool_use_id=own.tool_use_id,
        outcome=own.outcome,
        scope=own.scope,
        error_code=error.code,
        approved_by=approval.by,
        approval=approval.answer,
        contributor=contributor.type,
        model_id=contributor.model_id,
        files=own.files,
        raw={},
    )


def brief_records(folder: Path) -> Iterator[TracedRecord]:
    return (record for _, record in brief_lines(folder))


def brief_lines(folder: Path) -> Iterator[tuple[bytes, TracedRecord]]:
    """Yield every line with its record, oldest first."""
    for line in oldest_first(folder):
        try:
            record = _brief(_decode(line))
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


class LedgerStatistics(Struct, frozen=True, kw_only=True):
    records: int
    calls: int
    mutations: int
    commands: int
    refused: int
    approvals: int
    by_intent: dict[str, int]
    """Number of calls that changed files."""
    refusals: dict[str, int]
    lines_added: int
    lines_deleted: int
    lines_by_model: dict[str, int]
    hot_files: dict[str, int]


@lru_cache(maxsize=10_000)
def is_by_product(path: str) -> bool:
    """Whether a path with forward slashes is a build by-product, by its name alone."""
    ending = splitext(path)[1]
    return ending in BY_PRODUCT_ENDINGS or not BY_PRODUCT_FOLDERS.isdisjoint(path.split("/"))


def statistics(records: Iterable[TracedRecord]) -> LedgerStatistics:
    kinds, intents, codes, models, files = (Counter[str]() for _ in range(5))
    refused = added = deleted = 0
    approved: set[tuple[str, str]] = set()
    for record in records:
        kinds[record.kind] += 1
        if record.kind == "blocked" and record.outcome in REFUSED:
            refused += 1
            codes[record.error_code or "without a code"] += 1
        if _is_human_approval(record):
            # a decision may also have a record of its own: count it once
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
        hot_files=_ranked(files, most=10),
    )


def format_statistics(found: LedgerStatistics) -> str:
    """Format the statistics for people."""
    share = f" ({100 * found.refused / found.calls:.1f} %)" if found.calls else ""
    lines = f"+{found.lines_added:,} -{found.lines_deleted:,}"
    if found.lines_by_model:
        lines += f"   by model: {_shares(found.lines_by_model)}"
    calls = (f"{name} {counted(n, 'changing call')}" for name, n in found.by_intent.items())
    rows = [
        f"calls       {found.calls:<5} mutations {found.mutations}   commands {found.commands}   "
        f"refused {found.refused}{share}   approvals {found.approvals}",
        f"by intent   {'   '.join(calls)}",
        f"refusals    {_counts(found.refusals)}",
        f"lines       {lines}",
        f"hot files   {_counts(found.hot_files)}",
    ]
    return "\n".join(row.rstrip() for row in rows)


def _is_human_approval(record: TracedRecord) -> bool:
    yes = record.approval not in {"", "no", "denied"} and record.outcome != "denied"
    return yes and record.approved_by == "human" and record.kind in CALLS | {"decision"}


def _ranked(counts: Counter[str], most: int | None = None) -> dict[str, int]:
    """Most frequent first, then by name; zero counts are left out."""
    found = [(name, count) for name, count in counts.items() if count]
    return dict(sorted(found, key=lambda pair: (-pair[1], pair[0]))[:most])


def _counts(ranked: dict[str, int]) -> str:
    return "   ".join(f"{name} {count}" for name, count in ranked.items())


def _shares(ranked: dict[str, int]) -> str:
    total = sum(ranked.values())
    return ", ".join(f"{name} {100 * count / total:.0f} %" for name, count in ranked.items())
