"""Activity per intent from the ledger, its coverage, and the map from intents to code.

All output is sorted, so that the same ledger gives the same text.
"""

import ast
from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256
from typing import Literal

from msgspec import Struct, field

from rookery.core.limits import MIB
from rookery.governance.criteria import CHECK_TOOL
from rookery.governance.intents.intent import Intent
from rookery.governance.layout import Layout
from rookery.governance.ledger.records import LineRange
from rookery.governance.ledger.statistics import CALLS, REFUSED, is_by_product
from rookery.governance.ledger.traced import TracedRecord
from rookery.platform.disk import Unreadable, small_file

CoverageState = Literal["covered", "unverified", "outdated", "uncovered", "drifted", "orphan"]
_COUNTED = frozenset({"IN_PROGRESS", "COMPLETED"})


class CoveredIntent(Struct, frozen=True, kw_only=True):
    """The current state of an intent, as far as coverage needs it."""

    id: str
    status: str
    revision: int = 1
    digest: str = ""
    verified: bool = False
    """Every criterion has a check, and all of them passed."""


class IntentCoverage(Struct, frozen=True, kw_only=True):
    intent_id: str
    state: CoverageState
    changes: int = 0
    files: tuple[str, ...] = ()
    drifted: tuple[str, ...] = ()


class Coverage(Struct, frozen=True, kw_only=True):
    intents: tuple[IntentCoverage, ...]
    orphans: tuple[str, ...]
    """Files last changed without an intent, or under one that no longer exists."""
    drifted: tuple[str, ...]
    """Files that differ from their last recorded change."""


def coverage(
    intents: Iterable[CoveredIntent],
    records: Iterable[TracedRecord],
    hashes: Mapping[str, str | None],
) -> Coverage:
    """Compute coverage from records, oldest first, and current SHA-256 hashes (None: no such file).

    Files without a current hash and by-products of tools are not judged.
    """
    known = {intent.id: intent for intent in intents}
    done: dict[str, IntentActivity] = {}
    changes: dict[str, list[bool]] = {}
    last: dict[str, tuple[str, str | None]] = {}
    for record in records:
        add_record(done, record)
        if not _is_change(record):
            continue
        if record.tool_name not in HOST_CALLS:
            its = known.get(record.intent_id)
            current = its is not None and _is_current(record, its)
            changes.setdefault(record.intent_id, []).append(current)
        for file in record.files:
            if is_by_product(file.path):
                continue
            last[file.path] = (record.intent_id, file.after.sha256 if file.after else None)
            if file.op == "rename" and file.origin:
                last[file.origin] = (record.intent_id, None)
    drifted = {path for path, (_, after) in last.items() if hashes.get(path, after) != after}
    return Coverage(
        intents=tuple(
            _intent_coverage(
                intent,
                changes.get(intent.id, []),
                sorted(done.get(intent.id, IntentActivity()).files),
                sorted(path for path in drifted if last[path][0] == intent.id),
            )
            for intent in sorted(known.values(), key=lambda intent: intent.id)
            if intent.status in _COUNTED or intent.id in changes
        ),
        orphans=tuple(sorted(path for path, (named, _) in last.items() if named not in known)),
        drifted=tuple(sorted(drifted)),
    )


def _intent_coverage(
    intent: CoveredIntent,
    changes: Sequence[bool],
    files: Sequence[str],
    drifted: Sequence[str],
) -> IntentCoverage:
    """`changes` tells for each change whether it was made under the current revision."""
    state: CoverageState = "covered" if intent.verified else "unverified"
    if not changes:
        state = "uncovered"
    elif not any(changes):
        state = "outdated"
    elif drifted:
        state = "drifted"
    return IntentCoverage(
        intent_id=intent.id,
        state=state,
        changes=len(changes),
        files=tuple(files),
        drifted=tuple(drifted),
    )


def _is_change(record: TracedRecord) -> bool:
    worked = any(not is_by_product(file.path) for file in record.files)
    return worked and record.outcome not in REFUSED


def _is_current(record: TracedRecord, intent: CoveredIntent) -> bool:
    """Whether the record has the current revision or, if it has none, the current digest."""
    if record.intent_rev is not None:
        return record.intent_rev == intent.revision
    return not intent.digest or record.intent_digest == intent.digest


LARGEST_SOURCE = 2 * MIB
TITLE = "# Intent map"
SHORT_HASH = 12
MOST_SYMBOLS = 12
OUTSIDE_SCOPE = frozenset({"approved_once", "approved_task"})
HOST_CALLS = frozenset({CHECK_TOOL})
"""Tools that rookery runs itself to check an intent; they do not count as work on it."""


class MapFile(Struct, frozen=True, kw_only=True):
    path: str
    symbols: tuple[str, ...] = ()
    last_change: str = ""
    after: str = ""
    changes: int = 0


class MapEntry(Struct, frozen=True, kw_only=True):
    intent: Intent
    files: tuple[MapFile, ...] = ()


class FileActivity(Struct):
    """The changes of one file under an intent. `ranges` belong to the last one."""

    path: str
    changes: int = 0
    last_change: str = ""
    after: str = ""
    ranges: tuple[LineRange, ...] = ()


class IntentActivity(Struct):
    files: dict[str, FileActivity] = field(default_factory=dict)
    calls: int = 0
    refused: int = 0
    approved_outside: int = 0
    lines: int = 0
    last_change: str = ""


def intent_map(
    layout: Layout, intents: Sequence[Intent], records: Iterable[TracedRecord]
) -> tuple[MapEntry, ...]:
    """Build the map from all records, oldest first."""
    activities = activity(records)
    return map_entries(intents, activities, _unchanged_texts(layout, activities))


def map_text(entries: Sequence[MapEntry]) -> str:
    return "\n\n".join([TITLE, *map(_section, sorted(entries, key=_by_id))]) + "\n"


def map_entries(
    intents: Sequence[Intent],
    activities: Mapping[str, IntentActivity],
    texts: Mapping[str, str],
) -> tuple[MapEntry, ...]:
    """`texts` are the current contents of files, used to find symbols."""
    return tuple(
        MapEntry(
            intent=intent,
            files=tuple(
                _file(each, texts.get(each.path, ""))
                for _, each in sorted(activities[intent.id].files.items())
            )
            if intent.id in activities
            else (),
        )
        for intent in sorted(intents, key=lambda each: each.id)
    )


def symbols(path: str, text: str, ranges: Sequence[LineRange]) -> tuple[str, ...]:
    """The innermost functions and classes that contain the lines, in file order."""
    if not path.endswith((".py", ".pyi")):
        return ()
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ()
    touched = {line for each in ranges for line in range(each.start, min(each.end, 100_000) + 1)}
    names: dict[str, None] = {}
    _collect(tree, "", touched, names)
    return tuple(names)


def activity(records: Iterable[TracedRecord]) -> dict[str, IntentActivity]:
    """Activity by intent id, from records oldest first, without refused calls and by-products."""
    found: dict[str, IntentActivity] = {}
    for record in records:
        add_record(found, record)
    return found


def add_record(found: dict[str, IntentActivity], record: TracedRecord) -> None:
    """Add one record to the activity."""
    if record.tool_name in HOST_CALLS:
        return
    own = found.setdefault(record.intent_id, IntentActivity())
    own.calls += record.kind in CALLS
    if record.outcome in REFUSED:
        own.refused += record.kind == "blocked"
        return
    worked = any(not is_by_product(each.path) for each in record.files)
    own.approved_outside += worked and record.scope in OUTSIDE_SCOPE
    _add_files(own, record)


def _unchanged_texts(layout: Layout, activities: Mapping[str, IntentActivity]) -> dict[str, str]:
    """Contents of files that still have their recorded hash; others may have shifted lines."""
    wanted = {
        (file.path, file.after) for each in activities.values() for file in each.files.values()
    }
    found: dict[str, str] = {}
    for path, after in wanted:
        try:
            data = small_file(layout.root / path, layout.workspace, largest=LARGEST_SOURCE)
        except (FileNotFoundError, Unreadable):
            continue
        if sha256(data).hexdigest() == after:
            found[path] = data.decode("utf-8", "replace")
    return found


def _collect(node: ast.AST, above: str, touched: set[int], names: dict[str, None]) -> None:
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            continue
        own = set(range(child.lineno, (child.end_lineno or child.lineno) + 1)) & touched
        if not own:
            continue
        name = f"{above}{child.name}"
        inner: dict[str, None] = {}
        _collect(child, f"{name}.", touched, inner)
        names.update(inner or {name: None})


def _file(own: FileActivity, text: str) -> MapFile:
    return MapFile(
        path=own.path,
        symbols=symbols(own.path, text, own.ranges),
        last_change=own.last_change,
        after=own.after,
        changes=own.changes,
    )


def _by_id(entry: MapEntry) -> str:
    return entry.intent.id


def _section(entry: MapEntry) -> str:
    intent = entry.intent
    lines = [
        f"## {intent.id} {_one_line(intent.name)}",
        "",
        f"{intent.status}, revision {intent.revision}",
        "",
        *(map(_row, entry.files) if entry.files else ["No recorded change."]),
    ]
    if intent.depends_on:
        lines += ["", f"depends on: {', '.join(sorted(intent.depends_on))}"]
    return "\n".join(lines)


def _row(file: MapFile) -> str:
    named = ", ".join(f"`{each}`" for each in file.symbols[:MOST_SYMBOLS])
    more = len(file.symbols) - MOST_SYMBOLS
    named += f" and {more} more" if more > 0 else ""
    times = "1 change" if file.changes == 1 else f"{file.changes} changes"
    details = [file.last_change[:10], file.after[:SHORT_HASH], times]
    summary = ", ".join(each for each in details if each)
    return f"- `{_one_line(file.path)}`{f': {named}' if named else ''} ({summary})"


def _one_line(text: str) -> str:
    """The text on one line, without control characters."""
    plain = "".join(char if char.isprintable() else " " for char in text)
    return " ".join(plain.split()).replace("`", "'")


def _add_files(own: IntentActivity, record: TracedRecord) -> None:
    for file in record.files:
        if is_by_product(file.path):
            continue
        own.lines += file.lines_added + file.lines_deleted
        own.last_change = max(own.last_change, record.time)
        if file.op == "rename" and file.origin:
            own.files.pop(file.origin, None)
        if file.op == "delete":
            own.files.pop(file.path, None)
            continue
        its = own.files.setdefault(file.path, FileActivity(file.path))
        its.changes += 1
        its.last_change = record.time
        its.after = file.after.sha256 if file.after else ""
        its.ranges = file.ranges
