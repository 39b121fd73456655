"""Takes named paths into a snapshot.

An edit names the files it changes, so nothing else is looked at. `FolderSurvey` in `snapshots` does
the same and walks through folders. Links are never followed.
"""

import os
import stat
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from rookery.checkpoints.file_versions import content_of, is_git_name, path_parts, status_of
from rookery.checkpoints.object_store import ObjectStore
from rookery.checkpoints.snapshot_trees import UNSEEN, Folder, Trees
from rookery.core.limits import Limits
from rookery.core.protected_paths import holds_secrets
from rookery.platform.descriptors import times_are_settled
from rookery.platform.git_objects import ObjectKind
from rookery.platform.paths import visible

FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
IGNORE_FILE = ".gitignore"
"""A change of one changes what else belongs into a snapshot."""
_NAMED = 50


class FolderNamed(Exception):
    """A named path is a folder, so its content must be walked through."""


class Skipped:
    """Skipped paths: all are counted, the first are named."""

    def __init__(self) -> None:
        self._names: list[str] = []
        self._count = 0

    def add(self, path: str, why: str) -> None:
        self._count += 1
        if self._count <= _NAMED:
            self._names.append(f"{visible(path)} ({why})")

    def summary(self) -> tuple[str, ...]:
        more = self._count - len(self._names)
        return (*self._names, f"and {more} more") if more else tuple(self._names)


class PathSurvey:
    """Looks at single paths. `private` folders are skipped. `pause` is called between files, and
    may raise."""

    def __init__(
        self,
        root: Path,
        store: ObjectStore,
        limits: Limits,
        *,
        private: Collection[Path],
        pause: Callable[[], None],
    ) -> None:
        self._root = root
        self._store = store
        self._limits = limits
        self._private = {identity(os.stat(path)) for path in private if path.exists()}
        self._pause = pause
        self._began = time.time_ns()
        self.read = 0
        """Number of files that were read, and of folders that were listed."""
        self.skipped = Skipped()
        self.attributes: dict[str, str] = {}
        """Attribute notes of the files that were read, by path; may be empty strings."""

    def named(self, base: Trees, paths: Sequence[str], *, ignored: bool = False) -> Trees:
        """Return `base` with the current state of these paths. Of secret files that are
        `ignored`, the content is not stored."""
        for path in paths:
            names = path_parts(path)
            if names is None:
                self.skipped.add(path, "not a file of the workspace")
                continue
            root = os.open(self._root, FOLDER)
            try:
                base = self._replace_path(root, base, names, "", ignored=ignored)
            finally:
                os.close(root)
        return base

    def _replace_path(
        self, folder: int, base: Trees, names: Sequence[str], path: str, *, ignored: bool
    ) -> Trees:
        """Update the entry at the end of `names`, or the first on the way that is not a folder."""
        name, *below = names
        entries = Folder(self._store, base)
        if path:
            entries.put_own_rights(os.fstat(folder).st_mode)
        here = f"{path}{name}"
        status = status_of(folder, name)
        if status is None:
            entries.drop(name)
        elif not stat.S_ISDIR(status.st_mode):
            secret = ignored and holds_secrets(name)
            self._leaf(entries, folder, name, here, status, secret=secret)
        else:
            with self._open(entries, folder, name, here) as inner:
                if inner is not None and below:
                    known = entries.folder(name) or entries.uncovered_below(name)
                    trees = self._replace_path(inner, known, below, f"{here}/", ignored=ignored)
                    entries.put_folder(name, trees)
                elif inner is not None:
                    entries.put_folder(
                        name, self._whole(inner, here, partial(entries.folder, name))
                    )
        return entries.store()

    def _whole(self, folder: int, path: str, last: Callable[[], Trees | None]) -> Trees:
        """Store a folder that is named itself. `last` returns it as it was."""
        raise FolderNamed(path)

    @contextmanager
    def _open(self, entries: Folder, folder: int, name: str, here: str) -> Iterator[int | None]:
        """Open a folder; None if it cannot be opened or is private."""
        try:
            inner = os.open(name, FOLDER, dir_fd=folder)
        except OSError as error:
            if not isinstance(error, FileNotFoundError):
                self._skip(entries, name, here, (error.strerror or "unreadable").lower())
                self._put_closed(entries, folder, name)
            yield None
            return
        try:
            if identity(os.fstat(inner)) in self._private:
                entries.put_uncovered(name)
                yield None
            else:
                yield inner
        finally:
            os.close(inner)

    def _put_closed(self, entries: Folder, folder: int, name: str) -> None:
        """Store the mode of a folder that cannot be read."""
        status = status_of(folder, name)
        if status and stat.S_ISDIR(status.st_mode):
            closed = Folder(self._store, UNSEEN)
            closed.put_own_rights(status.st_mode)
            entries.put_folder(name, closed.store())

    def _leaf(
        self,
        entries: Folder,
        folder: int,
        name: str,
        path: str,
        status: os.stat_result,
        *,
        secret: bool = False,
    ) -> tuple[os.stat_result, bytes] | None:
        """Store a file; return its state and id, unless a later change could go unnoticed."""
        self._pause()
        self.read += 1
        try:
            content = content_of(folder, name, status, self._limits.checkpoint_file_bytes)
        except FileNotFoundError:
            entries.drop(name)
            return None
        except OSError as error:
            self._skip(entries, name, path, (error.strerror or "unreadable").lower(), status)
            return None
        if content is None or is_git_name(name):
            self._skip(entries, name, path, skip_reason(name, status), status)
            return None
        self.attributes[path] = content.attributes
        secret = secret and stat.S_ISREG(content.status.st_mode)
        add = self._store.remember if secret else partial(self._store.add, ObjectKind.BLOB)
        blob = add(content.data)
        entries.put_leaf(name, blob, content.status.st_mode, secret=secret)
        settled = content.steady and times_are_settled(content.status, self._began)
        return (content.status, blob) if settled else None

    def _skip(
        self,
        entries: Folder,
        name: str,
        path: str,
        why: str,
        status: os.stat_result | None = None,
    ) -> None:
        if is_git_name(name):
            entries.drop(name)
        elif status:
            entries.put_unsaved(name, status)
        else:
            entries.put_uncovered(name)
        self.skipped.add(path, why)


def identity(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino


def skip_reason(name: str, status: os.stat_result) -> str:
    if is_git_name(name):
        return "git could mistake it for one of its own files"
    return "too large" if stat.S_ISREG(status.st_mode) else "no file"
