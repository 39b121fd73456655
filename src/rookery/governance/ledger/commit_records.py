"""What a commit holds of the recorded changes: Agent Trace records whose lines are the commit's.

Live records count lines in a text that may never be committed. Here each of them is given the
lines that stand in the commit, found by their content; what is not found is counted and left
out. A finalised record is no part of the chain: it names the one that is.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any
from uuid import NAMESPACE_URL, uuid5

from msgspec import Struct

from rookery.governance.ledger.attribution import LineOrigin, blame
from rookery.governance.ledger.line_ranges import LineRange, content_hash
from rookery.governance.ledger.log_lines import own
from rookery.governance.ledger.records import VERSION, TracedFile
from rookery.governance.ledger.traced import TracedRecord

_OF_THE_CHAIN = frozenset({"stream", "seq", "prev", "hash", "files", "anchors", "tips"})


class CommittedFile(Struct, frozen=True, kw_only=True):
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


def finalised(
    files: Sequence[CommittedFile], records: Sequence[TracedRecord], *, since: str = ""
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


def _spans(file: CommittedFile, origins: Sequence[LineOrigin]) -> Iterator[tuple[str, LineRange]]:
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
