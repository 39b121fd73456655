"""Walks the folders of a workspace, honouring its .gitignore files.

Symbolic links are not followed, even if one replaces a folder during the walk. Unreadable folders
are counted. Paths are strings relative to the workspace, whose own path is empty, because there may
be very many.

`WorkspaceFinder` lists them, and hands a search for text to `search`.
"""

import os
import re
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import cached_property, partial
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING

import anyio.to_thread
from msgspec import Struct

from rookery.core.limits import Limits
from rookery.engine.ports.actions import Permit
from rookery.errors import Denied, ToolError
from rookery.platform.descriptors import opened_folder, present
from rookery.platform.paths import visible
from rookery.workspace.boundaries import HiddenEntries
from rookery.workspace.files import WorkspaceFiles
from rookery.workspace.paths import GIT_IGNORE_FILE, Rules, is_ignored, own_rules

if TYPE_CHECKING:
    from rookery.core.queries import FoundPath
    from rookery.workspace.search import SearchCommand, TextSearch

NEVER_OPENED = {"node_modules", ".git", "__pycache__", "venv", "env"}
"""Skipped even inside a hidden folder that was named explicitly."""
NOT_SOURCE = {"node_modules", "__pycache__"}
NOT_LISTED = NEVER_OPENED | {
    *("dist", "out", "bundle", "vendor", "tmp", "temp", "deps", "pkg", "Pods"),
}
NOT_LISTED_PAIRS = ("target/dependency", "build/dependencies")
_BETWEEN_LOOKS = 64
"""Entries between two looks at the clock."""

OVERVIEW_ENTRIES = 200
OVERVIEW_BYTES = 4096
"""The limits of the overview in the first request of a task."""

_VERSION_CONTROL = {".git", ".hg", ".svn", ".jj"}


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
            is_ignored(way, self._rules_above(way), is_folder=True) for way in ways
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
                has_rules = self.incomplete or any(each.name == GIT_IGNORE_FILE for each in found)
                rules = () if self.explicit else self._rules_of(folder, at if has_rules else None)
        except OSError:
            self.unreadable += 1
            return []
        kept = [entry for entry in entries if entry and self._is_visible(entry, rules)]
        return sorted(kept, key=lambda entry: natural_key(entry.name))

    def _is_visible(self, entry: TreeEntry, rules: Rules) -> bool:
        is_folder = entry.is_folder
        return not is_ignored(entry.path, rules, is_folder=is_folder) and not self.hiding.hides(
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

    def notes(self) -> Iterator[str]:
        """What a listing or a search of this tree has to say about itself."""
        if self.incomplete:
            yield "(Incomplete: there are too many files.)"
        if self.unreadable:
            yield f"(Folders that could not be read: {self.unreadable}.)"
        yield from self.hiding.notes()

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
            own = None if at is None else own_rules(at)
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


class WorkspaceFinder:
    def __init__(
        self,
        root: Path,
        files: WorkspaceFiles,
        limits: Limits,
        *,
        command: "SearchCommand | None" = None,
    ) -> None:
        """`command` is the program that searches; None for ripgrep, if it is installed."""
        self._root = root.resolve(strict=True)
        self._files = files
        self._limits = limits
        self._command = command

    async def list(self, path: str, *, recursive: bool, permit: Permit) -> str:
        start = self._check_permit(path, permit)
        if self._root / start in (Path("/"), Path.home()):
            return f"{self._root / start}/\nThis folder is not listed; name one inside it."
        if not (self._root / start).is_dir():
            raise ToolError(f"{path} is not a folder. read_file reads a file.")
        most = self._limits.list_entries
        return await anyio.to_thread.run_sync(
            partial(self._listing, withheld=permit.withheld),
            start,
            recursive,
            most,
            abandon_on_cancel=True,
        )

    async def overview(self) -> str:
        """A recursive listing of the workspace, cut if it is long; empty for a home folder."""
        if self._root in (Path("/"), Path.home()):
            return ""
        listed = await anyio.to_thread.run_sync(
            self._listing, "", True, OVERVIEW_ENTRIES, abandon_on_cancel=True
        )
        if len(listed.encode()) <= OVERVIEW_BYTES:
            return listed
        kept = listed.encode()[:OVERVIEW_BYTES].decode("utf-8", "ignore").rpartition("\n")[0]
        return f"{kept}\n(The rest is left out; list a folder to see more of it.)"

    async def search(self, path: str, regex: str, glob: str | None, permit: Permit) -> str:
        start = self._check_permit(path, permit)
        tree = partial(self._tree, start, permit.withheld)
        return await self._text_search.run(path, start, regex, glob, tree)

    @cached_property
    def _text_search(self) -> "TextSearch":
        from rookery.workspace.search import TextSearch

        return TextSearch(self._root, self._limits, self._command)

    def paths(self) -> "Sequence[FoundPath]":
        """All listed files and folders of the workspace, except those of version control."""
        from rookery.core.queries import FoundPath

        found = [entry for level in self._tree("").breadth_first() for entry in level]
        return [
            FoundPath(path=entry.path, folder=entry.is_folder)
            for entry in found
            if entry.name not in _VERSION_CONTROL
        ]

    def _check_permit(self, path: str, permit: Permit) -> str:
        located = self._files.locate(path)
        if located not in permit.reads:
            raise Denied(f"Reading {located} was not permitted.")
        return "" if located == "." else located

    def _tree(self, start: str, withheld: Callable[[str], bool] | None = None) -> Tree:
        most, seconds = self._limits.search_files, self._limits.search_seconds
        if start.startswith("/"):
            hiding = self._files.boundaries.hiding("/", withheld)
            return Tree(Path("/"), start[1:], most, seconds, hiding, top=start[1:])
        hiding = self._files.boundaries.hiding(str(self._root), withheld)
        return Tree(self._root, start, most, seconds, hiding)

    def _listing(
        self,
        start: str,
        recursive: bool,
        most: int,
        *,
        withheld: Callable[[str], bool] | None = None,
    ) -> str:
        tree = self._tree(start, withheld)
        shown: list[TreeEntry] = []
        passed_over: list[TreeEntry] = []
        for level in tree.breadth_first():
            for entry in level:
                hidden = recursive and tree.hides(entry)
                closed = entry.is_folder and (hidden or tree.is_not_listed(entry))
                (passed_over if closed else shown).append(entry)
            if not recursive or len(shown) > most:
                break
        kept = sorted(limited(shown, most, tree), key=order_key)
        rows = [tree.display(row(entry)) for entry in kept] or [f"(No files in {start or '.'}/)"]
        if len(shown) > most:
            rows.append(f"(Only {most} entries are shown; list a folder to see more of it.)")
        if passed_over:
            names = ", ".join(tree.display(row(entry)) for entry in passed_over[:20])
            rows.append(f"(Not searched: {names})")
        return "\n".join([*rows, *tree.notes()])


def natural_key(name: str) -> tuple[list[str | int], str]:
    """Sort key: 2 before 10, and a next to A."""
    runs = re.split(r"(\d+)", name.casefold())
    return [int(run) if place % 2 else run for place, run in enumerate(runs)], name


def limited(entries: Sequence[TreeEntry], most: int, tree: Tree) -> list[TreeEntry]:
    """At most `most` entries; top-level folders are dropped last."""
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
