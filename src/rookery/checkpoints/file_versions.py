"""A file or link of the workspace as checkpoints know it, read through its folder's descriptor.

No link is followed, nothing is opened that could block, and what was looked at is what is read.

Owner and extended attributes are noted beside the content. Most files have nothing to note: they
belong to whoever would create them, and have no access control list and no user attributes.
"""

import errno
import json
import os
import re
import secrets
import stat
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from rookery.checkpoints.snapshot_trees import FOLDERS_OWN
from rookery.core.facts import FileVersion
from rookery.core.limits import KIB, MIB
from rookery.core.undo_plan import folder_with
from rookery.platform.descriptors import ACL, USERS, extended_of, opened_folder
from rookery.platform.git_objects import ObjectKind, object_id

MOST_OF_A_FILE = 16 * KIB
"""Larger attributes of the user's are not noted."""
MOST_OF_ALL = MIB
"""With more in all files together, only owners and access control lists are noted. Every
checkpoint holds all the notes."""

_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
NOT_A_FOLDER = {errno.ENOTDIR, errno.ELOOP}
"""What opening a folder says if there is something else by now."""
_TRIES = 3

_EDIT = re.compile(r"\.~[0-9a-f]{16}-[0-9a-f]{8}\.tmp")
_RESTORE = re.compile(r"\.~undo-[0-9a-f]{16}\.tmp")


class NotedAttributes(Struct, frozen=True):
    """`owner` is user and group, if a new file in the folder would get others."""

    owner: tuple[int, int] | None
    extended: Mapping[str, bytes]

    @property
    def access_list(self) -> bytes:
        return self.extended.get(ACL, b"")

    @property
    def text(self) -> str:
        if not self.owner and not self.extended:
            return ""
        return json.dumps(
            {
                "owner": self.owner,
                "extended": {name: worth.hex() for name, worth in self.extended.items()},
            }
        )


def note_of(folder: int, file: int) -> str:
    """The note about an open file in an open folder; empty if there is nothing to note."""
    extended = dict(extended_of(file))
    users = {name: worth for name, worth in extended.items() if name.startswith(USERS)}
    if sum(map(len, users.values())) > MOST_OF_A_FILE:
        users = {}
    listed = {ACL: extended[ACL]} if ACL in extended else {}
    return NotedAttributes(_owner(folder, file), {**listed, **users}).text


def note_of_access_list(text: str) -> str:
    """The note about a file of which an older checkpoint holds only the access control list."""
    return NotedAttributes(None, {ACL: bytes.fromhex(text)}).text


def noted_attributes(note: str) -> NotedAttributes:
    said = json.loads(note)
    owner = said["owner"]
    extended = {name: bytes.fromhex(text) for name, text in said["extended"].items()}
    return NotedAttributes(owner and (owner[0], owner[1]), extended)


def bounded(notes: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """The notes by path, in order, without empty ones."""
    kept = sorted((path, note) for path, note in notes.items() if note)
    if sum(len(note) for _, note in kept) <= MOST_OF_ALL:
        return tuple(kept)
    short = ((path, _without_users(note)) for path, note in kept)
    return tuple((path, note) for path, note in short if note)


def put_users_attributes(file: int, noted: NotedAttributes, there: Mapping[str, bytes]) -> None:
    """Give a new file the user's attributes that are noted and not `there`, if it can have any."""
    for name, worth in noted.extended.items():
        if name != ACL and name not in there:
            with suppress(OSError):
                os.setxattr(file, name, worth)


def _without_users(note: str) -> str:
    noted = noted_attributes(note)
    listed = {ACL: noted.access_list} if noted.access_list else {}
    return NotedAttributes(noted.owner, listed).text


def _owner(folder: int, file: int) -> tuple[int, int] | None:
    there, above = os.fstat(file), os.fstat(folder)
    group = above.st_gid if above.st_mode & stat.S_ISGID else os.getegid()
    own = (there.st_uid, there.st_gid)
    return None if own == (os.geteuid(), group) else own


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


def version_in(folder: int, name: str, most: int) -> FileVersion | None:
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
        return FileVersion("", status.st_mode)
    blob = object_id(ObjectKind.BLOB, content.data).hex()
    return FileVersion(
        blob, stat.S_IFLNK if stat.S_ISLNK(status.st_mode) else content.status.st_mode
    )


def version_at(root: Path, path: str, most: int) -> FileVersion | None:
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


def name_for_unfinished() -> str:
    """A name for what a restore is writing; one that stays behind is cleared away."""
    return f".~undo-{secrets.token_hex(8)}.tmp"


def is_unfinished_edit(name: str) -> bool:
    return bool(_EDIT.fullmatch(name))


def is_unfinished_restore(name: str) -> bool:
    return bool(_RESTORE.fullmatch(name))
