"""What was done under each intent, as the ledger tells it."""

from collections.abc import Iterable

from msgspec import Struct, field

from rookery.governance.criteria.criteria_standing import CHECK_TOOL
from rookery.governance.ledger.line_ranges import LineRange
from rookery.governance.ledger.statistics import CALLS, REFUSED, CountedRecord, is_by_product

OUTSIDE_SCOPE = frozenset({"approved_once", "approved_task"})
HOST_CALLS = frozenset({CHECK_TOOL})
"""What the host runs to see how an intent stands, which is nobody's work under it."""


class FileActivity(Struct):
    """One file's changes under an intent. `ranges` are of the last of them."""

    path: str
    changes: int = 0
    last_change: str = ""
    after: str = ""
    ranges: tuple[LineRange, ...] = ()


class Activity(Struct):
    files: dict[str, FileActivity] = field(default_factory=dict)
    calls: int = 0
    refused: int = 0
    approved_outside: int = 0
    lines: int = 0
    last_change: str = ""


def activity(records: Iterable[CountedRecord]) -> dict[str, Activity]:
    """By the intent's id, from records oldest first. What was refused changed nothing, and what
    tools leave behind is no work."""
    found: dict[str, Activity] = {}
    for record in records:
        take_record(found, record)
    return found


def take_record(found: dict[str, Activity], record: CountedRecord) -> None:
    """The same for whoever hears the records one by one."""
    if record.tool_name in HOST_CALLS:
        return
    own = found.setdefault(record.intent_id, Activity())
    own.calls += record.kind in CALLS
    if record.outcome in REFUSED:
        own.refused += record.kind == "blocked"
        return
    worked = any(not is_by_product(each.path) for each in record.files)
    own.approved_outside += worked and record.scope in OUTSIDE_SCOPE
    _take_files(own, record)


def _take_files(own: Activity, record: CountedRecord) -> None:
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
