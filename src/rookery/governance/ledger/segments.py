"""The files of a ledger: the active one and the sealed ones, plain or compressed.

Readers stream. From the end backwards a file is read block by block, so that the newest
records of a very long ledger come at once. A ledger may have come with a clone: whatever is no
file, is longer than any ledger or unpacks to more than that is refused, and overlong lines come
in pieces.
"""

import errno
import json
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from msgspec import Struct

from rookery.core.limits import MIB
from rookery.faults import kp
from rookery.governance.ledger.records import LedgerEntry
from rookery.governance.ledger.state_files import LedgerUnreadable
from rookery.governance.ledger.verify_ledger import (
    LONGEST_LINE,
    PREFIX,
    Tip,
    bounded_lines,
    own_part,
    tips_in,
)
from rookery.platform.disk import UnfitFile, regular_file

if TYPE_CHECKING:
    from gzip import GzipFile

    from rookery.governance.ledger.active_file import LedgerTail

ACTIVE = "agent_trace.jsonl"
SEALED = "trace"
LARGEST_FILE = 4096 * MIB
LARGEST_UNPACKED = 256 * MIB
"""A file is sealed at a quarter of that; branches that are merged add up."""
_BLOCK = 64 * 1024
_TIME = re.compile(r"[0-9TZ:.-]{10,40}")


def active_file(folder: Path) -> Path:
    return folder / ACTIVE


def sealed_files(folder: Path) -> list[Path]:
    """Oldest first. Of a segment that is there plain and compressed, the plain one."""
    found = sorted((folder / SEALED).glob("*.jsonl*"))
    plain = {path.name for path in found if path.suffix == ".jsonl"}
    return [
        path for path in found if path.name.removesuffix(".gz") not in plain or path.suffix != ".gz"
    ]


def segment_name(first_time: str, root: str) -> str:
    """Names sort by time, and hold no character that a file system refuses."""
    when = first_time if _TIME.fullmatch(first_time) else "unknown"
    return f"{when.replace(':', '')}-{root[:8]}.jsonl"


def lines(path: Path) -> Iterator[bytes]:
    """The lines of a file with their line ends. Raises `LedgerUnreadable`."""
    with open_ledger_file(path) as file, _unpacking(path, file) as unpacked:
        yield from bounded_lines(unpacked.readline)


def lines_backwards(path: Path) -> Iterator[bytes]:
    """The same, last line first."""
    with _seekable(path) as file:
        at = file.seek(0, os.SEEK_END)
        rest: list[bytes] = []  # the end of the line that is being read, its last block first
        while at:
            size = min(_BLOCK, at)
            at -= size
            file.seek(at)
            first, *others = file.read(size).split(b"\n")
            if others or len(rest) * _BLOCK >= LONGEST_LINE:
                after = b"".join(reversed(rest))
                others = [*others[:-1], others[-1] + after] if others else [after]
                rest.clear()
            rest.append(first)
            yield from (piece + b"\n" for piece in reversed(others) if piece)
        if left := b"".join(reversed(rest)):
            yield left + b"\n"


def newest_first(folder: Path) -> Iterator[bytes]:
    """Every line of the ledger, from the last one of the active file on."""
    active = active_file(folder)
    if active.exists():
        yield from lines_backwards(active)
    for path in reversed(sealed_files(folder)):
        yield from lines_backwards(path)


def oldest_first(folder: Path) -> Iterator[bytes]:
    for path in sealed_files(folder):
        yield from lines(path)
    if active_file(folder).exists():
        yield from lines(active_file(folder))


def compress(path: Path) -> Path:
    """Replace a sealed file by a compressed one with the same content."""
    import gzip

    packed = path.with_name(path.name + ".gz")
    unfinished = packed.with_suffix(".unfinished")
    with open_ledger_file(path) as source, gzip.open(unfinished, "wb") as target:
        while block := source.read(_BLOCK):
            target.write(block)
    unfinished.replace(packed)
    path.unlink()
    return packed


def open_ledger_file(path: Path) -> IO[bytes]:
    """As it is on the disk. Raises `LedgerUnreadable` for what is no file of a ledger."""
    try:
        handle = regular_file(path)
    except UnfitFile as error:
        raise LedgerUnreadable(str(error.strerror)) from error
    if os.fstat(handle).st_size > LARGEST_FILE:
        os.close(handle)
        raise _too_large(path, LARGEST_FILE)
    return open(handle, "rb")


@contextmanager
def _unpacking(path: Path, file: IO[bytes]) -> Iterator["IO[bytes] | _Unpacked"]:
    if path.suffix != ".gz":
        yield file
        return
    import gzip
    import zlib

    try:
        with gzip.open(file, "rb") as packed:
            yield _Unpacked(path, packed)
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise LedgerUnreadable(f"{path} cannot be unpacked; move it away") from error


class _Unpacked:
    """What is in a compressed file, as far as a ledger can be that long."""

    def __init__(self, path: Path, packed: "IO[bytes] | GzipFile") -> None:
        self._path = path
        self._packed = packed
        self._left = LARGEST_UNPACKED

    def readline(self, most: int) -> bytes:
        return self._counted(self._packed.readline(most))

    def read(self, most: int) -> bytes:
        return self._counted(self._packed.read(most))

    def _counted(self, data: bytes) -> bytes:
        self._left -= len(data)
        if self._left < 0:
            raise _too_large(self._path, LARGEST_UNPACKED)
        return data


@contextmanager
def _seekable(path: Path) -> Iterator[IO[bytes]]:
    """A compressed file is unpacked beside, for it cannot be read backwards."""
    with open_ledger_file(path) as file:
        if path.suffix != ".gz":
            yield file
            return
        import tempfile

        with tempfile.TemporaryFile() as unpacked:
            with _unpacking(path, file) as packed:
                while block := packed.read(_BLOCK):
                    unpacked.write(block)
            yield unpacked


def _too_large(path: Path, most: int) -> LedgerUnreadable:
    return LedgerUnreadable(f"{path} is larger than {most // MIB} MiB; move it away")


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


def seal_entry(task_id: str, tail: "LedgerTail") -> LedgerEntry:
    """The seal over all that is in the file now."""
    more = {
        "records": tail.records,
        "sealed_records": tail.sealed_records,
        "first_time": tail.first_time,
        "last_time": tail.last_time,
        "root": PREFIX + tail.tree.root,
        "tips": [{"stream": a, "seq": b, "hash": c} for a, b, c in tail.tips],
    }
    return LedgerEntry(kind="seal", task_id=task_id, more=more)


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
        raise OSError(errno.EEXIST, f"the sealed file {target} already exists")
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
