"""Whose the lines of a file are, as people and programs read it."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

from msgspec import Struct

from rookery.governance.ledger.record_text import feedback
from rookery.governance.ledger.traced import TracedRecord

Origin = Literal["recorded", "edited since", "version control", "unknown"]
NAMES = (22, 10)
"""How wide the columns for who and where are at least."""
LONGEST_NAME = 32
WIDEST = 100
"""Columns of a row; programs are told whole lines."""
_SHORT = 8
"""Digits of an id that people tell tasks apart by."""


class CommitOfLine(Struct, frozen=True, kw_only=True):
    """What version control says of a line."""

    revision: str
    author: str
    day: str
    path: str
    """Where the line was in that commit."""
    line: int


class OwnedLine(Struct, frozen=True, kw_only=True):
    number: int
    text: str
    origin: Origin = "unknown"
    record: TracedRecord | None = None
    """Who wrote it, or what was there before it was edited."""
    noted: bool = False
    """Told by a note of the commit, not by the ledger."""
    commit: CommitOfLine | None = None


class NamedCriterion(Struct, frozen=True, kw_only=True):
    id: str
    text: str
    checked_by: str = ""
    held: str = ""
    """Whether it held when it was last checked, in words; empty if nothing checks it."""


class Why(Struct, frozen=True, kw_only=True):
    """What stands behind a call: the intent as it is now, and who let the call through."""

    intent_name: str = ""
    criteria: tuple[NamedCriterion, ...] = ()
    changed: str = ""
    """Why the intent is not what it was for the call; empty if it is."""
    approved: str = ""
    approver: str = ""
    """Who it was, without what they said; empty if that is not recorded."""


def approver(record: TracedRecord, decision: TracedRecord | None) -> str:
    """Who let a call through, and by which answer."""
    if each := _approval(record, decision):
        answer = f" ({each.approval})" if each.approval else ""
        return f"{each.approved_by or 'unknown'}{answer}"
    return "rule (in scope)" if record.scope == "in_scope" else ""


def _approval(record: TracedRecord, decision: TracedRecord | None) -> TracedRecord | None:
    """The record that tells of an approval."""
    told = (each for each in (record, decision) if each and (each.approved_by or each.approval))
    return next(told, None)


def approval_words(record: TracedRecord, decision: TracedRecord | None) -> str:
    """Who let a call through, as far as it is recorded."""
    by = approver(record, decision)
    if not by:
        return "no approval is recorded"
    each = _approval(record, decision)
    said = feedback(each) if each else ""
    return f"approved by {by}" + (f': "{said}"' if said else "")


def held_words(check: TracedRecord | None) -> str:
    """What the newest check of a criterion found."""
    if check is None:
        return "never checked"
    if check.outcome == "success":
        return f"held on {check.time[:10]}"
    ended = "" if check.exit_code is None else f", exit {check.exit_code}"
    return f"did not hold on {check.time[:10]}{ended}"


def blame_rows(lines: Sequence[OwnedLine]) -> Iterator[str]:
    width = max(3, len(str(lines[-1].number))) if lines else 3
    cells = [_cells(line) for line in lines]
    who = max([NAMES[0], *(len(cell[0]) for cell in cells)])
    where = max([NAMES[1], *(len(cell[1]) for cell in cells)])
    for line, (name, place, day) in zip(lines, cells, strict=True):
        yield _cut(
            f"{line.number:>{width}}  {name:<{who}}  {place:<{where}}  {day:<10}  {line.text}",
            WIDEST,
        )


def _cells(line: OwnedLine) -> tuple[str, str, str]:
    record, commit = line.record, line.commit
    match line.origin:
        case "recorded" if record:
            by = record.model_id.rpartition("/")[2] or record.contributor
            name = _cut(f"{record.intent_id or 'no intent'}  {by}", LONGEST_NAME)
            return name, record.task_id[:_SHORT], record.time[:10]
        case "edited since" if record:
            return "edited since", f"({record.intent_id or 'no intent'})", record.time[:10]
        case "version control" if commit:
            return _cut(commit.author, LONGEST_NAME), commit.revision[:7], commit.day
        case _:
            return "unknown", "-", "-"


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"


def why_rows(line: OwnedLine, why: Why | None) -> Iterator[str]:
    """What stands behind a line, one step a row."""
    record = line.record
    if record is None or why is None:
        return
    if line.origin == "edited since":
        yield "  edited    since the call below wrote it; by whom is not recorded"
    call = f" ({record.tool_use_id})" if record.tool_use_id else ""
    told = " (told by the note of its commit)" if line.noted else ""
    yield f"  call      {record.tool_name or 'unknown'}{call}, record {record.id[:8]}{told}"
    if not record.intent_id:
        yield "  intent    none"
    else:
        name = f" {why.intent_name}" if why.intent_name else ""
        yield f"  intent    {record.intent_id}{name}" + (f" ({why.changed})" if why.changed else "")
    for each in why.criteria:
        by = f"checked by: {each.checked_by}" if each.checked_by else ""
        told = "; ".join(filter(None, (by, each.held)))
        checked = f" ({told})" if told else ""
        yield f"  criterion {f'{each.id} ' if each.id else ''}{each.text}{checked}"
    yield f"  approval  {why.approved}"


_MISSING = "-"


def porcelain(line: OwnedLine) -> str:
    """One line with tabs in between: its number, origin, intent, model, task, call, record,
    commit, time and text. What is not known is a dash."""
    record, commit = line.record, line.commit
    told = (
        (record.intent_id, record.model_id, record.task_id, record.tool_use_id, record.id)
        if record
        else ("",) * 5
    )
    time = record.time if record else commit.day if commit else ""
    cells = (line.origin, *told, commit.revision if commit else "", time)
    # a tab inside a cell would make two of it; the text comes last and may hold what it likes
    said = [(cell or _MISSING).replace("\t", " ").replace("\n", " ") for cell in cells]
    return "\t".join((str(line.number), *said, line.text))


def as_json(line: OwnedLine, whys: Mapping[str, Why]) -> dict[str, Any]:
    record, commit = line.record, line.commit
    why = whys.get(record.id) if record else None
    return {
        "line": line.number,
        "text": line.text,
        "origin": line.origin,
        "record": record.id if record else None,
        "time": record.time if record else None,
        "intent": record.intent_id if record else None,
        "model": record.model_id if record else None,
        "task": record.task_id if record else None,
        "call": record.tool_use_id if record else None,
        "tool": record.tool_name if record else None,
        "told_by": ("note" if line.noted else "ledger") if record else None,
        "commit": commit.revision if commit else None,
        "author": commit.author if commit else None,
        "why": _why_json(why) if why else None,
    }


def _why_json(why: Why) -> dict[str, Any]:
    return {
        "intent_name": why.intent_name,
        "intent_changed": why.changed,
        "criteria": [
            {
                "id": each.id,
                "text": each.text,
                "verify": each.checked_by or None,
                "held": each.held or None,
            }
            for each in why.criteria
        ],
        "approval": why.approved,
    }
