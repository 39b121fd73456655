"""Whose every line of a file is: by the note of its commit, by the ledger, by version control.

Whatever none of them tells is unknown. A record that a note names is taken from the ledger if
that still holds it, because a note is nobody's proof.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from msgspec.structs import replace

from rookery.governance.ledger.attribution import LineOrigin, blame
from rookery.governance.ledger.blame_page import CommitOfLine, OwnedLine
from rookery.governance.ledger.commit_notes import NOTES
from rookery.governance.ledger.commit_records import record_finalised_by
from rookery.governance.ledger.git_history import GitHistory
from rookery.governance.ledger.line_ranges import plain_lines
from rookery.governance.ledger.line_records import (
    AboutFile,
    records_by_id,
    writing_records,
)
from rookery.governance.ledger.traced import TracedRecord, records_on


def line_history(folder: Path, path: str, text: str, history: GitHistory | None) -> list[OwnedLine]:
    lines = plain_lines(text)
    origins = blame(path, lines, _told_of(folder, path, lines))
    committed = history.lines_of(path, text) if history else {}
    noted = _noted(folder, history, committed) if history else {}
    return [
        _owned(number, line, origin, committed.get(number), noted.get(number))
        for number, (line, origin) in enumerate(zip(lines, origins, strict=True), 1)
    ]


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
