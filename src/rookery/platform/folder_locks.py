"""Locks on folders, while files in them are replaced."""

import fcntl
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

LONGEST_WAIT = 10.0
LOOK_AGAIN = 0.005
"""Seconds."""


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
