"""Git objects: which ones a repository has, and reading and writing of pack files.

Git is not run, and looking up an object decompresses nothing. Each save writes one pack, so a
thousand new files need no more syncs than one.
"""

import mmap
import os
import secrets
import struct
import zlib
from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from enum import IntEnum
from hashlib import sha1
from itertools import accumulate
from pathlib import Path
from typing import BinaryIO

from rookery import faults
from rookery.platform.disk import sync, sync_folder, write_new
from rookery.platform.git_folders import entries, regular_content

_HEAD = b"\xfftOc\x00\x00\x00\x02"
_FANOUT_AT = len(_HEAD)
_IDS_AT = _FANOUT_AT + 256 * 4
_LONGEST_LIST = 64 * 1024
_LARGEST_INDEX = 1024 * 1024 * 1024

UNFINISHED = "tmp_"
_LARGEST_OBJECT = 256 * 1024 * 1024


def has_object(objects: str, wanted: str) -> bool:
    """Whether the object is in the folder or one of its alternates."""
    return any(True for _ in _files_with(objects, wanted))


def had_object(objects: str, wanted: str, before: int) -> bool:
    """Whether the object was there before a time, in nanoseconds since the epoch. Judged by the
    file's ctime, which cannot be forged."""
    return any(os.stat(file).st_ctime_ns < before for file in _files_with(objects, wanted))


def has_all(objects: str, wanted: Iterable[str]) -> bool:
    """Whether all objects are in the folder itself."""
    packs = (each for each in entries(os.path.join(objects, "pack")) if each.endswith(".idx"))
    packed = {known for each in packs for known in listed_objects(each)}
    return all(
        known in packed or os.path.isfile(os.path.join(objects, known[:2], known[2:]))
        for known in wanted
    )


def listed_objects(index: str) -> list[str]:
    """The object ids in a pack's index; empty if it cannot be read."""
    data = regular_content(index, _LARGEST_INDEX) or b""
    if data[:_FANOUT_AT] != _HEAD or len(data) < _IDS_AT:
        return []
    count = int.from_bytes(data[_IDS_AT - 4 : _IDS_AT], "big")
    return [data[at : at + 20].hex() for at in range(_IDS_AT, _IDS_AT + 20 * count, 20)]


def _files_with(objects: str, wanted: str) -> Iterator[str]:
    for folder in (objects, *_alternates(objects)):
        if os.path.isfile(loose := os.path.join(folder, wanted[:2], wanted[2:])):
            yield loose
        for each in entries(os.path.join(folder, "pack")):
            if each.endswith(".idx") and _is_listed(each, bytes.fromhex(wanted)):
                yield each


def _is_listed(index: str, wanted: bytes) -> bool:
    with (
        suppress(OSError, ValueError, IndexError, struct.error),
        open(index, "rb") as file,
        mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data,
    ):
        return data[:_FANOUT_AT] == _HEAD and _is_among(data, wanted)
    return False


def _is_among(data: mmap.mmap, wanted: bytes) -> bool:
    """Binary search in the sorted ids; the fanout table counts the ids up to each first byte."""
    first = wanted[0]
    fanout = struct.unpack_from(">256I", data, _FANOUT_AT)
    low, high = (fanout[first - 1] if first else 0), fanout[first]
    size = len(wanted)

    def known(number: int) -> bytes:
        return data[_IDS_AT + size * number : _IDS_AT + size * (number + 1)]

    found = bisect_left(range(high), wanted, lo=low, key=known)
    return found < high and known(found) == wanted


def _alternates(objects: str) -> Iterator[str]:
    listed = regular_content(os.path.join(objects, "info", "alternates"), _LONGEST_LIST) or b""
    for line in listed.decode("utf-8", "surrogateescape").splitlines():
        if line and not line.startswith("#"):
            yield os.path.join(objects, line)


class ObjectKind(IntEnum):
    COMMIT = 1
    TREE = 2
    BLOB = 3


_NAMES = {kind: kind.name.lower().encode() for kind in ObjectKind}


def object_id(kind: ObjectKind, data: bytes) -> bytes:
    digest = sha1(b"%s %d\0" % (_NAMES[kind], len(data)), usedforsecurity=False)
    digest.update(data)
    return digest.digest()


class Packing:
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

    def add(self, new: bytes, kind: ObjectKind, data: bytes) -> None:
        packed = _entry_head(kind, len(data)) + zlib.compress(data, 1)
        self._file.write(packed)
        self._entries[new] = self.size, zlib.crc32(packed)
        self.size += len(packed)

    def finish(self) -> str:
        """Sync the pack and its index and rename them, in the order in which git looks for them."""
        try:
            checksum = self._seal()
            name = f"pack-{checksum.hex()}"
            index = self._path.with_name(f"{self._path.name}.idx")
            write_new(index, [self._index(checksum)])
            faults.kp("checkpoint.packed")
            self._path.replace(self._folder / f"{name}.pack")
            index.replace(self._folder / f"{name}.idx")
            sync_folder(self._folder)
        except BaseException:
            self.discard()
            raise
        return name

    def discard(self) -> None:
        with suppress(OSError):  # flushing may fail; the file is removed anyway
            self._file.close()
        self._path.unlink(missing_ok=True)
        self._path.with_name(f"{self._path.name}.idx").unlink(missing_ok=True)

    def _seal(self) -> bytes:
        """Write the number of objects into the header and append the checksum."""
        self._file.seek(0)
        self._file.write(b"PACK" + struct.pack(">II", 2, len(self._entries)))
        self._file.seek(0)
        digest = sha1(usedforsecurity=False)
        while piece := self._file.read(1024 * 1024):
            digest.update(piece)
        self._file.write(digest.digest())
        self._file.flush()
        sync(self._file.fileno())
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
                _HEAD,
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


def _entry_head(kind: ObjectKind, size: int) -> bytes:
    """Kind and the low four bits of the size, then seven bits per further byte."""
    head = bytearray([kind << 4 | size & 15])
    size >>= 4
    while size:
        head[-1] |= 0x80
        head.append(size & 0x7F)
        size >>= 7
    return bytes(head)


def listed(pack: Path) -> dict[bytes, int]:
    """The offset of each object, from the pack's index. Empty if the index is damaged; its
    objects are then stored again."""
    data = pack.with_suffix(".idx").read_bytes()
    if data[: len(_HEAD)] != _HEAD or _sha1(data[:-20]) != data[-20:]:
        return {}
    count = int.from_bytes(data[_IDS_AT - 4 : _IDS_AT], "big")
    ids = (data[at : at + 20] for at in range(_IDS_AT, _IDS_AT + 20 * count, 20))
    return dict(zip(ids, struct.unpack_from(f">{count}I", data, _IDS_AT + 24 * count), strict=True))


def unpacked(pack: int, offset: int) -> tuple[ObjectKind, bytes]:
    """The object at an offset of an open pack. Raises `ValueError`, `IndexError` or `zlib.error`
    if it is damaged."""
    head = os.pread(pack, 16, offset)
    size, at = head[0] & 15, 1
    while head[at - 1] & 0x80:
        size |= (head[at] & 0x7F) << 4 + 7 * (at - 1)
        at += 1
    if size > _LARGEST_OBJECT:
        raise ValueError("nothing so large was ever stored")
    most = size + size // 500 + 64  # deflate adds at most this much
    packed = os.pread(pack, most, offset + at)
    data = zlib.decompressobj().decompress(packed, size + 1)
    if len(data) != size:
        raise ValueError("it is not as long as it says")
    return ObjectKind(head[0] >> 4 & 7), data
