"""The files of a ledger: one active, the others sealed, plain or compressed.

Readers stream. Reading backwards goes block by block, so that the newest records of a long ledger
come first and fast. A ledger may have come with a clone: anything that is not a regular file, or is
too large before or after unpacking, is refused, and overlong lines come in pieces.
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
    chain_entry,
    parse_tips,
    tips_json,
)
from rookery.platform.disk import UnfitFile, regular_file

if TYPE_CHECKING:
    from gzip import GzipFile

    from rookery.governance.ledger.active_file import LedgerTail

ACTIVE = "agent_trace.jsonl"
SEALED = "trace"
LARGEST_FILE = 4096 * MIB
LARGEST_UNPACKED = 256 * MIB
"""Writers seal at a quarter of this; merged branches add up."""
_BLOCK = 64 * 1024
_TIME = re.compile(r"[0-9TZ:.-]{10,40}")


def active_file(folder: Path) -> Path:
    return folder / ACTIVE


def sealed_files(folder: Path) -> list[Path]:
    """Sealed files, oldest first. If a segment exists plain and compressed, the plain one."""
    found = sorted((folder / SEALED).glob("*.jsonl*"))
    plain = {path.name for path in found if path.suffix == ".jsonl"}
    return [
        path for path in found if path.name.removesuffix(".gz") not in plain or path.suffix != ".gz"
    ]


def segment_name(first_time: str, root: str) -> str:
    """File name of a segment. Names sort by time and are valid on any file system."""
    when = first_time if _TIME.fullmatch(first_time) else "unknown"
    return f"{when.replace(':', '')}-{root[:8]}.jsonl"


def lines(path: Path) -> Iterator[bytes]:
    """Yield the lines of a file with their line ends. Raises `LedgerUnreadable`."""
    with open_ledger_file(path) as file, _unpacking(path, file) as unpacked:
        yield from bounded_lines(unpacked.readline)


def lines_backwards(path: Path) -> Iterator[bytes]:
    """Yield the lines of a file, last line first."""
    with _seekable(path) as file:
        at = file.seek(0, os.SEEK_END)
        rest: list[bytes] = []  # blocks of the current line, last one first
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
    """Yield every line of the ledger, last written first."""
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


def open_ledger_file(path: Path) -> IO[bytes]:
    """Open a file without unpacking it. Raises `LedgerUnreadable` if it is unfit or too large."""
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
    """A compressed file, readable up to `LARGEST_UNPACKED` bytes."""

    def __init__(self, path: Path, packed: "IO[bytes] | GzipFile") -> None:
        self._path = path
        self._packed = packed
        self._left = LARGEST_UNPACKED

    def readline(self, limit: int) -> bytes:
        return self._count(self._packed.readline(limit))

    def read(self, limit: int) -> bytes:
        return self._count(self._packed.read(limit))

    def _count(self, data: bytes) -> bytes:
        self._left -= len(data)
        if self._left < 0:
            raise _too_large(self._path, LARGEST_UNPACKED)
        return data


@contextmanager
def _seekable(path: Path) -> Iterator[IO[bytes]]:
    """Open a file for seeking. A compressed one is unpacked to a temporary file."""
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


def _too_large(path: Path, limit: int) -> LedgerUnreadable:
    return LedgerUnreadable(f"{path} is larger than {limit // MIB} MiB; move it away")


class Seal(Struct, frozen=True, kw_only=True):
    """A sealed file, and its last record, which seals it."""

    path: Path
    own: dict[str, Any]
    timestamp: str

    @property
    def file(self) -> str:
        return self.path.name.removesuffix(".gz")

    @property
    def tips(self) -> tuple[Tip, ...]:
        """The tips of the ledger after the seal was written."""
        stream = self.own["stream"]
        others = [tip for tip in parse_tips(self.own.get("tips")) or () if tip[0] != stream]
        return (*others, (stream, self.own["seq"], self.own["hash"]))

    @property
    def segment(self) -> dict[str, Any]:
        """How the first stream of the next file refers to this one."""
        total = self.own["sealed_records"] + self.records
        return {"file": self.file, "root": str(self.own.get("root")), "records": total}

    @property
    def last_time(self) -> str:
        return str(self.own.get("last_time", ""))

    @property
    def records(self) -> int:
        return int(self.own["records"]) + 1

    @property
    def tombstone(self) -> dict[str, Any]:
        return {
            "file": self.file,
            "root": str(self.own.get("root")),
            "records": self.records,
            "first_time": str(self.own.get("first_time", "")),
            "last_time": self.last_time,
            "tips": tips_json(self.tips),
        }


def seal_entry(task_id: str, tail: "LedgerTail") -> LedgerEntry:
    """The seal of everything in the file so far."""
    more = {
        "records": tail.records,
        "sealed_records": tail.sealed_records,
        "first_time": tail.first_time,
        "last_time": tail.last_time,
        "root": PREFIX + tail.tree.root,
        "tips": tips_json(tail.tips),
    }
    return LedgerEntry(kind="seal", task_id=task_id, more=more)


def move_sealed(active: Path, last_line: bytes) -> Path:
    """Move a file that ends with its seal to its permanent name."""
    own = chain_entry(json.loads(last_line))
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
    """The seal that a new active file follows: the newest of three, as clocks can go back."""
    found = filter(None, map(_seal_of, sealed_files(folder)[-3:]))
    seals = [seal for seal in found if type(seal.own.get("sealed_records")) is int]
    return max(seals, key=lambda seal: seal.timestamp, default=None)


def segments_before(folder: Path, time: str) -> list[Seal]:
    """The sealed files with only records older than `time`, oldest first."""
    seals = filter(None, map(_seal_of, sealed_files(folder)))
    return [seal for seal in seals if seal.last_time < time]


def _seal_of(path: Path) -> Seal | None:
    """The seal of a file; None if it does not end with one."""
    try:
        record = json.loads(next(lines_backwards(path), b""))
    except (ValueError, RecursionError):
        return None
    own = chain_entry(record)
    if own is None or own.get("kind") != "seal" or type(own.get("records")) is not int:
        return None
    return Seal(path=path, own=own, timestamp=str(record.get("timestamp")))
