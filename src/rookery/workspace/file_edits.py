"""Atomic changes of one or several files.

A file is replaced by renaming a synced temporary file over it, so a reader sees the old content or
the new one. If several files are changed, the old ones are kept beside them until the last is done,
and restored if one fails.
"""

import errno
import os
import secrets
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path

from msgspec import Struct

from rookery.core.facts import Change
from rookery.errors import ChangedMeanwhile, ToolError
from rookery.faults import kp
from rookery.platform.descriptors import (
    Attributes,
    NotKept,
    attributes_of,
    hash_of,
    keep_attributes,
    name_anew,
    opened_file,
    opened_folder,
    present,
    regular_file,
    same_file,
)
from rookery.platform.disk import pieces_of, write_new
from rookery.platform.locks import lock_folders

_NO_LINKS = {errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK, errno.EACCES}

_REASONS = {
    errno.ENOSPC: "its file system is full",
    errno.EDQUOT: "the disk quota of its file system is used up",
    errno.EFBIG: "the file would be larger than the system allows",
    errno.EIO: "its file system reported an error",
    errno.EROFS: "its file system is read-only",
    errno.EACCES: "permission is denied",
    errno.EPERM: "the operation is not permitted",
    errno.ENAMETOOLONG: "the name is too long",
    errno.ETXTBSY: "it is a program that is running",
    errno.EBUSY: "it is in use",
    errno.ENOTDIR: "a part of its path is not a folder",
    errno.ELOOP: "a part of its path has become a symbolic link",
}


class FileEdit(Struct, frozen=True):
    """A change, the data to write (None deletes the file), and its path as names below `top`."""

    change: Change
    data: bytes | None
    top: Path
    names: tuple[str, ...]
    origin: "FileEdit | None" = None
    """For a moved file: the edit that deletes it in its old place."""


class _EditStep(Struct):
    """An edit in progress. `temporary` is the file with the new content, `kept` the one with the
    old."""

    edit: FileEdit
    folder: int
    temporary: str = ""
    kept: str = ""
    ours: os.stat_result | None = None
    kept_attributes: Attributes | None = None
    """The attributes of the file to replace."""
    done: bool = False

    @property
    def change(self) -> Change:
        return self.edit.change

    @property
    def name(self) -> str:
        return self.edit.names[-1]


def make(edits: Sequence[FileEdit]) -> None:
    """Make all of the edits, or none."""
    for edit in edits:
        _check(edit)
    with ExitStack() as stack, _missing_folders(edits):
        steps = [_EditStep(edit, stack.enter_context(_folder_of(edit))) for edit in edits]
        try:
            for step in steps:
                _write_temporary(step)
            kp("files.temp_written")
            with lock_folders([step.folder for step in steps]):
                for step in steps:
                    _apply(step, keeping=len(steps) > 1)
                _sync_and_verify(steps)
        except BaseException:
            _roll_back(steps)
            raise
        finally:
            _clean_up(steps)


def unfinished(change: Change) -> str:
    """The prefix of the temporary files of this change."""
    return f".~{(change.after or change.before)[:16]}-"


def _check(edit: FileEdit) -> None:
    *folders, name = edit.names
    with explained(edit.change.path, "written"), opened_folder(edit.top, folders) as folder:
        _check_unchanged(folder, name, edit.change)


def _check_unchanged(folder: int | None, name: str, change: Change) -> os.stat_result | None:
    """The file as it is now. Raises ToolError if it is not the one the change was made for."""
    there = None if folder is None else regular_file(folder, name, change.path)
    if folder is None or there is None:
        if change.before:
            raise ToolError(f"{change.path} no longer exists; nothing was written.")
        return None
    if not change.before:
        raise _created_error(change)
    if not there.st_mode & 0o222 or not os.access(name, os.W_OK, dir_fd=folder):
        raise ToolError(f"{change.path} is read-only; nothing was written.")
    if hash_of(folder, name, change.path) != change.before:
        raise _changed_error(change)
    return there


def _created_error(change: Change) -> ToolError:
    return ChangedMeanwhile(
        f"{change.path} was created by another program; nothing was written. Read it first."
    )


def _changed_error(change: Change) -> ToolError:
    return ChangedMeanwhile(
        f"{change.path} changed on disk after this edit was prepared; nothing was written. "
        "Read it again and repeat the edit."
    )


@contextmanager
def _missing_folders(edits: Sequence[FileEdit]) -> Iterator[None]:
    """Create missing folders; remove them again if the edits fail."""
    made: list[tuple[Path, tuple[str, ...]]] = []
    try:
        for edit in edits:
            with explained(edit.change.path, "written"):
                made += ((edit.top, names) for names in _make_folders(edit))
        yield
    except BaseException:
        for top, (*outer, name) in reversed(made):
            with suppress(OSError), opened_folder(top, outer) as parent:
                os.rmdir(name, dir_fd=present(parent))
        raise


def _make_folders(edit: FileEdit) -> Iterator[tuple[str, ...]]:
    for depth in range(1, len(edit.names) if edit.data is not None else 0):
        with opened_folder(edit.top, edit.names[: depth - 1]) as opened:
            parent = present(opened)
            try:
                os.mkdir(edit.names[depth - 1], dir_fd=parent)
            except FileExistsError:
                continue
            yield edit.names[:depth]
            os.fsync(parent)


@contextmanager
def _folder_of(edit: FileEdit) -> Iterator[int]:
    with ExitStack() as stack:
        with explained(edit.change.path, "written"):
            folder = present(stack.enter_context(opened_folder(edit.top, edit.names[:-1])))
        yield folder


def _temporary_name(change: Change, kind: str) -> str:
    return f"{unfinished(change)}{secrets.token_hex(4)}.{kind}"


def _write_temporary(step: _EditStep) -> None:
    if step.edit.data is None:
        return
    with explained(step.change.path, "written"):
        step.kept_attributes = _attributes(step.folder, step.name, step.change.path)
        like = step.kept_attributes or _origin_attributes(step.edit)
        step.temporary = _temporary_name(step.change, "tmp")
        mode = 0o666 if like is None else 0o600  # a new file gets the umask
        give = partial(keep_attributes, kept=like) if like else None
        data = [step.edit.data]
        step.ours = write_new(step.temporary, data, folder=step.folder, mode=mode, give=give)


def _attributes(folder: int, name: str, path: str) -> Attributes | None:
    if regular_file(folder, name, path) is None:
        return None
    with opened_file(folder, name, path) as file:
        return attributes_of(file.fileno())


def _origin_attributes(edit: FileEdit) -> Attributes | None:
    if edit.origin is None:
        return None
    *folders, name = edit.origin.names
    with opened_folder(edit.origin.top, folders) as folder:
        return _attributes(present(folder), name, edit.origin.change.path)


def _apply(step: _EditStep, *, keeping: bool) -> None:
    """Put the new file in place, or remove the file."""
    with explained(step.change.path, "written"):
        there = _check_unchanged(step.folder, step.name, step.change)
        _check_attributes(step)
        if there is not None and keeping and step.temporary:
            _back_up(step)
        kp("files.before_rename")
        if not step.temporary:
            _remove(step)
        elif there is None:
            _create(step)
        else:
            _rename(step, step.temporary, step.name)
        step.done = True
        kp("files.renamed")


def _check_attributes(step: _EditStep) -> None:
    known = step.kept_attributes
    if known and _attributes(step.folder, step.name, step.change.path) != known:
        raise _changed_error(step.change)


def _rename(step: _EditStep, old: str, new: str) -> None:
    os.rename(old, new, src_dir_fd=step.folder, dst_dir_fd=step.folder)


def _create(step: _EditStep) -> None:
    try:
        name_anew(step.folder, step.temporary, step.name)
    except FileExistsError as error:
        raise _created_error(step.change) from error


def _remove(step: _EditStep) -> None:
    """Rename the file first and check its content then, so that nothing can change it in
    between."""
    kept = _temporary_name(step.change, "old")
    _rename(step, step.name, kept)
    step.kept, step.done = kept, True
    if hash_of(step.folder, kept, step.change.path) != step.change.before:
        raise _changed_error(step.change)


def _back_up(step: _EditStep) -> None:
    kept = _temporary_name(step.change, "old")
    at = step.folder
    try:
        os.link(step.name, kept, src_dir_fd=at, dst_dir_fd=at, follow_symlinks=False)
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        with opened_file(at, step.name, step.change.path) as old:
            like = attributes_of(old.fileno())
            give = partial(keep_attributes, kept=like, as_recorded=True)
            write_new(kept, pieces_of(old), folder=at, give=give, durable=False)
    step.kept = kept


def _sync_and_verify(steps: Sequence[_EditStep]) -> None:
    """Sync the folders, and check that the files read back as written."""
    for step in steps:
        with explained(step.change.path, "written"):
            os.fsync(step.folder)
    kp("files.synced")
    for step in steps:
        with explained(step.change.path, "read back"):
            _check_written(step)


def _check_written(step: _EditStep) -> None:
    after = step.change.after
    if after and hash_of(step.folder, step.name, step.change.path) != after:
        raise ToolError(
            f"{step.change.path} was written, but does not read back as it was written."
        )


def _roll_back(steps: Sequence[_EditStep]) -> None:
    lost: list[str] = []
    for step in reversed(steps):
        try:
            _undo(step)
        except OSError:
            lost.append(f"{step.change.path} (its old content is in {step.kept} beside it)")
            step.kept = ""  # so that `_clean_up` leaves it
    if lost:
        raise ToolError(f"An edit failed and could not be reverted: {', '.join(lost)}.")


def _undo(step: _EditStep) -> None:
    """Undo the edit, unless another program has replaced the file since."""
    if not step.done:
        return
    if step.ours is None:
        name_anew(step.folder, step.kept, step.name)
    elif not same_file(step.folder, step.name, step.ours):
        return
    elif step.kept:
        _rename(step, step.kept, step.name)
    elif not step.change.before:
        os.unlink(step.name, dir_fd=step.folder)
    os.fsync(step.folder)


def _clean_up(steps: Sequence[_EditStep]) -> None:
    for step in steps:
        for name in filter(None, (step.temporary, step.kept)):
            with suppress(FileNotFoundError):
                os.unlink(name, dir_fd=step.folder)


@contextmanager
def explained(path: str, done: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        message = (error.strerror or str(error)).lower()
        reason = message if isinstance(error, NotKept) else _REASONS.get(error.errno or 0, message)
        raise ToolError(f"{path} was not {done}: {reason}.") from error
