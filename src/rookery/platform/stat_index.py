"""What each file was when it was last read, so that only changed files are read again.

It is a hint and no record: every line is compared with the file system before it is believed,
so that any copy will do, an old one, that of another process, or none.
"""

import os
import struct
from collections.abc import Mapping
from hashlib import sha1
from pathlib import Path

from rookery.platform.disk import put

_HEAD = b"rookery stat index 3\n"
_ROW = struct.Struct("<QqqQI20s")
_COUNT = struct.Struct("<I")
_SETTLED = 2_000_000_000
"""Nanoseconds after a change from which on another must show in the file's times: file systems
keep those to two seconds at worst."""

Row = tuple[int, int, int, int, int, bytes]
"""Size, both times, inode, mode, and the id of the content."""
Rows = dict[str, dict[str, Row]]
"""By folder, then by name."""


def row_of(status: os.stat_result, blob: bytes) -> Row:
    return (
        status.st_size,
        status.st_mtime_ns,
        status.st_ctime_ns,
        status.st_ino,
        status.st_mode,
        blob,
    )


def is_settled(row: Row, began: int) -> bool:
    """Whether a change since it was read, which was after `began`, could not go unnoticed."""
    return max(row[1], row[2]) < began - _SETTLED


def times_are_settled(status: os.stat_result, began: int) -> bool:
    """The same, of what has no row."""
    return max(status.st_mtime_ns, status.st_ctime_ns) < began - _SETTLED


def read_index(path: Path) -> Rows:
    try:
        data = path.read_bytes()
    except OSError:
        return {}
    if data[: len(_HEAD)] != _HEAD or _checksum(data[:-20]) != data[-20:]:
        return {}
    return _decoded(data[len(_HEAD) : -20])


def write_index(path: Path, rows: Mapping[str, Mapping[str, Row]]) -> None:
    """Replaced whole. Not synced: a torn index is noticed, and merely costs time."""
    data = _HEAD + _encoded(rows)
    put(path, [data, _checksum(data)], durable=False)


def _encoded(rows: Mapping[str, Mapping[str, Row]]) -> bytes:
    names = [name for folder in rows.values() for name in folder]
    heads = b"\0".join(os.fsencode(folder) for folder in rows)
    tails = b"\0".join(map(os.fsencode, names))
    counts = [len(folder) for folder in rows.values()]
    return b"".join(
        [
            struct.pack("<III", len(rows), len(heads), len(tails)),
            heads,
            tails,
            struct.pack(f"<{len(counts)}I", *counts),
            *(_ROW.pack(*row) for folder in rows.values() for row in folder.values()),
        ]
    )


def _decoded(data: bytes) -> Rows:
    folders, heads_size, tails_size = struct.unpack_from("<III", data)
    if not folders:
        return {}
    at = 12 + heads_size
    heads = os.fsdecode(data[12:at]).split("\0")
    tails = os.fsdecode(data[at : at + tails_size]).split("\0")
    at += tails_size
    counts = struct.unpack_from(f"<{folders}I", data, at)
    at += _COUNT.size * folders
    table = list(_ROW.iter_unpack(data[at:]))
    rows, done = Rows(), 0
    for head, count in zip(heads, counts, strict=True):
        rows[head] = dict(zip(tails[done : done + count], table[done : done + count], strict=True))
        done += count
    return rows


def _checksum(data: bytes) -> bytes:
    return sha1(data, usedforsecurity=False).digest()
