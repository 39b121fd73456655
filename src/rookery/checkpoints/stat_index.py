"""What the last walk through the workspace saw: its folders, and the state of their files.

It is only a cache. A file's row is used while the file's size, times, inode and mode are the same,
and the names in a folder while the folder's are. So an old index, another process's, or none will
do. Nothing that changed in the last two seconds is in it, because another change might not show.

`FolderSearch` finds protected files and repositories in ignored folders. These are huge, so a
folder is read again only if its modification time has changed.
"""

import os
import stat
import struct
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from hashlib import sha1
from pathlib import Path

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from rookery import VERSION
from rookery.checkpoints.file_versions import is_git_name
from rookery.checkpoints.object_store import ObjectStore
from rookery.checkpoints.snapshot_selection import DEPENDENCIES, WalkedFolder, identity
from rookery.checkpoints.snapshot_trees import EMPTY, Trees
from rookery.platform.disk import put
from rookery.platform.git_index import times_are_settled

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
    with suppress(OSError, ValueError, msgspec.MsgspecError):
        data = path.read_bytes()
        body = data[len(_HEAD) : -_CHECKSUM]
        if data.startswith(_HEAD) and _checksum(body) == data[-_CHECKSUM:]:
            return msgspec.msgpack.decode(body, type=Index)
    return {}


def write_index(path: Path, index: Mapping[str, KnownFolder]) -> None:
    """Replace the index. Not synced, as a torn one is detected and only costs time."""
    try:
        body = msgspec.msgpack.encode(index)
    except UnicodeEncodeError:  # names that are not UTF-8 are not kept
        body = msgspec.msgpack.encode({p: f for p, f in index.items() if _is_text(p, f)})
    put(path, [_HEAD, body, _checksum(body)], durable=False)


def _is_text(path: str, folder: KnownFolder) -> bool:
    try:
        "\0".join((path, *folder.files, *folder.folders)).encode()
    except UnicodeEncodeError:
        return False
    return True


def _checksum(data: bytes) -> bytes:
    return sha1(data, usedforsecurity=False).digest()


MOST_FOLDERS = 300_000
MOST_FILES = 2_000


class FoundPaths(Struct, frozen=True):
    """Wanted files and links, and everything named like a git folder."""

    files: tuple[str, ...]
    repositories: tuple[str, ...]


class _FolderListing(Struct, frozen=True):
    """Content of a folder, valid while it has this inode and these times."""

    stamp: tuple[int, int, int]
    folders: tuple[str, ...]
    files: tuple[str, ...]
    repositories: tuple[str, ...]


class FolderSearch:
    """Finds the files for which `wanted` is true; `private` folders are not searched."""

    def __init__(
        self, root: Path, wanted: Callable[[str], bool], private: Collection[Path] = ()
    ) -> None:
        self._root = str(root)
        self._wanted = wanted
        self._private = private
        self._known: dict[str, _FolderListing] = {}

    def find(
        self, below: Iterable[str], pause: Callable[[], None] = lambda: None
    ) -> FoundPaths | None:
        """Search these folders recursively; None if there are too many folders or files."""
        private = {identity(os.stat(path)) for path in self._private if path.exists()}
        waiting, found, settled = list(below), list[_FolderListing](), dict[str, _FolderListing]()
        began, files = time.time_ns(), 0
        for _ in range(MOST_FOLDERS):
            if not waiting or files > MOST_FILES:
                break
            pause()
            folder = waiting.pop()
            try:
                status = os.lstat(f"{self._root}/{folder}")
                if identity(status) in private or not stat.S_ISDIR(status.st_mode):
                    continue
                listed = self._list_folder(folder, status)
            except OSError:  # removed, or not readable
                continue
            found.append(listed)
            files += len(listed.files)
            waiting += listed.folders
            if times_are_settled(status, began):
                settled[folder] = listed
        self._known = settled
        if waiting or files > MOST_FILES:
            return None
        return FoundPaths(
            tuple(sorted(path for listed in found for path in listed.files)),
            tuple(sorted(path for listed in found for path in listed.repositories)),
        )

    def _list_folder(self, folder: str, status: os.stat_result) -> _FolderListing:
        stamp = status.st_ino, status.st_mtime_ns, status.st_ctime_ns
        known = self._known.get(folder)
        if known and known.stamp == stamp:
            return known
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
        return _FolderListing(stamp, tuple(folders), tuple(files), tuple(repositories))
