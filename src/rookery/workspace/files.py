"""The files of the workspace: found, read, and replaced whole.

A file is changed by renaming a finished, synced neighbour over it, so that at every instant
it is either as it was or as it shall be.
"""

import errno
import os
import secrets
import stat
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path, PurePosixPath
from typing import TypeVar

import anyio.to_thread

from rookery import faults
from rookery.core.facts import Change
from rookery.core.limits import MIB, Limits
from rookery.engine.ports import FileBytes, FileText, Permit
from rookery.errors import Denied, ToolError
from rookery.workspace.descriptors import content, name_anew, opened_folder, present, regular_file
from rookery.workspace.paths import locate
from rookery.workspace.text_files import decoded, sha

T = TypeVar("T")

_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
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


class WorkspaceFiles:
    def __init__(self, root: Path, limits: Limits) -> None:
        self._given = root.absolute()
        self._root = root.resolve(strict=True)
        self._limits = limits

    def locate(self, path: str) -> str:
        return str(locate(self._root, path, also=self._given))

    async def examine(self, path: str) -> FileText | None:
        return await _beside(self._examine, self.locate(path))

    async def sha(self, path: str) -> str:
        return await _beside(self._sha, self.locate(path))

    async def read(self, path: str, permit: Permit) -> FileText | FileBytes:
        located = self.locate(path)
        if located not in permit.reads:
            raise Denied(f"There is no permit to read {located}.")
        return await _beside(self._read, located)

    async def write(self, change: Change, data: bytes, permit: Permit) -> None:
        if change not in permit.changes or self.locate(change.path) != change.path:
            raise Denied(f"There is no permit for this change of {change.path}.")
        if sha(data) != change.after:
            raise Denied(f"What is to be written to {change.path} is not what was permitted.")
        await anyio.to_thread.run_sync(self._write, change, data)

    async def remove_unfinished(self, change: Change) -> None:
        await anyio.to_thread.run_sync(self._remove_unfinished, change)

    def _examine(self, path: str) -> FileText | None:
        *folders, name = _parts(path)
        with _explained(path, "opened"), opened_folder(self._root, folders) as folder:
            if folder is None or (there := regular_file(folder, name, path)) is None:
                self._refuse_collision(path)
                return None
            if there.st_size > self._limits.edit_bytes:
                most = self._limits.edit_bytes // MIB
                raise ToolError(f"{path} is larger than {most} MiB, too large to be edited here.")
            match decoded(path, *content(folder, name, path, there.st_size + 1)):
                case FileText() as text:
                    return text
                case FileBytes(data=data):
                    raise ToolError(
                        f"{path} is not a text file ({len(data)} bytes) and is not edited as one."
                    )

    def _sha(self, path: str) -> str:
        *folders, name = _parts(path)
        with _explained(path, "read"), opened_folder(self._root, folders) as folder:
            if folder is None or (there := regular_file(folder, name, path)) is None:
                return ""
            return sha(content(folder, name, path, there.st_size + 1)[0])

    def _read(self, path: str) -> FileText | FileBytes:
        *folders, name = _parts(path)
        with _explained(path, "read"), opened_folder(self._root, folders) as folder:
            if folder is None or regular_file(folder, name, path) is None:
                raise ToolError(f"There is no file {path}. list_files shows what there is.")
            data, size = content(folder, name, path, self._limits.edit_bytes)
            if len(data) < size:
                data = data[: data.rfind(b"\n") + 1] or data
            return decoded(path, data, size)

    def _refuse_collision(self, path: str) -> None:
        """A new name may not differ from one that is there only in case or composition."""
        at = self._root
        for part in _parts(path):
            if os.path.lexists(at / part):
                at = at / part
                continue
            with suppress(FileNotFoundError, NotADirectoryError):
                for twin in os.listdir(at):
                    if twin != part and _folded(twin) == _folded(part):
                        there = (at / twin).relative_to(self._root)
                        raise ToolError(f"There is no {path}, but there is {there}: use that name.")
            return

    def _write(self, change: Change, data: bytes) -> None:
        *folders, name = _parts(change.path)
        with _explained(change.path, "written"):
            made = _make_folders(self._root, folders)
            try:
                with opened_folder(self._root, folders) as folder:
                    _replace(present(folder), name, data, change)
            except BaseException:
                for path in reversed(made):
                    with suppress(OSError):
                        os.rmdir(path)
                raise

    def _remove_unfinished(self, change: Change) -> None:
        *folders, _ = _parts(change.path)
        with (
            _explained(change.path, "cleared of what is unfinished"),
            opened_folder(self._root, folders) as folder,
        ):
            for name in os.listdir(folder) if folder is not None else ():
                if name.startswith(_unfinished(change)):
                    os.unlink(name, dir_fd=folder)


async def _beside(look: Callable[[str], T], path: str) -> T:
    """What a file is like. Nobody has to wait for a slow disk who no longer wants to know."""
    return await anyio.to_thread.run_sync(look, path, abandon_on_cancel=True)


def _unfinished(change: Change) -> str:
    """How the names of neighbours begin that are to become this change."""
    return f".~{change.after[:16]}-"


def _parts(path: str) -> Sequence[str]:
    parts = PurePosixPath(path).parts
    if not parts:
        raise ToolError("That is the workspace itself, not a file. list_files shows what is in it.")
    return parts


def _folded(name: str) -> str:
    return unicodedata.normalize("NFC", name).casefold()


@contextmanager
def _explained(path: str, done: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        reason = _REASONS.get(error.errno or 0, (error.strerror or str(error)).lower())
        raise ToolError(f"{path} was not {done}: {reason}.") from error


def _demand_unchanged(folder: int, name: str, change: Change) -> None:
    there = regular_file(folder, name, change.path)
    if there is None:
        if change.before:
            raise ToolError(f"{change.path} is no longer there; nothing was written.")
        return
    if not change.before:
        raise _created_meanwhile(change)
    if not there.st_mode & 0o222 or not os.access(name, os.W_OK, dir_fd=folder):
        raise ToolError(f"{change.path} is read-only; nothing was written.")
    if sha(content(folder, name, change.path, there.st_size + 1)[0]) != change.before:
        raise ToolError(
            f"{change.path} changed on disk after this edit was prepared; nothing was written. "
            "Read it again and repeat the edit."
        )


def _created_meanwhile(change: Change) -> ToolError:
    return ToolError(
        f"{change.path} was created by somebody else meanwhile; nothing was written. Read it first."
    )


def _make_folders(root: Path, folders: Sequence[str]) -> list[Path]:
    """Make what is missing of the way; the new folders, outermost first."""
    made: list[Path] = []
    for depth in range(1, len(folders) + 1):
        with opened_folder(root, folders[: depth - 1]) as opened:
            parent = present(opened)
            try:
                os.mkdir(folders[depth - 1], dir_fd=parent)
            except FileExistsError:
                continue
            made.append(root.joinpath(*folders[:depth]))
            os.fsync(parent)
    return made


def _replace(folder: int, name: str, data: bytes, change: Change) -> None:
    temporary = f"{_unfinished(change)}{secrets.token_hex(4)}.tmp"
    try:
        _write_temporary(folder, temporary, data, regular_file(folder, name, change.path))
        faults.kp("files.temp_written")
        _demand_unchanged(folder, name, change)
        faults.kp("files.before_rename")
        if change.before:
            os.rename(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
        else:
            name_anew(folder, temporary, name)
        faults.kp("files.renamed")
    except FileExistsError as error:
        raise _created_meanwhile(change) from error
    finally:
        with suppress(FileNotFoundError):
            os.unlink(temporary, dir_fd=folder)
    os.fsync(folder)
    faults.kp("files.synced")
    if sha(content(folder, name, change.path, len(data) + 1)[0]) != change.after:
        raise ToolError(f"{change.path} was written, but does not read back as it was written.")


def _write_temporary(folder: int, name: str, data: bytes, like: os.stat_result | None) -> None:
    mode = 0o666 if like is None else 0o600  # a new file obeys the umask
    with open(os.open(name, _NEW_FILE, mode, dir_fd=folder), "wb") as file:
        if like is not None:
            with suppress(PermissionError):
                os.fchown(file.fileno(), like.st_uid, like.st_gid)
            os.fchmod(file.fileno(), stat.S_IMODE(like.st_mode))
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
