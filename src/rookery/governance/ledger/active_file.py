"""The ledger's active file while its lock is held: mended, read on and appended to.

`LedgerTail` is what a writer knows of the file without reading it again. `TailMemory` keeps it in
`.state/head.json` between processes. That only saves reading: it is believed if the file still has
the same last line in the same place.
"""

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Any

from rookery.core.limits import MIB
from rookery.faults import kp
from rookery.governance.ledger.segments import LARGEST_FILE
from rookery.governance.ledger.state_files import make_state_folder
from rookery.governance.ledger.verify_ledger import (
    LONGEST_LINE,
    NO_BYTES,
    PREFIX,
    MerkleTree,
    Tip,
    bounded_lines,
    decoded_objects,
    digest_after,
    leaf_hash,
    own_part,
    tips_in,
)
from rookery.platform.disk import UnfitFile, put, regular_file, whole_file

_LARGEST = 64 * MIB
_BLOCK = 256 * 1024


class LedgerTail:
    """The file up to `size`, folded line by line. Hashes are believed here; verifying is not
    the writer's work."""

    def __init__(self) -> None:
        self.size = 0
        self.records = 0
        self.digest = NO_BYTES
        self.tree = MerkleTree()
        self.last_line = b""
        self.first_time = ""
        self.last_time = ""
        self.ends_with_seal = False
        self.since_checkpoint = 0
        self.sealed_records = 0
        """How many records the sealed files before this one hold."""
        self._heads: dict[str, tuple[int, str]] = {}
        self._anchored: dict[str, int] = {}

    def take(self, line: bytes) -> None:
        """One more line, with its line end."""
        self.size += len(line)
        self.digest = digest_after(self.digest, line)
        self.last_line = line
        for record in _objects(line):
            own = own_part(record)
            if own is not None:
                self._count(own, str(record.get("timestamp", "")))

    def head(self, stream: str) -> tuple[int, str] | None:
        """The last record of a stream, by number and hash."""
        return self._heads.get(stream)

    def covers(self, tip: Tip) -> bool:
        """Whether the record is here, or is one that a record here builds upon."""
        stream, seq, _ = tip
        here = max(self._heads.get(stream, (-1, ""))[0], self._anchored.get(stream, -1))
        return here >= seq

    @property
    def tips(self) -> tuple[Tip, ...]:
        """The last records of streams that no other stream anchors."""
        return tuple(
            (stream, seq, mark)
            for stream, (seq, mark) in sorted(self._heads.items())
            if seq > self._anchored.get(stream, -1)
        )

    def _count(self, own: dict[str, Any], time: str) -> None:
        self.ends_with_seal = own.get("kind") == "seal" and self._is_sealed_by(own)
        self.records += 1
        self.since_checkpoint = 0 if own.get("kind") == "checkpoint" else self.since_checkpoint + 1
        self.first_time = self.first_time or time
        self.last_time = time
        self.tree.add(_leaf(own["hash"]))
        if isinstance(segment := own.get("segment"), dict):
            count = segment.get("records")
            self.sealed_records = count if isinstance(count, int) else 0
        stream, seq = own["stream"], own["seq"]
        if seq > self._heads.get(stream, (-1, ""))[0]:
            self._heads[stream] = (seq, own["hash"])
        for named, at, _ in tips_in(own.get("anchors")) or ():
            if named != stream:
                self._anchored[named] = max(at, self._anchored.get(named, -1))

    def _is_sealed_by(self, own: dict[str, Any]) -> bool:
        """Whether the seal is the one of just these records. Anybody may write a false one."""
        told = (own.get("root"), own.get("records"), own.get("first_time"))
        return told == (PREFIX + self.tree.root, self.records, self.first_time)

    def as_json(self) -> dict[str, Any]:
        return {
            "size": self.size,
            "records": self.records,
            "digest": self.digest.hex(),
            "peaks": [[size, node.hex()] for size, node in self.tree.peaks],
            "last_line": self.last_line.decode("utf-8", "surrogateescape"),
            "times": [self.first_time, self.last_time],
            "ends_with_seal": self.ends_with_seal,
            "since_checkpoint": self.since_checkpoint,
            "sealed_records": self.sealed_records,
            "heads": {stream: [seq, mark] for stream, (seq, mark) in self._heads.items()},
            "anchored": self._anchored,
        }

    @staticmethod
    def from_json(held: Mapping[str, Any]) -> "LedgerTail":
        """Raises KeyError, TypeError or ValueError for what is no tail."""
        tail = LedgerTail()
        tail.size, tail.records = int(held["size"]), int(held["records"])
        tail.digest = bytes.fromhex(held["digest"])
        tail.tree = MerkleTree((int(size), bytes.fromhex(node)) for size, node in held["peaks"])
        tail.last_line = held["last_line"].encode("utf-8", "surrogateescape")
        tail.first_time, tail.last_time = held["times"]
        tail.ends_with_seal = bool(held["ends_with_seal"])
        tail.since_checkpoint = int(held["since_checkpoint"])
        tail.sealed_records = int(held["sealed_records"])
        tail._heads = {
            stream: (int(seq), str(mark)) for stream, (seq, mark) in held["heads"].items()
        }
        tail._anchored = {stream: int(seq) for stream, seq in held["anchored"].items()}
        return tail


class ActiveFile:
    def __init__(self, path: Path) -> None:
        """Raises OSError, and so for what is no file of a ledger: it may have come with a clone."""
        self.path = path
        self.fd = regular_file(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o644)
        found = os.fstat(self.fd)
        self.inode, self.size = found.st_ino, found.st_size
        if self.size > LARGEST_FILE:
            self.close()
            raise UnfitFile(path, f"is larger than {LARGEST_FILE // MIB} MiB")

    def close(self) -> None:
        os.close(self.fd)

    def holds(self, line: bytes, *, at: int) -> bool:
        return at >= 0 and os.pread(self.fd, len(line), at) == line

    def lines_from(self, offset: int) -> Iterator[bytes]:
        """The whole lines from there to the end."""
        with open(os.dup(self.fd), "rb") as file:
            file.seek(offset)
            yield from bounded_lines(file.readline)

    def append(self, data: bytes) -> None:
        """All of it, in one call if the system takes it. After a failure, undo."""
        left = memoryview(data)
        while left:
            left = left[os.write(self.fd, left) :]
            kp("ledger.written")
        self.size += len(data)

    def undo(self, size: int) -> None:
        """Take back what was written beyond the size. What cannot be taken back is a torn line,
        which the next writer mends."""
        with suppress(OSError):
            os.ftruncate(self.fd, size)
            self.size = size

    def mend(self, quarantine: Path) -> dict[str, Any] | None:
        """Complete the last line, or move it away if it is no whole record.

        Returns what a repair record says of it.
        """
        if not self.size or os.pread(self.fd, 1, self.size - 1) == b"\n":
            return None
        start = self._last_line_start()
        fragment = os.pread(self.fd, self.size - start, start)
        if _is_whole(fragment):
            self.append(b"\n")
            return None
        digest = sha256(fragment).hexdigest()
        make_state_folder(quarantine)
        kept = quarantine / f"{digest[:16]}.txt"
        put(kept, [fragment], durable=False)
        kp("ledger.quarantined")
        os.ftruncate(self.fd, start)
        self.size = start
        return {"bytes": len(fragment), "sha256": digest, "kept": kept.name}

    def _last_line_start(self) -> int:
        at = self.size
        while at:
            if self.size - at > LONGEST_LINE:
                raise UnfitFile(self.path, "ends with a line that is longer than a record can be")
            size = min(_BLOCK, at)
            at -= size
            found = os.pread(self.fd, size, at).rfind(b"\n")
            if found >= 0:
                return at + found + 1
        return 0


class TailMemory:
    def __init__(self, path: Path) -> None:
        self._path = path
        self._known: tuple[int, LedgerTail] | None = None

    def tail_of(self, file: ActiveFile) -> LedgerTail:
        """The file up to its end, of which only what is new is read."""
        tail = _if_it_fits(self._known, file) or _if_it_fits(self._kept(), file) or LedgerTail()
        if tail.size < file.size:
            for line in file.lines_from(tail.size):
                tail.take(line)
        self._known = (file.inode, tail)
        return tail

    def keep(self) -> None:
        """Leave what is known to the next process."""
        if self._known:
            inode, tail = self._known
            text = json.dumps({"inode": inode, **tail.as_json()})
            put(self._path, [text.encode()], durable=False)

    def forget(self) -> None:
        self._known = None
        self._path.unlink(missing_ok=True)

    def _kept(self) -> tuple[int, LedgerTail] | None:
        try:
            held = json.loads(whole_file(self._path, largest=_LARGEST))
            return int(held["inode"]), LedgerTail.from_json(held)
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
            return None  # a cache: without it, the file is read


def _if_it_fits(known: tuple[int, LedgerTail] | None, file: ActiveFile) -> LedgerTail | None:
    if known is None or known[0] != file.inode:
        return None
    tail = known[1]
    fits = tail.size <= file.size and file.holds(tail.last_line, at=tail.size - len(tail.last_line))
    return tail if fits else None


def _objects(line: bytes) -> list[Any]:
    """The records on a line. Damage is no concern of a writer: it is kept, and verifying tells."""
    try:
        return [json.loads(line)]
    except (ValueError, RecursionError):
        pass
    try:
        return list(decoded_objects(line.decode("utf-8")))
    except (ValueError, RecursionError):
        return []


def _leaf(mark: str) -> bytes:
    try:
        return bytes.fromhex(mark.removeprefix(PREFIX))
    except ValueError:
        return NO_BYTES


def _is_whole(fragment: bytes) -> bool:
    try:
        objects = list(decoded_objects(fragment.decode("utf-8")))
        return bool(objects) and all(_verifies(record) for record in objects)
    except (ValueError, RecursionError):
        return False


def _verifies(record: Any) -> bool:
    own = own_part(record)
    return own is not None and leaf_hash(record) == own["hash"]
