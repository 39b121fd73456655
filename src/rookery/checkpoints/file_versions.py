"""Versions of files and links, read through their folder's file descriptor.

Links are never followed, nothing is opened that could block, and the file that is read is the one
that was examined.

Owner and extended attributes are stored as a note beside the content. Most files have no note: the
user owns them, and they have no access control list or user attributes.
"""

import errno
import json
import os
import secrets
import stat
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

from rookery.checkpoints.snapshot_trees import OWN_RIGHTS
from rookery.core.facts import FileVersion
from rookery.core.limits import KIB, MIB
from rookery.core.undo_plan import folder_with
from rookery.first_use import lazy_pattern
from rookery.platform.descriptors import ACL, USERS, extended_of, opened_folder
from rookery.platform.git_objects import ObjectKind, object_id

MAX_NOTE_BYTES = 16 * KIB
"""Larger user attributes are not stored."""
MAX_TOTAL_BYTES = MIB
"""If the notes of all files are larger, only owners and access control lists are stored, because
every checkpoint contains all notes."""

_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
NOT_A_FOLDER = {errno.ENOTDIR, errno.ELOOP}
"""Errors of opening a folder that has been replaced by something else."""
_TRIES = 3

_EDIT = lazy_pattern(r"\.~[0-9a-f]{16}-[0-9a-f]{8}\.tmp")
_RESTORE = lazy_pattern(r"\.~undo-[0-9a-f]{16}\.tmp")


class SavedAttributes(Struct, frozen=True):
    """Attributes from a note. `owner` is user and group, if a new file would get others."""

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
                "extended": {name: value.hex() for name, value in self.extended.items()},
            }
        )


def note_of(folder: int, file: int, status: os.stat_result) -> str:
    """The note on an open file in an open folder; empty if there is nothing to store."""
    extended, owner = dict(extended_of(file)), _owner(folder, status)
    if not extended and not owner:
        return ""
    users = {name: value for name, value in extended.items() if name.startswith(USERS)}
    if sum(map(len, users.values())) > MAX_NOTE_BYTES:
        users = {}
    listed = {ACL: extended[ACL]} if ACL in extended else {}
    return SavedAttributes(owner, {**listed, **users}).text


def note_of_access_list(text: str) -> str:
    """A note made from the format of older checkpoints, which have access control lists only."""
    return SavedAttributes(None, {ACL: bytes.fromhex(text)}).text


def parse_note(note: str) -> SavedAttributes:
    fields = json.loads(note)
    owner = fields["owner"]
    extended = {name: bytes.fromhex(text) for name, text in fields["extended"].items()}
    return SavedAttributes(owner and (owner[0], owner[1]), extended)


def limit_notes(notes: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """The notes sorted by path, without empty ones, shortened if they are too large together."""
    kept = sorted((path, note) for path, note in notes.items() if note)
    if sum(len(note) for _, note in kept) <= MAX_TOTAL_BYTES:
        return tuple(kept)
    short = ((path, _without_user_attributes(note)) for path, note in kept)
    return tuple((path, note) for path, note in short if note)


def set_user_attributes(file: int, saved: SavedAttributes, there: Mapping[str, bytes]) -> None:
    """Set the stored user attributes that are not `there` already, where the disk supports them."""
    for name, value in saved.extended.items():
        if name != ACL and name not in there:
            with suppress(OSError):
                os.setxattr(file, name, value)


def _without_user_attributes(note: str) -> str:
    saved = parse_note(note)
    listed = {ACL: saved.access_list} if saved.access_list else {}
    return SavedAttributes(saved.owner, listed).text


def _owner(folder: int, there: os.stat_result) -> tuple[int, int] | None:
    above = os.fstat(folder)
    group = above.st_gid if above.st_mode & stat.S_ISGID else os.getegid()
    own = (there.st_uid, there.st_gid)
    return None if own == (os.geteuid(), group) else own


class Content(Struct, frozen=True):
    """Content of a file or target of a link. `steady` if it did not change while it was read."""

    data: bytes
    status: os.stat_result
    steady: bool
    attributes: str = ""
    """The note on owner and extended attributes."""


def status_of(folder: int, name: str) -> os.stat_result | None:
    try:
        return os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None


def content_of(folder: int, name: str, status: os.stat_result, most: int) -> Content | None:
    """None if it is not a file or link, or larger than `most` bytes. Raises `OSError`."""
    if stat.S_ISLNK(status.st_mode):
        return Content(os.fsencode(os.readlink(name, dir_fd=folder)), status, True)
    if not stat.S_ISREG(status.st_mode) or status.st_size > most:
        return None
    file = os.open(name, _FILE, dir_fd=folder)
    try:
        content = _read(folder, file, most)
        for _ in range(_TRIES):
            if content is None or content.steady:
                break
            content = _read(folder, file, most)
        return content
    finally:
        os.close(file)


def version_in(folder: int, name: str, most: int) -> FileVersion | None:
    """The current version; None if nothing is there. The hash is empty if it cannot be stored."""
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
    """The version at a path; None also if a link is on the way."""
    *folders, name = path.split("/")
    try:
        with opened_folder(root, folders) as folder:
            return None if folder is None else version_in(folder, name, most)
    except OSError as error:
        if error.errno not in NOT_A_FOLDER:
            raise
        return None


def is_git_name(name: str) -> bool:
    """Whether git, on this or another system, treats the name as a repository."""
    if not name.isprintable():
        name = "".join(character for character in name if character.isprintable())
    return name.casefold() in (".git", "git~1")


def path_parts(path: str) -> Sequence[str] | None:
    """The components of a workspace path that a snapshot can contain; None for other paths."""
    names = path.split("/")
    if any(name in ("", ".", "..", OWN_RIGHTS) or is_git_name(name) for name in names):
        return None
    return names


def _read(folder: int, descriptor: int, most: int) -> Content | None:
    before = os.fstat(descriptor)
    data = _read_all(descriptor, before.st_size, most) if stat.S_ISREG(before.st_mode) else None
    if data is None:
        return None
    after = os.fstat(descriptor)
    steady = _stamp(before) == _stamp(after) and len(data) == after.st_size
    return Content(data, after, steady, note_of(folder, descriptor, after))


def _read_all(descriptor: int, size: int, most: int) -> bytes | None:
    """The content, up to where it was truncated during reading; None if it is too large."""
    pieces, at = [], 0
    while piece := os.pread(descriptor, max(size + 1 - at, 65536 if at else 1), at):
        pieces.append(piece)
        at += len(piece)
        if at > most:
            return None
        if at == size:
            break
    return b"".join(pieces)


def _stamp(status: os.stat_result) -> tuple[int, int, int]:
    return status.st_size, status.st_mtime_ns, status.st_ctime_ns


def temporary_name() -> str:
    """Temporary name for a file being restored; leftovers are removed by the next snapshot."""
    return f".~undo-{secrets.token_hex(8)}.tmp"


def is_unfinished_edit(name: str) -> bool:
    return bool(_EDIT.fullmatch(name))


def is_unfinished_restore(name: str) -> bool:
    return bool(_RESTORE.fullmatch(name))
