"""Statistics of a ledger: calls, refusals, lines and files."""

from collections import Counter
from collections.abc import Iterable
from functools import lru_cache
from posixpath import splitext

from msgspec import Struct

from rookery.core.text.terminal_text import counted
from rookery.governance.ledger.traced import TracedRecord

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
