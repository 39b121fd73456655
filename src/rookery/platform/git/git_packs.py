"""Pack files, as git has them: how one is written, and how what is in it is read.

One save makes one pack, so that a thousand new files cost no more syncs than one.
"""

import os
import secrets
import struct
import zlib
from collections.abc import Collection
from contextlib import suppress
from enum import IntEnum
from hashlib import sha1
from itertools import accumulate
from pathlib import Path
from typing import BinaryIO

from rookery import faults

UNFINISHED = "tmp_"
_LARGEST_OBJECT = 256 * 1024 * 1024
_INDEX_HEAD = b"\xfftOc\x00\x00\x00\x02"
_IDS_AT = len(_INDEX_HEAD) + 256 * 4


class Kind(IntEnum):
    COMMIT = 1
    TREE = 2
    BLOB = 3


def object_id(kind: Kind, data: bytes) -> bytes:
    head = b"%s %d\0" % (kind.name.lower().encode(), len(data))
    digest = sha1(head, usedforsecurity=False)
    digest.update(data)
    return digest.digest()


class Packing:
    """A pack that is being written."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._path = folder / f"{UNFINISHED}{secrets.token_hex(8)}"
        self._file: BinaryIO = self._path.open("xb+", buffering=1024 * 1024)
        self._entries: dict[bytes, tuple[int, int]] = {}
        self._file.write(bytes(12))
        self.size = 12

    @property
    def ids(self) -> Collection[bytes]:
        return self._entries.keys()

    def add(self, new: bytes, kind: Kind, data: bytes) -> None:
        packed = _entry_head(kind, len(data)) + zlib.compress(data, 1)
        self._file.write(packed)
        self._entries[new] = self.size, zlib.crc32(packed)
        self.size += len(packed)

    def finish(self) -> str:
        """Make the pack and its index durable, in the order in which git looks for them."""
        try:
            checksum = self._seal()
            name = f"pack-{checksum.hex()}"
            index = self._path.with_name(f"{self._path.name}.idx")
            with index.open("xb") as file:
                file.write(self._index(checksum))
                _sync(file)
            faults.kp("checkpoint.packed")
            self._path.replace(self._folder / f"{name}.pack")
            index.replace(self._folder / f"{name}.idx")
            sync_folder(self._folder)
        except BaseException:
            self.discard()
            raise
        return name

    def discard(self) -> None:
        with suppress(OSError):  # what could not be written is not wanted any more
            self._file.close()
        self._path.unlink(missing_ok=True)
        self._path.with_name(f"{self._path.name}.idx").unlink(missing_ok=True)

    def _seal(self) -> bytes:
        """Fill in how many objects there are, and put the checksum of all behind them."""
        self._file.seek(0)
        self._file.write(b"PACK" + struct.pack(">II", 2, len(self._entries)))
        self._file.seek(0)
        digest = sha1(usedforsecurity=False)
        while piece := self._file.read(1024 * 1024):
            digest.update(piece)
        self._file.write(digest.digest())
        _sync(self._file)
        self._file.close()
        return digest.digest()

    def _index(self, checksum: bytes) -> bytes:
        ids = sorted(self._entries)
        firsts = [0] * 256
        for known in ids:
            firsts[known[0]] += 1
        fanout = accumulate(firsts)
        crcs = (self._entries[known][1] for known in ids)
        offsets = (self._entries[known][0] for known in ids)
        body = b"".join(
            [
                _INDEX_HEAD,
                struct.pack(">256I", *fanout),
                *ids,
                struct.pack(f">{len(ids)}I", *crcs),
                struct.pack(f">{len(ids)}I", *offsets),
                checksum,
            ]
        )
        return body + _sha1(body)


def _sha1(data: bytes) -> bytes:
    return sha1(data, usedforsecurity=False).digest()


def _entry_head(kind: Kind, size: int) -> bytes:
    """The kind and four bits of the size, then seven bits of it in each further byte."""
    head = bytearray([kind << 4 | size & 15])
    size >>= 4
    while size:
        head[-1] |= 0x80
        head.append(size & 0x7F)
        size >>= 7
    return bytes(head)


def listed(pack: Path) -> dict[bytes, int]:
    """Where each object is, as the pack's index says. A damaged index lists none: what it listed
    is stored anew when next met."""
    data = pack.with_suffix(".idx").read_bytes()
    if data[: len(_INDEX_HEAD)] != _INDEX_HEAD or _sha1(data[:-20]) != data[-20:]:
        return {}
    count = int.from_bytes(data[_IDS_AT - 4 : _IDS_AT], "big")
    ids = (data[at : at + 20] for at in range(_IDS_AT, _IDS_AT + 20 * count, 20))
    return dict(zip(ids, struct.unpack_from(f">{count}I", data, _IDS_AT + 24 * count), strict=True))


def unpacked(pack: Path, offset: int) -> tuple[Kind, bytes]:
    """What stands there. Raises `ValueError`, `IndexError` or `zlib.error` if it is damaged."""
    with pack.open("rb", buffering=0) as file:
        head = os.pread(file.fileno(), 16, offset)
        size, at = head[0] & 15, 1
        while head[at - 1] & 0x80:
            size |= (head[at] & 0x7F) << 4 + 7 * (at - 1)
            at += 1
        if size > _LARGEST_OBJECT:
            raise ValueError("nothing so large was ever stored")
        most = size + size // 500 + 64  # deflate makes nothing longer than that
        packed = os.pread(file.fileno(), most, offset + at)
    data = zlib.decompressobj().decompress(packed, size + 1)
    if len(data) != size:
        raise ValueError("it is not as long as it says")
    return Kind(head[0] >> 4 & 7), data


def _sync(file: BinaryIO) -> None:
    file.flush()
    os.fsync(file.fileno())


def sync_folder(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
