"""Which folders the user trusts: until then nothing in a folder is run, changed or obeyed.

Trust is for one folder, by its canonical path and by what it is on its device. Folders above,
below or in its place, other clones and worktrees each need their own.
"""

import os
import time
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

from rookery.errors import SettingsError
from rookery.permissions.folder_marks import FolderMark
from rookery.platform.disk import reason
from rookery.platform.list_file import KeptList


class TrustedFolder(Struct, frozen=True):
    folder: FolderMark
    since: int
    """Milliseconds since the epoch."""

    @property
    def still_there(self) -> bool:
        """The same folder is still at its path."""
        try:
            return FolderMark.of(Path(self.folder.path)) == self.folder
        except OSError:
            return False


class TrustStore:
    """The trusted folders, kept in a file of the user's. Several processes may use it at once."""

    def __init__(self, file: Path) -> None:
        self._kept = KeptList(file, TrustedFolder)

    @property
    def problem(self) -> str:
        """Why nothing is trusted at all, in a sentence; usually nothing."""
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
        not be kept."""
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
        """Whether there was anything to forget. The folder itself need not be there any more."""
        path = str(root.resolve())
        known = any(kept.folder.path == path for kept in self._kept.read())
        self._kept.update(lambda kept: [old for old in kept if old.folder.path != path])
        return known

    def all(self) -> list[TrustedFolder]:
        """Oldest first; none if the file is damaged, which `problem` then says."""
        return self._kept.believed()


def never_trusted(root: Path) -> str:
    """Why a folder cannot be trusted at all, in a sentence; empty if it can."""
    root = root.resolve()
    if root.parent == root:
        return f"{root} is never trusted as a whole. Start in the folder of your project."
    for home in _homes():
        if home == root:
            return (
                f"{root} is your home folder, which is never trusted as a whole. Start in the "
                "folder of your project."
            )
        if home.is_relative_to(root):
            return (
                f"{root} holds your home folder, so it is never trusted. Start in the folder of "
                "your project."
            )
    return ""


def _homes() -> list[Path]:
    """The user's home as the environment calls it, and as the system does."""
    import pwd

    homes = [os.environ.get("HOME", "")]
    with suppress(KeyError):
        homes.append(pwd.getpwuid(os.geteuid()).pw_dir)
    return [Path(home).resolve() for home in homes if os.path.isabs(home)]
