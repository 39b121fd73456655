"""Sealed files that nobody needs any more. A tombstone in the ledger says what was in each, so
that their absence can be told from a loss."""

import json
from pathlib import Path
from typing import Any

from msgspec import Struct

from rookery.governance.ledger.ledger_file import Ledger
from rookery.governance.ledger.records import Entry
from rookery.governance.ledger.seal import Seal
from rookery.governance.ledger.segments import lines_backwards, sealed_files
from rookery.governance.ledger.verify_ledger import own_part


class Segment(Struct, frozen=True, kw_only=True):
    """A sealed file, with its seal."""

    path: Path
    seal: Seal

    @property
    def first_time(self) -> str:
        return str(self.seal.own.get("first_time", ""))

    @property
    def last_time(self) -> str:
        return str(self.seal.own.get("last_time", ""))

    @property
    def records(self) -> int:
        return int(self.seal.own["records"]) + 1

    @property
    def tombstone(self) -> dict[str, Any]:
        tips = [{"stream": a, "seq": b, "hash": c} for a, b, c in self.seal.tips]
        return {
            "file": self.seal.file,
            "root": str(self.seal.own.get("root")),
            "records": self.records,
            "first_time": self.first_time,
            "last_time": self.last_time,
            "tips": tips,
        }


def segments_before(folder: Path, time: str) -> list[Segment]:
    """The sealed files all of whose records are older, oldest first."""
    found = [segment for path in sealed_files(folder) if (segment := _segment(path))]
    return [segment for segment in found if segment.last_time < time]


def prune(ledger: Ledger, segments: list[Segment], *, task_id: str) -> None:
    """The tombstones are in the ledger before anything is removed. Once cut off in between, it
    can be done again."""
    if segments:
        more = {"pruned": [segment.tombstone for segment in segments]}
        ledger.append(Entry(kind="checkpoint", task_id=task_id, more=more))
        ledger.checkpoint(task_id)
        ledger.close()
    for segment in segments:
        segment.path.unlink(missing_ok=True)


def _segment(path: Path) -> Segment | None:
    """None for a file without a seal: what is in it nobody can say afterwards."""
    line = next(lines_backwards(path), b"")
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return None
    own = own_part(record)
    if own is None or own.get("kind") != "seal" or type(own.get("records")) is not int:
        return None
    name = path.name.removesuffix(".gz")
    return Segment(path=path, seal=Seal(file=name, own=own, timestamp=str(record.get("timestamp"))))
