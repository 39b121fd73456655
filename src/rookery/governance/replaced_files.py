"""Files of governance that are replaced as a whole: the old one or the new one, never half."""

import os
import tempfile
from pathlib import Path

from rookery.errors import RookeryError
from rookery.governance.host_writes import note_write
from rookery.governance.layout import Layout
from rookery.platform.attributes import attributes_at, keep_attributes


class NotReplaced(RookeryError):
    """The file is as it was."""


def replace_file(layout: Layout, path: Path, data: bytes) -> None:
    """Write a file in the governance folder. Raises `NotReplaced`. Links are not followed: whoever
    wrote the repository could have things written elsewhere."""
    name = layout.shown(path)
    if layout.folder.is_symlink() or path.is_symlink():
        raise NotReplaced(f"{name} is a link; nothing was written. Remove it.")
    try:
        note_write(layout.written, path, data)
        _replace(path, data)
    except OSError as error:
        reason = error.strerror or str(error)
        raise NotReplaced(f"{name} cannot be written ({reason}); it is as it was.") from error


def _replace(path: Path, data: bytes) -> None:
    like = attributes_at(path)
    handle, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with open(handle, "wb") as opened:
            opened.write(data)
            opened.flush()
            if like is None:
                os.fchmod(handle, 0o644)
            else:
                keep_attributes(handle, like)
            os.fsync(handle)
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
