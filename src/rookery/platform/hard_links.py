"""Other names of files that have hard links.

A rule names a file by its path. A hard link gives the same file another path, so rules are also
compared with every other name that the file has below a folder.
"""

import os
import stat
from collections.abc import Iterator
from typing import TypeAlias

MOST_ENTRIES = 200_000
_Identity: TypeAlias = tuple[int, int]


class TooManyEntries(Exception):
    """The folder is too large to look for other names in it."""


class HardLinks:
    """The folder is walked once, when the first file with more than one name is met."""

    def __init__(self, folder: "str | os.PathLike[str]") -> None:
        self._folder = os.fspath(folder)
        self._names: dict[_Identity, list[str]] | None = None

    def names_of(self, path: "str | os.PathLike[str]") -> tuple[str, ...]:
        """All names of the file below the folder, absolute; none if it has only one name.
        Raises `TooManyEntries`."""
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
