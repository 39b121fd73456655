"""Locks between processes. The system releases them when a holder dies.

A lock is a file of its own, because the file it protects is replaced, or a folder. Its file is
never removed while somebody may wait for it: a second one would be a second lock.
"""

import fcntl
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from rookery.errors import RookeryError

WAIT = 5.0
LONGEST_WAIT = 10.0
"""Seconds."""
_FIRST_PAUSE, _LONGEST_PAUSE = 0.0002, 0.005
_LOCK = "lock"
_RANDOM = 8
"""Characters by which the system makes the name of a temporary folder a new one."""


class LockTimeout(RookeryError):
    """Another process holds the lock for too long."""


def open_lock(path: Path, *, create: bool = True) -> int:
    """The file of a lock, which is private and no link; not locked yet."""
    flags = os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC | (os.O_CREAT if create else 0)
    return os.open(path, flags, 0o600)


def lock(descriptor: int) -> None:
    """Wait for the lock for as long as it takes."""
    fcntl.flock(descriptor, fcntl.LOCK_EX)


def try_lock(descriptor: int, *, shared: bool = False) -> bool:
    """Whether the lock was free, and is ours now. Raises `OSError` where there are no locks."""
    try:
        fcntl.flock(descriptor, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def lock_within(descriptor: int, seconds: float) -> bool:
    """Whether the lock became ours within so many seconds."""
    until = time.monotonic() + seconds
    pause = _FIRST_PAUSE
    while not try_lock(descriptor):
        if time.monotonic() >= until:
            return False
        time.sleep(pause)
        pause = min(2 * pause, _LONGEST_PAUSE)
    return True


@contextmanager
def file_lock(path: Path, *, wait: float | None = WAIT) -> Iterator[None]:
    """Held while inside. Raises `LockTimeout` after that many seconds; None waits for ever."""
    descriptor = open_lock(path)
    try:
        if wait is None:
            lock(descriptor)
        elif not lock_within(descriptor, wait):
            raise LockTimeout(f"Another process holds {path.name}; nothing was changed. Try again.")
        yield
    finally:
        os.close(descriptor)


@contextmanager
def alone_in(folders: Sequence[int]) -> Iterator[None]:
    """Nobody else of ours writes in these folders between the last look at a file and what comes
    of it, in whichever process. Editors know nothing of that; for them it is the rename alone that
    must not be torn. Who waits too long, or where nobody can wait, goes on: the look remains."""
    found = {(at.st_dev, at.st_ino): folder for folder in folders for at in (os.fstat(folder),)}
    held: list[int] = []
    until = time.monotonic() + LONGEST_WAIT
    try:
        for _, folder in sorted(found.items()):  # in one order, so that no two wait for each other
            with suppress(OSError):  # a file system without locks
                if lock_within(folder, until - time.monotonic()):
                    held.append(folder)
        yield
    finally:
        for folder in held:
            fcntl.flock(folder, fcntl.LOCK_UN)


def hold_folder(folder: Path) -> int:
    """A lock in a temporary folder that ends with this process, however it ends: a later run
    sweeps what is left without one. It is held before it can be seen."""
    new = folder / f"{_LOCK}.new"
    descriptor = open_lock(new)
    lock(descriptor)
    new.rename(folder / _LOCK)
    return descriptor


def sweep_folders(parent: str, prefix: str) -> None:
    """Remove the temporary folders of that prefix whose holders were killed."""
    with suppress(OSError):  # who may not look into it has left nothing that could be found
        for name in os.listdir(parent):
            # there may be thousands that are none of these, and every run comes by
            if name.startswith(prefix) and len(name) == len(prefix) + _RANDOM:
                _sweep(Path(parent, name))


def _sweep(folder: Path) -> None:
    with suppress(OSError):  # it is held, somebody else's, or gone by now
        if folder.is_symlink() or folder.stat().st_uid != os.getuid():
            return
        descriptor = open_lock(folder / _LOCK, create=False)
        try:
            if try_lock(descriptor):
                remove_held_folder(folder)
        finally:
            os.close(descriptor)


def remove_held_folder(folder: Path) -> None:
    """The lock goes last: while anything is left, the folder can be found abandoned."""
    import shutil

    for entry in folder.iterdir():
        if entry.name == _LOCK:
            continue
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry, ignore_errors=True)
        else:
            entry.unlink(missing_ok=True)
    shutil.rmtree(folder, ignore_errors=True)
