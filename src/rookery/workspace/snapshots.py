"""Taking a snapshot: a walk through the workspace that stores what has changed.

Nothing of the workspace is run, and only its .gitignore files are heeded; but what is
protected is stored whatever they say. Folders are opened from the one above, and no link is
followed. Repositories inside are folders like any other, but what is in a `.git` is never
stored.
"""

import os
import re
import secrets
import stat
import time
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

from rookery.core.limits import Limits
from rookery.core.protected_paths import protected
from rookery.workspace.file_versions import content_of, is_gits_own, proper, status_of
from rookery.workspace.folder_search import DEPENDENCIES
from rookery.workspace.ignore_memory import (
    IGNORE_FILE,
    IgnoreMemory,
    Rules,
    in_ignored_folder,
    settle,
)
from rookery.workspace.object_packs import Kind
from rookery.workspace.object_store import ObjectStore
from rookery.workspace.paths import visible
from rookery.workspace.snapshot_trees import FOLDERS_OWN, Folder, Trees
from rookery.workspace.stat_index import Row, Rows, is_settled, row_of

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_DEEPEST = 200
_NAMED = 50
_UNFINISHED_EDIT = re.compile(r"\.~[0-9a-f]{16}-[0-9a-f]{8}\.tmp")
_UNFINISHED_RESTORE = re.compile(r"\.~undo-[0-9a-f]{16}\.tmp")


def is_protected(path: str) -> bool:
    return bool(protected(path, new=True))


def name_for_unfinished() -> str:
    """A name for what a restore is writing; one that stays behind is cleared away."""
    return f".~undo-{secrets.token_hex(8)}.tmp"


class Skipped:
    """What is not in a snapshot although nobody asked to leave it out; some of it by name."""

    def __init__(self) -> None:
        self._names: list[str] = []
        self._count = 0

    def add(self, path: str, why: str) -> None:
        self._count += 1
        if self._count <= _NAMED:
            self._names.append(f"{visible(path)} ({why})")

    def told(self) -> tuple[str, ...]:
        more = self._count - len(self._names)
        return (*self._names, f"and {more} more") if more else tuple(self._names)


class Survey:
    """One snapshot in the making. `private` folders are never looked into. `pause` is called
    between files, and may raise. What is protected is stored though it be ignored.
    """

    def __init__(
        self,
        root: Path,
        store: ObjectStore,
        limits: Limits,
        *,
        index: Rows,
        private: Collection[Path],
        pause: Callable[[], None],
        ignoring: IgnoreMemory,
    ) -> None:
        self._root = root
        self._store = store
        self._limits = limits
        self._old = index
        self._private = {_identity(os.stat(path)) for path in private if path.exists()}
        self._pause = pause
        self._ignoring = ignoring
        self._began = time.time_ns()
        self._files = 0
        self.read = 0
        """How many files had to be read."""
        self.index: Rows = {}
        self.skipped = Skipped()
        self.ignored_folders: list[str] = []
        """Those that were not looked into."""
        self.repositories: list[str] = []
        """Every `.git` that was met; what is in it is left alone."""
        self.whole = True
        """Whether there was an end to the folders."""

    def everything(self) -> Trees:
        self._ignoring.begin()
        root = os.open(self._root, _FOLDER)
        try:
            return self._folder(root, "", None, 0)
        finally:
            os.close(root)

    def named(self, base: Trees, paths: Sequence[str]) -> Trees:
        """What `base` says, but for what is at these paths now."""
        for path in paths:
            names = proper(path)
            if names is None:
                self.skipped.add(path, "not a file of the workspace")
                continue
            root = os.open(self._root, _FOLDER)
            try:
                base = self._replaced(root, base, names, "")
            finally:
                os.close(root)
        return base

    def _replaced(self, folder: int, base: Trees, names: Sequence[str], path: str) -> Trees:
        """The folder with what is at the end of `names`, or where the way there ends."""
        name, *below = names
        entries = Folder(self._store, base)
        if path:
            entries.put_own_rights(os.fstat(folder).st_mode)
        here = f"{path}{name}"
        status = status_of(folder, name)
        if status is None:
            entries.drop(name)
        elif not stat.S_ISDIR(status.st_mode):
            self._leaf(entries, folder, name, here, status)
        else:
            inner = os.open(name, _FOLDER, dir_fd=folder)
            try:
                if below:
                    known = entries.folder(name) or entries.uncovered_below(name)
                    trees = self._replaced(inner, known, below, f"{here}/")
                else:
                    trees = self._folder(inner, f"{here}/", None, len(path.split("/")))
            finally:
                os.close(inner)
            entries.put_folder(name, trees)
        return entries.store()

    def _folder(self, folder: int, path: str, rules: Rules | None, depth: int) -> Trees:
        self._pause()
        with os.scandir(folder) as scan:
            found = list(scan)
        if any(entry.name == IGNORE_FILE for entry in found):
            rules = self._ignoring.rules_in(folder, path, rules)
        verdicts = self._ignoring.verdicts(path, rules) if rules else {}
        entries = Folder(self._store)
        if path:
            entries.put_own_rights(os.fstat(folder).st_mode)
        old, new = self._old.get(path, {}), dict[str, Row]()
        for entry in found:
            name = entry.name
            if entry.is_dir(follow_symlinks=False):
                if name == ".git":
                    self.repositories.append(path + name)
                elif name != FOLDERS_OWN:
                    self._inner(entries, folder, name, path, rules, verdicts, depth)
                continue
            if self._passes_over(folder, name):
                if name == ".git":
                    self.repositories.append(path + name)
                continue
            if rules and settle(verdicts, name, partial(_left_out, path + name, rules)):
                entries.put_uncovered(name)
                continue
            try:
                status = entry.stat(follow_symlinks=False)
            except FileNotFoundError:
                continue
            except OSError as error:
                self._skip(entries, name, path + name, (error.strerror or "unreadable").lower())
                continue
            row = old.get(name)
            if row and row_of(status, row[5]) == row and row[5] in self._store:
                if self._counted(entries, name, path):
                    entries.put_leaf(name, row[5], row[4])
                    new[name] = row
            elif row := self._leaf(entries, folder, name, path + name, status):
                new[name] = row
        if new:
            self.index[path] = new
        return entries.store()

    def _passes_over(self, folder: int, name: str) -> bool:
        """Git's own, and what is only half written."""
        if not name.startswith("."):
            return False
        if _UNFINISHED_RESTORE.fullmatch(name):
            with suppress(OSError):  # its restore was killed: whoever holds the lock is alone
                os.unlink(name, dir_fd=folder)
            return True
        return name in (".git", FOLDERS_OWN) or bool(_UNFINISHED_EDIT.fullmatch(name))

    def _inner(
        self,
        entries: Folder,
        folder: int,
        name: str,
        path: str,
        rules: Rules | None,
        verdicts: dict[str, bool],
        depth: int,
    ) -> None:
        here = path + name
        if rules and settle(verdicts, f"{name}/", partial(rules.ignore, here, is_folder=True)):
            if name in DEPENDENCIES or not is_protected(here):
                entries.put_uncovered(name)
                if name not in DEPENDENCIES:
                    self.ignored_folders.append(here)
                return
            rules = in_ignored_folder(here, rules)
        if is_gits_own(name):
            self._skip(entries, name, here, "git could take it for its own")
            return
        if depth >= _DEEPEST or self._files >= self._limits.checkpoint_files:
            self._skip(entries, name, here, "too deep" if depth >= _DEEPEST else "too many files")
            self.whole = False
            return
        try:
            inner = os.open(name, _FOLDER, dir_fd=folder)
        except FileNotFoundError:
            return
        except OSError as error:
            self._skip(entries, name, here, (error.strerror or "unreadable").lower())
            return
        try:
            if _identity(os.fstat(inner)) in self._private:
                entries.put_uncovered(name)
                return
            entries.put_folder(name, self._folder(inner, f"{here}/", rules, depth + 1))
        finally:
            os.close(inner)

    def _leaf(
        self, entries: Folder, folder: int, name: str, path: str, status: os.stat_result
    ) -> Row | None:
        """Store what is there; its row, if a later change of it could not go unnoticed."""
        if not self._counted(entries, name, path[: len(path) - len(name)]):
            return None
        self._pause()
        self.read += 1
        try:
            content = content_of(folder, name, status, self._limits.checkpoint_file_bytes)
        except FileNotFoundError:
            entries.drop(name)
            return None
        except OSError as error:
            self._skip(entries, name, path, (error.strerror or "unreadable").lower())
            return None
        if content is None or is_gits_own(name):
            self._skip(entries, name, path, _why_not(name, status))
            return None
        blob = self._store.add(Kind.BLOB, content.data)
        entries.put_leaf(name, blob, content.status.st_mode)
        row = row_of(content.status, blob)
        return row if content.steady and is_settled(row, self._began) else None

    def _counted(self, entries: Folder, name: str, path: str) -> bool:
        self._files += 1
        if self._files > self._limits.checkpoint_files:
            self._skip(entries, name, path + name, "too many files")
            return False
        return True

    def _skip(self, entries: Folder, name: str, path: str, why: str) -> None:
        entries.put_uncovered(name) if not is_gits_own(name) else entries.drop(name)
        self.skipped.add(path, why)


def _left_out(path: str, rules: Rules) -> bool:
    return rules.ignore(path, is_folder=False) and not is_protected(path)


def _identity(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino


def _why_not(name: str, status: os.stat_result) -> str:
    if is_gits_own(name):
        return "git could take it for its own"
    return "too large" if stat.S_ISREG(status.st_mode) else "no file"
