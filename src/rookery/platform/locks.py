"""Locks between processes, in files of their own. The system lets go of them when a holder dies."""

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rookery.errors import RookeryError

WAIT = 5.0
_LOOK_EVERY = 0.02


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
