"""Open descriptors of folders and files, file attributes and hard links.

Every part of a path is opened relative to its parent and no symbolic link is followed, so that the
file that was checked is the one that is used.

A file is changed by renaming a new one over it. The new one first gets the owner, group, mode,
access control list and extended attributes of the old one, so that an edit gives no one access. If
one cannot be kept, `NotKept` is raised and the file must not be replaced. Privileges are dropped,
as the kernel does on a write: setuid, setgid of a program, and file capabilities.

Rules name files by path, and a hard link is another path of the same file. So rules are also
checked against every other name that the file has below a folder.
"""

import errno
import hashlib
import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from io import BufferedReader
from pathlib import Path
from typing import TypeAlias

from msgspec import Struct, field

from rookery.errors import ToolError

MOST_ENTRIES = 200_000
_Identity: TypeAlias = tuple[int, int]


class TooManyEntries(Exception):
    """The folder is too large to search it for other names."""


class HardLinks:
    """Finds hard links. The folder is walked once, when the first file with several names is
    seen."""

    def __init__(self, folder: "str | os.PathLike[str]") -> None:
        self._folder = os.fspath(folder)
        self._names: dict[_Identity, list[str]] | None = None

    def names_of(self, path: "str | os.PathLike[str]") -> tuple[str, ...]:
        """All absolute names of the file below the folder; empty if it has only one name. Raises
        `TooManyEntries`."""
        identity = _identity(path)
        if identity is None:
            return ()
        if self._names is None:
            self._names = _names_by_identity(self._folder)
        return tuple(self._names.get(identity, ()))


def _names_by_identity(folder: str) -> dict[_Identity, list[str]]:
    found: dict[_Identity, list[str]] = {}
    for seen, entry in enumerate(_entries(folder)):
        if seen >= MOST_ENTRIES:
            raise TooManyEntries
        if identity := _identity(entry):
            found.setdefault(identity, []).append(entry.path)
    return found


def _identity(path: "str | os.PathLike[str]") -> _Identity | None:
    """Device and inode of a file with more than one name."""
    try:
        status = os.lstat(path)
    except (OSError, ValueError):
        return None
    linked = stat.S_ISREG(status.st_mode) and status.st_nlink > 1
    return (status.st_dev, status.st_ino) if linked else None


def _entries(folder: str) -> Iterator["os.DirEntry[str]"]:
    waiting = [folder]
    while waiting:
        try:
            with os.scandir(waiting.pop()) as scan:
                entries = list(scan)
        except OSError:
            continue
        yield from entries
        waiting += [entry.path for entry in entries if entry.is_dir(follow_symlinks=False)]


ACL = "system.posix_acl_access"
USERS = "user."
"""The prefix of the user's own attributes."""
_PRIVILEGES = frozenset({"security.capability", "security.ima", "security.evm"})
_MUST_BE_KEPT = ("user.", "system.", "security.")
_GONE = {errno.ENODATA, errno.ENOTSUP}


class NotKept(PermissionError):
    """An attribute could not be set on the new file. `strerror` says which."""


class Attributes(Struct, frozen=True):
    uid: int
    gid: int
    mode: int
    """The permission bits, setuid, setgid and the sticky bit."""
    extended: Mapping[str, bytes] = field(default_factory=dict)


def attributes_of(file: int) -> Attributes:
    """The attributes of an open file. Raises `NotKept` if one cannot be read."""
    there = os.fstat(file)
    extended = dict(_extended(file))
    return Attributes(there.st_uid, there.st_gid, stat.S_IMODE(there.st_mode), extended)


def extended_of(file: int) -> Iterator[tuple[str, bytes]]:
    """The access control list and the readable user attributes of an open file."""
    for name in _names(file):
        if name == ACL or name.startswith(USERS):
            with suppress(OSError):
                yield name, os.getxattr(file, name)


def attributes_at(path: str | os.PathLike[str]) -> Attributes | None:
    """The attributes of the file at a path, following links; None if there is no file."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        return attributes_of(file)
    finally:
        os.close(file)


def keep_attributes(file: int, kept: Attributes, *, as_recorded: bool = False) -> None:
    """Set the attributes of the replaced file on a new file, which is open and still private.

    With `as_recorded`, content and mode belong together, as in a backup: setuid and setgid are kept
    if the owner is. Raises `NotKept`.
    """
    same_owner = _set_owner(file, kept)
    _set_extended(file, kept.extended)
    os.fchmod(file, kept.mode if as_recorded and same_owner else unprivileged(kept.mode))


def unprivileged(mode: int) -> int:
    """The mode as the kernel leaves it after a write."""
    of_group = stat.S_ISGID if mode & stat.S_IXGRP else 0
    return mode & ~(stat.S_ISUID | of_group)


def without_group(mode: int) -> int:
    """The mode for a file whose group changed: the group gets the rights of others."""
    return mode & (~0o070 | (mode & 0o7) << 3)


def _set_owner(file: int, kept: Attributes) -> bool:
    """Set owner and group; returns whether both are the same now. If the owner cannot be kept,
    the file becomes ours, which adds no access as we could write it before."""
    for owner in (kept.uid, -1):
        with suppress(OSError):
            os.fchown(file, owner, kept.gid)
            break
    there = os.fstat(file)
    if there.st_gid != kept.gid and _group_matters(kept):
        raise NotKept(errno.EPERM, f"its group ({kept.gid}) cannot be kept")
    return (there.st_uid, there.st_gid) == (kept.uid, kept.gid)


def _group_matters(kept: Attributes) -> bool:
    """Whether the group has other rights than everyone else."""
    return ACL in kept.extended or (kept.mode >> 3 & 0o7) != (kept.mode & 0o7)


def _extended(file: int) -> Iterator[tuple[str, bytes]]:
    for name in _names(file):
        try:
            yield name, os.getxattr(file, name)
        except OSError as error:
            if error.errno not in _GONE and name.startswith(_MUST_BE_KEPT):
                raise NotKept(error.errno, f"its attribute {name} cannot be read") from error


def _names(file: int) -> list[str]:
    if not hasattr(os, "listxattr"):
        return []
    try:
        return os.listxattr(file)
    except OSError:
        return []  # a file system without them


def _set_extended(file: int, kept: Mapping[str, bytes]) -> None:
    there = dict(_extended(file))
    if ACL in there and ACL not in kept:  # inherited from the folder: it may let others in
        os.removexattr(file, ACL)
    for name, value in kept.items():
        if there.get(name) != value and name not in _PRIVILEGES:
            _set(file, name, value)


def _set(file: int, name: str, value: bytes) -> None:
    try:
        os.setxattr(file, name, value)
    except OSError as error:
        if name.startswith(_MUST_BE_KEPT):
            raise NotKept(error.errno, f"its attribute {name} cannot be kept") from error


_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_PARENT = _FOLDER | getattr(os, "O_PATH", 0)
"""Parent folders need not be readable."""
_NO_LINKS = {errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK}
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


@contextmanager
def opened_folder(root: Path, folders: Sequence[str]) -> Iterator[int | None]:
    """A descriptor of the folder, or None if it does not exist."""
    at = open_folder(root, folders)
    try:
        yield at
    finally:
        if at is not None:
            os.close(at)


def open_folder(root: Path, folders: Sequence[str]) -> int | None:
    at = os.open(root, _PARENT if folders else _FOLDER)
    for left, name in zip(range(len(folders) - 1, -1, -1), folders, strict=True):
        try:
            inner = os.open(name, _PARENT if left else _FOLDER, dir_fd=at)
        except FileNotFoundError:
            return None
        finally:
            os.close(at)
        at = inner
    return at


def present(folder: int | None) -> int:
    if folder is None:
        raise FileNotFoundError(errno.ENOENT, "a folder of its path was removed")
    return folder


def regular_file(folder: int, name: str, path: str) -> os.stat_result | None:
    """The status of a regular file, without opening it. Raises ToolError for anything else."""
    try:
        there = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None
    if stat.S_ISDIR(there.st_mode):
        raise ToolError(f"{path} is a folder. Use list_files to see its content.")
    if stat.S_ISLNK(there.st_mode):
        raise ToolError(f"{path} is now a symbolic link; nothing was done.")
    if not stat.S_ISREG(there.st_mode):
        raise ToolError(f"{path} is a device, pipe or socket, not a file.")
    return there


def same_file(folder: int, name: str, known: os.stat_result) -> bool:
    """Whether the name still refers to a file known before."""
    try:
        return os.path.samestat(os.stat(name, dir_fd=folder, follow_symlinks=False), known)
    except FileNotFoundError:
        return False


def name_anew(folder: int, file: str, name: str) -> None:
    """Give the file a new name. Raises `FileExistsError` if the name is taken.

    The old name may remain: a hard link, unlike a rename, cannot replace an existing file.
    """
    try:
        os.link(file, name, src_dir_fd=folder, dst_dir_fd=folder, follow_symlinks=False)
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        if name in os.listdir(folder):
            raise FileExistsError(errno.EEXIST, "it already exists") from error
        os.rename(file, name, src_dir_fd=folder, dst_dir_fd=folder)


def content(folder: int, name: str, path: str, most: int) -> tuple[bytes, int]:
    """At most `most` bytes of the file, and its size."""
    with opened_file(folder, name, path) as file:
        data = file.read(most)
        return data, max(len(data), os.fstat(file.fileno()).st_size)


def hash_of(folder: int, name: str, path: str) -> str:
    """The hash of the file, read in pieces."""
    with opened_file(folder, name, path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@contextmanager
def opened_file(folder: int, name: str, path: str) -> Iterator[BufferedReader]:
    before = regular_file(folder, name, path)
    with open(os.open(name, _FILE, dir_fd=folder), "rb") as file:
        if before is None or not os.path.samestat(before, os.fstat(file.fileno())):
            raise ToolError(f"{path} was replaced while it was opened. Try again.")
        yield file


_SETTLED = 2_000_000_000
"""Nanoseconds after which another change must show in a file's times; file systems store them to
two seconds at worst."""


def times_are_settled(status: os.stat_result, began: int) -> bool:
    """Whether a change of a file that was examined after `began` would show in its times."""
    return max(status.st_mtime_ns, status.st_ctime_ns) < began - _SETTLED
