"""Bringing files to what they shall be, each of them at once or not at all.

Folders are opened up first. Then what is to go goes, then folders are removed, then made, then
files are put in place, and in the end folders get the rights they shall have. Every path is
opened step by step without following links, and a file is touched only if it is still what the
plan was made for. What must not be in the workspace is moved aside, and never destroyed.
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
    NotedAttributes,
    name_for_unfinished,
    noted_attributes,
    put_users_attributes,
    version_in,
)
from rookery.core.facts import Effect, FileVersion
from rookery.core.undo_plan import is_folder, is_leaf, is_unknown
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
from rookery.platform.paths import visible


def set_aside(root: Path, path: str, aside: Path) -> str:
    """Move what is at the path, be it a file or a folder; where to. Raises `OSError`."""
    *folders, name = path.split("/")
    aside.mkdir(parents=True, exist_ok=True, mode=0o700)
    away = _away(path)
    with opened_folder(root, folders) as folder:
        at = present(folder)
        try:
            os.rename(name, aside / away, src_dir_fd=at)
            return str(aside / away)
        except OSError as error:
            if error.errno != errno.EXDEV:
                raise
        # first out of git's sight, as copying to another disk takes a while
        unseen = f".{name.strip('.')}.set-aside-{secrets.token_hex(4)}"
        os.rename(name, unseen, src_dir_fd=at, dst_dir_fd=at)
    return _carried(root.joinpath(*folders, unseen), aside / away)


def keep_aside(folder: int, name: str, path: str, aside: Path) -> str:
    """Keep a file that is about to be replaced, under another name; where. It stays where it
    is, so that at no time there is none. Raises `OSError`.
    """
    aside.mkdir(parents=True, exist_ok=True, mode=0o700)
    there = aside / _away(path)
    keep_also(folder, name, there)
    return str(there)


def keep_also(folder: int, name: str, there: Path) -> None:
    """Give a file a second name, or make a copy of it. Raises `OSError`."""
    there.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    try:
        os.link(name, there, src_dir_fd=folder, follow_symlinks=False)
    except OSError:  # on another disk, or of another user: copy it
        _copy(folder, name, there)


def move_aside(folder: int, name: str, there: Path) -> None:
    """Move a file or a link out of the workspace, to a path of its own. Raises `OSError`."""
    there.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    try:
        os.rename(name, there, src_dir_fd=folder)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        _copy(folder, name, there)
        os.unlink(name, dir_fd=folder)


def _copy(folder: int, name: str, there: Path) -> None:
    """A pipe or a device holds nothing that could be lost."""
    mode = os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode
    if stat.S_ISLNK(mode):
        os.symlink(os.readlink(name, dir_fd=folder), there)
    elif stat.S_ISREG(mode):
        with open(os.open(name, _FILE, dir_fd=folder), "rb") as file:
            give = partial(os.fchmod, mode=stat.S_IMODE(mode))
            write_new(there, pieces_of(file), give=give)


def _away(path: str) -> str:
    """An unused name that still shows the path."""
    return f"{'-'.join(visible(path).split('/'))[-60:].lstrip('.')}-{secrets.token_hex(4)}"


def _carried(here: Path, there: Path) -> str:
    """Where it is in the end: what cannot be copied stays under its new name."""
    try:
        if here.is_dir() and not here.is_symlink():
            shutil.copytree(here, there, symlinks=True)
            shutil.rmtree(here)
        else:
            shutil.copy2(here, there, follow_symlinks=False)
            here.unlink()
    except OSError:
        return str(here)
    return str(there)


_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_CLOSED_FOLDER = getattr(os, "O_PATH", 0) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_IN_THE_WAY = {errno.EEXIST, errno.ENOTEMPTY, errno.EISDIR, errno.ENOENT, *NOT_A_FOLDER}


class PutBack(Struct, frozen=True):
    """`failed` says of each file that could not be changed why; it is as it was. `aside` says
    where that is now which stood in the place of one and which no checkpoint holds."""

    done: tuple[Effect, ...]
    kept: tuple[str, ...]
    failed: tuple[tuple[str, str], ...]
    aside: tuple[tuple[str, str], ...]


def put_back(
    root: Path,
    changes: Sequence[Effect],
    content: Callable[[str], bytes],
    *,
    most: int,
    aside: Path,
    keep: Path | None = None,
    attributes: Mapping[str, str] | None = None,
) -> PutBack:
    """Make every `before` an `after`. Files larger than `most` are not looked into, but kept
    `aside`. With `keep`, all that is replaced or removed goes to that folder, by its path. Files
    get back what is noted of their `attributes`."""
    work = _Work(root, content, most, aside, keep, attributes or {})
    for change in changes:
        if is_folder(change.before) and _lets_write(change.after):
            work.attempt(change, work.set_rights)
    for change in changes:
        if is_leaf(change.before) and not is_leaf(change.after):
            work.attempt(change, work.remove)
    for change in reversed(changes):
        if is_folder(change.before) and not is_folder(change.after):
            work.attempt(change, work.remove_folder)
    for change in changes:
        if is_folder(change.after) and not is_folder(change.before):
            work.attempt(change, work.make_folder)
    for change in changes:
        if is_leaf(change.after):
            work.attempt(change, work.put)
    for change in reversed(changes):
        if is_folder(change.after) and not (is_folder(change.before) and _lets_write(change.after)):
            work.attempt(change, work.set_rights)
    work.make_durable()
    return work.outcome(changes)


class _Work:
    def __init__(
        self,
        root: Path,
        content: Callable[[str], bytes],
        most: int,
        aside: Path,
        keep: Path | None,
        attributes: Mapping[str, str],
    ) -> None:
        self._root = root
        self._attributes = attributes
        self._content = content
        self._most = most
        self._place_aside = aside
        self._keep = keep
        self._aside: dict[str, str] = {}
        self._kept: set[str] = set()
        self._failed: dict[str, str] = {}
        self._changed: set[str] = set()
        """Folders in which names came, went or were taken over."""

    def attempt(self, change: Effect, do: Callable[[Effect], None]) -> None:
        """One step of a change, unless an earlier one did not succeed."""
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

    def outcome(self, changes: Sequence[Effect]) -> PutBack:
        undone = self._kept | self._failed.keys()
        done = tuple(change for change in changes if change.path not in undone)
        failed, aside = sorted(self._failed.items()), sorted(self._aside.items())
        return PutBack(done, tuple(sorted(self._kept)), tuple(failed), tuple(aside))

    def make_durable(self) -> None:
        for path in self._changed:
            try:
                with opened_folder(self._root, path.split("/") if path else ()) as folder:
                    os.fsync(present(folder))
            except OSError as error:
                if error.errno not in _IN_THE_WAY:  # then it is no folder any more
                    self._failed[path] = (error.strerror or str(error)).lower()

    def remove(self, change: Effect) -> None:
        with self._at(change.path) as (folder, name):
            self._demand(folder, name, change.before)
            if self._keep:
                move_aside(folder, name, self._keep / change.path)
            else:
                self._save_unsaved(folder, name, change)
                os.unlink(name, dir_fd=folder)
            self._changed.add(os.path.dirname(change.path))

    def remove_folder(self, change: Effect) -> None:
        with self._at(change.path) as (folder, name):
            if self._keep:  # an empty folder can be what makes a repository complete
                (self._keep / change.path).mkdir(parents=True, exist_ok=True, mode=0o700)
            os.rmdir(name, dir_fd=folder)
            self._changed.add(os.path.dirname(change.path))

    def make_folder(self, change: Effect) -> None:
        with self._at(change.path) as (folder, name):
            os.mkdir(name, 0o700, dir_fd=folder)
            self._changed.add(os.path.dirname(change.path))

    def set_rights(self, change: Effect) -> None:
        assert change.after is not None
        rights = stat.S_IMODE(change.after.mode)
        try:
            with opened_folder(self._root, change.path.split("/")) as folder:
                os.fchmod(present(folder), rights)
        except PermissionError:
            with self._at(change.path) as (folder, name):
                _open_up(folder, name, rights)

    def put(self, change: Effect) -> None:
        assert change.after is not None
        data = self._content(change.after.blob)
        with self._at(change.path) as (folder, name):
            there = None if is_folder(change.before) else change.before
            temporary = name_for_unfinished()
            try:
                like = _attributes(folder, name) if _is_file(there) else None
                note = self._attributes.get(change.path, "")
                noted = noted_attributes(note) if note else None
                _write(folder, temporary, data, change.after.mode, like, noted)
                faults.kp("restore.temp_written")
                self._demand(folder, name, there)
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
        with opened_folder(self._root, folders) as folder:
            yield present(folder), name

    def _demand(self, folder: int, name: str, expected: FileVersion | None) -> None:
        if version_in(folder, name, self._most) != expected:
            raise FileExistsError(errno.EEXIST, "it has changed")

    def _save_unsaved(self, folder: int, name: str, change: Effect) -> None:
        """A pipe or a device holds nothing that could be lost."""
        if self._keep and is_leaf(change.before):
            keep_also(folder, name, self._keep / change.path)
        elif is_unknown(change.before) and _is_file(change.before):
            self._aside[change.path] = keep_aside(folder, name, change.path, self._place_aside)


def _open_up(folder: int, name: str, rights: int) -> None:
    """Change the rights of a folder that nobody may look into."""
    closed = os.open(name, _CLOSED_FOLDER, dir_fd=folder)
    try:
        os.chmod(f"/proc/self/fd/{closed}", rights)
    finally:
        os.close(closed)


def _is_file(version: FileVersion | None) -> bool:
    return version is not None and stat.S_ISREG(version.mode)


def _attributes(folder: int, name: str) -> Attributes | None:
    """Those of the file that is replaced; None if nobody may look at it."""
    try:
        file = os.open(name, _FILE, dir_fd=folder)
    except OSError:
        return None
    try:
        return attributes_of(file)
    finally:
        os.close(file)


def _lets_write(folder: FileVersion | None) -> bool:
    return folder is not None and stat.S_ISDIR(folder.mode) and bool(folder.mode & stat.S_IWUSR)


def _write(
    folder: int,
    name: str,
    data: bytes,
    mode: int,
    like: Attributes | None,
    noted: NotedAttributes | None,
) -> None:
    if stat.S_ISLNK(mode):
        os.symlink(os.fsdecode(data), name, dir_fd=folder)
        return
    rights = stat.S_IMODE(mode) if like else unprivileged(stat.S_IMODE(mode))

    def give(file: int) -> None:
        if like or noted:
            _give_attributes(file, rights, like, noted)
        else:
            os.fchmod(file, rights)

    write_new(name, [data], folder=folder, give=give)


def _give_attributes(
    file: int, rights: int, like: Attributes | None, noted: NotedAttributes | None
) -> None:
    """Those of the file that is replaced, and what is noted of the one that comes back."""
    if noted:
        put_users_attributes(file, noted, like.extended if like else {})
    kept = replace(like or attributes_of(file), mode=rights)
    if noted and noted.owner:
        kept = replace(kept, uid=noted.owner[0], gid=noted.owner[1])
    if noted and noted.access_list:
        kept = replace(kept, extended={**kept.extended, ACL: noted.access_list})
    try:
        keep_attributes(file, kept, as_recorded=True)
    except NotKept:
        if like:
            raise
        os.fchmod(file, without_group(rights))
