"""The folders of a workspace, without what its .gitignore files leave out.

No symbolic link is followed. What cannot be read is counted, not hidden.
"""

import os
import re
import stat
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from time import monotonic

from pathspec import GitIgnoreSpec

from rookery.core.limits import MIB

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
NOT_LISTED_PAIRS = {("target", "dependency"), ("build", "dependencies")}
_IGNORE_FILE = ".gitignore"
_IGNORE_FILE_BYTES = MIB


@dataclass(frozen=True, slots=True)
class Entry:
    """`path` is relative to the workspace; `link` is where a symbolic link points."""

    path: PurePosixPath
    is_folder: bool = False
    link: str = ""


@dataclass
class Tree:
    root: Path
    start: PurePosixPath
    most: int
    """Entries after which the walk is given up as too large."""
    seconds: float
    unreadable: int = 0
    incomplete: bool = False
    _seen: int = 0
    _rules: dict[PurePosixPath, GitIgnoreSpec | None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._deadline = monotonic() + self.seconds
        self.on_purpose = any(
            part.startswith(".") or part in NOT_LISTED for part in self.start.parts
        ) or any(
            self._ignored(at, is_folder=True)
            for at in (self.start, *self.start.parents)
            if at.parts
        )
        """A folder that would have been passed over was named: then everything in it counts."""

    def entries(self, folder: PurePosixPath) -> list[Entry]:
        """What is in a folder, in the order people expect: capitals and digits sorted naturally."""
        try:
            with os.scandir(self.root / folder) as scan:
                found = [entry for entry in self._counted(scan) if self._counts(folder, entry)]
        except OSError:
            self.unreadable += 1
            return []
        return sorted(
            (_entry(folder, entry) for entry in found), key=lambda entry: natural(entry.path)
        )

    def closed_to_search(self, entry: Entry) -> bool:
        if self.on_purpose:
            return entry.path.name in NEVER_OPENED
        return entry.path.name.startswith(".") or entry.path.name in NOT_SOURCE

    def closed_to_listing(self, entry: Entry) -> bool:
        if self.on_purpose:
            return entry.path.name in NEVER_OPENED
        return entry.path.name in NOT_LISTED or entry.path.parts[-2:] in NOT_LISTED_PAIRS

    def files(self, wanted: Callable[[PurePosixPath], bool]) -> Iterator[PurePosixPath]:
        """All files to be searched, depth first, each folder's own files before its folders."""
        if not (self.root / self.start).is_dir():
            yield self.start
            return
        waiting = [self.start]
        while waiting and not self.incomplete:
            entries = self.entries(waiting.pop())
            yield from (
                entry.path
                for entry in entries
                if not entry.is_folder and not entry.link and wanted(entry.path)
            )
            folders = [
                entry.path
                for entry in entries
                if entry.is_folder and not self.closed_to_search(entry)
            ]
            waiting.extend(reversed(folders))

    def level_by_level(self) -> Iterator[list[Entry]]:
        """The entries of the first folder, then of its folders, and so on."""
        waiting = deque([self.start])
        while waiting and not self.incomplete:
            entries = self.entries(waiting.popleft())
            yield entries
            waiting.extend(
                entry.path
                for entry in entries
                if entry.is_folder
                and not self.closed_to_listing(entry)
                and (self.on_purpose or not entry.path.name.startswith("."))
            )

    def _counted(self, scan: Iterator[os.DirEntry[str]]) -> Iterator[os.DirEntry[str]]:
        for entry in scan:
            self._seen += 1
            if self._seen > self.most or monotonic() > self._deadline:
                self.incomplete = True
                return
            yield entry

    def _counts(self, folder: PurePosixPath, entry: os.DirEntry[str]) -> bool:
        is_folder = entry.is_dir(follow_symlinks=False)
        if not is_folder and not entry.is_symlink() and not entry.is_file(follow_symlinks=False):
            return False
        return self.on_purpose or not self._ignored(folder / entry.name, is_folder=is_folder)

    def _ignored(self, path: PurePosixPath, *, is_folder: bool) -> bool:
        """The nearest ignore file with an opinion decides."""
        for folder in path.parents:
            rules = self._rules_of(folder)
            if rules is not None:
                name = str(path.relative_to(folder)) + ("/" if is_folder else "")
                if (opinion := rules.check_file(name).include) is not None:
                    return opinion
        return False

    def _rules_of(self, folder: PurePosixPath) -> GitIgnoreSpec | None:
        if folder not in self._rules:
            self._rules[folder] = _read_rules(self.root / folder / _IGNORE_FILE)
        return self._rules[folder]


def natural(path: PurePosixPath) -> list[tuple[list[str | int], str]]:
    """Sorts parents before children, 2 before 10, and a beside A."""
    return [([*_runs(part)], part) for part in path.parts]


def _runs(name: str) -> Iterator[str | int]:
    for place, run in enumerate(re.split(r"(\d+)", name.casefold())):
        yield int(run) if place % 2 else run


def _entry(folder: PurePosixPath, entry: os.DirEntry[str]) -> Entry:
    path = folder / entry.name
    if entry.is_symlink():
        return Entry(path, link=os.readlink(entry.path))
    return Entry(path, is_folder=entry.is_dir(follow_symlinks=False))


def _read_rules(path: Path) -> GitIgnoreSpec | None:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None  # nearly every folder has none
    with open(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return None
        text = file.read(_IGNORE_FILE_BYTES).decode("utf-8", "replace")
    return GitIgnoreSpec.from_lines(filter(_usable, text.splitlines()))


def _usable(pattern: str) -> bool:
    """A pattern that means nothing is passed over, as git does."""
    try:
        GitIgnoreSpec.from_lines([pattern])
    except (ValueError, re.error):
        return False
    return True
