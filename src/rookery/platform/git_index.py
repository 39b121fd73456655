"""Which files git tracks.

Tracked files are never ignored, whatever ignore files say. Git is not run. Anyone may have written
the index, so it is only used as a list of names, and one that cannot be parsed counts as empty.
"""

import hashlib
import os
import stat
import time
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from rookery.platform.descriptors import times_are_settled
from rookery.platform.git_folders import common_folder, folder_named_by, is_folder, regular_content
from rookery.platform.git_objects import had_object, has_object

_LARGEST = 64 * 1024 * 1024
_HEADER_BYTES = 12
_EXTENDED = 0x40
_NO_FILES = (0o040000, 0o160000)
"""Folders that are not checked out, and nested repositories."""


class TrackedFiles:
    """Paths in a repository, sorted by their bytes."""

    def __init__(self, paths: Sequence[bytes]) -> None:
        self._sorted = paths
        self._all = frozenset(paths)

    def __contains__(self, path: str) -> bool:
        return os.fsencode(path) in self._all

    def names_in(self, folder: str) -> set[str]:
        """The names in a folder that are tracked or contain tracked files."""
        prefix = os.fsencode(folder) + b"/"
        names: set[bytes] = set()
        at = bisect_left(self._sorted, prefix)
        while at < len(self._sorted) and self._sorted[at].startswith(prefix):
            name, *below = self._sorted[at][len(prefix) :].split(b"/", 1)
            names.add(name)
            behind = prefix + name + bytes([ord("/") + 1])
            at = bisect_left(self._sorted, behind, at + 1) if below else at + 1
        return {os.fsdecode(name) for name in names}


NOTHING_TRACKED = TrackedFiles(())


class _ReadIndex(Struct, frozen=True):
    """A parsed index; `sign` identifies the version of the file."""

    sign: tuple[int, int, int, int]
    files: TrackedFiles


class GitIndexes:
    """The indexes of all repositories in a workspace, read again only if they change."""

    def __init__(self, root: str) -> None:
        self._root = root
        self._known: dict[str, _ReadIndex] = {}

    def tracked_in(self, folder: str) -> TrackedFiles:
        """The files tracked by the repository in a folder, relative to that."""
        whole = os.path.join(self._root, folder) if folder else self._root
        index = os.path.join(self._git_folder(whole), "index")
        began = time.time_ns()
        try:
            status = os.lstat(index)
        except OSError:
            return NOTHING_TRACKED
        sign = status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns
        known = self._known.get(folder)
        if not known or known.sign != sign:
            known = _ReadIndex(sign, _files_of(index, status))
        self._known.pop(folder, None)
        if times_are_settled(status, began):
            self._known[folder] = known
        return known.files

    def objects_of(self, folder: str) -> str:
        """The objects folder of the repository in a folder."""
        whole = os.path.realpath(os.path.join(self._root, folder))
        return os.path.join(common_folder(whole) or self._git_folder(whole), "objects")

    def blobs_in(self, folder: str) -> dict[bytes, str]:
        """The blob id of each tracked file; empty if it cannot be read."""
        whole = os.path.join(self._root, folder) if folder else self._root
        index = os.path.join(self._git_folder(whole), "index")
        try:
            return dict(tracked_blobs(regular_content(index, _LARGEST) or b""))
        except (ValueError, IndexError):
            return {}

    def _git_folder(self, folder: str) -> str:
        """The git folder. A `.git` file can name any folder; it is followed only into the
        workspace, or to a folder that names this one in return."""
        git = os.path.join(folder, ".git")
        if is_folder(git):
            return git
        own = folder_named_by(git)
        return own if own.startswith(f"{self._root}/") or common_folder(folder) else git


def _files_of(index: str, status: os.stat_result) -> TrackedFiles:
    if not stat.S_ISREG(status.st_mode) or status.st_size > _LARGEST:
        return NOTHING_TRACKED
    try:
        return TrackedFiles(tracked_paths(regular_content(index, _LARGEST) or b""))
    except (ValueError, IndexError):
        return NOTHING_TRACKED


def tracked_paths(index: bytes) -> list[bytes]:
    """The files in an index, sorted. Raises `ValueError` or `IndexError` if it is not an index."""
    return sorted(path for path, _ in tracked_blobs(index))


def tracked_blobs(index: bytes) -> Iterator[tuple[bytes, str]]:
    """The files in an index, each with its blob id."""
    version, count = (
        int.from_bytes(index[4:8], "big"),
        int.from_bytes(index[8:_HEADER_BYTES], "big"),
    )
    if index[:4] != b"DIRC" or version not in (2, 3, 4):
        raise ValueError("it is not an index")
    flags_at = 40 + _hash_size(index)
    path, at = b"", _HEADER_BYTES
    for _ in range(count):
        name = at + flags_at + (4 if index[at + flags_at] & _EXTENDED else 2)
        kept = b""
        if version == 4:
            cut, name = _number(index, name)
            kept = path[: len(path) - cut]
        end = index.index(b"\0", name)
        path = kept + index[name:end]
        if int.from_bytes(index[at + 24 : at + 28], "big") & 0o170000 not in _NO_FILES:
            yield path, index[at + 40 : at + flags_at].hex()
        at = end + 1 if version == 4 else at + ((end - at + 8) & ~7)


def checked_out(
    root: Path, blobs: Mapping[str, str], *, anywhere: bool = False, before: int = 0
) -> set[str]:
    """The files whose content is the one in their repository's index, or that are gone from both.

    `blobs` maps paths to blob ids, empty for a deleted file. With `anywhere`, a file also counts if
    its content is in the repository under any name. With `before`, only if its content was in it
    before that time, in nanoseconds.
    """
    indexes = GitIndexes(str(root))
    known: dict[str, dict[bytes, str]] = {}
    found: set[str] = set()
    for path, blob in blobs.items():
        folder = _repository_of(root, path)
        if folder not in known:
            known[folder] = indexes.blobs_in(folder)
        inner = os.fsencode(path[len(folder) :].lstrip("/"))
        objects = indexes.objects_of(folder)
        listed = bool(known[folder]) and known[folder].get(inner, "") == blob
        there = bool(blob) and listed if before else listed
        if (there and (not before or had_object(objects, blob, before))) or (
            anywhere and blob and has_object(objects, blob)
        ):
            found.add(path)
    return found


def _repository_of(root: Path, path: str) -> str:
    """The innermost parent folder with a `.git`; empty for the workspace itself."""
    folder = os.path.dirname(path)
    while folder and not os.path.lexists(root / folder / ".git"):
        folder = os.path.dirname(folder)
    return folder


def _hash_size(index: bytes) -> int:
    """The length of the hashes, by the checksum at the end, which may be left out."""
    for make, size in ((hashlib.sha1, 20), (hashlib.sha256, 32)):
        if index[-size:] == make(index[:-size], usedforsecurity=False).digest():
            return size
    if index[-20:] == bytes(20):
        return 20
    raise ValueError("it is damaged")


def _number(data: bytes, at: int) -> tuple[int, int]:
    """Decode a variable-length number; returns it and where it ends."""
    number = data[at] & 0x7F
    while data[at] & 0x80:
        at += 1
        number = ((number + 1) << 7) | (data[at] & 0x7F)
    return number, at + 1
