"""The folders of a workspace, without what its .gitignore files leave out.

No symbolic link is followed, and none that takes a folder's place while it is walked through.
What cannot be read is counted, not hidden. Paths are plain strings relative to the workspace,
whose own is empty: there may be a great many of them.

`file_filter` reads file patterns as models write them: `*.py`, `src/**/*.ts`, `*.{ts,tsx}`,
`!*.lock`.
"""

import os
import re
import stat
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from time import monotonic
from typing import TypeAlias

from msgspec import Struct

from rookery.core.limits import KIB
from rookery.errors import BadArguments
from rookery.platform.descriptors import opened_folder, present
from rookery.platform.paths import LONGEST, FileRules, file_pattern
from rookery.workspace.boundaries import HiddenEntries

NEVER_OPENED = {"node_modules", ".git", "__pycache__", "venv", "env"}
"""Not even inside a hidden folder that was named on purpose."""
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
_IGNORE_FILE = ".gitignore"
_IGNORE_FILE_BYTES = 256 * KIB
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC

Rules: TypeAlias = tuple[tuple[str, FileRules], ...]
"""The ignore files above a folder, the nearest first, each with the folder it is in."""

_BRACES = re.compile(r"\{([^{}]*)\}")
_MOST = 64


class TreeEntry(Struct, frozen=True):
    """`link` is where a symbolic link points."""

    path: str
    name: str
    is_folder: bool = False
    link: str = ""


class Tree(Struct):
    root: Path
    start: str
    most: int
    """Entries after which the walk is given up as too large."""
    seconds: float
    hiding: HiddenEntries
    top: str = ""
    """The folder above which no ignore file is looked for; only outside the workspace is there
    one, and the root is that of the disk."""
    unreadable: int = 0
    incomplete: bool = False
    on_purpose: bool = False
    """A folder that would have been passed over was named: then everything in it counts."""
    _seen: int = 0
    _rules: dict[str, Rules] = {}
    _deadline: float = 0.0

    def __post_init__(self) -> None:
        self._deadline = monotonic() + self.seconds
        names = [] if self.start == self.top else self.start.split("/")
        ways = ["/".join(names[:depth]) for depth in range(1, len(names) + 1)]
        self.on_purpose = any(name.startswith(".") or name in NOT_LISTED for name in names) or any(
            _ignored(way, self._rules_of(_parent(way)), is_folder=True) for way in ways
        )

    def called(self, path: str) -> str:
        """A path of the tree as the model knows it: outside the workspace it is absolute."""
        return f"/{path}" if self.top else path

    def entries(self, folder: str) -> list[TreeEntry]:
        """What is in a folder, in the order people expect."""
        try:
            with opened_folder(self.root, _names(folder)) as opened:
                at = present(opened)
                rules = () if self.on_purpose else self._rules_of(folder, at)
                with os.scandir(at) as scan:
                    entries = [_entry(folder, found, at) for found in self._counted(scan)]
        except OSError:
            self.unreadable += 1
            return []
        kept = [entry for entry in entries if entry and self._shows(entry, rules)]
        return sorted(kept, key=lambda entry: natural(entry.name))

    def _shows(self, entry: TreeEntry, rules: Rules) -> bool:
        is_folder = entry.is_folder
        return not _ignored(entry.path, rules, is_folder=is_folder) and not self.hiding.hides(
            entry.path, is_folder=is_folder, target=entry.link
        )

    def files(self, wanted: Callable[[str], bool]) -> Iterator[str]:
        """All files to be searched, depth first, each folder's own files before its folders."""
        if not (self.root / self.start).is_dir():
            yield self.start
            return
        waiting = [self.start]
        while waiting and not self.incomplete:
            entries = self.entries(waiting.pop())
            for entry in entries:
                if not entry.is_folder and not entry.link and wanted(entry.path):
                    yield entry.path
            open_folders = (e for e in reversed(entries) if not self._closed_to_search(e))
            waiting.extend(entry.path for entry in open_folders if entry.is_folder)

    def level_by_level(self) -> Iterator[list[TreeEntry]]:
        """The entries of the first folder, then of its folders, and so on."""
        waiting = deque([self.start])
        while waiting and not self.incomplete:
            entries = self.entries(waiting.popleft())
            yield entries
            waiting.extend(
                entry.path
                for entry in entries
                if entry.is_folder and not self.hides(entry) and not self.closed_to_listing(entry)
            )

    def hides(self, entry: TreeEntry) -> bool:
        return not self.on_purpose and entry.name.startswith(".")

    def closed_to_listing(self, entry: TreeEntry) -> bool:
        if self.on_purpose:
            return entry.name in NEVER_OPENED
        return entry.name in NOT_LISTED or f"/{entry.path}".endswith(
            tuple(f"/{pair}" for pair in NOT_LISTED_PAIRS)
        )

    def _closed_to_search(self, entry: TreeEntry) -> bool:
        if self.on_purpose:
            return entry.name in NEVER_OPENED
        return self.hides(entry) or entry.name in NOT_SOURCE

    def _counted(self, scan: Iterator[os.DirEntry[str]]) -> Iterator[os.DirEntry[str]]:
        for entry in scan:
            self._seen += 1
            if self._seen > self.most or monotonic() > self._deadline:
                self.incomplete = True
                return
            yield entry

    def _rules_of(self, folder: str, at: int | None = None) -> Rules:
        if folder not in self._rules:
            above = self._rules_of(_parent(folder)) if folder != self.top else ()
            own = self._own_rules(folder, at)
            self._rules[folder] = ((folder, own), *above) if own else above
        return self._rules[folder]

    def _own_rules(self, folder: str, at: int | None) -> FileRules | None:
        try:
            if at is not None:
                return _read_rules(at)
            with opened_folder(self.root, _names(folder)) as opened:
                return None if opened is None else _read_rules(opened)
        except OSError:
            return None  # nearly every folder has none


def natural(name: str) -> tuple[list[str | int], str]:
    """Sorts 2 before 10, and a beside A."""
    runs = re.split(r"(\d+)", name.casefold())
    return [int(run) if place % 2 else run for place, run in enumerate(runs)], name


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


def _ignored(path: str, rules: Rules, *, is_folder: bool) -> bool:
    """The nearest ignore file with an opinion decides."""
    for folder, own in rules:
        inner = path[len(folder) + 1 :] if folder else path
        opinion = own.opinion(inner.split("/"), is_folder=is_folder)
        if opinion is not None:
            return opinion
    return False


def _read_rules(folder: int) -> FileRules | None:
    with open(os.open(_IGNORE_FILE, _FILE, dir_fd=folder), "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            return None
        text = file.read(_IGNORE_FILE_BYTES).decode("utf-8", "replace")
    return FileRules.of_ignore_file(text.removeprefix("\ufeff").split("\n"))


def file_filter(glob: str | None, start: str) -> Callable[[str], bool]:
    """Whether a file is wanted. A pattern with a slash may begin at the workspace or at `start`."""
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
    """The pattern for every choice that its braces leave."""
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
