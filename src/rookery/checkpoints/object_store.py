"""An object store in git's pack format, without running git.

An object's id is the hash of its content, and every read checks it. Packs written by git can be
read too, as long as they have no deltas; the repository's configuration turns deltas off.
"""

import os
import zlib
from collections.abc import Collection, Iterable
from contextlib import suppress
from itertools import groupby
from pathlib import Path

from rookery import faults
from rookery.errors import StorageError
from rookery.platform.disk import sync_folder
from rookery.platform.git_objects import (
    UNFINISHED,
    ObjectKind,
    Packing,
    listed,
    object_id,
    unpacked,
)

_SMALL_PACK = 8 * 1024 * 1024
_MOST_SMALL_PACKS = 50
_LARGEST_PACK = 1024 * 1024 * 1024
"""Well below 2 GiB, from where on an index needs longer offsets."""
_MOST_IN_MEMORY = 1024 * 1024


class ObjectStore:
    """Not thread-safe, and the caller holds the repository's lock."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._loaded: set[str] = set()
        self._places: dict[bytes, tuple[str, int]] = {}
        self._packing: Packing | None = None
        self._made: set[str] = set()
        self._recent: dict[tuple[ObjectKind, bytes], bytes] = {}
        """Trees and commits that are not on disk yet, and the last ones that are."""
        self._in_memory: dict[bytes, bytes] = {}
        """Contents of secret files, which are kept in memory only."""

    def refresh(self) -> None:
        """Load packs that other processes added, and forget those they removed."""
        files = set(os.listdir(self._folder))
        names = {name[:-4] for name in files if name.endswith(".idx")}
        names = {name for name in names if f"{name}.pack" in files}
        if self._loaded - names:
            self._loaded, self._places = set(), {}
            self._recent.clear()
        for name in sorted(names - self._loaded):
            self._load(name)

    def clear_unfinished(self) -> None:
        for path in self._folder.glob(f"{UNFINISHED}*"):
            path.unlink(missing_ok=True)

    def __contains__(self, wanted: bytes) -> bool:
        return wanted in self._in_memory or self.is_written(wanted)

    def is_written(self, wanted: bytes) -> bool:
        """Whether it is on disk, or will be after `flush`."""
        return wanted in self._places or self._is_pending(wanted)

    def read(self, wanted: bytes, kind: ObjectKind) -> bytes:
        if recent := self._recent.get((kind, wanted)):
            return recent
        if wanted in self._in_memory and kind is ObjectKind.BLOB:
            return self._in_memory[wanted]
        found, data = self._read(wanted)
        if found is not kind:
            raise StorageError(f"Object {wanted.hex()} of the checkpoints does not match its hash")
        return data

    def add(self, kind: ObjectKind, data: bytes) -> bytes:
        """Store an object and return its id. It is durable only after `flush`."""
        new = object_id(kind, data)
        if not self.is_written(new):
            self._put(new, kind, data)
            if kind is not ObjectKind.BLOB:
                self._recent[kind, new] = data
        return new

    def remember(self, data: bytes) -> bytes:
        """Keep a blob in memory only, and return its id."""
        new = object_id(ObjectKind.BLOB, data)
        self._in_memory[new] = data
        return new

    def flush(self) -> None:
        """Make everything added so far durable."""
        packing, self._packing = self._packing, None
        if sum(map(len, self._recent.values())) > _MOST_IN_MEMORY:
            self._recent.clear()
        if packing:
            self._finish_pack(packing)

    def discard(self) -> None:
        """Forget objects that are not durable, and the cached ones."""
        packing, self._packing = self._packing, None
        self._recent.clear()
        if packing:
            packing.discard()

    def tidy(self) -> None:
        """Merge small packs if there are many, so that their number stays bounded. A pack that is
        larger than all smaller ones together is left alone: merging it each time would copy every
        object again and again."""
        if len(self._loaded) <= _MOST_SMALL_PACKS:
            return
        sizes = {name: self._pack(name).stat().st_size for name in self._loaded}
        small = sorted((size, name) for name, size in sizes.items() if size < _SMALL_PACK)
        if len(small) <= _MOST_SMALL_PACKS:
            return
        while small[-1][0] > sum(size for size, _ in small[:-1]):
            small.pop()
        names = {name for _, name in small}
        self._repack([i for i, (name, _) in self._places.items() if name in names], names)

    def keep_only(self, wanted: Collection[bytes]) -> None:
        """Delete all other objects and free their space."""
        self._repack(wanted, set(self._loaded))

    def drop_damaged(self, damaged: Collection[bytes]) -> None:
        """Delete damaged objects, so that they are stored again when next seen."""
        names = {self._places[i][0] for i in damaged if i in self._places}
        if names:
            self._repack([i for i, (name, _) in self._places.items() if name in names], names)

    def usage(self) -> int:
        with os.scandir(self._folder) as scan:
            return sum(entry.stat().st_size for entry in scan)

    def stored_sizes(self) -> dict[bytes, int]:
        """Bytes on disk of each object."""
        sizes: dict[bytes, int] = {}
        for name in self._loaded:
            places = sorted((at, i) for i, (pack, at) in self._places.items() if pack == name)
            ends = [at for at, _ in places[1:]] + [self._pack(name).stat().st_size]
            sizes |= {i: end - at for (at, i), end in zip(places, ends, strict=True)}
        return sizes

    def _is_pending(self, wanted: bytes) -> bool:
        return self._packing is not None and wanted in self._packing.ids

    def _put(self, new: bytes, kind: ObjectKind, data: bytes) -> None:
        if self._packing and self._packing.size > _LARGEST_PACK:
            full, self._packing = self._packing, None
            self._finish_pack(full)
        if self._packing is None:
            self._packing = Packing(self._folder)
        self._packing.add(new, kind, data)

    def _finish_pack(self, packing: Packing) -> None:
        name = packing.finish()
        self._made.add(name)
        self._load(name)

    def _repack(self, wanted: Iterable[bytes], names: Collection[str]) -> None:
        self._made.clear()
        known = sorted((self._places[each], each) for each in wanted if each in self._places)
        for name, group in groupby(known, key=lambda place: place[0][0]):
            with self._pack(name).open("rb", buffering=0) as pack:
                for (_, offset), each in group:
                    with suppress(StorageError):  # damaged objects are dropped
                        self._put(each, *_checked(each, pack.fileno(), offset))
        self.flush()
        faults.kp("checkpoint.repacked")
        for name in set(names) - self._made:
            self._pack(name).with_suffix(".idx").unlink(missing_ok=True)
            self._pack(name).unlink(missing_ok=True)
        sync_folder(self._folder)
        self._loaded, self._places = set(), {}
        self._recent.clear()
        self.refresh()

    def _pack(self, name: str) -> Path:
        return self._folder / f"{name}.pack"

    def _load(self, name: str) -> None:
        self._loaded.add(name)
        for known, offset in listed(self._pack(name)).items():
            self._places[known] = name, offset

    def _read(self, wanted: bytes) -> tuple[ObjectKind, bytes]:
        place = self._places.get(wanted)
        if place is None:
            raise StorageError(f"Object {wanted.hex()} of the checkpoints is missing")
        name, offset = place
        with self._pack(name).open("rb", buffering=0) as pack:
            return _checked(wanted, pack.fileno(), offset)


def _checked(wanted: bytes, pack: int, offset: int) -> tuple[ObjectKind, bytes]:
    try:
        kind, data = unpacked(pack, offset)
    except (ValueError, IndexError, zlib.error) as error:
        raise StorageError(f"Object {wanted.hex()} of the checkpoints is damaged") from error
    if object_id(kind, data) != wanted:
        raise StorageError(f"Object {wanted.hex()} of the checkpoints is damaged")
    return kind, data
