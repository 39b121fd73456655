"""Files that may have come with a clone, opened only if they are files, and small ones read whole.

What is behind a name can be a pipe or a device: opening it must not wait for somebody to write to
it, and reading it must end.
"""

import errno
import os
import stat
from pathlib import Path

from rookery.core.limits import MIB

_NO_FILE = frozenset({errno.ELOOP, errno.ENXIO, errno.EISDIR})
"""What the system says of links, pipes without a reader, sockets and folders."""


class Unreadable(Exception):
    """Its text says why a file is not read; `code` is that of the problem."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class UnfitFile(OSError):
    """No regular file, or one of a size that nobody who is honest makes."""

    def __init__(self, path: Path, what: str) -> None:
        super().__init__(errno.EINVAL, f"{path} {what}; move it away")


def regular_file(path: Path, flags: int = os.O_RDONLY, mode: int = 0o600) -> int:
    """A handle of a regular file, which is no link. Raises `UnfitFile` and what `os.open` does."""
    try:
        handle = os.open(path, flags | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC, mode)
    except OSError as error:
        if error.errno in _NO_FILE:
            raise UnfitFile(path, "is no regular file") from error
        raise
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise UnfitFile(path, "is no regular file")
    return handle


def whole_file(path: Path, *, largest: int) -> bytes:
    """All of a regular file. Raises OSError, and so for one that is larger."""
    with open(regular_file(path), "rb") as opened:
        data = opened.read(largest + 1)
    if len(data) > largest:
        raise UnfitFile(path, f"is larger than {_size(largest)}")
    return data


def small_file(path: Path, workspace: Path, *, largest: int) -> bytes:
    """Raises `FileNotFoundError` or `Unreadable`. Links are followed inside the workspace only."""
    try:
        # it is read before every change, and a `Path` takes three times as long to do this
        real, top = os.path.realpath(path, strict=True), os.path.realpath(workspace)
        if real != top and not real.startswith(top.rstrip("/") + "/"):
            raise Unreadable("E101", "it is a link that leaves the workspace")
        with open(regular_file(Path(real)), "rb") as opened:
            data = opened.read(largest + 1)
    except FileNotFoundError:
        raise
    except UnfitFile as error:
        raise Unreadable("E101", "it is not a file") from error
    except (OSError, RuntimeError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise Unreadable("E101", f"it cannot be read ({reason.lower()})") from error
    if len(data) > largest:
        raise Unreadable("E102", f"it is larger than {_size(largest)}")
    return data


def _size(count: int) -> str:
    return f"{count // 1024} KiB" if count <= MIB else f"{count // MIB} MiB"
