"""Folders the user trusts, and project tools a person agreed to.

Until a folder is trusted, nothing in it is run, changed or applied. Trust covers one folder by its
canonical path and inode: parents, children, replacements, other clones and worktrees each need
their own. A model or command may write a tool's files, so an agreement covers one content of them.
"""

import fcntl
import os
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Self

from msgspec import Struct

from rookery import NAME
from rookery.errors import SettingsError, StorageError
from rookery.platform.disk import KeptList, reason

_FS_IOC_GETVERSION = 0x80087601
_AT_EMPTY_PATH, _STATX_BTIME = 0x1000, 0x800
_STATX_SIZE, _BORN_AT = 256, 80

HOW_TO_AGREE = f"To approve it, run: {NAME} trust"
_FOLDER_ITSELF = ""


class FolderGone(StorageError, OSError):
    """The folder does not exist or cannot be opened."""

    def __str__(self) -> str:
        return (
            f"Cannot open the folder {self.filename} ({self.strerror}). Restore it, "
            "or use another one."
        )


class FolderMark(Struct, frozen=True):
    """A folder by canonical path, inode and inode generation. File systems reuse the inode of a
    removed folder at once."""

    path: str
    device: int
    inode: int
    generation: int = 0
    """0 if the file system does not report it."""

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


class TrustedFolder(Struct, frozen=True):
    folder: FolderMark
    since: int
    """Milliseconds since the epoch."""

    @property
    def still_there(self) -> bool:
        """Whether the same folder is still at its path."""
        try:
            return FolderMark.of(Path(self.folder.path)) == self.folder
        except OSError:
            return False


class TrustStore:
    """The trusted folders, in a file of the user. Several processes may use it at once."""

    def __init__(self, file: Path) -> None:
        self._kept = KeptList(file, TrustedFolder)

    @property
    def problem(self) -> str:
        """Why the trust file cannot be used, as a sentence; empty if it can."""
        return self._kept.problem

    def trusts(self, root: Path) -> bool:
        try:
            mark = FolderMark.of(root)
        except OSError:
            return False
        may_be = not never_trusted(root)
        return may_be and any(kept.folder == mark for kept in self.all())

    def trust(self, root: Path) -> None:
        """Raises `SettingsError` for a folder that cannot be trusted, `StorageError` if it could
        not be stored."""
        if refusal := never_trusted(root):
            raise SettingsError(refusal)
        try:
            new = TrustedFolder(FolderMark.of(root), time.time_ns() // 1_000_000)
        except OSError as error:
            raise SettingsError(f"{root} cannot be trusted: {reason(error)}.") from error
        self._kept.update(
            lambda kept: [
                *(old for old in kept if old.folder.path != new.folder.path),
                next((old for old in kept if old.folder == new.folder), new),
            ]
        )

    def forget(self, root: Path) -> bool:
        """Remove the folder, which may no longer exist. Returns whether it was trusted."""
        path = str(root.resolve())
        known = any(kept.folder.path == path for kept in self._kept.read())
        self._kept.update(lambda kept: [old for old in kept if old.folder.path != path])
        return known

    def all(self) -> list[TrustedFolder]:
        """Oldest first; none if the file is damaged, see `problem`."""
        return self._kept.believed()


def never_trusted(root: Path) -> str:
    """Why a folder can never be trusted, as a sentence; empty if it can."""
    root = root.resolve()
    if root.parent == root:
        return f"{root} cannot be trusted as a whole. Start in your project's folder."
    for home in _homes():
        if home == root:
            return (
                f"{root} is your home folder, which cannot be trusted as a whole. "
                "Start in your project's folder."
            )
        if home.is_relative_to(root):
            return (
                f"{root} contains your home folder, so it cannot be trusted. Start in "
                "your project's folder."
            )
    return ""


def _homes() -> list[Path]:
    """The user's home folder by the environment and by the system."""
    import pwd

    homes = [os.environ.get("HOME", "")]
    with suppress(KeyError):
        homes.append(pwd.getpwuid(os.geteuid()).pw_dir)
    return [Path(home).resolve() for home in homes if os.path.isabs(home)]


def _generation(fd: int, status: os.stat_result) -> int:
    """The inode generation, or the creation time where there is none, such as in a container."""
    try:
        return int.from_bytes(fcntl.ioctl(fd, _FS_IOC_GETVERSION, bytes(8)), "little")
    except OSError:
        return int(getattr(status, "st_birthtime", 0) * 1000) or _creation_time(fd)


def _creation_time(fd: int) -> int:
    """Creation time in nanoseconds since the epoch, from Linux `statx`; 0 if unknown."""
    import ctypes
    import struct

    answer = ctypes.create_string_buffer(_STATX_SIZE)
    try:
        failed = ctypes.CDLL(None).statx(fd, b"", _AT_EMPTY_PATH, _STATX_BTIME, answer)
    except (OSError, AttributeError):
        return 0
    (filled,) = struct.unpack_from("=I", answer)
    seconds, nanoseconds = struct.unpack_from("=qI", answer, _BORN_AT)
    known = not failed and filled & _STATX_BTIME
    return int(seconds * 1_000_000_000 + nanoseconds) if known else 0


class AgreedTool(Struct, frozen=True):
    """`file` defines the tool. It is empty in the entry that says a person reviewed the folder's
    tools."""

    folder: FolderMark
    file: str
    fingerprint: str


class ToolAgreements:
    """The agreements of one workspace. Several processes may use the file at once."""

    def __init__(self, file: Path, workspace: Path) -> None:
        self._kept = KeptList(file, AgreedTool)
        self._folder = FolderMark.of(workspace)

    def missing(self, file: str, fingerprint: str) -> str:
        """Why a person must agree first, as a sentence; empty if no one must."""
        if problem := self._kept.problem:
            return problem
        agreed = [each.fingerprint for each in self._here() if each.file == file]
        if fingerprint in agreed:
            return ""
        if agreed:
            return f"{file} or its program changed since you approved this tool."
        return f"You have not approved this project's tool yet ({file})."

    @property
    def were_reviewed(self) -> bool:
        """Whether a person reviewed this folder's tools before, even if it had none."""
        return any(each.file == _FOLDER_ITSELF for each in self._here())

    def agree(self, fingerprints: Mapping[str, str]) -> None:
        """Store the agreement to these contents, by defining file. Raises `StorageError`."""
        wanted = {_FOLDER_ITSELF: "", **fingerprints}
        new = [AgreedTool(self._folder, file, print_) for file, print_ in wanted.items()]
        self._kept.update(
            lambda kept: [
                *(each for each in kept if each.folder != self._folder or each.file not in wanted),
                *new,
            ]
        )

    def _here(self) -> list[AgreedTool]:
        return [each for each in self._kept.believed() if each.folder == self._folder]
