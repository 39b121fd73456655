"""What the host itself last wrote into a file of governance, kept where no command can reach it.

Without mounts a command can write these files. If one has changed while a command ran, this
tells whether the host did it, on a person's order or for another task.
"""

import os
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

from rookery.platform.disk import put
from rookery.platform.git.git_objects import Kind, object_id


def note_write(folder: Path | None, path: Path, data: bytes) -> None:
    """To be called before the file is replaced. Whoever cannot note it writes all the same."""
    if folder is None:
        return
    with suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        put(folder / _key(path), [object_id(Kind.BLOB, data).hex().encode()], durable=False)


def was_written(folder: Path, path: Path, blob: str) -> bool:
    """Whether that is what the host wrote last; `blob` is what git calls the content."""
    try:
        return (folder / _key(path)).read_text(encoding="ascii") == blob
    except (OSError, ValueError):
        return False


def _key(path: Path) -> str:
    return sha256(os.fsencode(os.path.realpath(path))).hexdigest()[:32]
