"""Finds protected files and repositories in folders that nobody saves as a whole.

What git ignores is huge and changes all the time, so nobody looks at all of it. But a folder in
which names came or went has other times than before: of those that stand still, only the times
are looked at.
"""

import os
import stat
import time
from collections.abc import Callable, Collection, Iterable
from pathlib import Path

from msgspec import Struct

from rookery.checkpoints.file_versions import is_gits_own
from rookery.platform.stat_index import times_are_settled

DEPENDENCIES = frozenset(
    {
        "node_modules",
        "bower_components",
        "site-packages",
        "dist-packages",
        "__pycache__",
        ".terraform",
        "Pods",
    }
)
"""Folders that are passed over: they are huge, and packages bring such files along."""
MOST_FOLDERS = 300_000
MOST_FILES = 2_000


class FoundPaths(Struct, frozen=True):
    """Files and links that were wanted, and whatever has a name of git's."""

    files: tuple[str, ...]
    repositories: tuple[str, ...]


class _Listed(Struct, frozen=True):
    """What was in a folder when it had these times."""

    sign: tuple[int, int, int]
    folders: tuple[str, ...]
    files: tuple[str, ...]
    repositories: tuple[str, ...]


class FolderSearch:
    """`wanted` says which files are; `private` folders are never looked into."""

    def __init__(
        self, root: Path, wanted: Callable[[str], bool], private: Collection[Path] = ()
    ) -> None:
        self._root = str(root)
        self._wanted = wanted
        self._private = private
        self._known: dict[str, _Listed] = {}

    def find(
        self, below: Iterable[str], pause: Callable[[], None] = lambda: None
    ) -> FoundPaths | None:
        """What there is below these folders; None if that is too much to look at."""
        private = {_place(os.stat(path)) for path in self._private if path.exists()}
        waiting, found, standing = list(below), list[_Listed](), dict[str, _Listed]()
        began, files = time.time_ns(), 0
        for _ in range(MOST_FOLDERS):
            if not waiting or files > MOST_FILES:
                break
            pause()
            folder = waiting.pop()
            try:
                status = os.lstat(f"{self._root}/{folder}")
                if _place(status) in private or not stat.S_ISDIR(status.st_mode):
                    continue
                listed = self._listed(folder, status)
            except OSError:  # it has gone, or nobody can look into it
                continue
            found.append(listed)
            files += len(listed.files)
            waiting += listed.folders
            if times_are_settled(status, began):
                standing[folder] = listed
        self._known = standing
        if waiting or files > MOST_FILES:
            return None
        return FoundPaths(
            tuple(sorted(path for listed in found for path in listed.files)),
            tuple(sorted(path for listed in found for path in listed.repositories)),
        )

    def _listed(self, folder: str, status: os.stat_result) -> _Listed:
        sign = status.st_ino, status.st_mtime_ns, status.st_ctime_ns
        known = self._known.get(folder)
        if known and known.sign == sign:
            return known
        prefix = f"{folder}/" if folder else ""
        folders, files, repositories = list[str](), list[str](), list[str]()
        with os.scandir(os.path.join(self._root, folder)) as scan:
            for entry in scan:
                path = prefix + entry.name
                if is_gits_own(entry.name):
                    repositories.append(path)
                elif entry.is_dir(follow_symlinks=False):
                    if entry.name not in DEPENDENCIES:
                        folders.append(path)
                elif self._wanted(path):
                    files.append(path)
        return _Listed(sign, tuple(folders), tuple(files), tuple(repositories))


def _place(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino
