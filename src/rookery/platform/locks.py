"""Locks between processes, which the system releases when their holder dies.

A lock is a file of its own, because the file it protects is replaced, or it is a folder. A lock
file is never removed while a process may wait for it, since a second file would be a second lock.
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
_FIRST_PAUSE, _LONGEST_PAUSE = 0.0002, 0.005
_LOCK = "lock"
_RANDOM = 8
"""Length of the random part of a temporary folder's name."""


class LockTimeout(RookeryError):
    """Another process holds the lock for too long."""


def open_lock(path: Path, *, create: bool = True) -> int:
    """Open a private lock file that is not a link, without locking it."""
    flags = os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC | (os.O_CREAT if create else 0)
    return os.open(path, flags, 0o600)


def lock(descriptor: int) -> None:
    """Wait for the lock without a limit."""
    fcntl.flock(descriptor, fcntl.LOCK_EX)


def try_lock(descriptor: int, *, shared: bool = False) -> bool:
    """Take the lock if it is free. Raises `OSError` where locks are not supported."""
    try:
        fcntl.flock(descriptor, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def lock_within(descriptor: int, seconds: float) -> bool:
    """Take the lock, waiting at most `seconds`; returns whether that worked."""
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
    """Hold the lock in the block. Raises `LockTimeout` after `wait` seconds; None waits forever."""
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
def lock_folders(folders: Sequence[int]) -> Iterator[None]:
    """Keep other rookery processes from writing in these folders, from the last check of a file
    to its rename. Editors do not know these locks; for them the rename is atomic. If the lock
    cannot be taken in time or at all, the block runs without it, as the check remains."""
    found = {(at.st_dev, at.st_ino): folder for folder in folders for at in (os.fstat(folder),)}
    held: list[int] = []
    until = time.monotonic() + LONGEST_WAIT
    try:
        for _, folder in sorted(found.items()):  # ordered, to avoid deadlocks
            with suppress(OSError):  # a file system without locks
                if lock_within(folder, until - time.monotonic()):
                    held.append(folder)
        yield
    finally:
        for folder in held:
            fcntl.flock(folder, fcntl.LOCK_UN)


def hold_folder(folder: Path) -> int:
    """Lock a temporary folder until this process ends, so that a later run can remove it if it
    is left behind. The lock is taken before it gets its final name."""
    new = folder / f"{_LOCK}.new"
    descriptor = open_lock(new)
    lock(descriptor)
    new.rename(folder / _LOCK)
    return descriptor


def sweep_folders(parent: str, prefix: str) -> None:
    """Remove the temporary folders with this prefix whose holders were killed."""
    with suppress(OSError):  # unreadable, so no folder of ours is in it
        for name in os.listdir(parent):
            # checked by name first: there may be thousands of others
            if name.startswith(prefix) and len(name) == len(prefix) + _RANDOM:
                _sweep(Path(parent, name))


def _sweep(folder: Path) -> None:
    with suppress(OSError):  # held, another user's, or gone
        if folder.is_symlink() or folder.stat().st_uid != os.getuid():
            return
        descriptor = open_lock(folder / _LOCK, create=False)
        try:
            if try_lock(descriptor):
                remove_held_folder(folder)
        finally:
            os.close(descriptor)


def remove_held_folder(folder: Path) -> None:
    """Remove the folder, its lock last, so that a partly removed one is still found."""
    import shutil

    for entry in folder.iterdir():
        if entry.name == _LOCK:
            continue
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry, ignore_errors=True)
        else:
            entry.unlink(missing_ok=True)
    shutil.rmtree(folder, ignore_errors=True)
