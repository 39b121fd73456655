"""Git notes that say which recorded changes a commit contains.

Live records number the lines of a text that may never be committed. Finalising finds these lines in
the commit by their content and writes records with the commit's line numbers into its note; lines
that are not found are counted and left out. A finalised record is not part of the chain: it names
the record that is. Notes and hooks of other programs are never changed.
"""

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby, islice
from pathlib import Path
from typing import Any, Literal
from uuid import NAMESPACE_URL, uuid5

from msgspec import Struct, to_builtins

from rookery.errors import StorageError
from rookery.governance.git_history import Commit, GitHistory
from rookery.governance.ledger.attribution import LineOrigin, blame, writing_records
from rookery.governance.ledger.record_text import entry_of
from rookery.governance.ledger.records import (
    VERSION,
    LineRange,
    content_hash,
    line_change,
    plain_lines,
)
from rookery.governance.ledger.traced import TracedRecord
from rookery.governance.ledger.verify_ledger import decode_objects
from rookery.platform.disk import put

HOOK_MARK = "# made by: rookery trace install-hooks"
HOOK_LINE = "command -v rookery >/dev/null 2>&1 && rookery trace finalize -q HEAD || true"
HOOK_SCRIPT = f"#!/bin/sh\n{HOOK_MARK}\n{HOOK_LINE}\n"
HOOK = "post-commit"
_CHAIN_FIELDS = frozenset({"stream", "seq", "prev", "hash", "files", "anchors", "tips"})
NOTES = "agent-trace"
MAX_RECORDS = 20_000
"""Maximum records compared with a commit, newest first."""


class NotedFile(Struct, frozen=True, kw_only=True):
    """A file as it is in a commit."""

    path: str
    lines: tuple[str, ...]
    fresh: frozenset[int]
    """Indices of the lines that the commit wrote, from 0."""


class PlacedRecord(Struct, frozen=True, kw_only=True):
    """A record with the positions of its lines in a commit."""

    record: TracedRecord
    files: tuple[tuple[str, tuple[LineRange, ...]], ...]


class Finalised(Struct, frozen=True, kw_only=True):
    placed: tuple[PlacedRecord, ...] = ()
    lines: int = 0
    edited: int = 0
    unknown: int = 0
    dropped: int = 0
    """Lines recorded since the parent commit that are not in this one."""


def install_hook(folder: Path) -> Literal["installed", "there", "foreign"]:
    """Install the post-commit hook. A "foreign" hook is not changed."""
    path = folder / HOOK
    try:
        found = path.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        found = ""
    if path.is_symlink() or (found and HOOK_MARK not in found):
        # users may have added the line to a hook of their own
        return "there" if HOOK_LINE in found else "foreign"
    if found == HOOK_SCRIPT and os.access(path, os.X_OK):
        return "there"
    folder.mkdir(parents=True, exist_ok=True)
    put(path, [HOOK_SCRIPT.encode()], mode=0o755)
    return "installed"


def match_commit(
    files: Sequence[NotedFile], records: Sequence[TracedRecord], *, since: str = ""
) -> Finalised:
    """Find recorded lines in a commit. `records` are newest first; `since` is the parent's time."""
    places: dict[str, dict[str, list[LineRange]]] = {}
    known = {record.id: record for record in records}
    lines = edited = unknown = dropped = 0
    for file in files:
        origins = blame(file.path, file.lines, records)
        for record_id, span in _spans(file, origins):
            places.setdefault(record_id, {}).setdefault(file.path, []).append(span)
            lines += span.end - span.start + 1
        fresh = [origins[at] for at in file.fresh]
        edited += sum(origin.certainty == "edited since" for origin in fresh)
        unknown += sum(origin.certainty == "unknown" for origin in fresh)
        dropped += _count_dropped(file.path, origins, records, since)
    placed = tuple(
        PlacedRecord(
            record=known[record_id],
            files=tuple((path, tuple(spans)) for path, spans in sorted(found.items())),
        )
        for record_id, found in places.items()
    )
    ordered = tuple(sorted(placed, key=lambda each: (each.record.time, each.record.id)))
    return Finalised(placed=ordered, lines=lines, edited=edited, unknown=unknown, dropped=dropped)


def finalised_record(placed: PlacedRecord, revision: str) -> dict[str, Any]:
    """The record for the note. Its id is derived, so finalising again changes nothing."""
    record = placed.record
    kept = {name: value for name, value in entry_of(record).items() if name not in _CHAIN_FIELDS}
    entry = {
        **kept,
        "finalises": record.id,
        "record_hash": record.hash,
        "files": [_file_entry(record, path, spans) for path, spans in placed.files],
    }
    return {
        "version": VERSION,
        "id": str(uuid5(NAMESPACE_URL, f"{record.id}:{revision}")),
        "timestamp": record.time,
        "vcs": {"type": "git", "revision": revision},
        **({"tool": record.raw["tool"]} if isinstance(record.raw.get("tool"), dict) else {}),
        "files": [_file(record, path, spans) for path, spans in placed.files],
        "metadata": {"orchestration": entry},
    }


def record_finalised_by(record: Mapping[str, Any]) -> str:
    """Id of the record that a finalised one refers to; empty if it is not a finalised one."""
    metadata = record.get("metadata")
    entry = metadata.get("orchestration") if isinstance(metadata, dict) else None
    named = entry.get("finalises") if isinstance(entry, dict) else None
    return named if isinstance(named, str) else ""


def recent_writers(folder: Path) -> list[TracedRecord]:
    return list(islice(writing_records(folder), MAX_RECORDS))


def finalise(history: GitHistory, commit: Commit, records: Sequence[TracedRecord]) -> Finalised:
    """Write what the commit contains of the records into its note. A commit without recorded
    lines gets no note, and notes of other programs are kept."""
    files = [_noted_file(*each) for each in history.changed_files(commit)]
    found = match_commit(files, records, since=commit.parent_time)
    if found.placed:
        ours = [finalised_record(each, commit.revision) for each in found.placed]
        lines = map(json_line, [*_foreign_records(history, commit.revision), *ours])
        history.add_note(NOTES, commit.revision, b"".join(lines))
    return found


def json_line(record: dict[str, Any]) -> bytes:
    text = json.dumps(record, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return text.encode() + b"\n"


def _spans(file: NotedFile, origins: Sequence[LineOrigin]) -> Iterator[tuple[str, LineRange]]:
    """Yield record ids with the ranges they wrote, of the lines that the commit wrote."""

    def writer(at: int) -> str:
        origin = origins[at]
        is_written = at in file.fresh and origin.certainty == "written" and origin.record
        return origin.record.id if is_written and origin.record else ""

    for record_id, run in groupby(range(len(file.lines)), key=writer):
        if record_id:
            places = list(run)
            start, end = places[0], places[-1] + 1
            yield record_id, LineRange(start + 1, end, content_hash(file.lines[start:end]))


def _count_dropped(
    path: str, origins: Sequence[LineOrigin], records: Sequence[TracedRecord], since: str
) -> int:
    recent = [record for record in records if record.time >= since]
    recorded = sum(
        lines.end - lines.start + 1
        for record in recent
        for file in record.files
        if file.path == path
        for lines in file.ranges
    )
    ids = {record.id for record in recent}
    found = sum(
        origin.certainty == "written" and origin.record is not None and origin.record.id in ids
        for origin in origins
    )
    return max(0, recorded - found)


def _file(record: TracedRecord, path: str, spans: Sequence[LineRange]) -> dict[str, Any]:
    conversation = {
        **({"url": f"urn:task:{record.task_id}"} if record.task_id else {}),
        "contributor": {
            "type": record.contributor or "unknown",
            **({"model_id": record.model_id} if record.model_id else {}),
        },
        "ranges": to_builtins([*spans]),
        "related": to_builtins([*record.related]),
    }
    return {"path": path, "conversations": [conversation]}


def _file_entry(record: TracedRecord, path: str, spans: Sequence[LineRange]) -> dict[str, Any]:
    """Our entry for a file, with the recorded ranges if they differ from those in the commit."""
    recorded_file = next((file for file in record.files if file.path == path), None)
    if recorded_file is None:
        first = record.files[0].path if record.files else ""
        return {"path": path, **({"moved_from": first} if first else {})}
    entry = {"path": path, "op": recorded_file.op}
    if recorded_file.ranges == tuple(spans):
        return entry
    return {**entry, "original_ranges": to_builtins([*recorded_file.ranges])}


def _foreign_records(history: GitHistory, revision: str) -> list[dict[str, Any]]:
    note = history.notes(NOTES).get(revision)
    if note is None:
        return []
    try:
        records = list(decode_objects(history.note_text(note).decode("utf-8")))
    except (ValueError, RecursionError) as error:
        raise StorageError(
            f"The note on {revision[:12]} in refs/notes/{NOTES} was not written by "
            "rookery, so it was not changed. Remove it, then run this again."
        ) from error
    return [each for each in records if isinstance(each, dict) and not record_finalised_by(each)]


def _noted_file(path: str, before: str, after: str) -> NotedFile:
    written = line_change(before, after).written
    fresh = {at for each in written for at in range(each.start - 1, each.end)}
    return NotedFile(path=path, lines=tuple(plain_lines(after)), fresh=frozenset(fresh))
