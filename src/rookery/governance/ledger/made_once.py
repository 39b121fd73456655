"""A small file that is made when it is first needed, by whoever needs it first."""

import os
import secrets
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path


def made_once(path: Path, data: bytes, *, fits: Callable[[Path], bool], mode: int) -> None:
    """Put it there, whole, unless one that fits is there. Of two processes the second leaves the
    first one's. Raises OSError."""
    fresh = path.with_name(f"{path.name}.{secrets.token_hex(8)}")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        with open(os.open(fresh, flags, mode), "wb") as file:
            file.write(data)
        with suppress(OSError):  # something is there, or the file system knows no links
            os.link(fresh, path)
        if not fits(path):
            fresh.replace(path)
    finally:
        fresh.unlink(missing_ok=True)
