"""Versions of files and links, read through their folder's file descriptor and taken into a
snapshot.

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
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

from msgspec import Struct

from rookery.checkpoints.object_store import ObjectStore
from rookery.checkpoints.snapshot_trees import OWN_RIGHTS, UNSEEN, Folder, Trees
from rookery.core.limits import KIB, MIB, Limits
from rookery.core.protected_paths import holds_secrets
from rookery.first_use import lazy_pattern
from rookery.platform.descriptors import ACL, USERS, extended_of, times_are_settled
from rookery.platform.git_objects import ObjectKind
from rookery.platform.paths import visible

MAX_NOTE_BYTES = 16 * KIB
"""Larger user attributes are not stored."""
MAX_TOTAL_BYTES = MIB
"""If the notes of all files are larger, only owners and access control lists are stored, because
every checkpoint contains all notes."""

FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
IGNORE_FILE = ".gitignore"
"""A change of one changes what else belongs into a snapshot."""
_NAMED = 50
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


class FolderNamed(Exception):
    """A named path is a folder, so its content must be walked through."""


class Skipped:
    """Skipped paths: all are counted, the first are named."""

    def __init__(self) -> None:
        self._names: list[str] = []
        self._count = 0

    def add(self, path: str, why: str) -> None:
        self._count += 1
        if self._count <= _NAMED:
            self._names.append(f"{visible(path)} ({why})")

    def summary(self) -> tuple[str, ...]:
        more = self._count - len(self._names)
        return (*self._names, f"and {more} more") if more else tuple(self._names)


class PathSurvey:
    """Looks at single paths. `private` folders are skipped. `pause` is called between files, and
    may raise."""

    def __init__(
        self,
        root: Path,
        store: ObjectStore,
        limits: Limits,
        *,
        private: Collection[Path],
        pause: Callable[[], None],
    ) -> None:
        self._root = root
        self._store = store
        self._limits = limits
        self._private = {identity(os.stat(path)) for path in private if path.exists()}
        self._pause = pause
        self._began = time.time_ns()
        self.read = 0
        """Number of files that were read, and of folders that were listed."""
        self.skipped = Skipped()
        self.attributes: dict[str, str] = {}
        """Attribute notes of the files that were read, by path; may be empty strings."""

    def named(self, base: Trees, paths: Sequence[str], *, ignored: bool = False) -> Trees:
        """Return `base` with the current state of these paths. Of secret files that are
        `ignored`, the content is not stored."""
        for path in paths:
            names = path_parts(path)
            if names is None:
                self.skipped.add(path, "not a file of the workspace")
                continue
            root = os.open(self._root, FOLDER)
            try:
                base = self._replace_path(root, base, names, "", ignored=ignored)
            finally:
                os.close(root)
        return base

    def _replace_path(
        self, folder: int, base: Trees, names: Sequence[str], path: str, *, ignored: bool
    ) -> Trees:
        """Update the entry at the end of `names`, or the first on the way that is not a folder."""
        name, *below = names
        entries = Folder(self._store, base)
        if path:
            entries.put_own_rights(os.fstat(folder).st_mode)
        here = f"{path}{name}"
        status = status_of(folder, name)
        if status is None:
            entries.drop(name)
        elif not stat.S_ISDIR(status.st_mode):
            secret = ignored and holds_secrets(name)
            self._leaf(entries, folder, name, here, status, secret=secret)
        else:
            with self._open(entries, folder, name, here) as inner:
                if inner is not None and below:
                    known = entries.folder(name) or entries.uncovered_below(name)
                    trees = self._replace_path(inner, known, below, f"{here}/", ignored=ignored)
                    entries.put_folder(name, trees)
                elif inner is not None:
                    entries.put_folder(
                        name, self._whole(inner, here, partial(entries.folder, name))
                    )
        return entries.store()

    def _whole(self, folder: int, path: str, last: Callable[[], Trees | None]) -> Trees:
        """Store a folder that is named itself. `last` returns it as it was."""
        raise FolderNamed(path)

    @contextmanager
    def _open(self, entries: Folder, folder: int, name: str, here: str) -> Iterator[int | None]:
        """Open a folder; None if it cannot be opened or is private."""
        try:
            inner = os.open(name, FOLDER, dir_fd=folder)
        except OSError as error:
            if not isinstance(error, FileNotFoundError):
                self._skip(entries, name, here, (error.strerror or "unreadable").lower())
                self._put_closed(entries, folder, name)
            yield None
            return
        try:
            if identity(os.fstat(inner)) in self._private:
                entries.put_uncovered(name)
                yield None
            else:
                yield inner
        finally:
            os.close(inner)

    def _put_closed(self, entries: Folder, folder: int, name: str) -> None:
        """Store the mode of a folder that cannot be read."""
        status = status_of(folder, name)
        if status and stat.S_ISDIR(status.st_mode):
            closed = Folder(self._store, UNSEEN)
            closed.put_own_rights(status.st_mode)
            entries.put_folder(name, closed.store())

    def _leaf(
        self,
        entries: Folder,
        folder: int,
        name: str,
        path: str,
        status: os.stat_result,
        *,
        secret: bool = False,
    ) -> tuple[os.stat_result, bytes] | None:
        """Store a file; return its state and id, unless a later change could go unnoticed."""
        self._pause()
        self.read += 1
        try:
            content = content_of(folder, name, status, self._limits.checkpoint_file_bytes)
        except FileNotFoundError:
            entries.drop(name)
            return None
        except OSError as error:
            self._skip(entries, name, path, (error.strerror or "unreadable").lower(), status)
            return None
        if content is None or is_git_name(name):
            self._skip(entries, name, path, skip_reason(name, status), status)
            return None
        self.attributes[path] = content.attributes
        secret = secret and stat.S_ISREG(content.status.st_mode)
        add = self._store.remember if secret else partial(self._store.add, ObjectKind.BLOB)
        blob = add(content.data)
        entries.put_leaf(name, blob, content.status.st_mode, secret=secret)
        settled = content.steady and times_are_settled(content.status, self._began)
        return (content.status, blob) if settled else None

    def _skip(
        self,
        entries: Folder,
        name: str,
        path: str,
        why: str,
        status: os.stat_result | None = None,
    ) -> None:
        if is_git_name(name):
            entries.drop(name)
        elif status:
            entries.put_unsaved(name, status)
        else:
            entries.put_uncovered(name)
        self.skipped.add(path, why)


def identity(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino


def skip_reason(name: str, status: os.stat_result) -> str:
    if is_git_name(name):
        return "git could mistake it for one of its own files"
    return "too large" if stat.S_ISREG(status.st_mode) else "no file"
