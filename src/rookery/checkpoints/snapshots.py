"""Take a snapshot: walk the workspace and store what has changed.

Nothing in the workspace is executed. Of its ignore files only .gitignore counts, and protected
files, files tracked by git, and files of the last snapshot are stored even if ignored. Folders are
opened relative to their parent, and links are never followed. Nested repositories are treated like
other folders, but the content of a `.git` is never stored.
"""

import errno
import os
import stat
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from rookery.checkpoints.file_versions import (
    FOLDER,
    IGNORE_FILE,
    NOT_A_FOLDER,
    PathSurvey,
    is_git_name,
    is_unfinished_edit,
    is_unfinished_restore,
    status_of,
)
from rookery.checkpoints.object_store import ObjectStore
from rookery.checkpoints.snapshot_selection import (
    DEPENDENCIES,
    FollowedPaths,
    IgnoreCache,
    WalkedFolder,
    ignore_everything,
    is_excluded,
    is_foreign,
    is_protected,
    look_up,
)
from rookery.checkpoints.snapshot_trees import OWN_RIGHTS, UNSEEN, Folder, Trees
from rookery.core.limits import Limits
from rookery.core.protected_paths import holds_secrets
from rookery.platform.descriptors import open_folder, present, times_are_settled
from rookery.platform.git_index import GitIndexes

_MAX_DEPTH = 200

if TYPE_CHECKING:
    from rookery.checkpoints.stat_index import Index, KnownFolder, SeenFolders


class FolderSurvey(PathSurvey):
    """One walk through the workspace."""

    def __init__(
        self,
        root: Path,
        store: ObjectStore,
        limits: Limits,
        *,
        index: "Callable[[], Index]",
        private: Collection[Path],
        pause: Callable[[], None],
        ignore_cache: IgnoreCache,
        indexes: GitIndexes,
    ) -> None:
        super().__init__(root, store, limits, private=private, pause=pause)
        self._read_index = index
        self._ignore_cache = ignore_cache
        self._indexes = indexes
        self.ignored_folders: list[str] = []
        """Ignored folders, in which at most the followed paths were looked at."""
        self.followed: set[str] = set()
        """Followed paths that were found in ignored folders."""
        self.gone: list[str] = []
        """Followed paths that no longer exist."""
        self.repositories: list[str] = []
        """Every `.git` that was found; their content is not stored."""
        self.whole = True
        """False if folders were skipped because of a limit."""

    @cached_property
    def seen(self) -> "SeenFolders":
        """Not needed to look at single files."""
        from rookery.checkpoints.stat_index import SeenFolders

        most, private = self._limits.checkpoint_files, self._private
        return SeenFolders(self._root, self._store, self._read_index(), most, private, self._pause)

    def everything(self, followed: FollowedPaths) -> Trees:
        self._ignore_cache.begin()
        root = os.open(self._root, FOLDER)
        try:
            return self._folder(root, WalkedFolder("", 0, None, followed))
        finally:
            os.close(root)

    def _whole(self, folder: int, path: str, last: Callable[[], Trees | None]) -> Trees:
        followed = FollowedPaths(self._store, last)
        return self._folder(folder, WalkedFolder(f"{path}/", path.count("/") + 1, None, followed))

    def _folder(self, folder: int, place: WalkedFolder) -> Trees:
        self._pause()
        status, above = os.fstat(folder), place.rules
        key = above.key if above else b""
        if known := None if place.kept else self.seen.unchanged(place.path, status, key):
            return self.seen.walk(known, place.path, lambda: place, self._rebuild)
        with os.scandir(folder) as scan:
            found = list(scan)
        place = self._with_rules(folder, place, {entry.name for entry in found})
        path, rules = place.path, place.rules
        verdicts = self._ignore_cache.verdicts(path, rules) if rules else {}
        entries = Folder(self._store)
        if path:
            entries.put_own_rights(status.st_mode)
        rows, folders = self.seen.begin(path), list[str]()
        plain = rules is above and not place.kept
        for entry in found:
            name = entry.name
            if is_foreign(name, path):
                entries.put_uncovered(name)
                continue
            if entry.is_dir(follow_symlinks=False):
                if name == ".git":
                    self.repositories.append(path + name)
                elif name != OWN_RIGHTS:
                    folders.append(name)
                    self._subfolder(entries, folder, name, place, verdicts)
                continue
            if self._is_skipped(folder, name):
                if name == ".git":
                    self.repositories.append(path + name)
                continue
            ignored = rules and look_up(verdicts, name, partial(is_excluded, path + name, rules))
            hidden = (
                rules is not None
                and holds_secrets(name)
                and rules.ignore(path + name, is_folder=False)
            )
            plain = plain and not ignored and not hidden
            if ignored and not place.followed.has_file(name):
                entries.put_uncovered(name)
                continue
            try:
                there = entry.stat(follow_symlinks=False)
            except FileNotFoundError:
                continue
            except OSError as error:
                self._skip(entries, name, path + name, (error.strerror or "unreadable").lower())
                continue
            secret = hidden and not place.followed.tracks(name)
            self._file(entries, folder, name, place, there, secret=secret)
        trees = entries.store()
        whole = plain and len(rows) + len(folders) == len(found)
        if whole and times_are_settled(status, self._began):
            self.read += 1
            self.seen.note(path, status, key, folders, trees, entries.modes())
        return trees

    def _rebuild(
        self, known: "KnownFolder", place: WalkedFolder, changed: Mapping[str, Trees | None]
    ) -> Trees:
        """Store an unchanged folder again, because these folders inside it changed."""
        entries, path, rules = Folder(self._store, known.trees), place.path, place.rules
        verdicts = self._ignore_cache.verdicts(path, rules) if rules else {}
        try:
            folder = present(open_folder(self._root, path.split("/")[:-1]))
        except OSError as error:
            if error.errno not in {errno.ENOENT, *NOT_A_FOLDER}:
                raise
            return known.trees  # it was removed at this moment
        try:
            for name, trees in changed.items():
                if trees:
                    entries.put_folder(name, trees)
                else:
                    self._subfolder(entries, folder, name, place, verdicts)
        finally:
            os.close(folder)
        return entries.store()

    def _with_rules(self, folder: int, place: WalkedFolder, names: Collection[str]) -> WalkedFolder:
        """Add the folder's tracked files and its ignore rules."""
        if ".git" in names:
            tracked = self._indexes.tracked_in(place.path.removesuffix("/"))
            place = replace(place, followed=place.followed.of_repository(tracked))
        if IGNORE_FILE in names:
            rules = self._ignore_cache.rules_in(folder, place.path, place.rules)
            place = replace(place, rules=rules)
        return place

    def _file(
        self,
        entries: Folder,
        folder: int,
        name: str,
        place: WalkedFolder,
        status: os.stat_result,
        *,
        secret: bool,
    ) -> None:
        """Store a file, unless the index shows that it has not changed."""
        if not self._count_file(entries, name, place):
            return
        blob = self.seen.blob(place.path, name, status)
        is_there = self._store.__contains__ if secret else self._store.is_written
        if blob and is_there(blob):
            entries.put_leaf(name, blob, status.st_mode, secret=secret)
            self.seen.put(place.path, name, status, blob)
        elif stored := self._leaf(entries, folder, name, place.path + name, status, secret=secret):
            self.seen.put(place.path, name, *stored)

    def _is_skipped(self, folder: int, name: str) -> bool:
        """Whether to skip the name: git's own files, and temporary files of ours."""
        if not name.startswith("."):
            return False
        if is_unfinished_restore(name):
            with suppress(OSError):  # of a killed restore: this process has the lock
                os.unlink(name, dir_fd=folder)
            return True
        return name in (".git", OWN_RIGHTS) or is_unfinished_edit(name)

    def _subfolder(
        self,
        entries: Folder,
        folder: int,
        name: str,
        place: WalkedFolder,
        verdicts: dict[str, bool],
    ) -> None:
        here, rules, inside = place.path + name, place.rules, place.inside(name)
        if rules and look_up(verdicts, f"{name}/", partial(rules.ignore, here, is_folder=True)):
            if place.followed.was_no_folder(name):
                inside = replace(inside, rules=None)  # everything in it is new
            elif name not in DEPENDENCIES and is_protected(here):
                inside = replace(inside, rules=ignore_everything(here, rules))
            elif name in DEPENDENCIES:
                # huge, and can be installed again
                if place.followed.was_whole(name):
                    inside = replace(inside, followed=inside.followed.as_tracked())
                self._followed_only(entries, folder, name, inside)
                return
            elif not place.followed.was_whole(name):
                self.ignored_folders.append(here)
                self._followed_only(entries, folder, name, inside)
                return
            else:
                inside = replace(inside, kept=True)
        if is_git_name(name):
            self._skip(entries, name, here, "git could mistake it for one of its own files")
            return
        many = self.seen.files >= self._limits.checkpoint_files
        full = many and not place.followed.was_known(name)
        if inside.depth > _MAX_DEPTH or full:
            self._skip(entries, name, here, "too many files" if full else "too deep")
            self.whole = False
            self.ignored_folders.append(here)
            return
        with self._open(entries, folder, name, here) as inner:
            if inner is not None:
                entries.put_folder(name, self._folder(inner, inside))

    def _followed_only(self, entries: Folder, folder: int, name: str, inside: WalkedFolder) -> None:
        """Store only the followed paths of an ignored folder."""
        names = inside.followed.names()
        if not names or is_git_name(name) or inside.depth > _MAX_DEPTH:
            entries.put_uncovered(name)
            return
        with self._open(entries, folder, name, inside.path[:-1]) as inner:
            if inner is None:
                return
            known = Folder(self._store, UNSEEN)
            known.put_own_rights(os.fstat(inner).st_mode)
            for each in names:
                status = status_of(inner, each)
                if status is None:
                    self.gone.append(inside.path + each)
                elif stat.S_ISDIR(status.st_mode):
                    self._followed_folder(known, inner, each, inside)
                else:
                    secret = holds_secrets(each) and not inside.followed.tracks(each)
                    self._file(known, inner, each, inside, status, secret=secret)
                    self.followed.add(inside.path + each)
            entries.put_folder(name, known.store())

    def _followed_folder(self, known: Folder, folder: int, name: str, place: WalkedFolder) -> None:
        inside = place.inside(name)
        if not place.followed.was_no_folder(name):
            self._followed_only(known, folder, name, inside)
            return
        with self._open(known, folder, name, place.path + name) as inner:
            if inner is not None:  # everything in it is new
                known.put_folder(name, self._folder(inner, replace(inside, rules=None)))

    def _count_file(self, entries: Folder, name: str, place: WalkedFolder) -> bool:
        self.seen.files += 1
        full = self.seen.files > self._limits.checkpoint_files
        if full and not (place.followed.was_known(name) or is_protected(place.path + name)):
            self._skip(entries, name, place.path + name, "too many files")
            return False
        return True
