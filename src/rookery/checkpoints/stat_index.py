"""What the last walk through the workspace saw: its folders, and the state of their files.

It is only a cache. A file's row is used while the file's size, times, inode and mode are the same,
and the names in a folder while the folder's are. So an old index, another process's, or none will
do. Nothing that changed in the last two seconds is in it, because another change might not show.

`FolderSearch` finds protected files and repositories where no snapshot looks. Such folders can be
huge, so what it found in each of them is kept by the same rules.
"""

import os
import stat
import struct
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from hashlib import sha1
from pathlib import Path
from typing import TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from rookery import VERSION
from rookery.checkpoints.file_versions import identity, is_git_name
from rookery.checkpoints.object_store import ObjectStore
from rookery.checkpoints.snapshot_selection import DEPENDENCIES, WalkedFolder
from rookery.checkpoints.snapshot_trees import EMPTY, Trees
from rookery.platform.descriptors import times_are_settled
from rookery.platform.disk import put

T = TypeVar("T")

_HEAD = f"rookery {VERSION} stat index 4\n".encode()
_CHECKSUM = 20
_STATUS = struct.Struct("<QqqQI")
_pack = _STATUS.pack

Row = bytes
"""`sign_of` the file, then the id of its content."""


class KnownFolder(Struct, frozen=True, array_like=True, gc=False):
    """A folder and what was stored for it."""

    files: dict[str, Row]
    sign: bytes = b""
    """Empty if the folder has to be listed each time."""
    rules: bytes = b""
    """The key of the ignore rules that applied in it."""
    folders: tuple[str, ...] = ()
    trees: Trees = EMPTY
    rights: tuple[bytes, ...] = ()
    """Ids of the stored modes that the trees refer to."""


Index = dict[str, KnownFolder]
"""By path, with a slash at its end; the path of the workspace is empty."""
# made at import: msgspec may crash if two threads use a type for the first time
_INDEX = msgspec.msgpack.Decoder(Index)


def sign_of(status: os.stat_result) -> bytes:
    """Bytes that change whenever a file or the names in a folder change."""
    return _pack(
        status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino, status.st_mode
    )


Rebuild = Callable[[KnownFolder, WalkedFolder, Mapping[str, Trees | None]], Trees]
"""Stores a folder again because these folders inside it changed. Each has its new trees, or None if
they are not known yet."""


class SeenFolders:
    """The folders of the last walk, and those of this one. A folder that has not changed is neither
    opened nor listed."""

    def __init__(
        self,
        root: Path,
        store: ObjectStore,
        old: Index,
        most: int,
        private: Collection[tuple[int, int]],
        pause: Callable[[], None],
    ) -> None:
        self._top = f"{root}/"
        self._store = store
        self._old = old
        self._most = most
        self._private = private
        self._pause = pause
        self.index: Index = {}
        self.files = 0
        """Number of files so far, of which `most` are wanted."""

    def blob(self, path: str, name: str, status: os.stat_result) -> bytes:
        """The id of a file's content, empty if it may have changed."""
        folder = self._old.get(path)
        row = folder.files.get(name) if folder else None
        return row[_STATUS.size :] if row and row.startswith(sign_of(status)) else b""

    def put(self, path: str, name: str, status: os.stat_result, blob: bytes) -> None:
        folder = self.index.get(path)
        (folder.files if folder else self.begin(path))[name] = sign_of(status) + blob

    def begin(self, path: str) -> dict[str, Row]:
        """The rows of a folder that is listed again, still empty."""
        folder = self.index[path] = KnownFolder({})
        return folder.files

    def note(
        self,
        path: str,
        status: os.stat_result,
        rules: bytes,
        folders: Sequence[str],
        trees: Trees,
        rights: tuple[bytes, ...],
    ) -> None:
        """Note a folder that was listed, if its files and folders are all that is in it."""
        sign, files = sign_of(status), self.index[path].files
        self.index[path] = KnownFolder(files, sign, rules, tuple(folders), trees, rights)

    def unchanged(self, path: str, status: os.stat_result, rules: bytes) -> KnownFolder | None:
        """The folder, if its names, files and rules are the same and its content is still
        stored."""
        known = self._old.get(path)
        if known is None or known.sign != sign_of(status) or known.rules != rules:
            return None
        self._pause()
        files, trees = known.files, known.trees
        is_written, folder = self._store.is_written, f"{self._top}{path}"
        if self.files + len(files) > self._most:
            return None
        try:
            for name, row in files.items():
                if not row.startswith(sign_of(os.lstat(folder + name))) or not is_written(
                    row[_STATUS.size :]
                ):
                    return None
        except OSError:
            return None
        return known if all(map(is_written, filter(None, (*trees, *known.rights)))) else None

    def walk(
        self, known: KnownFolder, path: str, place: Callable[[], WalkedFolder], rebuild: Rebuild
    ) -> Trees:
        """The trees of an unchanged folder, whose folders may have changed."""
        self.index[path] = known
        self.files += len(known.files)
        changed: dict[str, Trees | None] = {}
        for name in known.folders:
            inner, trees = f"{path}{name}/", None
            if there := self._unchanged_inside(inner, known.rules):
                trees = self.walk(there, inner, lambda name=name: place().inside(name), rebuild)  # type: ignore[misc]
                if trees == there.trees:
                    continue
            changed[name] = trees
        if not changed:
            return known.trees
        trees = rebuild(known, place(), changed)
        self.index[path] = replace(known, trees=trees)
        return trees

    def _unchanged_inside(self, path: str, rules: bytes) -> KnownFolder | None:
        if path not in self._old:
            return None
        try:
            status = os.lstat(self._top + path[:-1])
        except OSError:
            return None
        return None if identity(status) in self._private else self.unchanged(path, status, rules)


def read_index(path: Path) -> Index:
    return _read_cache(path, _HEAD, _INDEX) or {}


def write_index(path: Path, index: Mapping[str, KnownFolder]) -> None:
    _write_cache(path, _HEAD, index, _folder_is_text)


def _folder_is_text(path: str, folder: KnownFolder) -> bool:
    return _is_text(path, *folder.files, *folder.folders)


MOST_FOLDERS = 300_000
MOST_FILES = 2_000
_LISTINGS = f"rookery {VERSION} folder listings 1\n".encode()
_THRESHOLD = 200
"""The cache is written if at least this many folders were listed."""


class FoundPaths(Struct, frozen=True):
    """Wanted files and links, and everything named like a git folder."""

    files: tuple[str, ...]
    repositories: tuple[str, ...]


class FolderListing(Struct, frozen=True, array_like=True, gc=False):
    """Content of a folder, valid while it has this inode and these times."""

    stamp: tuple[int, int, int]
    folders: tuple[str, ...]
    files: tuple[str, ...]
    repositories: tuple[str, ...]


Listings = dict[str, FolderListing]
"""By path, which is empty for the workspace."""
_FOLDERS = msgspec.msgpack.Decoder(Listings)


class FolderSearch:
    """Finds the files for which `wanted` is true; `private` folders are not searched. The cache
    is kept in `file`, if its folder exists. It is for one `wanted` only."""

    def __init__(
        self,
        root: Path,
        wanted: Callable[[str], bool],
        private: Collection[Path] = (),
        file: Path | None = None,
    ) -> None:
        self._root = str(root)
        self._wanted = wanted
        self._private = private
        self._file = file
        self._known: Listings | None = None
        self._new = 0
        """Number of folders that were listed, and are not in the cache yet."""

    def find(
        self, below: Iterable[str], pause: Callable[[], None] = lambda: None
    ) -> FoundPaths | None:
        """Search these folders recursively; None if there are too many folders or files."""
        waiting = list(below)
        if not waiting:
            return FoundPaths((), ())
        private = {identity(os.stat(path)) for path in self._private if path.exists()}
        known, lstat, root = self._listings(), os.lstat, self._root
        settled, files, repositories = Listings(), list[str](), list[str]()
        began = time.time_ns()
        for _ in range(MOST_FOLDERS):
            if not waiting or len(files) > MOST_FILES:
                break
            pause()
            folder = waiting.pop()
            try:
                status = lstat(f"{root}/{folder}")
                if identity(status) in private or not stat.S_ISDIR(status.st_mode):
                    continue
                listed = known.get(folder)
                if listed and listed.stamp == _stamp(status):
                    settled[folder] = listed
                else:
                    listed = self._list_folder(folder, status)
                    if times_are_settled(status, began):
                        settled[folder] = listed
                        self._new += 1
            except OSError:  # removed, or not readable
                continue
            waiting += listed.folders
            files += listed.files
            repositories += listed.repositories
        self._keep(settled)
        if waiting or len(files) > MOST_FILES:
            return None
        return FoundPaths(tuple(sorted(files)), tuple(sorted(repositories)))

    def _list_folder(self, folder: str, status: os.stat_result) -> FolderListing:
        prefix = f"{folder}/" if folder else ""
        folders, files, repositories = list[str](), list[str](), list[str]()
        with os.scandir(f"{self._root}/{folder}") as scan:
            for entry in scan:
                path = prefix + entry.name
                if is_git_name(entry.name):
                    repositories.append(path)
                elif entry.is_dir(follow_symlinks=False):
                    if entry.name not in DEPENDENCIES:
                        folders.append(path)
                elif self._wanted(path):
                    files.append(path)
        return FolderListing(_stamp(status), tuple(folders), tuple(files), tuple(repositories))

    def _listings(self) -> Listings:
        if self._known is None:
            self._known = _read_cache(self._file, _LISTINGS, _FOLDERS) if self._file else None
        return self._known or {}

    def _keep(self, settled: Listings) -> None:
        self._known = settled
        if self._file and self._new >= _THRESHOLD and self._file.parent.exists():
            with suppress(OSError):
                _write_cache(self._file, _LISTINGS, settled, _listing_is_text)
            self._new = 0


def _listing_is_text(path: str, listed: FolderListing) -> bool:
    return _is_text(path, *listed.folders, *listed.files, *listed.repositories)


def _stamp(status: os.stat_result) -> tuple[int, int, int]:
    return status.st_ino, status.st_mtime_ns, status.st_ctime_ns


def _read_cache(path: Path, head: bytes, decoder: msgspec.msgpack.Decoder[T]) -> T | None:
    """The content of a cache; None if there is none, or it is damaged or of another version."""
    with suppress(OSError, ValueError, msgspec.MsgspecError):
        data = path.read_bytes()
        body = data[len(head) : -_CHECKSUM]
        if data.startswith(head) and _checksum(body) == data[-_CHECKSUM:]:
            return decoder.decode(body)
    return None


def _write_cache(
    path: Path, head: bytes, rows: Mapping[str, T], has_text: Callable[[str, T], bool]
) -> None:
    """Replace a cache. Not synced, as a torn one is detected and only costs time."""
    try:
        body = msgspec.msgpack.encode(rows)
    except UnicodeEncodeError:  # names that are not UTF-8 are not kept
        body = msgspec.msgpack.encode({at: row for at, row in rows.items() if has_text(at, row)})
    put(path, [head, body, _checksum(body)], durable=False)


def _is_text(*names: str) -> bool:
    try:
        "\0".join(names).encode()
    except UnicodeEncodeError:
        return False
    return True


def _checksum(data: bytes) -> bytes:
    return sha1(data, usedforsecurity=False).digest()
