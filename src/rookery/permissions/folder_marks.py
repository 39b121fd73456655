"""What tells one folder from every other, also from one that is put in its place."""

import fcntl
import os
from pathlib import Path
from typing import Self

from msgspec import Struct

from rookery.errors import StorageError

_FS_IOC_GETVERSION = 0x80087601
_AT_EMPTY_PATH, _STATX_BTIME = 0x1000, 0x800
_STATX_SIZE, _BORN_AT = 256, 80


class FolderGone(StorageError, OSError):
    """There is no such folder, or none that can be opened."""

    def __str__(self) -> str:
        return (
            f"The folder {self.filename} cannot be opened ({self.strerror}). Put it back, or work "
            "in another one."
        )


class FolderMark(Struct, frozen=True):
    """A folder by its canonical path, its number on its device, and the generation of that
    number: file systems give the number of a removed folder to the next one at once.
    """

    path: str
    device: int
    inode: int
    generation: int = 0
    """Zero where the file system does not tell."""

    @classmethod
    def of(cls, folder: Path) -> Self:
        """Raises `FolderGone`."""
        try:
            canonical = folder.resolve(strict=True)
            fd = os.open(canonical, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError as error:
            raise FolderGone(error.errno, error.strerror, str(folder)) from error
        try:
            status = os.fstat(fd)
            return cls(str(canonical), status.st_dev, status.st_ino, _generation(fd, status))
        finally:
            os.close(fd)


def _generation(fd: int, status: os.stat_result) -> int:
    """The generation, or the time of birth where there is none, such as in a container."""
    try:
        return int.from_bytes(fcntl.ioctl(fd, _FS_IOC_GETVERSION, bytes(8)), "little")
    except OSError:
        return int(getattr(status, "st_birthtime", 0) * 1000) or _born(fd)


def _born(fd: int) -> int:
    """When it was made, in nanoseconds since the epoch, as `statx` of Linux tells; 0 if unknown."""
    import ctypes
    import struct

    answer = ctypes.create_string_buffer(_STATX_SIZE)
    try:
        failed = ctypes.CDLL(None).statx(fd, b"", _AT_EMPTY_PATH, _STATX_BTIME, answer)
    except (OSError, AttributeError):
        return 0
    (told,) = struct.unpack_from("=I", answer)
    seconds, nanoseconds = struct.unpack_from("=qI", answer, _BORN_AT)
    known = not failed and told & _STATX_BTIME
    return int(seconds * 1_000_000_000 + nanoseconds) if known else 0
