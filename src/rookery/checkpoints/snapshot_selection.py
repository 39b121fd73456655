"""Which names of the workspace a snapshot takes, and which it leaves out.

What .gitignore files say of a name is asked once: to match patterns takes longer than to look at a
file, so what was said stays said as long as patterns and names are the same. What the last
snapshot held and what git tracks stays in though it be ignored. Whoever could take a file out of
all later checkpoints by writing an ignore file could then remove it, and nothing would restore it.

`FolderSearch` finds protected files and repositories in folders that git ignores. They are huge
and change all the time, but a folder in which names came or went has other times than before: of
those that stand still, only the times are looked at.
"""

import os
import stat
import time
from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from functools import cached_property, partial
from pathlib import Path

from msgspec import Struct

from rookery.checkpoints.file_versions import content_of, is_gits_own, proper, status_of
from rookery.checkpoints.object_store import ObjectStore
from rookery.checkpoints.snapshot_trees import Folder, Trees
from rookery.core.limits import KIB
from rookery.core.modes import GOVERNANCE_FOLDER, LEDGER_NAMES
from rookery.core.protected_paths import protected
from rookery.errors import StorageError
from rookery.platform.git_index import NOTHING_TRACKED, TrackedFiles, times_are_settled
from rookery.platform.paths import FileRules, visible

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
            except OSError:  # removed, or not readable
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


_GOVERNANCE = f"/{GOVERNANCE_FOLDER}/"
_WORKTREES = ("worktrees", "/.roo/")
IGNORE_FILE = ".gitignore"
_IGNORE_FILE_BYTES = 256 * KIB
_EVERYTHING = FileRules.of_ignore_file(["*"])

_NAMED = 50


class SelectionRules:
    """An ignore file and those above it. `start` is the length of its folder's path. As long as
    none of the files changes they are one and the same object."""

    __slots__ = ("_above", "_own", "_start")

    def __init__(self, start: int, own: FileRules, above: "SelectionRules | None") -> None:
        self._start = start
        self._own = own
        self._above = above

    def ignore(self, path: str, *, is_folder: bool) -> bool:
        """The nearest ignore file with an opinion decides."""
        rules: SelectionRules | None = self
        while rules:
            names = path[rules._start :].split("/")
            opinion = rules._own.opinion(names, is_folder=is_folder)
            if opinion is not None:
                return opinion
            rules = rules._above
        return False


def in_ignored_folder(path: str, above: SelectionRules) -> SelectionRules:
    """All is ignored there, whatever it is."""
    return SelectionRules(len(path) + 1, _EVERYTHING, above)


class _ReadRules(Struct, frozen=True):
    """An ignore file as it was when it had these signs."""

    sign: tuple[int, int, int, int]
    above: SelectionRules | None
    rules: SelectionRules | None


class _RulesText(Struct, frozen=True):
    rules: SelectionRules
    verdicts: dict[str, bool]


class IgnoreMemory:
    def __init__(self) -> None:
        self._read: dict[str, _ReadRules] = {}
        self._said: dict[str, _RulesText] = {}
        self._read_before = self._read
        self._said_before = self._said

    def begin(self) -> None:
        """A new walk begins; what the last one did not come by is forgotten."""
        self._read_before, self._read = self._read, {}
        self._said_before, self._said = self._said, {}

    def rules_in(
        self, folder: int, path: str, above: SelectionRules | None
    ) -> SelectionRules | None:
        """What holds in a folder that has an ignore file."""
        began = time.time_ns()
        status = status_of(folder, IGNORE_FILE)
        if status is None or not stat.S_ISREG(status.st_mode):
            return above
        sign = status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns
        known = self._read_before.get(path)
        if not known or known.sign != sign or known.above is not above:
            known = _ReadRules(sign, above, _rules(folder, path, above, status))
        if times_are_settled(status, began):
            self._read[path] = known
        return known.rules

    def verdicts(self, path: str, rules: SelectionRules) -> dict[str, bool]:
        """What is known of the names in a folder; to be filled with what is asked anew."""
        known = self._said_before.get(path)
        if not known or known.rules is not rules:
            known = _RulesText(rules, {})
        self._said[path] = known
        return known.verdicts


def settle(verdicts: dict[str, bool], name: str, ask: Callable[[], bool]) -> bool:
    """What is known of a name, or what is said now."""
    known = verdicts.get(name)
    if known is None:
        known = verdicts[name] = ask()
    return known


def _rules(
    folder: int, path: str, above: SelectionRules | None, status: os.stat_result
) -> SelectionRules | None:
    with suppress(OSError):  # one that cannot be read says nothing
        content = content_of(folder, IGNORE_FILE, status, _IGNORE_FILE_BYTES)
        if content:
            text = content.data.decode("utf-8", "replace").removeprefix("\ufeff")
            return SelectionRules(len(path), FileRules.of_ignore_file(text.split("\n")), above)
    return above


class FollowedPaths:
    """Of one folder. `trees` is what the last checkpoint held of it, `way` its path in the
    repository that it belongs to. Nothing is read before it is asked for."""

    def __init__(
        self,
        store: ObjectStore,
        trees: Callable[[], Trees | None],
        tracked: TrackedFiles = NOTHING_TRACKED,
        way: str = "",
    ) -> None:
        self._store = store
        self._trees = trees
        self._tracked = tracked
        self._way = way

    def of_repository(self, tracked: TrackedFiles) -> "FollowedPaths":
        """The same folder, as the one in which a repository is."""
        return FollowedPaths(self._store, self._trees, tracked)

    def as_tracked(self) -> "FollowedPaths":
        """The same folder, of which only what is tracked is followed."""
        return FollowedPaths(self._store, lambda: None, self._tracked, self._way)

    def inside(self, name: str) -> "FollowedPaths":
        last = partial(self._folder, name)
        return FollowedPaths(self._store, last, self._tracked, self._in(name))

    def was_known(self, name: str) -> bool:
        """Whether it was saved, or known to be what cannot be saved."""
        return name in self._last.files or self._last.is_unsaved(name)

    def has_file(self, name: str) -> bool:
        return self.was_known(name) or self.tracks(name)

    def tracks(self, name: str) -> bool:
        return self._in(name) in self._tracked

    def was_whole(self, name: str) -> bool:
        """Whether all that was there was known."""
        inner = self._folder(name)
        return self.was_known(name) and not (inner and Folder(self._store, inner).blind)

    def was_no_folder(self, name: str) -> bool:
        return self.was_known(name) and self._folder(name) is None

    def names(self) -> list[str]:
        """All names at which there is something to follow."""
        tracked = self._tracked.names_in(self._way) if self._way else set[str]()
        return sorted(name for name in {*self._last.known(), *tracked} if proper(name))

    @cached_property
    def _last(self) -> Folder:
        try:
            return Folder(self._store, self._trees())
        except StorageError:  # it is damaged: then what is there now is all there is
            return Folder(self._store)

    def _folder(self, name: str) -> Trees | None:
        return self._last.folder(name)

    def _in(self, name: str) -> str:
        return f"{self._way}/{name}" if self._way else name


class WalkedFolder(Struct, frozen=True):
    """A folder of the workspace, and what holds in it. A path ends with a slash."""

    path: str
    depth: int
    rules: SelectionRules | None
    followed: FollowedPaths

    def inside(self, name: str) -> "WalkedFolder":
        path, inner = f"{self.path}{name}/", self.followed.inside(name)
        return WalkedFolder(path, self.depth + 1, self.rules, inner)


class Skipped:
    """All of it is counted, some of it is named."""

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


def is_protected(path: str) -> bool:
    return bool(protected(path, new=True))


def is_anothers(name: str, path: str) -> bool:
    """What other tasks write while this one works: the ledger, and the worktrees that other
    sessions have in the project. It is not ours to save, and not ours to put back."""
    folder = f"/{path}"
    return (name in LEDGER_NAMES and folder.endswith(_GOVERNANCE)) or (
        name == _WORKTREES[0] and folder.endswith(_WORKTREES[1])
    )


def left_out(path: str, rules: SelectionRules) -> bool:
    return rules.ignore(path, is_folder=False) and not is_protected(path)


def why_not(name: str, status: os.stat_result) -> str:
    if is_gits_own(name):
        return "git could mistake it for one of its own files"
    return "too large" if stat.S_ISREG(status.st_mode) else "no file"
