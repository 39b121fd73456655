"""Files by which users and projects tell the agent how to work.

A project's files were written by strangers: none may lead out of the workspace, to what is kept
from the agent, or to where credentials are. The user's own may lie anywhere. Only regular files
are opened, and no link is followed once it is known where a path leads. A `ConfigScan` remembers
what it found, so that the same files need not be read again while nothing has changed.
"""

import os
import stat
import time
from collections import deque
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import Generic, NamedTuple, TypeAlias, TypeVar

from msgspec import Struct

from rookery.core.instructions import Origin, revealed
from rookery.core.limits import KIB
from rookery.core.protected_paths import IGNORE_FILES
from rookery.engine.ports.workspace import FileText
from rookery.errors import ToolError
from rookery.platform.descriptors import content, opened_folder
from rookery.platform.paths import visible
from rookery.workspace.boundaries import Boundaries
from rookery.workspace.files import decoded

_SECOND = 1_000_000_000
_SETTLED = 2 * _SECOND
"""Nanoseconds after a change from which on another must show in the times of a file."""

Mark: TypeAlias = tuple[tuple[int, ...] | None, ...]
T = TypeVar("T")
LARGEST = 32 * KIB
MOST_LINKS = 5
DEEPEST = 10
MOST_FILES = 500
MOST_ENTRIES = 2000
"""Names that one walk looks at, whatever they are."""
MOST_LOOKED_AT = 10 * MOST_ENTRIES
"""Names that all walks of one look do."""


class ConfigScan:
    """One look at the disk: what it depended on, and what was wrong."""

    def __init__(self) -> None:
        self.marks: dict[str, Mark] = {}
        self.problems: list[str] = []
        self.entries = 0
        """How many names in folders were looked at."""

    def note(self, path: str) -> None:
        self.marks.setdefault(path, _mark(path))

    def complain(self, problem: str) -> None:
        if problem not in self.problems:
            self.problems.append(problem)


class FileCache(Generic[T]):
    """What was read from files, read again only once one of them has changed. For `rest`
    seconds after a look there is no other."""

    def __init__(
        self,
        read: Callable[[ConfigScan], T],
        now: Callable[[], int] = time.time_ns,
        *,
        rest: float = 0.0,
    ) -> None:
        self._read = read
        self._now = now
        self._rest = int(rest * _SECOND)
        self._known: _CachedScan[T] | None = None

    def get(self) -> T:
        if self._known is None or not self._holds(self._known):
            scan, began = ConfigScan(), self._now()
            found = self._read(scan)
            settled = all(_latest(mark) < began - _SETTLED for mark in scan.marks.values())
            self._known = _CachedScan(found, scan.marks, settled, began)
        return self._known.found

    def _holds(self, known: "_CachedScan[T]") -> bool:
        if 0 <= self._now() - known.looked < self._rest:
            return True
        marks = known.marks.items()
        return known.settled and all(_mark(path) == mark for path, mark in marks)


class _CachedScan(NamedTuple, Generic[T]):
    """`settled` if no change since can go unnoticed."""

    found: T
    marks: dict[str, Mark]
    settled: bool
    looked: int


class FoundFile(Struct, frozen=True):
    """`name` is its path below the folder that was searched, `path` its path on the disk."""

    name: str
    path: str


class ConfigFolder:
    """A folder with such files, and how it is called. With `boundaries` it is the project's."""

    def __init__(self, path: Path, called: str, boundaries: Boundaries | None = None) -> None:
        self.path = path
        self._called = called
        self._boundaries = boundaries

    @property
    def origin(self) -> Origin:
        return "user" if self._boundaries is None else "project"

    def called(self, file: str) -> str:
        """How a file is called, in what a person or the model reads."""
        below = os.path.relpath(file, self.path)
        return visible(str(PurePosixPath(self._called, below)))

    def at(self, name: str) -> str:
        return str(self.path / name)

    def below(self, name: str) -> "ConfigFolder":
        called = str(PurePosixPath(self._called, name))
        return ConfigFolder(self.path / name, called, self._boundaries)

    def files(self, name: str, scan: ConfigScan) -> list[FoundFile]:
        """All files in a folder of this one and below, in the order of their names."""
        top = self.at(name)
        self._note(scan)
        found = list(islice(self._walk(top, scan), MOST_FILES + 1))
        if len(found) > MOST_FILES:
            scan.complain(
                f"{self.called(top)} has more than {MOST_FILES} files; the rest is not read."
            )
        return sorted(found[:MOST_FILES], key=_by_name)

    def folders(self, name: str, scan: ConfigScan) -> list[str]:
        """The names of the folders in a folder of this one, in order."""
        top = self.at(name)
        self._note(scan)
        names = self._names(top, scan, _FolderWalk(top, scan))
        return [each for each in names if os.path.isdir(f"{top}/{each}")]

    def text(self, file: str, scan: ConfigScan, most: int = LARGEST) -> str:
        """What a file says, up to `most` bytes; nothing if it is not there or not to be read."""
        self._note(scan)
        scan.note(file)
        if not os.path.lexists(file):
            return ""
        try:
            top, names = self._way(file)
            if not names:
                return ""
            with opened_folder(top, names[:-1]) as folder:
                if folder is None:
                    return ""
                data, size = content(folder, names[-1], self.called(file), most)
        except (OSError, ToolError) as error:
            scan.complain(self._left_out(file, _reason(error)))
            return ""
        return self._decoded(file, data, size, scan)

    def _decoded(self, file: str, data: bytes, size: int, scan: ConfigScan) -> str:
        cut = len(data) < size
        kept = data[: data.rfind(b"\n") + 1] or data if cut else data
        read = decoded(file, kept, len(kept))
        if not isinstance(read, FileText):
            scan.complain(self._left_out(file, "it is not a text file"))
            return ""
        plain = read.text.encode("utf-8", "replace").decode().replace("\r\n", "\n")
        text, unseen = revealed(plain)
        if unseen:
            scan.complain(
                f"{self.called(file)} has {unseen} invisible characters, which are "
                "spelled out. Check it before you rely on it."
            )
        if cut:
            scan.complain(
                f"Only the first {len(kept)} of {size} bytes of {self.called(file)} are read."
            )
            text += f"\n(Cut here: only the first {len(kept)} of {size} bytes are shown.)"
        return text

    def _walk(self, top: str, scan: ConfigScan) -> Iterator[FoundFile]:
        """Links to folders come last, so that a folder is known by its own name if it has one
        here."""
        walk = _FolderWalk(top, scan)
        waiting = deque([_Entry(top)])
        while waiting:
            folder = waiting.popleft()
            if not walk.is_first_visit(folder.path):
                scan.complain(
                    f"Some links in {self.called(top)} lead to folders that were "
                    "already read; they are not followed."
                )
            elif self._may_enter(folder, scan):
                yield from self._files_in(folder, waiting, scan, walk)

    def _files_in(
        self, folder: "_Entry", waiting: "deque[_Entry]", scan: ConfigScan, walk: "_FolderWalk"
    ) -> Iterator[FoundFile]:
        """The files of one folder; the folders in it are put to those that wait."""
        for name in self._names(folder.path, scan, walk):
            entry = folder.inner(name)
            if os.path.isdir(entry.path):
                if entry.depth <= DEEPEST:
                    (waiting.append if entry.linked else waiting.appendleft)(entry)
            elif self._may_enter(entry, scan):
                if os.path.isfile(entry.path):
                    yield FoundFile(entry.name, entry.path)
                else:
                    scan.complain(self._left_out(entry.path, "it is not a regular file"))

    def _may_enter(self, entry: "_Entry", scan: ConfigScan) -> bool:
        return not entry.linked or self._may_follow(entry.path, entry.links, scan)

    def _names(self, folder: str, scan: ConfigScan, walk: "_FolderWalk") -> list[str]:
        scan.note(folder)
        if not os.path.isdir(folder):
            return []
        try:
            self._way(folder)
            names, whole = walk.names(folder)
        except (OSError, ToolError) as error:
            scan.complain(self._left_out(folder, _reason(error)))
            return []
        if not whole:
            scan.complain(
                f"{self.called(walk.top)} is only partly read: it has too many files and folders."
            )
        return names

    def _may_follow(self, path: str, links: int, scan: ConfigScan) -> bool:
        try:
            self._way(path)
        except (OSError, ToolError) as error:
            scan.note(path)
            scan.complain(self._left_out(path, _reason(error)))
            return False
        if links > MOST_LINKS:
            scan.complain(self._left_out(path, f"it is behind more than {MOST_LINKS} links"))
            return False
        return True

    def _way(self, path: str) -> tuple[Path, tuple[str, ...]]:
        """A folder to start from and the names that lead to the file, without any link. Raises
        `ToolError` if it may not be read."""
        if self._boundaries is None:
            return Path("/"), PurePosixPath(os.path.realpath(path)).parts[1:]
        place = self._boundaries.place(path)
        for wrong, reason in (
            (place.outside, f"it points outside the workspace, to {visible(place.path)}"),
            (place.credential, "it holds credentials"),
            (place.ignored, "it is hidden from the agent"),
        ):
            if wrong:
                raise ToolError(reason)
        names = () if place.path == "." else PurePosixPath(place.path).parts
        return self._boundaries.root, names

    def _note(self, scan: ConfigScan) -> None:
        """What is kept from the agent decides what is read here."""
        if self._boundaries is not None:
            for name in IGNORE_FILES:
                scan.note(str(self._boundaries.root / name))

    def _left_out(self, path: str, reason: str) -> str:
        return f"{self.called(path)} is skipped: {reason.rstrip('.')}."


class _Entry(Struct, frozen=True):
    """What a walk has come by. `name` is its path below the top, `links` are those that were
    followed to it, and `linked` is whether it is one itself."""

    path: str
    name: str = ""
    links: int = 0
    depth: int = 0
    linked: bool = False

    def inner(self, name: str) -> "_Entry":
        path = f"{self.path}/{name}"
        below = f"{self.name}/{name}" if self.name else name
        linked = os.path.islink(path)
        return _Entry(path, below, self.links + linked, self.depth + 1, linked)


class _FolderWalk:
    """What keeps a walk short, however many links lead round in circles: each folder is visited
    once, and there is an end to the names that are looked at."""

    def __init__(self, top: str, scan: ConfigScan) -> None:
        self.top = top
        self._look = scan
        self._most = min(scan.entries + MOST_ENTRIES, MOST_LOOKED_AT)
        self._visited: set[tuple[int, int]] = set()

    def is_first_visit(self, folder: str) -> bool:
        try:
            there = os.stat(folder)
        except OSError:
            return True  # whoever lists it says what is wrong
        identity = there.st_dev, there.st_ino
        first = identity not in self._visited
        self._visited.add(identity)
        return first

    def names(self, folder: str) -> tuple[list[str], bool]:
        """The names in a folder, in order, and whether these are all."""
        left = max(0, self._most - self._look.entries)
        with os.scandir(folder) as entries:
            names = [entry.name for entry in islice(entries, left + 1)]
        self._look.entries += len(names)
        return sorted(names[:left]), len(names) <= left


def users_folder(path: Path, home: Path) -> "ConfigFolder":
    inside = path.is_relative_to(home)
    return ConfigFolder(path, str("~" / path.relative_to(home)) if inside else str(path))


def projects_folder(boundaries: Boundaries) -> "ConfigFolder":
    return ConfigFolder(boundaries.root, "", boundaries)


def _mark(path: str) -> Mark:
    """What tells whether something has changed, or what a link leads to."""
    try:
        there = os.lstat(path)
    except (OSError, ValueError):
        return (None,)
    return (_times(there), _behind(path)) if stat.S_ISLNK(there.st_mode) else (_times(there),)


def _behind(link: str) -> tuple[int, ...] | None:
    try:
        return _times(os.stat(link))
    except OSError:
        return None


def _times(there: os.stat_result) -> tuple[int, ...]:
    times = (there.st_mtime_ns, there.st_ctime_ns)
    return (*times, there.st_dev, there.st_ino, there.st_size, stat.S_IFMT(there.st_mode))


def _latest(mark: Mark) -> int:
    return max((max(times[:2]) for times in mark if times), default=0)


def _by_name(file: FoundFile) -> tuple[str, str]:
    return PurePosixPath(file.name).name.casefold(), file.name


def _reason(error: OSError | ToolError) -> str:
    if isinstance(error, OSError):
        return (error.strerror or str(error)).lower()
    return str(error)
