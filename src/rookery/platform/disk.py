"""Writes files privately, atomically and durably, and reads untrusted ones safely.

What must survive a power failure is synced, together with its folder. Errors are those of the
operating system; callers turn them into sentences for users.

Files that may come from a clone are opened only if they are regular files and read only up to a
limit, because a path may lead to a pipe or a device: opening must not block, and reading must end.
"""

import contextlib
import errno
import json
import os
import shlex
import stat
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import BinaryIO, Generic, TypeVar

import msgspec

from rookery import ENV_PREFIX
from rookery.errors import StorageError
from rookery.faults import kp
from rookery.first_use import prepared
from rookery.platform.descriptors import Attributes, keep_attributes
from rookery.platform.locks import file_lock

PRIVATE_FILE = 0o600
PRIVATE_FOLDER = 0o700
UNFINISHED = ".unfinished"

_MIB = 1024 * 1024
_NOT_REGULAR = frozenset({errno.ELOOP, errno.ENXIO, errno.EISDIR})
"""Errors for links, pipes without a reader, sockets and folders."""


def private_folder(path: Path) -> Path:
    """Create the folder and its parents, private to the user. Raises `StorageError` if it is not
    writable."""
    try:
        _make(path)
        if not path.is_dir():
            raise NotADirectoryError("a file of that name exists")
        if not os.access(path, os.W_OK | os.X_OK):
            raise PermissionError("it cannot be written")
    except OSError as error:
        raise StorageError(
            f"Cannot store anything in {path} ({reason(error)}). Set {ENV_PREFIX}HOME "
            "to a writable folder, or run with --ephemeral to store nothing."
        ) from error
    return path


def put(
    path: Path,
    pieces: Iterable[bytes],
    *,
    like: Attributes | None = None,
    mode: int = PRIVATE_FILE,
    durable: bool = True,
    check: Callable[[], None] | None = None,
) -> None:
    """Replace the content of `path` atomically.

    The file is private, or has another `mode`, or the attributes `like` of an existing file.
    Without `durable` it may be lost in a power failure. `check` is called last and may raise to
    keep the old file.
    """
    unfinished = path.with_name(f"{path.name}.{os.urandom(8).hex()}{UNFINISHED}")
    give = partial(keep_attributes, kept=like) if like else None
    if give is None and mode != PRIVATE_FILE:
        give = partial(os.fchmod, mode=mode)
    try:
        write_new(unfinished, pieces, give=give, durable=durable)
        if durable:
            kp("disk.before_rename")
        if check is not None:
            check()
        os.replace(unfinished, path)
    except BaseException:
        unfinished.unlink(missing_ok=True)
        raise
    if durable:
        sync_folder(path.parent)


def write_new(
    name: str | Path,
    pieces: Iterable[bytes],
    *,
    folder: int | None = None,
    mode: int = PRIVATE_FILE,
    give: Callable[[int], None] | None = None,
    durable: bool = True,
) -> os.stat_result:
    """Create a new file, in an open `folder` or at a path. `give` is called with its descriptor
    after the content is written, to set attributes."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    fd = os.open(name, flags, mode, dir_fd=folder)
    with open(fd, "wb") as file:
        file.writelines(pieces)
        file.flush()
        if give is not None:
            give(fd)
        if durable:
            sync(fd, attributes=give is not None)
        return os.fstat(fd)


def pieces_of(file: BinaryIO) -> Iterator[bytes]:
    """The rest of a file in pieces, as it may be larger than memory."""
    return iter(lambda: file.read(_MIB), b"")


def remove_unfinished(folder: Path) -> None:
    """Remove files that a killed process was writing. The caller must hold the folder's lock."""
    for path in folder.glob(f"*{UNFINISHED}"):
        path.unlink(missing_ok=True)


def sync(fd: int, *, attributes: bool = False) -> None:
    """Flush the file's content to the medium, and with `attributes` its metadata."""
    if sys.platform == "darwin":
        import fcntl

        fcntl.fcntl(fd, fcntl.F_FULLFSYNC)  # on macOS fsync only reaches the drive's cache
    elif attributes:
        os.fsync(fd)
    else:
        os.fdatasync(fd)


def sync_folder(path: Path) -> None:
    """Flush created, renamed and removed names in the folder to the medium."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def reason(error: OSError) -> str:
    return error.strerror or str(error)


def _make(path: Path) -> None:
    if path.exists():
        return
    _make(path.parent)
    with contextlib.suppress(FileExistsError):
        path.mkdir(mode=PRIVATE_FOLDER)
        sync_folder(path.parent)


class Unreadable(Exception):
    """Why a file is not read; `code` is the code of the problem."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class UnfitFile(OSError):
    """Not a regular file, or an unreasonably large one."""

    def __init__(self, path: Path, what: str) -> None:
        super().__init__(errno.EINVAL, f"{path} {what}; move it away")


def regular_file(path: Path, flags: int = os.O_RDONLY, mode: int = 0o600) -> int:
    """Open a regular file that is not a link. Raises `UnfitFile`, or what `os.open` raises."""
    try:
        handle = os.open(path, flags | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC, mode)
    except OSError as error:
        if error.errno in _NOT_REGULAR:
            raise UnfitFile(path, "is not a regular file") from error
        raise
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise UnfitFile(path, "is not a regular file")
    return handle


def whole_file(path: Path, *, largest: int) -> bytes:
    """Read a regular file. Raises OSError, also if it is larger than allowed."""
    with open(regular_file(path), "rb") as opened:
        data = opened.read(largest + 1)
    if len(data) > largest:
        raise UnfitFile(path, f"is larger than {_size(largest)}")
    return data


def small_file(path: Path, workspace: Path, *, largest: int) -> bytes:
    """Read a small file; links are followed inside the workspace only. Raises
    `FileNotFoundError` or `Unreadable`."""
    try:
        # called before every change, and three times as fast as with `Path`
        real, top = os.path.realpath(path, strict=True), os.path.realpath(workspace)
        if real != top and not real.startswith(top.rstrip("/") + "/"):
            raise Unreadable("E101", "it is a link that leaves the workspace")
        with open(regular_file(Path(real)), "rb") as opened:
            data = opened.read(largest + 1)
    except FileNotFoundError:
        raise
    except UnfitFile as error:
        raise Unreadable("E101", "it is not a file") from error
    except (OSError, RuntimeError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise Unreadable("E101", f"it cannot be read ({reason.lower()})") from error
    if len(data) > largest:
        raise Unreadable("E102", f"it is larger than {_size(largest)}")
    return data


def _size(count: int) -> str:
    return f"{count // 1024} KiB" if count <= _MIB else f"{count // _MIB} MiB"


LARGEST_FILE = 4 * 1024 * 1024

T = TypeVar("T")


class KeptList(Generic[T]):
    """A list stored in a private file, oldest first. A file that others can write is not used."""

    def __init__(self, file: Path, kind: type[T]) -> None:
        self.file = file
        self._kind = kind

    def read(self) -> list[T]:
        """The stored values; empty if there is no file. Raises `StorageError` if it cannot be
        used."""
        try:
            data = self._data()
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError as error:
            raise StorageError(f"{self.file} cannot be read ({reason(error)}).") from error
        try:
            # not msgspec's decoder: paths may have surrogates, which it refuses
            return msgspec.convert(json.loads(data), prepared(list[self._kind]))  # type: ignore[name-defined]
        except (ValueError, RecursionError, msgspec.ValidationError) as error:
            raise StorageError(
                f"{self.file} is damaged, so it is ignored. Remove it, then approve again."
            ) from error

    @property
    def problem(self) -> str:
        """Why the file cannot be used, as a sentence; empty if it can."""
        try:
            self.read()
        except StorageError as error:
            return str(error)
        return ""

    def believed(self) -> list[T]:
        """The stored values; empty if there is a `problem`."""
        with suppress(StorageError):
            return self.read()
        return []

    def update(self, change: Callable[[Sequence[T]], Sequence[T]]) -> None:
        """Store what `change` returns for the list, under a lock. Raises `StorageError`, and
        then the old list is kept."""
        private_folder(self.file.parent)
        try:
            with file_lock(self.file.with_name(f"{self.file.name}.lock"), wait=None):
                kept = self.read()
                wanted = list(change(kept))
                if wanted != kept:
                    put(self.file, [_encode(wanted)])
        except OSError as error:
            raise StorageError(f"{self.file} could not be written ({reason(error)}).") from error

    def _data(self) -> bytes:
        fd = os.open(self.file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(fd, "rb") as stream:
            self._check_private(os.fstat(fd))
            return stream.read(LARGEST_FILE)

    def _check_private(self, status: os.stat_result) -> None:
        if not stat.S_ISREG(status.st_mode) or status.st_uid != os.geteuid():
            raise StorageError(
                f"{self.file} is ignored: it is not a regular file of yours. Move it away."
            )
        if stat.S_IMODE(status.st_mode) & 0o077:
            raise StorageError(
                f"Other users can access {self.file}, so it is ignored. Check it, "
                f"then run: chmod 600 {shlex.quote(str(self.file))}"
            )


def _encode(values: Sequence[object]) -> bytes:
    return (json.dumps(msgspec.to_builtins(values), indent=1) + "\n").encode()
