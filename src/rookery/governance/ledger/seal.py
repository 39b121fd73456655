"""The end of an active file: its seal, its place among the sealed ones, and what comes after."""

import errno
import json
import os
from pathlib import Path
from typing import Any

from msgspec import Struct

from rookery.faults import kp
from rookery.governance.ledger.records import Entry
from rookery.governance.ledger.segments import SEALED, lines_backwards, sealed_files, segment_name
from rookery.governance.ledger.tail import LedgerTail
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
