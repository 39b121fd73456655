"""Activity per intent from the ledger, its coverage, and the map from intents to code.

All output is sorted, so that the same ledger gives the same text.
"""

import ast
from collections.abc import Callable, Iterable, Sequence
from hashlib import sha256
from typing import Literal

from msgspec import Struct, field

from rookery.core.limits import MIB
from rookery.governance.criteria import (
    CHECK_TOOL,
    CriterionStanding,
    criteria_standing,
    cut_to_seconds,
    is_check,
)
from rookery.governance.intents.intent import Intent, Policy, digest
from rookery.governance.layout import Layout
from rookery.governance.ledger.records import LineRange
from rookery.governance.ledger.statistics import CALLS, REFUSED, is_by_product
from rookery.governance.ledger.traced import TracedRecord
from rookery.platform.disk import Unreadable, small_file

CoverageState = Literal["covered", "unverified", "outdated", "uncovered", "drifted", "orphan"]
_COUNTED = frozenset({"IN_PROGRESS", "COMPLETED"})


class IntentCoverage(Struct, frozen=True, kw_only=True):
    intent_id: str = field(name="id")
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
    activity: "dict[str, IntentActivity]"
    checks: tuple[TracedRecord, ...]
    """The recorded checks of criteria."""


def coverage(
    intents: Iterable[Intent],
    policy: Policy,
    records: Iterable[TracedRecord],
    *,
    hash_of: Callable[[str], str | None],
) -> Coverage:
    """Compute coverage from records, oldest first, in one pass: there may be hundreds of
    thousands. `hash_of` returns the current SHA-256 of a file (None: no such file). By-products of
    tools are not judged."""
    known = {intent.id: intent for intent in intents}
    done: dict[str, IntentActivity] = {}
    changes: dict[str, list[bool]] = {}
    changed_at: dict[str, str] = {}
    last: dict[str, tuple[str, str | None]] = {}
    checks: list[TracedRecord] = []
    for record in records:
        add_record(done, record)
        if is_check(record):
            checks.append(record)
        work = [file for file in record.files if not is_by_product(file.path)]
        if work:
            changed_at[record.intent_id] = record.time
        if not work or record.outcome in REFUSED:
            continue
        if record.tool_name not in HOST_CALLS:
            its = known.get(record.intent_id)
            current = its is not None and _is_current(record, its, policy)
            changes.setdefault(record.intent_id, []).append(current)
        for file in work:
            last[file.path] = (record.intent_id, file.after.sha256 if file.after else None)
            if file.op == "rename" and file.origin:
                last[file.origin] = (record.intent_id, None)
    drifted = sorted(path for path, (_, after) in last.items() if hash_of(path) != after)

    def of_intent(intent: Intent) -> IntentCoverage:
        own = tuple(path for path in drifted if last[path][0] == intent.id)
        made = changes.get(intent.id, [])
        state: CoverageState = "covered"
        if not made:
            state = "uncovered"
        elif not any(made):
            state = "outdated"
        elif own:
            state = "drifted"
        elif not _is_verified(criteria_standing(intent, policy, checks), changed_at[intent.id]):
            state = "unverified"
        files = tuple(sorted(done.get(intent.id, IntentActivity()).files))
        return IntentCoverage(
            intent_id=intent.id, state=state, changes=len(made), files=files, drifted=own
        )

    return Coverage(
        intents=tuple(
            of_intent(intent)
            for intent in sorted(known.values(), key=lambda intent: intent.id)
            if intent.status in _COUNTED or intent.id in changes
        ),
        orphans=tuple(sorted(path for path, (named, _) in last.items() if named not in known)),
        drifted=tuple(drifted),
        activity=done,
        checks=tuple(checks),
    )


def _is_verified(criteria: Sequence[CriterionStanding], last_change: str) -> bool:
    """Whether every criterion has a check that passed after the last change."""
    since = cut_to_seconds(last_change)
    return bool(criteria) and all(
        each.criterion.verify and each.state == "passed" and since <= cut_to_seconds(each.at)
        for each in criteria
    )


def _is_current(record: TracedRecord, intent: Intent, policy: Policy) -> bool:
    """Whether the record has the current revision or, if it has none, the current digest."""
    if record.intent_rev is not None:
        return record.intent_rev == intent.revision
    return record.intent_digest == digest(intent, policy)


LARGEST_SOURCE = 2 * MIB
TITLE = "# Intent map"
SHORT_HASH = 12
MOST_SYMBOLS = 12
OUTSIDE_SCOPE = frozenset({"approved_once", "approved_task"})
HOST_CALLS = frozenset({CHECK_TOOL})
"""Tools that rookery runs itself to check an intent; they do not count as work on it."""


class FileActivity(Struct):
    """The changes of one file under an intent. `ranges` belong to the last one, and `symbols` are
    the functions and classes that contain them."""

    path: str
    changes: int = 0
    last_change: str = ""
    after: str = ""
    ranges: tuple[LineRange, ...] = ()
    symbols: tuple[str, ...] = ()


class MapEntry(Struct, frozen=True, kw_only=True):
    intent: Intent
    files: tuple[FileActivity, ...] = ()


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
    for each in activities.values():
        for file in each.files.values():
            file.symbols = symbols(file.path, _unchanged_text(layout, file), file.ranges)
    nothing = IntentActivity()
    return tuple(
        MapEntry(
            intent=intent,
            files=tuple(
                file for _, file in sorted(activities.get(intent.id, nothing).files.items())
            ),
        )
        for intent in sorted(intents, key=lambda each: each.id)
    )


def map_text(entries: Sequence[MapEntry]) -> str:
    return "\n\n".join([TITLE, *map(_section, entries)]) + "\n"


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


def _unchanged_text(layout: Layout, file: FileActivity) -> str:
    """The file's text if it still has its recorded hash; else empty, as lines may have shifted."""
    try:
        data = small_file(layout.root / file.path, layout.workspace, largest=LARGEST_SOURCE)
    except (FileNotFoundError, Unreadable):
        return ""
    return data.decode("utf-8", "replace") if sha256(data).hexdigest() == file.after else ""


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


def _row(file: FileActivity) -> str:
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
