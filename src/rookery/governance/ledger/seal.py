"""Seals: the last record of a file, its place among the sealed ones, and what comes after.

A sealed file that is pruned leaves a tombstone in the ledger, so that its absence can be told from
a loss.
"""

import errno
import json
import os
from pathlib import Path
from typing import Any

from msgspec import Struct

from rookery.faults import kp
from rookery.governance.ledger.active_file import LedgerTail
from rookery.governance.ledger.records import Entry
from rookery.governance.ledger.segments import SEALED, lines_backwards, sealed_files, segment_name
from rookery.governance.ledger.verify_ledger import PREFIX, Tip, own_part, tips_in


class Seal(Struct, frozen=True, kw_only=True):
    """The last record of a sealed file."""

    file: str
    own: dict[str, Any]
    timestamp: str

    @property
    def tips(self) -> tuple[Tip, ...]:
        """The tips of the ledger once the seal was written."""
        stream = self.own["stream"]
        others = [tip for tip in tips_in(self.own.get("tips")) or () if tip[0] != stream]
        return (*others, (stream, self.own["seq"], self.own["hash"]))

    @property
    def segment(self) -> dict[str, Any]:
        """How the first stream of the next file names this one."""
        total = self.own["sealed_records"] + self.own["records"] + 1
        return {"file": self.file, "root": str(self.own.get("root")), "records": total}


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


def seal_entry(task_id: str, tail: LedgerTail) -> Entry:
    """The seal over all that is in the file now."""
    more = {
        "records": tail.records,
        "sealed_records": tail.sealed_records,
        "first_time": tail.first_time,
        "last_time": tail.last_time,
        "root": PREFIX + tail.tree.root,
        "tips": [{"stream": a, "seq": b, "hash": c} for a, b, c in tail.tips],
    }
    return Entry(kind="seal", task_id=task_id, more=more)


def move_sealed(active: Path, last_line: bytes) -> Path:
    """Give a file that ends with its seal the name it keeps."""
    own = _own(last_line)
    assert own is not None
    folder = active.parent / SEALED
    folder.mkdir(exist_ok=True)
    if folder.is_symlink():
        raise OSError(errno.ELOOP, f"{folder} is a symbolic link")
    target = folder / segment_name(own["first_time"], own["root"].removeprefix(PREFIX))
    if target.exists():
        raise OSError(errno.EEXIST, f"there is a sealed file {target} already")
    kp("ledger.before_move")
    os.rename(active, target)
    kp("ledger.moved")
    return target


def newest_seal(folder: Path) -> Seal | None:
    """The seal that a new active file follows. Clocks go back: the last few names are looked at."""
    seals = [seal for seal in map(_seal_of, sealed_files(folder)[-3:]) if seal]
    return max(seals, key=lambda seal: seal.timestamp, default=None)


def segments_before(folder: Path, time: str) -> list[Segment]:
    """The sealed files all of whose records are older, oldest first."""
    found = [segment for path in sealed_files(folder) if (segment := _segment(path))]
    return [segment for segment in found if segment.last_time < time]


def _seal_of(path: Path) -> Seal | None:
    line = next(lines_backwards(path), b"")
    own = _own(line)
    counts = (own.get("records"), own.get("sealed_records")) if own else ()
    if own is None or own.get("kind") != "seal" or not all(type(each) is int for each in counts):
        return None
    name = path.name.removesuffix(".gz")
    return Seal(file=name, own=own, timestamp=str(json.loads(line).get("timestamp")))


def _own(line: bytes) -> dict[str, Any] | None:
    try:
        return own_part(json.loads(line))
    except (ValueError, RecursionError):
        return None


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
