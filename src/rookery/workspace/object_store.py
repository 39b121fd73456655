"""Objects as git has them, in pack files that are written and read here.

One save makes one pack, so that a thousand new files cost no more syncs than one. An object is
known by the hash of what is in it, and every read checks that hash. No git process is needed,
and none is started; packs made by one can be read as long as they hold no deltas, which is
what the repository's configuration asks for.
"""

import os
import secrets
import struct
import zlib
from collections.abc import Collection, Iterable
from contextlib import suppress
from enum import IntEnum
from hashlib import sha1
from pathlib import Path
from typing import BinaryIO

from rookery import faults
from rookery.errors import StorageError

_SMALL_PACK = 8 * 1024 * 1024
_MOST_SMALL_PACKS = 50
_LARGEST_PACK = 1024 * 1024 * 1024
"""Well below the 2 GiB from where on an index needs longer offsets."""
_LARGEST_OBJECT = 256 * 1024 * 1024
_INDEX_HEAD = b"\xfftOc\x00\x00\x00\x02"
_IDS_AT = len(_INDEX_HEAD) + 256 * 4
_UNFINISHED = "tmp_"


class Kind(IntEnum):
    COMMIT = 1
    TREE = 2
    BLOB = 3


def object_id(kind: Kind, data: bytes) -> bytes:
    head = b"%s %d\0" % (kind.name.lower().encode(), len(data))
    digest = sha1(head, usedforsecurity=False)
    digest.update(data)
    return digest.digest()


class ObjectStore:
    """For one thread at a time, and only under the repository's lock."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._loaded: set[str] = set()
        self._places: dict[bytes, tuple[str, int]] = {}
        self._packing: _Packing | None = None
        self._made: set[str] = set()
        self._fresh: dict[bytes, bytes] = {}
        """Trees that are not on disk yet; they may be asked for."""

    def refresh(self) -> None:
        """Take up packs that others have made, and let go of those they have removed."""
        files = set(os.listdir(self._folder))
        names = {name[:-4] for name in files if name.endswith(".idx")}
        names = {name for name in names if f"{name}.pack" in files}
        if self._loaded - names:
            self._loaded, self._places = set(), {}
        for name in sorted(names - self._loaded):
            self._load(name)

    def clear_unfinished(self) -> None:
        for path in self._folder.glob(f"{_UNFINISHED}*"):
            path.unlink(missing_ok=True)

    def __contains__(self, wanted: bytes) -> bool:
        return wanted in self._places or self._is_pending(wanted)

    def read(self, wanted: bytes, kind: Kind) -> bytes:
        if wanted in self._fresh:
            return self._fresh[wanted]
        found, data = self._read(wanted)
        if found is not kind:
            raise StorageError(f"Object {wanted.hex()} of the checkpoints is not what it should be")
        return data

    def add(self, kind: Kind, data: bytes) -> bytes:
        """Its id. It is durable only after `flush`."""
        new = object_id(kind, data)
        if new not in self:
            self._put(new, kind, data)
            if kind is Kind.TREE:
                self._fresh[new] = data
        return new

    def flush(self) -> None:
        """Everything that was added is on the medium when this returns."""
        packing, self._packing = self._packing, None
        self._fresh.clear()
        if packing:
            self._take_up(packing)

    def discard(self) -> None:
        packing, self._packing = self._packing, None
        self._fresh.clear()
        if packing:
            packing.discard()

    def tidy(self) -> None:
        """Make one pack of many small ones, so that their number stays bounded."""
        small = [name for name in self._loaded if self._pack(name).stat().st_size < _SMALL_PACK]
        if len(small) > _MOST_SMALL_PACKS:
            names = set(small)
            self._repack([i for i, (name, _) in self._places.items() if name in names], names)

    def keep_only(self, wanted: Collection[bytes]) -> None:
        """Forget all other objects, and give their space back."""
        self._repack(wanted, set(self._loaded))

    def without(self, damaged: Collection[bytes]) -> None:
        """Forget objects that cannot be read, so that they are stored anew when next met."""
        names = {self._places[i][0] for i in damaged if i in self._places}
        if names:
            self._repack([i for i, (name, _) in self._places.items() if name in names], names)

    def usage(self) -> int:
        with os.scandir(self._folder) as scan:
            return sum(entry.stat().st_size for entry in scan)

    def stored_sizes(self) -> dict[bytes, int]:
        """How much of the disk each object takes."""
        sizes: dict[bytes, int] = {}
        for name in self._loaded:
            places = sorted((at, i) for i, (pack, at) in self._places.items() if pack == name)
            ends = [at for at, _ in places[1:]] + [self._pack(name).stat().st_size]
            sizes |= {i: end - at for (at, i), end in zip(places, ends, strict=True)}
        return sizes

    def _is_pending(self, wanted: bytes) -> bool:
        return self._packing is not None and wanted in self._packing.ids

    def _put(self, new: bytes, kind: Kind, data: bytes) -> None:
        if self._packing and self._packing.size > _LARGEST_PACK:
            full, self._packing = self._packing, None
            self._take_up(full)
        if self._packing is None:
            self._packing = _Packing(self._folder)
        self._packing.add(new, kind, data)

    def _take_up(self, packing: "_Packing") -> None:
        name = packing.finish()
        self._made.add(name)
        self._load(name)

    def _repack(self, wanted: Iterable[bytes], names: Collection[str]) -> None:
        self._made.clear()
        for known in wanted:
            with suppress(StorageError):  # damaged: as good as not there
                self._put(known, *self._read(known))
        self.flush()
        faults.kp("checkpoint.repacked")
        for name in set(names) - self._made:
            self._pack(name).with_suffix(".idx").unlink(missing_ok=True)
            self._pack(name).unlink(missing_ok=True)
        _sync_folder(self._folder)
        self._loaded, self._places = set(), {}
        self.refresh()

    def _pack(self, name: str) -> Path:
        return self._folder / f"{name}.pack"

    def _load(self, name: str) -> None:
        self._loaded.add(name)
        data = self._pack(name).with_suffix(".idx").read_bytes()
        if data[: len(_INDEX_HEAD)] != _INDEX_HEAD or _sha1(data[:-20]) != data[-20:]:
            return  # as good as not there: what it listed is stored anew when next met
        count = int.from_bytes(data[_IDS_AT - 4 : _IDS_AT], "big")
        offsets = struct.unpack_from(f">{count}I", data, _IDS_AT + 24 * count)
        for at, offset in enumerate(offsets):
            begin = _IDS_AT + 20 * at
            self._places[data[begin : begin + 20]] = name, offset

    def _read(self, wanted: bytes) -> tuple[Kind, bytes]:
        place = self._places.get(wanted)
        if place is None:
            raise StorageError(f"Object {wanted.hex()} of the checkpoints is missing")
        name, offset = place
        try:
            kind, data = _unpacked(self._pack(name), offset)
        except (ValueError, IndexError, zlib.error) as error:
            raise StorageError(f"Object {wanted.hex()} of the checkpoints is damaged") from error
        if object_id(kind, data) != wanted:
            raise StorageError(f"Object {wanted.hex()} of the checkpoints is damaged")
        return kind, data


class _Packing:
    """A pack that is being written."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._path = folder / f"{_UNFINISHED}{secrets.token_hex(8)}"
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
            _sync_folder(self._folder)
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
        fanout = [sum(firsts[: first + 1]) for first in range(256)]
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


def _unpacked(pack: Path, offset: int) -> tuple[Kind, bytes]:
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


def _sync_folder(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
