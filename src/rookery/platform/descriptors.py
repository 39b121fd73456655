"""Folders and files as open descriptors.

Every step of a path is opened from the one before it, and no symbolic link is followed, so
that what was checked is what is used.
"""

import errno
import hashlib
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from io import BufferedReader
from pathlib import Path

from rookery.errors import ToolError

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_ON_THE_WAY = _FOLDER | getattr(os, "O_PATH", 0)
"""Folders that one may pass through need not be readable."""
_NO_LINKS = {errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK}
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


@contextmanager
def opened_folder(root: Path, folders: Sequence[str]) -> Iterator[int | None]:
    """A descriptor of the folder, or None if there is no such folder."""
    at = open_folder(root, folders)
    try:
        yield at
    finally:
        if at is not None:
            os.close(at)


def open_folder(root: Path, folders: Sequence[str]) -> int | None:
    at = os.open(root, _ON_THE_WAY if folders else _FOLDER)
    for left, name in zip(range(len(folders) - 1, -1, -1), folders, strict=True):
        try:
            inner = os.open(name, _ON_THE_WAY if left else _FOLDER, dir_fd=at)
        except FileNotFoundError:
            return None
        finally:
            os.close(at)
        at = inner
    return at


def present(folder: int | None) -> int:
    if folder is None:
        raise FileNotFoundError(errno.ENOENT, "a folder of its path was removed meanwhile")
    return folder


def regular_file(folder: int, name: str, path: str) -> os.stat_result | None:
    """What is there, without opening it; only a regular file will do."""
    try:
        there = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None
    if stat.S_ISDIR(there.st_mode):
        raise ToolError(f"{path} is a folder. Use list_files to see its content.")
    if stat.S_ISLNK(there.st_mode):
        raise ToolError(f"{path} became a symbolic link; nothing was done.")
    if not stat.S_ISREG(there.st_mode):
        raise ToolError(f"{path} is a device, pipe or socket, not a file.")
    return there


def same_file(folder: int, name: str, known: os.stat_result) -> bool:
    """Whether the name is still that of a file which was there."""
    try:
        return os.path.samestat(os.stat(name, dir_fd=folder, follow_symlinks=False), known)
    except FileNotFoundError:
        return False


def name_anew(folder: int, file: str, name: str) -> None:
    """Give the file a name that nobody has there. Raises `FileExistsError` if somebody has.

    It may keep its old name too: a link, other than a renaming, never takes a name away.
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
    """The hash of all that is in the file, which may be larger than memory."""
    with opened_file(folder, name, path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@contextmanager
def opened_file(folder: int, name: str, path: str) -> Iterator[BufferedReader]:
    before = regular_file(folder, name, path)
    with open(os.open(name, _FILE, dir_fd=folder), "rb") as file:
        if before is None or not os.path.samestat(before, os.fstat(file.fileno())):
            raise ToolError(f"{path} was replaced while it was opened. Try again.")
        yield file
