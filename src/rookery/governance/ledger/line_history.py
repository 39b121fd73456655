"""Whose every line of a file is: by the note of its commit, by the ledger, by version control.

Whatever none of them tells is unknown. A record that a note names is taken from the ledger if
that still holds it, because a note is nobody's proof.

`OwnedLine`s are then told the intent, its criteria, and who let the call through.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from msgspec import Struct
from msgspec.structs import replace

from rookery.governance.criteria import CHECK_TOOL, is_check
from rookery.governance.intents.intent import Intent, IntentFile, digest
from rookery.governance.intents.intent_file import IntentReader
from rookery.governance.layout import Layout
from rookery.governance.ledger.attribution import (
    AboutFile,
    LineOrigin,
    blame,
    decisions,
    records_by_id,
    writing_records,
)
from rookery.governance.ledger.commit_notes import NOTES, record_finalised_by
from rookery.governance.ledger.git_history import CommitOfLine, GitHistory
from rookery.governance.ledger.record_text import feedback
from rookery.governance.ledger.records import plain_lines
from rookery.governance.ledger.segments import newest_first
from rookery.governance.ledger.traced import TracedRecord, records_on

Origin = Literal["recorded", "edited since", "version control", "unknown"]
NAMES = (22, 10)
"""How wide the columns for who and where are at least."""
LONGEST_NAME = 32
WIDEST = 100
"""Columns of a row; programs are told whole lines."""
_SHORT = 8
"""Digits of an id that people tell tasks apart by."""


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
        return f"passed on {check.time[:10]}"
    ended = "" if check.exit_code is None else f", exit {check.exit_code}"
    return f"failed on {check.time[:10]}{ended}"


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
    told = " (from the note of its commit)" if line.noted else ""
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


Check = tuple[str, str]
"""An intent and a command that checks one of its criteria."""


def whys_behind(layout: Layout, lines: Iterable[OwnedLine]) -> dict[str, Why]:
    """By the ids of the records that the lines come from."""
    records = {line.record.id: line.record for line in lines if line.record}
    calls = {(record.task_id, record.tool_use_id) for record in records.values()}
    decided = decisions(layout.folder, calls)
    intents = IntentReader(layout).read().file
    checks = _newest_checks(layout, intents, {record.intent_id for record in records.values()})
    return {
        id: _why(record, decided.get((record.task_id, record.tool_use_id)), intents, checks)
        for id, record in records.items()
    }


def line_history(folder: Path, path: str, text: str, history: GitHistory | None) -> list[OwnedLine]:
    lines = plain_lines(text)
    origins = blame(path, lines, _told_of(folder, path, lines))
    committed = history.lines_of(path, text) if history else {}
    noted = _noted(folder, history, committed) if history else {}
    return [
        _owned(number, line, origin, committed.get(number), noted.get(number))
        for number, (line, origin) in enumerate(zip(lines, origins, strict=True), 1)
    ]


def _newest_checks(
    layout: Layout, intents: IntentFile, named: set[str]
) -> Mapping[Check, TracedRecord]:
    """The last run of every command by which a criterion of these intents is checked."""
    left = {
        (intent.id, each.verify.command)
        for intent in filter(None, map(intents.find, named))
        for each in intent.acceptance_criteria
        if each.verify
    }
    found: dict[Check, TracedRecord] = {}
    lines = newest_first(layout.folder)
    while left and (line := next(lines, None)) is not None:
        if f'"{CHECK_TOOL}"'.encode() in line:
            for record in records_on(line):
                check = (record.intent_id, record.command)
                if is_check(record) and check in left:
                    found[check] = record
                    left.remove(check)
    return found


def _why(
    record: TracedRecord,
    decision: TracedRecord | None,
    intents: IntentFile,
    checks: Mapping[Check, TracedRecord],
) -> Why:
    approved, by = approval_words(record, decision), approver(record, decision)
    intent = intents.find(record.intent_id) if record.intent_id else None
    if intent is None:
        return Why(approved=approved, approver=by, changed="it was removed")
    criteria = tuple(
        NamedCriterion(
            id=each.id,
            text=each.text,
            checked_by=each.verify.command if each.verify else "",
            held=held_words(checks.get((intent.id, each.verify.command))) if each.verify else "",
        )
        for each in intent.acceptance_criteria
    )
    return Why(
        intent_name=intent.name,
        criteria=criteria,
        changed=_changed(record, intent, intents),
        approved=approved,
        approver=by,
    )


def _changed(record: TracedRecord, intent: Intent, intents: IntentFile) -> str:
    if record.intent_rev is not None and record.intent_rev != intent.revision:
        return f"it was revision {record.intent_rev}, and is {intent.revision} now"
    now = digest(intent, intents.policy)
    if record.intent_digest and not now.startswith(record.intent_digest.removeprefix("sha256:")):
        return "its wording changed since"
    return ""


def _told_of(folder: Path, path: str, lines: Sequence[str]) -> Iterator[TracedRecord]:
    """The records that may tell of the file, also under the names that it had before."""
    about, names = AboutFile(path, lines), {path}
    for record in writing_records(folder, about):
        yield record
        for file in record.files:
            if file.op == "rename" and file.path in names:
                names.add(file.origin)
                about.was_called(file.origin)


def _owned(
    number: int,
    text: str,
    origin: LineOrigin,
    commit: CommitOfLine | None,
    noted: TracedRecord | None,
) -> OwnedLine:
    line = OwnedLine(number=number, text=text, commit=commit)
    if noted:
        return replace(line, origin="recorded", record=noted, noted=True)
    match origin.certainty:
        case "written":
            return replace(line, origin="recorded", record=origin.record)
        case "edited since":
            return replace(line, origin="edited since", record=origin.record)
        case _:
            return replace(line, origin="version control" if commit else "unknown")


def _noted(
    folder: Path, history: GitHistory, committed: Mapping[int, CommitOfLine]
) -> dict[int, TracedRecord]:
    """The records that notes name for lines."""
    notes = history.notes(NOTES)
    told: dict[str, Sequence[TracedRecord]] = {}
    for revision in {commit.revision for commit in committed.values()} & notes.keys():
        told[revision] = records_on(history.note_text(notes[revision]))
    found: dict[int, TracedRecord] = {}
    for number, commit in committed.items():
        for record in told.get(commit.revision, ()):
            if _covers(record, commit):
                found[number] = record
    names = {record.id: record_finalised_by(record.raw) for record in found.values()}
    originals = records_by_id(folder, set(filter(None, names.values())))
    return {number: originals.get(names[record.id], record) for number, record in found.items()}


def _covers(record: TracedRecord, commit: CommitOfLine) -> bool:
    return any(
        file.path == commit.path and lines.start <= commit.line <= lines.end
        for file in record.files
        for lines in file.ranges
    )
