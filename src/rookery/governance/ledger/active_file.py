"""The ledger's active file: repair, incremental reading and appending, while its lock is held.

`LedgerTail` is what a writer knows of the file without reading it again. `TailCache` caches it in
`.state/head.json` between processes. The cache is used only if the file still has the same last
line at the same offset.
"""

import json
import os
from collections.abc import Iterator
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct, field

from rookery.core.limits import MIB
from rookery.faults import kp
from rookery.first_use import prepared
from rookery.governance.ledger.segments import LARGEST_FILE
from rookery.governance.ledger.state_files import make_state_folder
from rookery.governance.ledger.verify_ledger import (
    EMPTY_DIGEST,
    LONGEST_LINE,
    PREFIX,
    MerkleTree,
    Tip,
    bounded_lines,
    chain_entry,
    decode_objects,
    extend_digest,
    leaf_hash,
    parse_tips,
)
from rookery.platform.disk import UnfitFile, put, regular_file, whole_file

_MAX_CACHE = 64 * MIB
_BLOCK = 256 * 1024


class LedgerTail(Struct):
    """State of the active file up to `size`, updated line by line. Record hashes are not checked
    here; `verify_ledger` does that."""

    inode: int = 0
    size: int = 0
    records: int = 0
    digest: bytes = EMPTY_DIGEST
    tree: MerkleTree = field(default_factory=MerkleTree)
    last_line: bytes = b""
    first_time: str = ""
    last_time: str = ""
    ends_with_seal: bool = False
    since_checkpoint: int = 0
    sealed_records: int = 0
    """Number of records in the sealed files before this one."""
    heads: dict[str, tuple[int, str]] = field(default_factory=dict)
    anchored: dict[str, int] = field(default_factory=dict)

    def encode(self) -> bytes:
        return msgspec.json.encode(self, enc_hook=lambda tree: tree.peaks)

    @staticmethod
    def decode(data: bytes) -> "LedgerTail":
        """Raises ValueError if the data is not an encoded tail."""
        return msgspec.json.decode(data, type=prepared(LedgerTail), dec_hook=_decode_tree)

    def add(self, line: bytes) -> None:
        """Add one line, with its line end."""
        self.size += len(line)
        self.digest = extend_digest(self.digest, line)
        self.last_line = line
        for record in _objects(line):
            own = chain_entry(record)
            if own is not None:
                self._count(own, str(record.get("timestamp", "")))

    def head(self, stream: str) -> tuple[int, str] | None:
        """Sequence number and hash of a stream's last record."""
        return self.heads.get(stream)

    def covers(self, tip: Tip) -> bool:
        """Whether the record is in the file, or a record in the file is anchored to it."""
        stream, seq, _ = tip
        here = max(self.heads.get(stream, (-1, ""))[0], self.anchored.get(stream, -1))
        return here >= seq

    @property
    def tips(self) -> tuple[Tip, ...]:
        """The last records of the streams that no other stream is anchored to."""
        return tuple(
            (stream, seq, hash_)
            for stream, (seq, hash_) in sorted(self.heads.items())
            if seq > self.anchored.get(stream, -1)
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
        if seq > self.heads.get(stream, (-1, ""))[0]:
            self.heads[stream] = (seq, own["hash"])
        for named, at, _ in parse_tips(own.get("anchors")) or ():
            if named != stream:
                self.anchored[named] = max(at, self.anchored.get(named, -1))

    def _is_sealed_by(self, own: dict[str, Any]) -> bool:
        """Whether the seal matches the records before it; a forged one does not."""
        seal = (own.get("root"), own.get("records"), own.get("first_time"))
        return seal == (PREFIX + self.tree.root, self.records, self.first_time)


def _decode_tree(kind: type, peaks: Any) -> MerkleTree:
    return MerkleTree(msgspec.convert(peaks, list[tuple[int, bytes]]))


class ActiveFile:
    def __init__(self, path: Path) -> None:
        """Raises OSError if the file cannot be opened, is not a regular file or is too large: it
        may have come with a clone."""
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
        """Yield the lines from an offset to the end."""
        with open(os.dup(self.fd), "rb") as file:
            file.seek(offset)
            yield from bounded_lines(file.readline)

    def append(self, data: bytes) -> None:
        """Write all the data, in one call if the system allows. Call `undo` after a failure."""
        left = memoryview(data)
        while left:
            left = left[os.write(self.fd, left) :]
            kp("ledger.written")
        self.size += len(data)

    def undo(self, size: int) -> None:
        """Truncate to `size`. If that fails, the next writer repairs the torn line."""
        with suppress(OSError):
            os.ftruncate(self.fd, size)
            self.size = size

    def repair(self, quarantine: Path) -> dict[str, Any] | None:
        """Complete the last line, or move it to `quarantine` if it is not a valid record.

        Returns the content of the repair record, or None if none is needed.
        """
        if not self.size or os.pread(self.fd, 1, self.size - 1) == b"\n":
            return None
        start = self._last_line_start()
        fragment = os.pread(self.fd, self.size - start, start)
        if _is_valid(fragment):
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


class TailCache:
    def __init__(self, path: Path) -> None:
        self._path = path
        self._known: LedgerTail | None = None

    def tail_of(self, file: ActiveFile) -> LedgerTail:
        """State of the file up to its end; only lines that are new since the last call are read."""
        known = (each for each in (self._known, self._load()) if _is_current(each, file))
        tail = next(known, None) or LedgerTail(inode=file.inode)
        if tail.size < file.size:
            for line in file.lines_from(tail.size):
                tail.add(line)
        self._known = tail
        return tail

    def save(self) -> None:
        """Write the cache for the next process."""
        if self._known:
            with suppress(UnicodeEncodeError):  # foreign stream names may hold surrogates
                put(self._path, [self._known.encode()], durable=False)

    def discard(self) -> None:
        self._known = None
        self._path.unlink(missing_ok=True)

    def _load(self) -> LedgerTail | None:
        try:
            return LedgerTail.decode(whole_file(self._path, largest=_MAX_CACHE))
        except (OSError, ValueError, RecursionError):
            return None  # only a cache: the file is read instead


def _is_current(tail: LedgerTail | None, file: ActiveFile) -> bool:
    if tail is None or tail.inode != file.inode:
        return False
    start = tail.size - len(tail.last_line)
    return tail.size <= file.size and file.holds(tail.last_line, at=start)


def _objects(line: bytes) -> list[Any]:
    """The objects on a line; none if it is damaged, which `verify_ledger` reports."""
    try:
        return [json.loads(line)]
    except (ValueError, RecursionError):
        pass
    try:
        return list(decode_objects(line.decode("utf-8")))
    except (ValueError, RecursionError):
        return []


def _leaf(hash_: str) -> bytes:
    try:
        return bytes.fromhex(hash_.removeprefix(PREFIX))
    except ValueError:
        return EMPTY_DIGEST


def _is_valid(fragment: bytes) -> bool:
    try:
        objects = list(decode_objects(fragment.decode("utf-8")))
        return bool(objects) and all(_has_valid_hash(record) for record in objects)
    except (ValueError, RecursionError):
        return False


def _has_valid_hash(record: Any) -> bool:
    own = chain_entry(record)
    return own is not None and leaf_hash(record) == own["hash"]
