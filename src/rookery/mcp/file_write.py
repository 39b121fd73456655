"""Writing a file of ours, whole or not at all."""

import os
import secrets
from pathlib import Path


def write_whole(file: Path, data: bytes) -> None:
    """Raises `OSError`; then the file is as it was."""
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    unfinished = file.with_name(f"{file.name}.{secrets.token_hex(8)}.unfinished")
    fd = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with open(fd, "wb") as stream:
            stream.write(data)
        unfinished.replace(file)
    except BaseException:
        unfinished.unlink(missing_ok=True)
        raise
