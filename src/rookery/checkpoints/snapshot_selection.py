"""Which paths of the workspace a snapshot includes.

Matching ignore patterns takes longer than a stat, so results are cached for as long as patterns and
names are the same. Files that git tracks, or that were in the last snapshot, stay included even if
they are ignored now: otherwise a command could write an ignore file, delete a file, and nothing
could restore it.
"""

import os
import stat
import time
from collections.abc import Callable
from contextlib import suppress
from functools import cached_property, partial
from hashlib import sha1

from msgspec import Struct

from rookery.checkpoints.file_versions import IGNORE_FILE, content_of, path_parts, status_of
from rookery.checkpoints.object_store import ObjectStore
from rookery.checkpoints.snapshot_trees import Folder, Trees
from rookery.core.limits import KIB
from rookery.core.modes import GOVERNANCE_FOLDER, LEDGER_NAMES
from rookery.core.protected_paths import OF_BUILDS, protected
from rookery.errors import StorageError
from rookery.platform.descriptors import times_are_settled
from rookery.platform.git_index import NOTHING_TRACKED, TrackedFiles
from rookery.platform.paths import FileRules

DEPENDENCIES = frozenset(
    {
        *("node_modules", "bower_components", "site-packages", "dist-packages", "__pycache__"),
        *(".terraform", "Pods"),
    }
)
"""Folders that are not searched: they are huge, and packages contain protected files too."""


_GOVERNANCE = f"/{GOVERNANCE_FOLDER}/"
_WORKTREES = ("worktrees", "/.roo/")
_IGNORE_FILE_BYTES = 256 * KIB
_EVERYTHING = FileRules.of_ignore_file(["*"])


class SelectionRules:
    """Rules of an ignore file and of those above it. `path` is that of its folder, with a slash at
    the end, and `text` its content. The same object is returned until one of the files changes, so
    rules are compared by identity."""

    __slots__ = ("_above", "_own", "_start", "key")

    def __init__(
        self, path: str, own: FileRules, above: "SelectionRules | None", text: str
    ) -> None:
        self._start = len(path)
        self._own = own
        self._above = above
        said = f"{path}\0{text}".encode("utf-8", "surrogateescape")
        start: bytes = above.key if above else b""
        self.key: bytes = sha1(start + said, usedforsecurity=False).digest()
        """The same for the same rules in every process."""

    def ignore(self, path: str, *, is_folder: bool) -> bool:
        """Whether the path is ignored; the nearest ignore file with a matching pattern decides."""
        rules: SelectionRules | None = self
        while rules:
            names = path[rules._start :].split("/")
            opinion = rules._own.opinion(names, is_folder=is_folder)
            if opinion is not None:
                return opinion
            rules = rules._above
        return False


def ignore_everything(path: str, above: SelectionRules) -> SelectionRules:
    """Rules that ignore everything in the folder."""
    return SelectionRules(f"{path}/", _EVERYTHING, above, "*")


class _ReadRules(Struct, frozen=True):
    """Parsed ignore file, valid while the file has these stat values."""

    stamp: tuple[int, int, int, int]
    above: SelectionRules | None
    rules: SelectionRules | None


class _CachedVerdicts(Struct, frozen=True):
    rules: SelectionRules
    verdicts: dict[str, bool]


class IgnoreCache:
    def __init__(self) -> None:
        self._read: dict[str, _ReadRules] = {}
        self._verdicts: dict[str, _CachedVerdicts] = {}
        self._read_before = self._read
        self._verdicts_before = self._verdicts

    def begin(self) -> None:
        """Start a new walk; entries that the last one did not use are dropped."""
        self._read_before, self._read = self._read, {}
        self._verdicts_before, self._verdicts = self._verdicts, {}

    def rules_in(
        self, folder: int, path: str, above: SelectionRules | None
    ) -> SelectionRules | None:
        """The rules for a folder with an ignore file."""
        began = time.time_ns()
        status = status_of(folder, IGNORE_FILE)
        if status is None or not stat.S_ISREG(status.st_mode):
            return above
        stamp = status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns
        known = self._read_before.get(path)
        if not known or known.stamp != stamp or known.above is not above:
            known = _ReadRules(stamp, above, _rules(folder, path, above, status))
        if times_are_settled(status, began):
            self._read[path] = known
        return known.rules

    def verdicts(self, path: str, rules: SelectionRules) -> dict[str, bool]:
        """Cached results for the names in a folder; the caller adds new ones."""
        known = self._verdicts_before.get(path)
        if not known or known.rules is not rules:
            known = _CachedVerdicts(rules, {})
        self._verdicts[path] = known
        return known.verdicts


def look_up(verdicts: dict[str, bool], name: str, ask: Callable[[], bool]) -> bool:
    """The cached result for a name, computed with `ask` if it is missing."""
    known = verdicts.get(name)
    if known is None:
        known = verdicts[name] = ask()
    return known


def _rules(
    folder: int, path: str, above: SelectionRules | None, status: os.stat_result
) -> SelectionRules | None:
    with suppress(OSError):  # an unreadable ignore file is ignored
        content = content_of(folder, IGNORE_FILE, status, _IGNORE_FILE_BYTES)
        if content:
            text = content.data.decode("utf-8", "replace").removeprefix("\ufeff")
            rules = FileRules.of_ignore_file(text.split("\n"))
            return SelectionRules(path, rules, above, text)
    return above


class FollowedPaths(Struct, dict=True):
    """The paths of one folder to include even if ignored. `trees` returns the folder in the last
    checkpoint, `path` is its path in its repository. Both are read lazily."""

    store: ObjectStore
    trees: Callable[[], Trees | None]
    tracked: TrackedFiles = NOTHING_TRACKED
    path: str = ""

    def of_repository(self, tracked: TrackedFiles) -> "FollowedPaths":
        """The same folder as the root of a repository."""
        return FollowedPaths(self.store, self.trees, tracked)

    def as_tracked(self) -> "FollowedPaths":
        """The same folder, in which only tracked files are followed."""
        return FollowedPaths(self.store, lambda: None, self.tracked, self.path)

    def inside(self, name: str) -> "FollowedPaths":
        last = partial(self._folder, name)
        return FollowedPaths(self.store, last, self.tracked, self._in(name))

    def was_known(self, name: str) -> bool:
        """Whether it was saved, or recorded as impossible to save."""
        return name in self._last.files or self._last.is_unsaved(name)

    def has_file(self, name: str) -> bool:
        return self.was_known(name) or self.tracks(name)

    def tracks(self, name: str) -> bool:
        return self._in(name) in self.tracked

    def was_whole(self, name: str) -> bool:
        """Whether the last checkpoint had everything in it."""
        inner = self._folder(name)
        return self.was_known(name) and not (inner and Folder(self.store, inner).blind)

    def was_no_folder(self, name: str) -> bool:
        return self.was_known(name) and self._folder(name) is None

    def names(self) -> list[str]:
        """All names in the folder to follow."""
        tracked = self.tracked.names_in(self.path) if self.path else set[str]()
        return sorted(name for name in {*self._last.known(), *tracked} if path_parts(name))

    @cached_property
    def _last(self) -> Folder:
        try:
            return Folder(self.store, self.trees())
        except StorageError:  # damaged: nothing can be followed
            return Folder(self.store)

    def _folder(self, name: str) -> Trees | None:
        return self._last.folder(name)

    def _in(self, name: str) -> str:
        return f"{self.path}/{name}" if self.path else name


class WalkedFolder(Struct, frozen=True):
    """A folder of the workspace with the rules that apply in it. `path` ends with a slash."""

    path: str
    depth: int
    rules: SelectionRules | None
    followed: FollowedPaths
    kept: bool = False
    """It is ignored, but was not when the last checkpoint was taken."""

    def inside(self, name: str) -> "WalkedFolder":
        path, inner = f"{self.path}{name}/", self.followed.inside(name)
        return WalkedFolder(path, self.depth + 1, self.rules, inner)


def is_protected(path: str) -> bool:
    return bool(protected(path, new=True))


def is_foreign(name: str, path: str) -> bool:
    """Whether other tasks write it while this one works, so that it is neither saved nor
    restored: the ledger, and the worktrees of other sessions in the project."""
    folder = f"/{path}"
    return (name in LEDGER_NAMES and folder.endswith(_GOVERNANCE)) or (
        name == _WORKTREES[0] and folder.endswith(_WORKTREES[1])
    )


def is_protected_here(path: str, *, new: bool) -> bool:
    """Whether the path is protected, and not in what other tasks write at the same time."""
    if protected(path, new=new) in ("", *OF_BUILDS):
        return False
    names = path.split("/")
    return not any(is_foreign(name, "/".join([*names[:at], ""])) for at, name in enumerate(names))


def is_excluded(path: str, rules: SelectionRules) -> bool:
    return rules.ignore(path, is_folder=False) and not is_protected(path)
