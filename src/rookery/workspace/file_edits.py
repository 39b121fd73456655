"""Changes of files, made all or not at all.

A file is changed by renaming a finished, synced neighbour over it, so that at every instant
it is either as it was or as it shall be. Of several files, what they were is kept beside them
until the last one is changed, and put back if one cannot be.
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
from rookery.platform.locks import alone_in

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
    """A change, what to write (None removes the file), and where: names below a folder."""

    change: Change
    data: bytes | None
    top: Path
    names: tuple[str, ...]
    origin: "FileEdit | None" = None
    """The edit that removes the file which this one was."""


class _EditStep(Struct):
    """An edit under way. `temporary` is what is to become the file, `kept` what it was."""

    edit: FileEdit
    folder: int
    temporary: str = ""
    kept: str = ""
    ours: os.stat_result | None = None
    kept_attributes: Attributes | None = None
    """Those of the file that is to be replaced."""
    done: bool = False

    @property
    def change(self) -> Change:
        return self.edit.change

    @property
    def name(self) -> str:
        return self.edit.names[-1]


def make(edits: Sequence[FileEdit]) -> None:
    """All of the edits, or none."""
    for edit in edits:
        _check(edit)
    with ExitStack() as stack, _folders_for(edits):
        steps = [_EditStep(edit, stack.enter_context(_folder_of(edit))) for edit in edits]
        try:
            for step in steps:
                _write_temporary(step)
            kp("files.temp_written")
            with alone_in([step.folder for step in steps]):
                for step in steps:
                    _take(step, keeping=len(steps) > 1)
                _settle(steps)
        except BaseException:
            _put_back(steps)
            raise
        finally:
            _clear(steps)


def unfinished(change: Change) -> str:
    """How the names of neighbours begin that belong to this change."""
    return f".~{(change.after or change.before)[:16]}-"


def _check(edit: FileEdit) -> None:
    *folders, name = edit.names
    with explained(edit.change.path, "written"), opened_folder(edit.top, folders) as folder:
        _demand_unchanged(folder, name, edit.change)


def _demand_unchanged(folder: int | None, name: str, change: Change) -> os.stat_result | None:
    """What is there now, if it is what the change was made for."""
    there = None if folder is None else regular_file(folder, name, change.path)
    if folder is None or there is None:
        if change.before:
            raise ToolError(f"{change.path} no longer exists; nothing was written.")
        return None
    if not change.before:
        raise _created_meanwhile(change)
    if not there.st_mode & 0o222 or not os.access(name, os.W_OK, dir_fd=folder):
        raise ToolError(f"{change.path} is read-only; nothing was written.")
    if hash_of(folder, name, change.path) != change.before:
        raise _changed_meanwhile(change)
    return there


def _created_meanwhile(change: Change) -> ToolError:
    return ChangedMeanwhile(
        f"{change.path} was created by another program; nothing was written. Read it first."
    )


def _changed_meanwhile(change: Change) -> ToolError:
    return ChangedMeanwhile(
        f"{change.path} changed on disk after this edit was prepared; nothing was written. "
        "Read it again and repeat the edit."
    )


@contextmanager
def _folders_for(edits: Sequence[FileEdit]) -> Iterator[None]:
    """Make the folders that are missing. If the edits fail, they go again."""
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


def _neighbour(change: Change, kind: str) -> str:
    return f"{unfinished(change)}{secrets.token_hex(4)}.{kind}"


def _write_temporary(step: _EditStep) -> None:
    if step.edit.data is None:
        return
    with explained(step.change.path, "written"):
        step.kept_attributes = _attributes(step.folder, step.name, step.change.path)
        like = step.kept_attributes or _of_origin(step.edit)
        step.temporary = _neighbour(step.change, "tmp")
        mode = 0o666 if like is None else 0o600  # a new file obeys the umask
        give = partial(keep_attributes, kept=like) if like else None
        data = [step.edit.data]
        step.ours = write_new(step.temporary, data, folder=step.folder, mode=mode, give=give)


def _attributes(folder: int, name: str, path: str) -> Attributes | None:
    if regular_file(folder, name, path) is None:
        return None
    with opened_file(folder, name, path) as file:
        return attributes_of(file.fileno())


def _of_origin(edit: FileEdit) -> Attributes | None:
    if edit.origin is None:
        return None
    *folders, name = edit.origin.names
    with opened_folder(edit.origin.top, folders) as folder:
        return _attributes(present(folder), name, edit.origin.change.path)


def _take(step: _EditStep, *, keeping: bool) -> None:
    """Let the change happen."""
    with explained(step.change.path, "written"):
        there = _demand_unchanged(step.folder, step.name, step.change)
        _demand_same_attributes(step)
        if there is not None and keeping and step.temporary:
            _keep(step)
        kp("files.before_rename")
        if not step.temporary:
            _take_away(step)
        elif there is None:
            _name_anew(step)
        else:
            _rename(step, step.temporary, step.name)
        step.done = True
        kp("files.renamed")


def _demand_same_attributes(step: _EditStep) -> None:
    known = step.kept_attributes
    if known and _attributes(step.folder, step.name, step.change.path) != known:
        raise _changed_meanwhile(step.change)


def _rename(step: _EditStep, old: str, new: str) -> None:
    os.rename(old, new, src_dir_fd=step.folder, dst_dir_fd=step.folder)


def _name_anew(step: _EditStep) -> None:
    try:
        name_anew(step.folder, step.temporary, step.name)
    except FileExistsError as error:
        raise _created_meanwhile(step.change) from error


def _take_away(step: _EditStep) -> None:
    """Rename the file, and only then make sure that it is the one which is meant to go."""
    kept = _neighbour(step.change, "old")
    _rename(step, step.name, kept)
    step.kept, step.done = kept, True
    if hash_of(step.folder, kept, step.change.path) != step.change.before:
        raise _changed_meanwhile(step.change)


def _keep(step: _EditStep) -> None:
    kept = _neighbour(step.change, "old")
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


def _settle(steps: Sequence[_EditStep]) -> None:
    """Make it last, and see that it is so."""
    for step in steps:
        with explained(step.change.path, "written"):
            os.fsync(step.folder)
    kp("files.synced")
    for step in steps:
        with explained(step.change.path, "read back"):
            _demand_written(step)


def _demand_written(step: _EditStep) -> None:
    after = step.change.after
    if after and hash_of(step.folder, step.name, step.change.path) != after:
        raise ToolError(
            f"{step.change.path} was written, but does not read back as it was written."
        )


def _put_back(steps: Sequence[_EditStep]) -> None:
    lost: list[str] = []
    for step in reversed(steps):
        try:
            _undo(step)
        except OSError:
            lost.append(f"{step.change.path} (its old content is in {step.kept} beside it)")
            step.kept = ""  # so that it is not cleared away
    if lost:
        raise ToolError(f"An edit failed and could not be reverted: {', '.join(lost)}.")


def _undo(step: _EditStep) -> None:
    """What somebody else has put there meanwhile is left alone."""
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


def _clear(steps: Sequence[_EditStep]) -> None:
    for step in steps:
        for name in filter(None, (step.temporary, step.kept)):
            with suppress(FileNotFoundError):
                os.unlink(name, dir_fd=step.folder)


@contextmanager
def explained(path: str, done: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        said = (error.strerror or str(error)).lower()
        reason = said if isinstance(error, NotKept) else _REASONS.get(error.errno or 0, said)
        raise ToolError(f"{path} was not {done}: {reason}.") from error
