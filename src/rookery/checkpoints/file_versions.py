"""A file or link of the workspace as checkpoints know it, read through its folder's descriptor.

No link is followed, nothing is opened that could block, and what was looked at is what is read.
"""

import errno
import os
import stat
from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from rookery.checkpoints.noted_attributes import note_of
from rookery.checkpoints.snapshot_trees import FOLDERS_OWN
from rookery.core.facts import Version
from rookery.core.undo_plan import folder_with
from rookery.platform.descriptors import opened_folder
from rookery.platform.git.git_packs import Kind, object_id

_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
NOT_A_FOLDER = {errno.ENOTDIR, errno.ELOOP}
"""What opening a folder says if there is something else by now."""
_TRIES = 3


class Content(Struct, frozen=True):
    """What is in a file, or where a link leads. `steady` if it stood still while it was read."""

    data: bytes
    status: os.stat_result
    steady: bool
    attributes: str = ""
    """What is noted of the file's owner and extended attributes."""


def status_of(folder: int, name: str) -> os.stat_result | None:
    try:
        return os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None


def content_of(folder: int, name: str, status: os.stat_result, most: int) -> Content | None:
    """None if it is no file or link, or holds more than `most` bytes. Raises `OSError`."""
    if stat.S_ISLNK(status.st_mode):
        return Content(os.fsencode(os.readlink(name, dir_fd=folder)), status, True)
    if not stat.S_ISREG(status.st_mode) or status.st_size > most:
        return None
    with open(os.open(name, _FILE, dir_fd=folder), "rb", buffering=0) as file:
        content = _read(file.fileno(), most)
        for _ in range(_TRIES):
            if content is None or content.steady:
                break
            content = _read(file.fileno(), most)
        return content and replace(content, attributes=note_of(folder, file.fileno()))


def version_in(folder: int, name: str, most: int) -> Version | None:
    """What is there now; None if nothing is. Without a hash if no checkpoint could hold it."""
    status = status_of(folder, name)
    if status is None:
        return None
    if stat.S_ISDIR(status.st_mode):
        return folder_with(stat.S_IMODE(status.st_mode))
    try:
        content = content_of(folder, name, status, most)
    except PermissionError:
        content = None
    if content is None:
        return Version("", status.st_mode)
    blob = object_id(Kind.BLOB, content.data).hex()
    return Version(blob, stat.S_IFLNK if stat.S_ISLNK(status.st_mode) else content.status.st_mode)


def version_at(root: Path, path: str, most: int) -> Version | None:
    """The same by its path. What a link on the way leads to is not there."""
    *folders, name = path.split("/")
    try:
        with opened_folder(root, folders) as folder:
            return None if folder is None else version_in(folder, name, most)
    except OSError as error:
        if error.errno not in NOT_A_FOLDER:
            raise
        return None


def is_gits_own(name: str) -> bool:
    """Whether git, on this system or another, could take it for a repository."""
    shown = "".join(character for character in name if character.isprintable()).casefold()
    return shown in (".git", "git~1")


def proper(path: str) -> Sequence[str] | None:
    """The names in a path that lies in the workspace and can be in a snapshot."""
    names = path.split("/")
    if any(name in ("", ".", "..", FOLDERS_OWN) or is_gits_own(name) for name in names):
        return None
    return names


def _read(descriptor: int, most: int) -> Content | None:
    before = os.fstat(descriptor)
    data = _whole(descriptor, before.st_size, most) if stat.S_ISREG(before.st_mode) else None
    if data is None:
        return None
    after = os.fstat(descriptor)
    return Content(data, after, _signs(before) == _signs(after) and len(data) == after.st_size)


def _whole(descriptor: int, size: int, most: int) -> bytes | None:
    """All that is in the file, as far as it was not cut meanwhile; None if it is too much."""
    pieces, at = [], 0
    while piece := os.pread(descriptor, max(size + 1 - at, 65536), at):
        pieces.append(piece)
        at += len(piece)
        if at > most:
            return None
        if at == size:
            break
    return b"".join(pieces)


def _signs(status: os.stat_result) -> tuple[int, int, int]:
    return status.st_size, status.st_mtime_ns, status.st_ctime_ns
