"""The folder that a browser lives in, gone when it is.

A product that is killed cannot remove it. So each folder has a lock which ends with its owner,
and whoever makes the next one removes those that nobody holds. A browser makes sockets below it,
whose paths may not be long.
"""

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from rookery.errors import ToolError

PREFIX = "rookery-browser-"
LONGEST = 56
"""Bytes of a folder's path. The name of a socket below it has up to 46, and both together 103."""
USUAL = (Path("/tmp"), Path("/var/tmp"))
_LOCK = "lock"
_RANDOM = 8
"""Characters that make a name a new one."""


@contextmanager
def scratch_folder() -> Iterator[Path]:
    """A new folder of our own, below the one for temporary files or, if that has too long a path,
    another. Raises `ToolError` if there is none."""
    parents = list(dict.fromkeys([Path(tempfile.gettempdir()), *USUAL]))
    for parent in parents:
        _remove_abandoned(parent)
    folder = _made_in_one_of(parents)
    lock = os.open(folder / _LOCK, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield folder
    finally:
        _remove(folder)
        os.close(lock)


def _made_in_one_of(parents: Sequence[Path]) -> Path:
    most = LONGEST - len("/") - len(PREFIX) - _RANDOM
    problems: list[str] = []
    for parent in parents:
        if len(os.fsencode(parent)) > most:
            problems.append(f"{parent} has a longer one")
            continue
        try:
            return Path(tempfile.mkdtemp(prefix=PREFIX, dir=parent))
        except OSError as error:
            problems.append(f"{parent} cannot be used ({error.strerror})")
    raise ToolError(
        f"The browser was not started: it needs a folder for its files with a path of at most "
        f"{most} bytes, and {'; '.join(problems)}. The user has to set TMPDIR to a short one."
    )


def _remove_abandoned(parent: Path) -> None:
    for folder in parent.glob(f"{PREFIX}*"):
        with suppress(OSError):  # it is held, somebody else's, or gone by now
            if folder.is_symlink() or folder.stat().st_uid != os.getuid():
                continue
            lock = os.open(folder / _LOCK, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                _remove(folder)
            finally:
                os.close(lock)


def _remove(folder: Path) -> None:
    """The lock goes last: while anything is left, the folder can be found abandoned."""
    for entry in folder.iterdir():
        if entry.name == _LOCK:
            continue
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry, ignore_errors=True)
        else:
            entry.unlink(missing_ok=True)
    shutil.rmtree(folder, ignore_errors=True)
