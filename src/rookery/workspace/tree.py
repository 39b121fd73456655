"""Walks the folders of a workspace, honouring its .gitignore files.

Symbolic links are not followed, even if one replaces a folder during the walk. Unreadable folders
are counted. Paths are strings relative to the workspace, whose own path is empty, because there may
be very many.

`file_filter` parses file patterns as models write them: `*.py`, `src/**/*.ts`, `*.{ts,tsx}`,
`!*.lock`.
"""

import os
import re
import stat
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from time import monotonic
from typing import TypeAlias

from msgspec import Struct

from rookery.core.limits import KIB
from rookery.errors import BadArguments
from rookery.lazy_pattern import lazy_pattern
from rookery.platform.descriptors import opened_folder, present
from rookery.platform.paths import LONGEST, FileRules, file_pattern, visible
from rookery.workspace.boundaries import HiddenEntries

NEVER_OPENED = {"node_modules", ".git", "__pycache__", "venv", "env"}
"""Skipped even inside a hidden folder that was named explicitly."""
NOT_SOURCE = {"node_modules", "__pycache__"}
NOT_LISTED = {
    "dist",
    "out",
    "bundle",
    "vendor",
    "tmp",
    "temp",
    "deps",
    "pkg",
    "Pods",
} | NEVER_OPENED
NOT_LISTED_PAIRS = ("target/dependency", "build/dependencies")
_BETWEEN_LOOKS = 64
"""Entries between two looks at the clock."""
_IGNORE_FILE = ".gitignore"
_IGNORE_FILE_BYTES = 256 * KIB
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC

Rules: TypeAlias = tuple[tuple[str, FileRules], ...]
"""The ignore files above a folder, the nearest first, each with the folder it is in."""

_BRACES = lazy_pattern(r"\{([^{}]*)\}")
_MOST = 64


class TreeEntry(Struct, frozen=True):
    path: str
    name: str
    is_folder: bool = False
    link: str = ""


class Tree(Struct):
    root: Path
    start: str
    most: int
    """Entries after which the walk stops."""
    seconds: float
    hiding: HiddenEntries
    top: str = ""
    """The folder above which ignore files are not read. Only set outside the workspace, where
    `root` is the root of the disk."""
    unreadable: int = 0
    incomplete: bool = False
    explicit: bool = False
    """A folder that would be skipped was named explicitly, so everything in it is included."""
    _seen: int = 0
    _rules: dict[str, Rules] = {}
    _deadline: float = 0.0

    def __post_init__(self) -> None:
        self._deadline = monotonic() + self.seconds
        names = [] if self.start == self.top else self.start.split("/")
        ways = ["/".join(names[:depth]) for depth in range(1, len(names) + 1)]
        self.explicit = any(name.startswith(".") or name in NOT_LISTED for name in names) or any(
            _is_ignored(way, self._rules_above(way), is_folder=True) for way in ways
        )

    def display(self, path: str) -> str:
        """The path as shown to the model; absolute outside the workspace."""
        return f"/{path}" if self.top else path

    def entries(self, folder: str) -> list[TreeEntry]:
        """The visible entries of a folder, in natural order."""
        try:
            with opened_folder(self.root, _names(folder)) as opened:
                at = present(opened)
                with os.scandir(at) as scan:
                    found = list(self._count(scan))
                entries = [_entry(folder, each, at) for each in found]
                # most folders have none, and looking for it takes longer than all the rest
                has_rules = self.incomplete or any(each.name == _IGNORE_FILE for each in found)
                rules = () if self.explicit else self._rules_of(folder, at if has_rules else None)
        except OSError:
            self.unreadable += 1
            return []
        kept = [entry for entry in entries if entry and self._is_visible(entry, rules)]
        return sorted(kept, key=lambda entry: natural_key(entry.name))

    def _is_visible(self, entry: TreeEntry, rules: Rules) -> bool:
        is_folder = entry.is_folder
        return not _is_ignored(entry.path, rules, is_folder=is_folder) and not self.hiding.hides(
            entry.path, is_folder=is_folder, target=entry.link
        )

    def files(self, wanted: Callable[[str], bool]) -> Iterator[str]:
        """All files to search, depth first, the files of a folder before its sub-folders."""
        if not (self.root / self.start).is_dir():
            yield self.start
            return
        waiting = [self.start]
        while waiting and not self.incomplete:
            entries = self.entries(waiting.pop())
            for entry in entries:
                if not entry.is_folder and not entry.link and wanted(entry.path):
                    yield entry.path
            open_folders = (e for e in reversed(entries) if not self._is_not_searched(e))
            waiting.extend(entry.path for entry in open_folders if entry.is_folder)

    def breadth_first(self) -> Iterator[list[TreeEntry]]:
        """The entries of each folder, breadth first."""
        waiting = deque([self.start])
        while waiting and not self.incomplete:
            entries = self.entries(waiting.popleft())
            yield entries
            waiting.extend(
                entry.path
                for entry in entries
                if entry.is_folder and not self.hides(entry) and not self.is_not_listed(entry)
            )

    def hides(self, entry: TreeEntry) -> bool:
        return not self.explicit and entry.name.startswith(".")

    def is_not_listed(self, entry: TreeEntry) -> bool:
        if self.explicit:
            return entry.name in NEVER_OPENED
        return entry.name in NOT_LISTED or f"/{entry.path}".endswith(
            tuple(f"/{pair}" for pair in NOT_LISTED_PAIRS)
        )

    def _is_not_searched(self, entry: TreeEntry) -> bool:
        if self.explicit:
            return entry.name in NEVER_OPENED
        return self.hides(entry) or entry.name in NOT_SOURCE

    def _count(self, scan: Iterator[os.DirEntry[str]]) -> Iterator[os.DirEntry[str]]:
        for entry in scan:
            self._seen += 1
            late = not self._seen % _BETWEEN_LOOKS and monotonic() > self._deadline
            if late or self._seen > self.most:
                self.incomplete = True
                return
            yield entry

    def _rules_of(self, folder: str, at: int | None) -> Rules:
        """`at` is the open folder if it may have an ignore file."""
        if folder not in self._rules:
            above = self._rules_above(folder)
            own = None if at is None else _own_rules(at)
            self._rules[folder] = ((folder, own), *above) if own else above
        return self._rules[folder]

    def _rules_above(self, folder: str) -> Rules:
        if folder == self.top:
            return ()
        above = _parent(folder)
        if above not in self._rules:
            with suppress(OSError), opened_folder(self.root, _names(above)) as opened:
                return self._rules_of(above, opened)
        return self._rules_of(above, None)


def natural_key(name: str) -> tuple[list[str | int], str]:
    """Sort key: 2 before 10, and a next to A."""
    runs = re.split(r"(\d+)", name.casefold())
    return [int(run) if place % 2 else run for place, run in enumerate(runs)], name


def limited(entries: Sequence[TreeEntry], most: int, tree: Tree) -> list[TreeEntry]:
    """At most so many entries; top-level folders are the last to be dropped."""
    depth = tree.start.count("/") + 1 if tree.start else 0

    def is_first(entry: TreeEntry) -> bool:
        return entry.is_folder and entry.path.count("/") == depth

    return sorted(entries, key=lambda entry: not is_first(entry))[:most]


def order_key(entry: TreeEntry) -> list[object]:
    """Sort key: parents before children."""
    return [natural_key(name) for name in entry.path.split("/")]


def row(entry: TreeEntry) -> str:
    name = visible(entry.path)
    if entry.link:
        return f"{name} -> {visible(entry.link)}"
    return f"{name}/" if entry.is_folder else name


def _parent(path: str) -> str:
    return path.rpartition("/")[0]


def _names(path: str) -> list[str]:
    return path.split("/") if path else []


def _entry(folder: str, entry: os.DirEntry[str], at: int) -> TreeEntry | None:
    path = f"{folder}/{entry.name}" if folder else entry.name
    if entry.is_symlink():
        return TreeEntry(path, entry.name, link=_target(entry.name, at))
    if entry.is_dir(follow_symlinks=False):
        return TreeEntry(path, entry.name, is_folder=True)
    return TreeEntry(path, entry.name) if entry.is_file(follow_symlinks=False) else None


def _target(link: str, at: int) -> str:
    try:
        return os.readlink(link, dir_fd=at)
    except OSError:
        return "(gone)"


def _is_ignored(path: str, rules: Rules, *, is_folder: bool) -> bool:
    """Whether the path is ignored; the nearest ignore file with a matching rule decides."""
    for folder, own in rules:
        inner = path[len(folder) + 1 :] if folder else path
        opinion = own.opinion(inner.split("/"), is_folder=is_folder)
        if opinion is not None:
            return opinion
    return False


def _own_rules(folder: int) -> FileRules | None:
    try:
        return _read_rules(folder)
    except OSError:
        return None


def _read_rules(folder: int) -> FileRules | None:
    with open(os.open(_IGNORE_FILE, _FILE, dir_fd=folder), "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            return None
        text = file.read(_IGNORE_FILE_BYTES).decode("utf-8", "replace")
    return FileRules.of_ignore_file(text.removeprefix("\ufeff").split("\n"))


def file_filter(glob: str | None, start: str) -> Callable[[str], bool]:
    """A predicate for paths. A pattern with a slash is relative to the workspace or to `start`."""
    if not glob or not glob.strip():
        return lambda path: True
    if len(glob) > LONGEST:
        raise BadArguments(f"The file pattern is longer than {LONGEST} characters.")
    unwanted, pattern = glob.startswith("!"), glob.strip().removeprefix("!")
    try:
        patterns = [file_pattern(choice) for choice in _alternatives(pattern)]
    except ValueError as error:
        raise BadArguments(f"The file pattern {glob!r} cannot be used: {error}.") from error
    rules = FileRules(tuple(filter(None, patterns)))

    def wanted(path: str) -> bool:
        inner = path.removeprefix(f"{start}/")
        return (rules.cover(path) or rules.cover(inner)) is not unwanted

    return wanted


def _alternatives(pattern: str) -> list[str]:
    """Expand the braces of a pattern."""
    finished, waiting = list[str](), [pattern]
    while waiting and len(finished) + len(waiting) <= _MOST:
        current = waiting.pop()
        if braces := _BRACES.search(current):
            before, after = current[: braces.start()], current[braces.end() :]
            waiting += [before + choice + after for choice in braces[1].split(",")]
        else:
            finished.append(current)
    if waiting:
        raise BadArguments(f"The file pattern {pattern!r} has too many alternatives.")
    return finished
