"""Puts what the ledger knows of a commit's lines into notes of that commit."""

import json
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from rookery.errors import StorageError
from rookery.governance.ledger.commit_records import (
    CommittedFile,
    Finalised,
    finalised,
    finalised_record,
    record_finalised_by,
)
from rookery.governance.ledger.git_history import ChangedFile, Commit, GitHistory
from rookery.governance.ledger.line_ranges import line_change, plain_lines
from rookery.governance.ledger.line_records import writing_records
from rookery.governance.ledger.traced import TracedRecord
from rookery.governance.ledger.verify_ledger import decoded_objects

NOTES = "agent-trace"
LOOKED_BACK = 20_000
"""Records that wrote lines and are looked at, newest first: a commit is made soon after them."""


def recent_writers(folder: Path) -> list[TracedRecord]:
    return list(islice(writing_records(folder), LOOKED_BACK))


def finalise(history: GitHistory, commit: Commit, records: Sequence[TracedRecord]) -> Finalised:
    """What the commit holds of the records, written into its note. A commit that holds nothing
    gets none, and what others noted stays."""
    found = finalised(_files(history, commit), records, since=commit.parent_time)
    if found.placed:
        ours = [finalised_record(each, commit.revision) for each in found.placed]
        lines = map(json_line, [*_noted_by_others(history, commit.revision), *ours])
        history.add_note(NOTES, commit.revision, b"".join(lines))
    return found


def json_line(record: dict[str, Any]) -> bytes:
    said = json.dumps(record, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return said.encode() + b"\n"


def _noted_by_others(history: GitHistory, revision: str) -> list[dict[str, Any]]:
    note = history.notes(NOTES).get(revision)
    if note is None:
        return []
    try:
        there = list(decoded_objects(history.note_text(note).decode("utf-8")))
    except (ValueError, RecursionError) as error:
        raise StorageError(
            f"There is a note on {revision[:12]} in refs/notes/{NOTES} that is none of ours, so "
            "it was left as it is. Remove it to have the commit noted."
        ) from error
    return [each for each in there if isinstance(each, dict) and not record_finalised_by(each)]


def _files(history: GitHistory, commit: Commit) -> list[CommittedFile]:
    return [_committed(file) for file in history.changed_files(commit)]


def _committed(file: ChangedFile) -> CommittedFile:
    written = line_change(file.before, file.after).written
    fresh = {at for each in written for at in range(each.start - 1, each.end)}
    lines = tuple(plain_lines(file.after))
    return CommittedFile(path=file.path, lines=lines, fresh=frozenset(fresh))
