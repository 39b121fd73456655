"""What the ledger keeps beside itself: the state folder, its lock, and keys.

`.orchestration` itself is never made here: only a person puts a workspace under governance. A clone
may bring links, so they are not followed.
"""

import errno
import os
import secrets
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from rookery.governance.ledger.ledger_errors import busy, unwritable
from rookery.platform.disk import write_new
from rookery.platform.locks import lock_within, open_lock

_LENGTH = 32
WAIT = 5.0
"""Seconds after which somebody who holds the lock is not waited for any longer."""
STATE = ".state"


def key_at(path: Path) -> bytes:
    """The key that lies there; empty if there is none that can be read."""
    try:
        return path.read_bytes() if _fits(path) else b""
    except OSError:
        return b""


def kept_key(path: Path) -> bytes:
    """The key that lies there, or a new one."""
    if not _fits(path):
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        made_once(path, secrets.token_bytes(_LENGTH), fits=_fits, mode=0o600)
    return path.read_bytes()


@contextmanager
def exclusive(path: Path, *, wait: float = WAIT) -> Iterator[None]:
    """Hold the lock. Its file is never removed: a second one would be a second lock."""
    fd = _opened(path)
    try:
        if not lock_within(fd, wait):
            raise busy(f"{path} is held by another process")
        yield
    finally:
        os.close(fd)


def make_state_folder(folder: Path) -> None:
    """Make a folder in the state folder, if it is not there. A repository may bring symbolic
    links, and what is written here must not go where they lead."""
    if folder.name != STATE:
        make_state_folder(folder.parent)
    try:
        there = os.lstat(folder).st_mode
    except FileNotFoundError:
        folder.mkdir(exist_ok=True)
        return
    if stat.S_ISLNK(there):
        raise OSError(errno.ELOOP, f"{folder} is a symbolic link")
    if not stat.S_ISDIR(there):
        raise OSError(errno.ENOTDIR, f"{folder} is no folder")


def made_once(path: Path, data: bytes, *, fits: Callable[[Path], bool], mode: int) -> None:
    """Put it there, whole, unless one that fits is there. Of two processes the second leaves the
    first one's. Raises OSError."""
    fresh = path.with_name(f"{path.name}.{secrets.token_hex(8)}")
    try:
        write_new(fresh, [data], mode=mode, durable=False)
        with suppress(OSError):  # something is there, or the file system knows no links
            os.link(fresh, path)
        if not fits(path):
            fresh.replace(path)
    finally:
        fresh.unlink(missing_ok=True)


def _fits(path: Path) -> bool:
    try:
        return path.stat().st_size == _LENGTH
    except FileNotFoundError:
        return False


def _opened(path: Path) -> int:
    try:
        make_state_folder(path.parent)
        return open_lock(path)
    except OSError as error:
        raise unwritable(error.strerror or str(error)) from error
