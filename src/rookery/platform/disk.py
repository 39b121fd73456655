"""The few ways in which anything of ours reaches a disk: private, whole and durable.

What must survive a power failure is synced, and so is the folder that names it. Errors are
the operating system's own; callers say in a sentence what they mean for the user.
"""

import contextlib
import os
import secrets
import sys
from collections.abc import Iterable
from pathlib import Path

from rookery import ENV_PREFIX
from rookery.errors import StorageError
from rookery.faults import kp
from rookery.platform.attributes import Attributes, keep_attributes

PRIVATE_FILE = 0o600
PRIVATE_FOLDER = 0o700
UNFINISHED = ".unfinished"


def private_folder(path: Path) -> Path:
    """The folder, made with its parents if need be, closed to other users; it can be written."""
    try:
        _make(path)
        if not path.is_dir():
            raise NotADirectoryError("there is a file of that name")
        if not os.access(path, os.W_OK | os.X_OK):
            raise PermissionError("it cannot be written")
    except OSError as error:
        raise StorageError(
            f"Nothing can be kept in {path} ({reason(error)}). Set {ENV_PREFIX}HOME to a folder "
            "that can be written, or run with --ephemeral to keep nothing."
        ) from error
    return path


def put(path: Path, pieces: Iterable[bytes], *, like: Attributes | None = None) -> None:
    """Make `path` hold exactly this: at any instant the old file is there or the new one. It is
    private, or keeps the attributes of a file of the user's that it is `like`."""
    unfinished = path.with_name(f"{path.name}.{secrets.token_hex(8)}{UNFINISHED}")
    fd = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, PRIVATE_FILE)
    try:
        with open(fd, "wb") as file:
            file.writelines(pieces)
            file.flush()
            if like is not None:
                keep_attributes(fd, like)
            sync(fd)
        kp("disk.before_rename")
        unfinished.replace(path)
    except BaseException:
        unfinished.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def remove_unfinished(folder: Path) -> None:
    """Clear away what a killed process was writing. Only for whoever holds the folder's lock."""
    for path in folder.glob(f"*{UNFINISHED}"):
        path.unlink(missing_ok=True)


def sync(fd: int) -> None:
    """What was written to the file is on the medium when this returns."""
    if sys.platform == "darwin":
        import fcntl

        fcntl.fcntl(fd, fcntl.F_FULLFSYNC)  # there fsync only reaches the drive's cache
    else:
        os.fdatasync(fd)


def sync_folder(path: Path) -> None:
    """Names made, changed or removed in the folder are on the medium when this returns."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def reason(error: OSError) -> str:
    return error.strerror or str(error)


def _make(path: Path) -> None:
    if path.exists():
        return
    _make(path.parent)
    with contextlib.suppress(FileExistsError):
        path.mkdir(mode=PRIVATE_FOLDER)
        sync_folder(path.parent)
