"""What a writer knows of the active file without reading it again: its tips, its length, and
what a seal and a known head need. It grows with the number of streams, not of records.
"""

import json
from collections.abc import Mapping
from typing import Any

from rookery.governance.ledger.verify_ledger import (
    NO_BYTES,
    PREFIX,
    MerkleTree,
    Tip,
    decoded_objects,
    digest_after,
    own_part,
    tips_in,
)


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
