"""Locks between processes. The system releases them when a holder dies.

`file_lock` is a lock in a file of its own, `alone_in` one on folders while files in them are
replaced. Both wait for a while; only the first gives up with an error.
"""

import fcntl
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from rookery.errors import RookeryError

WAIT = 5.0
_LOOK_EVERY = 0.02

LONGEST_WAIT = 10.0
LOOK_AGAIN = 0.005
"""Seconds."""


class LockTimeout(RookeryError):
    """Somebody else has been at work for too long."""


@contextmanager
def file_lock(path: Path, *, wait: float = WAIT) -> Iterator[None]:
    """Held while inside. Raises `LockTimeout` after waiting that many seconds."""
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        _take(handle, path, time.monotonic() + wait)
        yield
    finally:
        os.close(handle)


def _take(handle: int, path: Path, until: float) -> None:
    while True:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            if time.monotonic() > until:
                raise LockTimeout(
                    f"Another process holds {path.name}; nothing was changed. Try again."
                ) from error
            time.sleep(_LOOK_EVERY)
        else:
            return


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
            if _lock(folder, until):
                held.append(folder)
        yield
    finally:
        for folder in held:
            fcntl.flock(folder, fcntl.LOCK_UN)


def _lock(folder: int, until: float) -> bool:
    while True:
        try:
            fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > until:
                return False
            time.sleep(LOOK_AGAIN)
        except OSError:
            return False  # a file system without locks
        else:
            return True
