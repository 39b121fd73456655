"""The origin of every line of a file, from commit notes, the ledger and git, in this order.

Lines that none of them covers are unknown. If a note names a record that the ledger still has, the
ledger's record is used, because anyone can write a note. `ChangeReason` adds the
intent, its criteria and the approval behind a line.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from msgspec import Struct, to_builtins
from msgspec.structs import replace

from rookery.core.text.terminal_text import shortened
from rookery.governance.criteria import CHECK_TOOL, is_check
from rookery.governance.git_history import CommitOfLine, GitHistory
from rookery.governance.intents.intent import Intent, IntentFile, digest
from rookery.governance.intents.intent_file import IntentReader
from rookery.governance.layout import Layout
from rookery.governance.ledger.attribution import (
    FileFilter,
    LineOrigin,
    blame,
    decisions,
    records_by_id,
    writing_records,
)
from rookery.governance.ledger.commit_notes import NOTES, record_finalised_by
from rookery.governance.ledger.record_text import feedback
from rookery.governance.ledger.records import plain_lines
from rookery.governance.ledger.segments import newest_first
from rookery.governance.ledger.traced import TracedRecord, records_on

Origin = Literal["recorded", "edited since", "version control", "unknown"]
MIN_WIDTHS = (22, 10)
"""Minimum widths of the name and place columns."""
LONGEST_NAME = 32
MAX_WIDTH = 100
"""Maximum columns of a row; machine-readable output is not cut."""
_SHORT = 8
"""Characters shown of a task id."""


class OwnedLine(Struct, frozen=True, kw_only=True):
    number: int
    text: str
    origin: Origin = "unknown"
    record: TracedRecord | None = None
    """The record that wrote the line, or that wrote it before it was edited."""
    noted: bool = False
    """Whether the record comes from a commit note, not from the ledger."""
    commit: CommitOfLine | None = None


class NamedCriterion(Struct, frozen=True, kw_only=True):
    id: str
    text: str
    verify: str | None = None
    """The command that checks it, if any."""
    held: str | None = None
    """Result of the last check, as text."""


class ChangeReason(Struct, frozen=True, kw_only=True):
    """The reason for a call: its intent as it is now, and who approved it."""

    intent_name: str = ""
    criteria: tuple[NamedCriterion, ...] = ()
    changed: str = ""
    """How the intent differs from when the call was made; empty if it does not."""
    approved: str = ""
    approver: str = ""
    """Who approved, without their message; empty if not recorded."""


def approver(record: TracedRecord, decision: TracedRecord | None) -> str:
    """Who approved a call, and with which answer."""
    if each := _approval(record, decision):
        answer = f" ({each.approval})" if each.approval else ""
        return f"{each.approved_by or 'unknown'}{answer}"
    return "rule (in scope)" if record.scope == "in_scope" else ""


def _approval(record: TracedRecord, decision: TracedRecord | None) -> TracedRecord | None:
    """The record that holds the approval: the call's own or the decision."""
    found = (each for each in (record, decision) if each and (each.approved_by or each.approval))
    return next(found, None)


def approval_text(record: TracedRecord, decision: TracedRecord | None) -> str:
    """Who approved a call, as text."""
    by = approver(record, decision)
    if not by:
        return "no approval is recorded"
    each = _approval(record, decision)
    text = feedback(each) if each else ""
    return f"approved by {by}" + (f': "{text}"' if text else "")


def check_text(check: TracedRecord | None) -> str:
    """Result of the newest check of a criterion, as text."""
    if check is None:
        return "never checked"
    if check.outcome == "success":
        return f"passed on {check.time[:10]}"
    ended = "" if check.exit_code is None else f", exit {check.exit_code}"
    return f"failed on {check.time[:10]}{ended}"


def blame_rows(lines: Sequence[OwnedLine]) -> Iterator[str]:
    width = max(3, len(str(lines[-1].number))) if lines else 3
    cells = [_cells(line) for line in lines]
    who = max([MIN_WIDTHS[0], *(len(cell[0]) for cell in cells)])
    where = max([MIN_WIDTHS[1], *(len(cell[1]) for cell in cells)])
    for line, (name, place, day) in zip(lines, cells, strict=True):
        yield shortened(
            f"{line.number:>{width}}  {name:<{who}}  {place:<{where}}  {day:<10}  {line.text}",
            MAX_WIDTH,
        )


def _cells(line: OwnedLine) -> tuple[str, str, str]:
    record, commit = line.record, line.commit
    match line.origin:
        case "recorded" if record:
            by = record.model_id.rpartition("/")[2] or record.contributor
            name = shortened(f"{record.intent_id or 'no intent'}  {by}", LONGEST_NAME)
            return name, record.task_id[:_SHORT], record.time[:10]
        case "edited since" if record:
            return "edited since", f"({record.intent_id or 'no intent'})", record.time[:10]
        case "version control" if commit:
            return shortened(commit.author, LONGEST_NAME), commit.revision[:7], commit.day
        case _:
            return "unknown", "-", "-"


def reason_rows(line: OwnedLine, reason: ChangeReason | None) -> Iterator[str]:
    """Yield the rows that explain a line: call, intent, criteria and approval."""
    record = line.record
    if record is None or reason is None:
        return
    if line.origin == "edited since":
        yield "  edited    since the call below wrote it; by whom is not recorded"
    call = f" ({record.tool_use_id})" if record.tool_use_id else ""
    source = " (from the note of its commit)" if line.noted else ""
    yield f"  call      {record.tool_name or 'unknown'}{call}, record {record.id[:8]}{source}"
    if not record.intent_id:
        yield "  intent    none"
    else:
        name = f" {reason.intent_name}" if reason.intent_name else ""
        changed = f" ({reason.changed})" if reason.changed else ""
        yield f"  intent    {record.intent_id}{name}{changed}"
    for each in reason.criteria:
        checked = f" (checked by: {each.verify}; {each.held})" if each.verify else ""
        yield f"  criterion {f'{each.id} ' if each.id else ''}{each.text}{checked}"
    yield f"  approval  {reason.approved}"


_UNKNOWN = "-"


def porcelain(line: OwnedLine) -> str:
    """One tab-separated row: number, origin, intent, model, task, call, record, commit, time and
    text. Unknown values are a dash."""
    record, commit = line.record, line.commit
    fields = (
        (record.intent_id, record.model_id, record.task_id, record.tool_use_id, record.id)
        if record
        else ("",) * 5
    )
    time = record.time if record else commit.day if commit else ""
    cells = (line.origin, *fields, commit.revision if commit else "", time)
    # the text is the last column, so only the others must not contain tabs
    clean = [(cell or _UNKNOWN).replace("\t", " ").replace("\n", " ") for cell in cells]
    return "\t".join((str(line.number), *clean, line.text))


def as_json(line: OwnedLine, reasons: Mapping[str, ChangeReason]) -> dict[str, Any]:
    record, commit = line.record, line.commit
    reason = reasons.get(record.id) if record else None
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
        "why": _reason_json(reason) if reason else None,
    }


def _reason_json(reason: ChangeReason) -> dict[str, Any]:
    return {
        "intent_name": reason.intent_name,
        "intent_changed": reason.changed,
        "criteria": to_builtins(reason.criteria),
        "approval": reason.approved,
    }


Check = tuple[str, str]
"""An intent id and a command that checks one of its criteria."""


def change_reasons(layout: Layout, lines: Iterable[OwnedLine]) -> dict[str, ChangeReason]:
    """The reasons behind the lines' records, by record id."""
    records = {line.record.id: line.record for line in lines if line.record}
    calls = {(record.task_id, record.tool_use_id) for record in records.values()}
    decided = decisions(layout.folder, calls)
    intents = IntentReader(layout).read().file
    checks = _newest_checks(layout, intents, {record.intent_id for record in records.values()})
    return {
        id: _reason_for(record, decided.get((record.task_id, record.tool_use_id)), intents, checks)
        for id, record in records.items()
    }


def line_history(folder: Path, path: str, text: str, history: GitHistory | None) -> list[OwnedLine]:
    lines = plain_lines(text)
    origins = blame(path, lines, _records_about(folder, path, lines))
    committed = history.lines_of(path, text) if history else {}
    noted = _noted_records(folder, history, committed) if history else {}
    return [
        _owned_line(number, line, origin, committed.get(number), noted.get(number))
        for number, (line, origin) in enumerate(zip(lines, origins, strict=True), 1)
    ]


def _newest_checks(
    layout: Layout, intents: IntentFile, named: set[str]
) -> Mapping[Check, TracedRecord]:
    """The last run of every command that checks a criterion of these intents."""
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


def _reason_for(
    record: TracedRecord,
    decision: TracedRecord | None,
    intents: IntentFile,
    checks: Mapping[Check, TracedRecord],
) -> ChangeReason:
    approved, by = approval_text(record, decision), approver(record, decision)
    intent = intents.find(record.intent_id) if record.intent_id else None
    if intent is None:
        return ChangeReason(approved=approved, approver=by, changed="it was removed")
    criteria = tuple(
        NamedCriterion(
            id=each.id,
            text=each.text,
            verify=each.verify.command if each.verify else None,
            held=check_text(checks.get((intent.id, each.verify.command))) if each.verify else None,
        )
        for each in intent.acceptance_criteria
    )
    return ChangeReason(
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


def _records_about(folder: Path, path: str, lines: Sequence[str]) -> Iterator[TracedRecord]:
    """Yield the records that may be about the file, also under its earlier names."""
    about, names = FileFilter(path, lines), {path}
    for record in writing_records(folder, about):
        yield record
        for file in record.files:
            if file.op == "rename" and file.path in names:
                names.add(file.origin)
                about.add_name(file.origin)


def _owned_line(
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


def _noted_records(
    folder: Path, history: GitHistory, committed: Mapping[int, CommitOfLine]
) -> dict[int, TracedRecord]:
    """The records that commit notes name, by line number."""
    notes = history.notes(NOTES)
    by_commit: dict[str, Sequence[TracedRecord]] = {}
    for revision in {commit.revision for commit in committed.values()} & notes.keys():
        by_commit[revision] = records_on(history.note_text(notes[revision]))
    found: dict[int, TracedRecord] = {}
    for number, commit in committed.items():
        for record in by_commit.get(commit.revision, ()):
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
