"""Whose every line of a file is: by the note of its commit, by the ledger, by version control.

Whatever none of them tells is unknown. A record that a note names is taken from the ledger if
that still holds it, because a note is nobody's proof.

`OwnedLine`s are then told the intent, its criteria, and who let the call through.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from msgspec.structs import replace

from rookery.governance.criteria.criteria_standing import CHECK_TOOL, is_check
from rookery.governance.intents.intent import Intent, IntentFile, digest
from rookery.governance.intents.intent_file import IntentReader
from rookery.governance.layout import Layout
from rookery.governance.ledger.attribution import LineOrigin, blame
from rookery.governance.ledger.blame_page import (
    CommitOfLine,
    NamedCriterion,
    OwnedLine,
    Why,
    approval_words,
    approver,
    held_words,
)
from rookery.governance.ledger.commit_notes import NOTES, record_finalised_by
from rookery.governance.ledger.git_history import GitHistory
from rookery.governance.ledger.line_ranges import plain_lines
from rookery.governance.ledger.line_records import (
    AboutFile,
    decisions,
    records_by_id,
    writing_records,
)
from rookery.governance.ledger.segments import newest_first
from rookery.governance.ledger.traced import TracedRecord, records_on

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
        return Why(approved=approved, approver=by, changed="it is not among the intents now")
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
        return "its wording has changed since"
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
