"""Change files to their planned versions, each one atomically.

The order matters: unlock folders, remove files, remove folders, create folders, write files, and
set folder modes last. Every path is opened component by component without following links, and a
file is changed only if it still is the version that the plan expects. Content that no checkpoint
has is moved aside, never deleted.
"""

import errno
import os
import secrets
import shutil
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from rookery import faults
from rookery.checkpoints.file_versions import (
    NOT_A_FOLDER,
    SavedAttributes,
    content_of,
    parse_note,
    set_user_attributes,
    status_of,
    temporary_name,
)
from rookery.core.facts import Effect, FileVersion
from rookery.core.undo_plan import folder_with, is_folder, is_leaf, is_unknown
from rookery.errors import StorageError
from rookery.platform.descriptors import (
    ACL,
    Attributes,
    NotKept,
    attributes_of,
    keep_attributes,
    name_anew,
    opened_folder,
    present,
    unprivileged,
    without_group,
)
from rookery.platform.disk import pieces_of, write_new
from rookery.platform.git_objects import ObjectKind, object_id
from rookery.platform.paths import visible


def set_aside(root: Path, path: str, aside: Path) -> str:
    """Move a file or a folder out of the workspace and return its new path. Raises `OSError`."""
    *folders, name = path.split("/")
    aside.mkdir(parents=True, exist_ok=True, mode=0o700)
    away = _aside_name(path)
    with opened_folder(root, folders) as folder:
        at = present(folder)
        try:
            os.rename(name, aside / away, src_dir_fd=at)
            return str(aside / away)
        except OSError as error:
            if error.errno != errno.EXDEV:
                raise
        # hide it from git first, because copying to another disk takes a while
        unseen = f".{name.strip('.')}.set-aside-{secrets.token_hex(4)}"
        os.rename(name, unseen, src_dir_fd=at, dst_dir_fd=at)
    here = root.joinpath(*folders, unseen)
    try:
        return str(shutil.move(here, aside / away))
    except OSError:
        return str(here)


def copy_aside(folder: int, name: str, path: str, aside: Path) -> str:
    """Keep a copy of a file that is about to be replaced and return the copy's path. The file
    itself stays in place until then. Raises `OSError`."""
    aside.mkdir(parents=True, exist_ok=True, mode=0o700)
    there = aside / _aside_name(path)
    link_or_copy(folder, name, there)
    return str(there)


def link_or_copy(folder: int, name: str, there: Path) -> None:
    """Hard-link a file to `there`, or copy it. Raises `OSError`."""
    there.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    try:
        os.link(name, there, src_dir_fd=folder, follow_symlinks=False)
    except OSError:  # on another disk, or owned by another user
        _copy(folder, name, there)


def move_aside(folder: int, name: str, there: Path) -> None:
    """Move a file or link from the workspace to `there`. Raises `OSError`."""
    there.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    try:
        os.rename(name, there, src_dir_fd=folder)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        _copy(folder, name, there)
        os.unlink(name, dir_fd=folder)


def _copy(folder: int, name: str, there: Path) -> None:
    """Copy a file or link; pipes and devices have no content to copy."""
    mode = os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode
    if stat.S_ISLNK(mode):
        os.symlink(os.readlink(name, dir_fd=folder), there)
    elif stat.S_ISREG(mode):
        with open(os.open(name, _FILE, dir_fd=folder), "rb") as file:
            give = partial(os.fchmod, mode=stat.S_IMODE(mode))
            write_new(there, pieces_of(file), give=give)


def _aside_name(path: str) -> str:
    """An unused file name that shows the original path."""
    return f"{'-'.join(visible(path).split('/'))[-60:].lstrip('.')}-{secrets.token_hex(4)}"


_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_CLOSED_FOLDER = getattr(os, "O_PATH", 0) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_IN_THE_WAY = {errno.EEXIST, errno.ENOTEMPTY, errno.EISDIR, errno.ENOENT, *NOT_A_FOLDER}


class RestoreResult(Struct, frozen=True):
    """Result of a restore. `failed` has the path and the reason for each file that could not be
    changed. `aside` has the path and the new place of content that no checkpoint has."""

    done: tuple[Effect, ...]
    kept: tuple[str, ...]
    failed: tuple[tuple[str, str], ...]
    aside: tuple[tuple[str, str], ...]


class FileRestorer(Struct):
    """Changes files to their planned versions. Files larger than `most` are not read, but moved to
    `aside`."""

    root: Path
    content: Callable[[str], bytes]
    most: int
    aside: Path
    keep: Path | None = None
    """Where everything that is replaced or removed is moved to, under its path."""
    attributes: Mapping[str, str] = {}
    """Notes on owners and extended attributes to restore."""
    _moved: dict[str, str] = {}
    _kept: set[str] = set()
    _failed: dict[str, str] = {}
    _changed: set[str] = set()
    """Folders that were changed and must be synced."""

    def put_back(self, changes: Sequence[Effect]) -> RestoreResult:
        for change in changes:
            if is_folder(change.before) and _writable(change.after):
                self._attempt(change, self._set_rights)
        for change in changes:
            if is_leaf(change.before) and not is_leaf(change.after):
                self._attempt(change, self._remove)
        for change in reversed(changes):
            if is_folder(change.before) and not is_folder(change.after):
                self._attempt(change, self._remove_folder)
        for change in changes:
            if is_folder(change.after) and not is_folder(change.before):
                self._attempt(change, self._make_folder)
        for change in changes:
            if is_leaf(change.after):
                self._attempt(change, self._put)
        for change in reversed(changes):
            if is_folder(change.after) and not (
                is_folder(change.before) and _writable(change.after)
            ):
                self._attempt(change, self._set_rights)
        self._make_durable()
        return self._outcome(changes)

    def _attempt(self, change: Effect, do: Callable[[Effect], None]) -> None:
        """Run one step of a change, unless an earlier step of it failed."""
        if change.path in self._kept or change.path in self._failed:
            return
        faults.kp("restore.before_file")
        try:
            do(change)
        except OSError as error:
            if error.errno in _IN_THE_WAY:
                self._kept.add(change.path)
            else:
                self._failed[change.path] = (error.strerror or str(error)).lower()
        except StorageError as error:
            self._failed[change.path] = str(error)
        faults.kp("restore.file_done")

    def _outcome(self, changes: Sequence[Effect]) -> RestoreResult:
        undone = self._kept | self._failed.keys()
        done = tuple(change for change in changes if change.path not in undone)
        failed, aside = sorted(self._failed.items()), sorted(self._moved.items())
        return RestoreResult(done, tuple(sorted(self._kept)), tuple(failed), tuple(aside))

    def _make_durable(self) -> None:
        for path in self._changed:
            try:
                with opened_folder(self.root, path.split("/") if path else ()) as folder:
                    os.fsync(present(folder))
            except OSError as error:
                if error.errno not in _IN_THE_WAY:  # else it is no longer a folder
                    self._failed[path] = (error.strerror or str(error)).lower()

    def _remove(self, change: Effect) -> None:
        with self._at(change.path) as (folder, name):
            self._check_unchanged(folder, name, change.before)
            if self.keep:
                move_aside(folder, name, self.keep / change.path)
            else:
                self._save_unsaved(folder, name, change)
                os.unlink(name, dir_fd=folder)
            self._changed.add(os.path.dirname(change.path))

    def _remove_folder(self, change: Effect) -> None:
        with self._at(change.path) as (folder, name):
            if self.keep:  # git may need the empty folder
                (self.keep / change.path).mkdir(parents=True, exist_ok=True, mode=0o700)
            os.rmdir(name, dir_fd=folder)
            self._changed.add(os.path.dirname(change.path))

    def _make_folder(self, change: Effect) -> None:
        with self._at(change.path) as (folder, name):
            os.mkdir(name, 0o700, dir_fd=folder)
            self._changed.add(os.path.dirname(change.path))

    def _set_rights(self, change: Effect) -> None:
        assert change.after is not None
        rights = stat.S_IMODE(change.after.mode)
        try:
            with opened_folder(self.root, change.path.split("/")) as folder:
                os.fchmod(present(folder), rights)
        except PermissionError:
            with self._at(change.path) as (folder, name):
                _open_up(folder, name, rights)

    def _put(self, change: Effect) -> None:
        assert change.after is not None
        data = self.content(change.after.blob)
        with self._at(change.path) as (folder, name):
            there = None if is_folder(change.before) else change.before
            temporary = temporary_name()
            try:
                like = _attributes(folder, name) if _is_file(there) else None
                note = self.attributes.get(change.path, "")
                saved = parse_note(note) if note else None
                _write(folder, temporary, data, change.after.mode, like, saved)
                faults.kp("restore.temp_written")
                self._check_unchanged(folder, name, there)
                self._save_unsaved(folder, name, change)
                if there is None:
                    name_anew(folder, temporary, name)
                else:
                    os.rename(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
            finally:
                with suppress(FileNotFoundError):
                    os.unlink(temporary, dir_fd=folder)
            self._changed.add(os.path.dirname(change.path))

    @contextmanager
    def _at(self, path: str) -> Iterator[tuple[int, str]]:
        *folders, name = path.split("/")
        with opened_folder(self.root, folders) as folder:
            yield present(folder), name

    def _check_unchanged(self, folder: int, name: str, expected: FileVersion | None) -> None:
        if version_in(folder, name, self.most) != expected:
            raise FileExistsError(errno.EEXIST, "it has changed")

    def _save_unsaved(self, folder: int, name: str, change: Effect) -> None:
        """Keep a copy of content that no checkpoint has; pipes and devices have none."""
        if self.keep and is_leaf(change.before):
            link_or_copy(folder, name, self.keep / change.path)
        elif is_unknown(change.before) and _is_file(change.before):
            self._moved[change.path] = copy_aside(folder, name, change.path, self.aside)


def _open_up(folder: int, name: str, rights: int) -> None:
    """Change the mode of a folder that cannot be opened for reading."""
    closed = os.open(name, _CLOSED_FOLDER, dir_fd=folder)
    try:
        os.chmod(f"/proc/self/fd/{closed}", rights)
    finally:
        os.close(closed)


def _is_file(version: FileVersion | None) -> bool:
    return version is not None and stat.S_ISREG(version.mode)


def _attributes(folder: int, name: str) -> Attributes | None:
    """Attributes of the file to be replaced; None if it cannot be opened."""
    try:
        file = os.open(name, _FILE, dir_fd=folder)
    except OSError:
        return None
    try:
        return attributes_of(file)
    finally:
        os.close(file)


def _writable(folder: FileVersion | None) -> bool:
    return folder is not None and stat.S_ISDIR(folder.mode) and bool(folder.mode & stat.S_IWUSR)


def _write(
    folder: int,
    name: str,
    data: bytes,
    mode: int,
    like: Attributes | None,
    saved: SavedAttributes | None,
) -> None:
    if stat.S_ISLNK(mode):
        os.symlink(os.fsdecode(data), name, dir_fd=folder)
        return
    rights = stat.S_IMODE(mode) if like else unprivileged(stat.S_IMODE(mode))

    def give(file: int) -> None:
        if like or saved:
            _set_attributes(file, rights, like, saved)
        else:
            os.fchmod(file, rights)

    write_new(name, [data], folder=folder, give=give)


def _set_attributes(
    file: int, rights: int, like: Attributes | None, saved: SavedAttributes | None
) -> None:
    """Set the attributes of the replaced file, and those recorded of the restored one."""
    if saved:
        set_user_attributes(file, saved, like.extended if like else {})
    kept = replace(like or attributes_of(file), mode=rights)
    if saved and saved.owner:
        kept = replace(kept, uid=saved.owner[0], gid=saved.owner[1])
    if saved and saved.access_list:
        kept = replace(kept, extended={**kept.extended, ACL: saved.access_list})
    try:
        keep_attributes(file, kept, as_recorded=True)
    except NotKept:
        if like:
            raise
        os.fchmod(file, without_group(rights))


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
