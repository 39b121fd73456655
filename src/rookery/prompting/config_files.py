"""Safe reading of the files by which users and projects configure the agent.

A project's files are untrusted: none may lead out of the workspace, to a file hidden from the
agent, or to a credential. The user's own files may be anywhere. Only regular files are opened, and
once a path is resolved no symlink is followed. A `ConfigScan` records every path it depended on, so
that `FileCache` reads the files again only when one of them has changed.
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
"""Nanoseconds after which a second change is certain to show in a file's timestamps."""

Mark: TypeAlias = tuple[tuple[int, ...] | None, ...]
T = TypeVar("T")
LARGEST = 32 * KIB
MOST_LINKS = 5
DEEPEST = 10
MOST_FILES = 500
MOST_ENTRIES = 2000
"""Directory entries that one walk reads at most."""
MOST_ENTRIES_PER_SCAN = 10 * MOST_ENTRIES
"""Directory entries that all walks of one scan read at most."""


class ConfigScan:
    """One scan of the disk: the paths it depended on, and the problems it found."""

    def __init__(self) -> None:
        self.marks: dict[str, Mark] = {}
        self.problems: list[str] = []
        self.entries = 0
        """How many directory entries were read."""

    def note(self, path: str) -> None:
        self.marks.setdefault(path, _mark(path))

    def report(self, problem: str) -> None:
        if problem not in self.problems:
            self.problems.append(problem)


class FileCache(Generic[T]):
    """A value read from files, read again only after one of them has changed. The files are not
    checked again within `rest` seconds."""

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
        self._cached: _CachedScan[T] | None = None

    def get(self) -> T:
        if self._cached is None or not self._is_valid(self._cached):
            scan, began = ConfigScan(), self._now()
            found = self._read(scan)
            settled = all(_latest(mark) < began - _SETTLED for mark in scan.marks.values())
            self._cached = _CachedScan(found, scan.marks, settled, began)
        return self._cached.found

    def _is_valid(self, known: "_CachedScan[T]") -> bool:
        if 0 <= self._now() - known.scanned_at < self._rest:
            return True
        marks = known.marks.items()
        return known.settled and all(_mark(path) == mark for path, mark in marks)


class _CachedScan(NamedTuple, Generic[T]):
    """A scan and its result. `settled` means that any later change shows in the marks."""

    found: T
    marks: dict[str, Mark]
    settled: bool
    scanned_at: int


class FoundFile(Struct, frozen=True):
    """A file: `name` relative to the searched folder, `path` absolute."""

    name: str
    path: str


class ConfigFolder:
    """A configuration folder and its display name. `boundaries` marks it as the project's."""

    def __init__(self, path: Path, label: str, boundaries: Boundaries | None = None) -> None:
        self.path = path
        self._label = label
        self.boundaries = boundaries

    @property
    def origin(self) -> Origin:
        return "user" if self.boundaries is None else "project"

    def label(self, file: str) -> str:
        """Return the file's name as shown to the user and the model."""
        below = os.path.relpath(file, self.path)
        return visible(str(PurePosixPath(self._label, below)))

    def at(self, name: str) -> str:
        return str(self.path / name)

    def below(self, name: str) -> "ConfigFolder":
        label = str(PurePosixPath(self._label, name))
        return ConfigFolder(self.path / name, label, self.boundaries)

    def files(self, name: str, scan: ConfigScan) -> list[FoundFile]:
        """List all files below a folder of this one, sorted by name."""
        top = self.at(name)
        self._note(scan)
        found = list(islice(self._walk(top, scan), MOST_FILES + 1))
        if len(found) > MOST_FILES:
            scan.report(
                f"{self.label(top)} has more than {MOST_FILES} files; the rest is not read."
            )
        return sorted(found[:MOST_FILES], key=by_name)

    def folders(self, name: str, scan: ConfigScan) -> list[str]:
        """List the names of the folders in a folder of this one, sorted."""
        top = self.at(name)
        self._note(scan)
        names = self._names(top, scan, _FolderWalk(top, scan))
        return [each for each in names if os.path.isdir(f"{top}/{each}")]

    def text(self, file: str, scan: ConfigScan, most: int = LARGEST) -> str:
        """Read up to `most` bytes of a file; empty if it is missing or may not be read."""
        self._note(scan)
        scan.note(file)
        if not os.path.lexists(file):
            return ""
        try:
            top, names = self._resolve(file)
            if not names:
                return ""
            with opened_folder(top, names[:-1]) as folder:
                if folder is None:
                    return ""
                data, size = content(folder, names[-1], self.label(file), most)
        except (OSError, ToolError) as error:
            scan.report(self._skip_notice(file, _reason(error)))
            return ""
        return self._decoded(file, data, size, scan)

    def _decoded(self, file: str, data: bytes, size: int, scan: ConfigScan) -> str:
        cut = len(data) < size
        kept = data[: data.rfind(b"\n") + 1] or data if cut else data
        read = decoded(file, kept, len(kept))
        if not isinstance(read, FileText):
            scan.report(self._skip_notice(file, "it is not a text file"))
            return ""
        plain = read.text.encode("utf-8", "replace").decode().replace("\r\n", "\n")
        text, unseen = revealed(plain)
        if unseen:
            scan.report(
                f"{self.label(file)} has {unseen} invisible characters, which are "
                "spelled out. Check it before you rely on it."
            )
        if cut:
            scan.report(
                f"Only the first {len(kept)} of {size} bytes of {self.label(file)} are read."
            )
            text += f"\n(Cut here: only the first {len(kept)} of {size} bytes are shown.)"
        return text

    def _walk(self, top: str, scan: ConfigScan) -> Iterator[FoundFile]:
        """Yield the files below `top`. Symlinked folders come last, so that a folder that is
        also here by its own name is reported by that one."""
        walk = _FolderWalk(top, scan)
        waiting = deque([_Entry(top)])
        while waiting:
            folder = waiting.popleft()
            if not walk.is_first_visit(folder.path):
                scan.report(
                    f"Some links in {self.label(top)} lead to folders that were "
                    "already read; they are not followed."
                )
            elif self._may_enter(folder, scan):
                yield from self._files_in(folder, waiting, scan, walk)

    def _files_in(
        self, folder: "_Entry", waiting: "deque[_Entry]", scan: ConfigScan, walk: "_FolderWalk"
    ) -> Iterator[FoundFile]:
        """Yield the files of one folder, and add its folders to `waiting`."""
        for name in self._names(folder.path, scan, walk):
            entry = folder.inner(name)
            if os.path.isdir(entry.path):
                if entry.depth <= DEEPEST:
                    (waiting.append if entry.linked else waiting.appendleft)(entry)
            elif self._may_enter(entry, scan):
                if os.path.isfile(entry.path):
                    yield FoundFile(entry.name, entry.path)
                else:
                    scan.report(self._skip_notice(entry.path, "it is not a regular file"))

    def _may_enter(self, entry: "_Entry", scan: ConfigScan) -> bool:
        return not entry.linked or self._may_follow(entry.path, entry.links, scan)

    def _names(self, folder: str, scan: ConfigScan, walk: "_FolderWalk") -> list[str]:
        scan.note(folder)
        if not os.path.isdir(folder):
            return []
        try:
            self._resolve(folder)
            names, whole = walk.names(folder)
        except (OSError, ToolError) as error:
            scan.report(self._skip_notice(folder, _reason(error)))
            return []
        if not whole:
            scan.report(
                f"{self.label(walk.top)} is only partly read: it has too many files and folders."
            )
        return names

    def _may_follow(self, path: str, links: int, scan: ConfigScan) -> bool:
        try:
            self._resolve(path)
        except (OSError, ToolError) as error:
            scan.note(path)
            scan.report(self._skip_notice(path, _reason(error)))
            return False
        if links > MOST_LINKS:
            scan.report(self._skip_notice(path, f"it is behind more than {MOST_LINKS} links"))
            return False
        return True

    def _resolve(self, path: str) -> tuple[Path, tuple[str, ...]]:
        """Return a folder to start from and the symlink-free names that lead to the file. Raises
        `ToolError` if the file may not be read."""
        if self.boundaries is None:
            return Path("/"), PurePosixPath(os.path.realpath(path)).parts[1:]
        place = self.boundaries.place(path)
        for wrong, reason in (
            (place.outside, f"it points outside the workspace, to {visible(place.path)}"),
            (place.credential, "it holds credentials"),
            (place.ignored, "it is hidden from the agent"),
        ):
            if wrong:
                raise ToolError(reason)
        names = () if place.path == "." else PurePosixPath(place.path).parts
        return self.boundaries.root, names

    def _note(self, scan: ConfigScan) -> None:
        """Depend on the ignore files, because they decide what is read here."""
        if self.boundaries is not None:
            for name in IGNORE_FILES:
                scan.note(str(self.boundaries.root / name))

    def _skip_notice(self, path: str, reason: str) -> str:
        return f"{self.label(path)} is skipped: {reason.rstrip('.')}."


class _Entry(Struct, frozen=True):
    """An entry of a walk. `name` is relative to the top, `links` counts the symlinks on the way
    to it, `linked` tells whether it is one itself."""

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
    """Bounds a walk even if symlinks form cycles: each folder is visited once, and only a
    limited number of entries is read."""

    def __init__(self, top: str, scan: ConfigScan) -> None:
        self.top = top
        self._scan = scan
        self._most = min(scan.entries + MOST_ENTRIES, MOST_ENTRIES_PER_SCAN)
        self._visited: set[tuple[int, int]] = set()

    def is_first_visit(self, folder: str) -> bool:
        try:
            info = os.stat(folder)
        except OSError:
            return True  # listing it reports the error
        identity = info.st_dev, info.st_ino
        first = identity not in self._visited
        self._visited.add(identity)
        return first

    def names(self, folder: str) -> tuple[list[str], bool]:
        """Return the sorted names in a folder, and whether they are all of them."""
        left = max(0, self._most - self._scan.entries)
        with os.scandir(folder) as entries:
            names = [entry.name for entry in islice(entries, left + 1)]
        self._scan.entries += len(names)
        return sorted(names[:left]), len(names) <= left


class ConfigPlaces:
    """Where these files are. `project` is None unless the project is trusted. `other_agents`: files
    of other agents are read, too."""

    def __init__(
        self,
        config: Path,
        home: Path,
        boundaries: Boundaries,
        *,
        trusted: bool,
        other_agents: bool = True,
    ) -> None:
        self._home = home
        self.config = self.users(config)
        self.home = self.users(home)
        self.project = ConfigFolder(boundaries.root, "", boundaries) if trusted else None
        self.other_agents = other_agents

    def users(self, path: Path | str) -> ConfigFolder:
        """A folder of the user; a relative path is below the home folder."""
        path = self._home / path
        inside = path.is_relative_to(self._home)
        return ConfigFolder(path, str("~" / path.relative_to(self._home)) if inside else str(path))


def _mark(path: str) -> Mark:
    """Return a value that changes when the file, or the target of the symlink, changes."""
    try:
        info = os.lstat(path)
    except (OSError, ValueError):
        return (None,)
    return (_stamp(info), _target_stamp(path)) if stat.S_ISLNK(info.st_mode) else (_stamp(info),)


def _target_stamp(link: str) -> tuple[int, ...] | None:
    try:
        return _stamp(os.stat(link))
    except OSError:
        return None


def _stamp(info: os.stat_result) -> tuple[int, ...]:
    times = (info.st_mtime_ns, info.st_ctime_ns)
    return (*times, info.st_dev, info.st_ino, info.st_size, stat.S_IFMT(info.st_mode))


def _latest(mark: Mark) -> int:
    return max((max(times[:2]) for times in mark if times), default=0)


def by_name(file: FoundFile) -> tuple[str, str]:
    return PurePosixPath(file.name).name.casefold(), file.name


def _reason(error: OSError | ToolError) -> str:
    if isinstance(error, OSError):
        return (error.strerror or str(error)).lower()
    return str(error)
