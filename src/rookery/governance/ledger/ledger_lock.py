"""One writer at a time, by a lock of the operating system's that dies with its holder."""

import fcntl
import os
import random
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rookery.governance.ledger.ledger_errors import busy, unwritable
from rookery.governance.ledger.state_folder import make_state_folder

WAIT = 5.0
"""Seconds after which somebody who holds the lock is not waited for any longer."""
_FIRST_PAUSE, _LONGEST_PAUSE = 0.0002, 0.005


@contextmanager
def exclusive(path: Path, *, wait: float = WAIT) -> Iterator[None]:
    """Hold the lock. Its file is never removed: a second one would be a second lock."""
    fd = _opened(path)
    try:
        _take(fd, path, time.monotonic() + wait)
        yield
    finally:
        os.close(fd)


def _opened(path: Path) -> int:
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        make_state_folder(path.parent)
        return os.open(path, flags, 0o600)
    except OSError as error:
        raise unwritable(error.strerror or str(error)) from error


def _take(fd: int, path: Path, until: float) -> None:
    pause = _FIRST_PAUSE
    while True:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if time.monotonic() >= until:
                raise busy(f"{path} is held by another process") from None
        time.sleep(pause * random.uniform(0.5, 1))
        pause = min(2 * pause, _LONGEST_PAUSE)
