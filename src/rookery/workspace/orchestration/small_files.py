"""Small files that people wrote, read whole: regular, inside the workspace, and not too large."""

import os
import stat
from pathlib import Path


class Unreadable(Exception):
    """Its text says why a file is not read; `code` is that of the problem."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


def small_file(path: Path, workspace: Path, *, largest: int) -> bytes:
    """Raises `FileNotFoundError` or `Unreadable`. Links are followed inside the workspace only."""
    try:
        real = path.resolve(strict=True)
        if not real.is_relative_to(workspace.resolve()):
            raise Unreadable("E101", "it is a link that leaves the workspace")
        # what is behind a name can be a pipe: opening must not wait for somebody to write to it
        handle = os.open(real, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
        with open(handle, "rb") as opened:
            there = os.fstat(handle)
            if not stat.S_ISREG(there.st_mode):
                raise Unreadable("E101", "it is not a file")
            if there.st_size > largest:
                raise _too_large(largest)
            data = opened.read(largest + 1)
    except FileNotFoundError:
        raise
    except (OSError, RuntimeError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise Unreadable("E101", f"it cannot be read ({reason.lower()})") from error
    if len(data) > largest:
        raise _too_large(largest)
    return data


def _too_large(largest: int) -> Unreadable:
    return Unreadable("E102", f"it is larger than {largest // 1024} KiB")
