"""Files that are handed, open, to a process that searches them.

A name may mean another file by the time it is opened. A descriptor does not.
"""

import os
import stat
from pathlib import Path

from rookery.platform.descriptors import open_folder, present

_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_MOST_AT_ONCE = 800
_SHARE = 3
"""One in so many of the files that a process may have open can be one that is searched."""


class OpenFile:
    """A file that is closed as soon as nobody wants it: whoever was to get it may be gone."""

    def __init__(self, path: str, descriptor: int) -> None:
        self.path = path
        self.descriptor = descriptor

    def __del__(self) -> None:
        os.close(self.descriptor)

    @property
    def handed_as(self) -> str:
        """The name by which another process that has got it can open it."""
        return f"/dev/fd/{self.descriptor}"

    @property
    def size(self) -> int:
        return os.fstat(self.descriptor).st_size


class Opener:
    """Opens files below a folder, one after the other. Those of one folder follow each other."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._folder: str | None = None
        self._at: int | None = None

    def open(self, path: str) -> "OpenFile | None":
        """None for what is no regular file, gone, or not to be read."""
        try:
            folder, _, name = path.rpartition("/")
            if folder != self._folder:
                self.close()
                self._folder, self._at = folder, open_folder(self._root, _names(folder))
            descriptor = _opened(name, present(self._at))
        except OSError:
            return None
        return None if descriptor is None else OpenFile(path, descriptor)

    def close(self) -> None:
        if self._at is not None:
            os.close(self._at)
        self._folder = self._at = None


def files_at_once() -> int:
    """How many to hand over together."""
    import resource

    allowed, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    unlimited = allowed == resource.RLIM_INFINITY
    return _MOST_AT_ONCE if unlimited else min(_MOST_AT_ONCE, allowed // _SHARE)


def _names(path: str) -> list[str]:
    return path.split("/") if path else []


def _opened(name: str, at: int) -> int | None:
    there = os.stat(name, dir_fd=at, follow_symlinks=False)
    if not stat.S_ISREG(there.st_mode):
        return None
    descriptor = os.open(name, _FILE, dir_fd=at)
    if os.path.samestat(there, os.fstat(descriptor)):
        return descriptor
    os.close(descriptor)
    return None
