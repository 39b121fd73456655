"""What a commit holds of the recorded changes, written into a note of that commit.

Live records count lines in a text that may never be committed. Here each is given the lines that
stand in the commit, found by their content; what is not found is counted and left out. A
finalised record is no part of the chain: it names the one that is. Notes and hooks of other
programs are never touched.
"""

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby, islice
from pathlib import Path
from typing import Any, Literal
from uuid import NAMESPACE_URL, uuid5

from msgspec import Struct

from rookery.errors import StorageError
from rookery.governance.ledger.attribution import LineOrigin, blame, writing_records
from rookery.governance.ledger.git_history import Commit, CommitChange, GitHistory
from rookery.governance.ledger.record_text import own
from rookery.governance.ledger.records import (
    VERSION,
    LineRange,
    TracedFile,
    content_hash,
    line_change,
    plain_lines,
)
from rookery.governance.ledger.traced import TracedRecord
from rookery.governance.ledger.verify_ledger import decoded_objects
from rookery.platform.disk import put

HOOK_MARK = "# made by: rookery trace install-hooks"
HOOK_LINE = "command -v rookery >/dev/null 2>&1 && rookery trace finalize -q HEAD || true"
HOOK_SCRIPT = f"#!/bin/sh\n{HOOK_MARK}\n{HOOK_LINE}\n"
HOOK = "post-commit"
_OF_THE_CHAIN = frozenset({"stream", "seq", "prev", "hash", "files", "anchors", "tips"})
NOTES = "agent-trace"
LOOKED_BACK = 20_000
"""Records that wrote lines and are looked at, newest first: a commit is made soon after them."""


class NotedFile(Struct, frozen=True, kw_only=True):
    """A file as a commit has it."""

    path: str
    lines: tuple[str, ...]
    fresh: frozenset[int]
    """The lines that the commit wrote, from 0."""


class PlacedRecord(Struct, frozen=True, kw_only=True):
    """A record, and where its lines are in a commit."""

    record: TracedRecord
    files: tuple[tuple[str, tuple[LineRange, ...]], ...]


class Finalised(Struct, frozen=True, kw_only=True):
    placed: tuple[PlacedRecord, ...] = ()
    lines: int = 0
    edited: int = 0
    unknown: int = 0
    dropped: int = 0
    """Lines that were recorded since the commit before, and are not in this one."""


def install_hook(folder: Path) -> Literal["installed", "there", "foreign"]:
    """`foreign` if there is another hook, which is as it was."""
    path = folder / HOOK
    try:
        found = path.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        found = ""
    if path.is_symlink() or (found and HOOK_MARK not in found):
        # whoever wrote the line into their own hook has what they need
        return "there" if HOOK_LINE in found else "foreign"
    if found == HOOK_SCRIPT and os.access(path, os.X_OK):
        return "there"
    folder.mkdir(parents=True, exist_ok=True)
    put(path, [HOOK_SCRIPT.encode()], mode=0o755)
    return "installed"


def finalised(
    files: Sequence[NotedFile], records: Sequence[TracedRecord], *, since: str = ""
) -> Finalised:
    """Records come newest first; `since` is when the commit before was made."""
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
        dropped += _dropped(file.path, origins, records, since)
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
    """The same record and commit give the same id, so that doing it again changes nothing."""
    record = placed.record
    kept = {name: held for name, held in own(record).items() if name not in _OF_THE_CHAIN}
    told = {
        **kept,
        "finalises": record.id,
        "record_hash": record.hash,
        "files": [_own_file(record, path, spans) for path, spans in placed.files],
    }
    return {
        "version": VERSION,
        "id": str(uuid5(NAMESPACE_URL, f"{record.id}:{revision}")),
        "timestamp": record.time,
        "vcs": {"type": "git", "revision": revision},
        **({"tool": record.raw["tool"]} if isinstance(record.raw.get("tool"), dict) else {}),
        "files": [_file(record, path, spans) for path, spans in placed.files],
        "metadata": {"orchestration": told},
    }


def record_finalised_by(record: Mapping[str, Any]) -> str:
    """The id of the record that a finalised one stands for; empty for any other."""
    metadata = record.get("metadata")
    told = metadata.get("orchestration") if isinstance(metadata, dict) else None
    named = told.get("finalises") if isinstance(told, dict) else None
    return named if isinstance(named, str) else ""


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


def _spans(file: NotedFile, origins: Sequence[LineOrigin]) -> Iterator[tuple[str, LineRange]]:
    """The lines the commit wrote, in runs that one record wrote."""

    def writer(at: int) -> str:
        origin = origins[at]
        told = at in file.fresh and origin.certainty == "written" and origin.record
        return origin.record.id if told and origin.record else ""

    for record_id, run in groupby(range(len(file.lines)), key=writer):
        if record_id:
            places = list(run)
            start, end = places[0], places[-1] + 1
            yield record_id, LineRange(start + 1, end, content_hash(file.lines[start:end]))


def _dropped(
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
    talk = {
        **({"url": f"urn:task:{record.task_id}"} if record.task_id else {}),
        "contributor": {
            "type": record.contributor or "unknown",
            **({"model_id": record.model_id} if record.model_id else {}),
        },
        "ranges": [_range(each) for each in spans],
        "related": [{"type": each.type, "url": each.url} for each in record.related],
    }
    return {"path": path, "conversations": [talk]}


def _own_file(record: TracedRecord, path: str, spans: Sequence[LineRange]) -> dict[str, Any]:
    """With the lines as they were counted live, if those were others."""
    live = _live(record, path)
    if live is None:
        first = record.files[0].path if record.files else ""
        return {"path": path, **({"moved_from": first} if first else {})}
    told = {"path": path, "op": live.op}
    if live.ranges == tuple(spans):
        return told
    return {**told, "original_ranges": [_range(each) for each in live.ranges]}


def _live(record: TracedRecord, path: str) -> TracedFile | None:
    return next((file for file in record.files if file.path == path), None)


def _range(lines: LineRange) -> dict[str, Any]:
    return {"start_line": lines.start, "end_line": lines.end, "content_hash": lines.content_hash}


def _noted_by_others(history: GitHistory, revision: str) -> list[dict[str, Any]]:
    note = history.notes(NOTES).get(revision)
    if note is None:
        return []
    try:
        there = list(decoded_objects(history.note_text(note).decode("utf-8")))
    except (ValueError, RecursionError) as error:
        raise StorageError(
            f"The note on {revision[:12]} in refs/notes/{NOTES} was not written by "
            "rookery, so it was not changed. Remove it, then run this again."
        ) from error
    return [each for each in there if isinstance(each, dict) and not record_finalised_by(each)]


def _files(history: GitHistory, commit: Commit) -> list[NotedFile]:
    return [_committed(file) for file in history.changed_files(commit)]


def _committed(file: CommitChange) -> NotedFile:
    written = line_change(file.before, file.after).written
    fresh = {at for each in written for at in range(each.start - 1, each.end)}
    lines = tuple(plain_lines(file.after))
    return NotedFile(path=file.path, lines=lines, fresh=frozenset(fresh))
