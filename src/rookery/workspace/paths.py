"""Resolves paths written by a model, and reads the user's ignore files.

A resolved path contains no symbolic links and no `..`. The code that opens it refuses links on the
way, so a link created later cannot redirect it.

`.rookeryignore` and `.rooignore` are read when the workspace is opened and when they change. Rules
from the first reading stay in force, so an edit can hide more files but reveal none. An ignore file
that cannot be parsed hides everything. A `.gitignore` hides nothing: it says what is not listed.
"""

import os
import posixpath
import re
import stat
from collections.abc import Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path, PurePosixPath
from typing import TypeAlias

from msgspec import Struct

from rookery.core.limits import KIB
from rookery.core.protected_paths import IGNORE_FILES
from rookery.core.text.characters import caseless, folded, hidden_marks
from rookery.errors import ToolError
from rookery.first_use import lazy_pattern
from rookery.platform.paths import FilePattern, FileRules, file_pattern, hidden, visible

_LARGEST = 256 * KIB

_State: TypeAlias = tuple[tuple[int, ...] | None, ...]
"""Identifies the versions of the ignore files."""


class IgnoreRules(Struct, frozen=True):
    """The rules at one moment; `problem` is why they cannot be read. Without `names` there are
    no ignore files. A path is hidden if a rule matches it, as written or case-folded."""

    names: tuple[str, ...] = ()
    rules: tuple[FileRules, ...] = ()
    folded: tuple[FileRules, ...] = ()
    problem: str = ""

    def cover(self, path: str, *, is_folder: bool) -> bool:
        """Whether the path or one of its parent folders is hidden."""
        if not self.names:
            return False
        names = path.split("/")
        depths = range(1, len(names) + 1)
        return any(
            self.hides("/".join(names[:depth]), is_folder=is_folder or depth < len(names))
            for depth in depths
        )

    def hides(self, path: str, *, is_folder: bool) -> bool:
        """Whether a path in a visible folder is hidden."""
        if not self.names:
            return False
        if self.problem or folded(path) in IGNORE_FILES:
            return True
        names, caseless_names = path.split("/"), caseless(path).split("/")
        return any(rules.opinion(names, is_folder=is_folder) for rules in self.rules) or any(
            rules.opinion(caseless_names, is_folder=is_folder) for rules in self.folded
        )


class IgnoreFiles:
    def __init__(self, root: Path) -> None:
        self._files = [root / name for name in IGNORE_FILES]
        self._state = self._versions()
        self._first = self._now = self._read()

    def rules(self) -> IgnoreRules:
        state = self._versions()
        if state != self._state:
            self._state, self._now = state, self._read()
            if self._first.problem:
                self._first = self._now
        return _merge(self._first, self._now)

    def _versions(self) -> _State:
        return tuple(_version(file) for file in self._files)

    def _read(self) -> IgnoreRules:
        there = [file for file in self._files if os.path.lexists(file)]
        names = tuple(file.name for file in there)
        exact, folded_rules = list[FileRules](), list[FileRules]()
        for file in there:
            try:
                text = _text(file)
                exact.append(_rules(text))
                # a pattern that is only invalid when folded is skipped here
                folded_rules.append(FileRules.of_ignore_file(caseless(text).split("\n")))
            except OSError as error:
                return _unusable(names, file, (error.strerror or str(error)).lower())
            except ValueError as error:
                return _unusable(names, file, str(error))
        return IgnoreRules(names, tuple(exact), tuple(folded_rules))


def _unusable(names: tuple[str, ...], file: Path, reason: str) -> IgnoreRules:
    return IgnoreRules(names, problem=f"{file.name} cannot be used: {reason}.")


def _merge(first: IgnoreRules, now: IgnoreRules) -> IgnoreRules:
    if first is now:
        return now
    return IgnoreRules(
        tuple(dict.fromkeys(first.names + now.names)),
        first.rules + now.rules,
        first.folded + now.folded,
        first.problem or now.problem,
    )


def _version(file: Path) -> tuple[int, ...] | None:
    try:
        there = os.lstat(file)
    except OSError:
        return None
    if stat.S_ISLNK(there.st_mode):
        try:
            there = os.stat(file)
        except OSError:
            return (0,)
    return (there.st_dev, there.st_ino, there.st_size, there.st_mtime_ns, there.st_ctime_ns)


def _text(file: Path) -> str:
    with open(os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as opened:
        if not stat.S_ISREG(os.fstat(opened.fileno()).st_mode):
            raise ValueError("it is not a file")
        data = opened.read(_LARGEST + 1)
    if len(data) > _LARGEST:
        raise ValueError(f"it is larger than {_LARGEST // KIB} KiB")
    try:
        return data.decode().removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        raise ValueError("it is not UTF-8") from error


def _rules(text: str) -> FileRules:
    """Parse all lines, in reverse order because the last match decides."""
    patterns: list[FilePattern] = []
    for number, line in enumerate(text.split("\n"), start=1):
        try:
            pattern = file_pattern(line)
        except ValueError as error:
            raise ValueError(f"in line {number}, {error}") from error
        if pattern:
            patterns.append(pattern)
    return FileRules(tuple(reversed(patterns)))


_SCHEME = lazy_pattern(r"[A-Za-z][A-Za-z0-9+.-]*://")
_VARIABLE = lazy_pattern(r"\$(\w+|\{\w+\})$")
_DEVICE = lazy_pattern(r"(con|prn|aux|nul|com\d|lpt\d)$", re.IGNORECASE)
_SHORT_NAME = lazy_pattern(r"[^.~]{1,6}~\d(\.\w{1,3})?$")
_KERNEL = {"proc", "sys", "dev"}
_MOST_LINKS = 40
_LONGEST = 4096


class Located(Struct, frozen=True):
    """A canonical absolute path. `ways` are the other names by which it was reached: the path of
    each symbolic link followed, with the rest of the path after it."""

    path: str
    ways: tuple[str, ...] = ()


def locate(root: Path, raw: str, *, also: Path | None = None) -> Located:
    """Resolve a path, relative to the canonical `root`; `also` is another name of the root."""
    located = _follow_links(root, _relative_to_root(root, also, raw), raw)
    if hidden(located.path):
        raise ToolError(
            f"{raw} leads to {visible(located.path)!r}, a name with unusual characters."
        )
    _check_new_names(root, located.path, raw)
    return located


@lru_cache
def lexical(root: Path, raw: str, *, also: Path | None = None) -> str:
    """The absolute normalized path, without accessing the disk. Raises ToolError if it is no
    path."""
    return posixpath.normpath(str(root / _relative_to_root(root, also, raw)))


def _check_syntax(raw: str) -> None:
    if len(raw.encode("utf-8", "replace")) > _LONGEST:
        raise ToolError(f"The path is longer than {_LONGEST} bytes.")
    if not raw.strip():
        raise ToolError("The path is empty. Name a file, relative to the workspace.")
    if hidden(raw):
        raise ToolError(f"The path {visible(raw)!r} has invisible or control characters in it.")
    if marks := hidden_marks(raw):
        raise ToolError(
            f"The path {raw} has {marks[0]} in it, which marks an invisible character. Such a "
            "file cannot be named here."
        )
    if "\\" in raw:
        raise ToolError(f"{raw} has a backslash in it; write paths with '/'.")
    if _SCHEME.match(raw) or raw.startswith("//"):
        raise ToolError(f"{raw} is an address, not the path of a file here.")
    parts = PurePosixPath(raw).parts
    if raw.startswith("~") or _VARIABLE.match("".join(parts[:1])):
        raise ToolError(f"{raw} would need expansion; write the full path.")


def _check_new_names(root: Path, path: str, raw: str) -> None:
    for folder, part, reason in _odd_names(root, path):
        if not _listed(folder, part):
            raise ToolError(f"{raw} is not usable as a new path: '{part}' {reason}.")


@lru_cache
def _odd_names(root: Path, path: str) -> Sequence[tuple[Path, str, str]]:
    """The odd names below the root, or below the top: the folder, the name and the reason."""
    below = PurePosixPath(path)
    start = root if below.is_relative_to(root) else Path("/")
    names = below.relative_to(start).parts
    found = ((start.joinpath(*names[:at]), name, _why_odd(name)) for at, name in enumerate(names))
    return tuple(each for each in found if each[2])


def _why_odd(part: str) -> str:
    """Why a new name is refused: other systems or programs interpret it differently."""
    if part != part.rstrip(" ."):
        return "ends with a dot or a space"
    if ":" in part:
        return "has a colon in it"
    if _DEVICE.match(part):
        return "is the name of a device"
    if _SHORT_NAME.match(part):
        return "is an abbreviated name"
    return ""


def _listed(folder: Path, name: str) -> bool:
    """Whether the folder lists this name; a file's short name can be opened but is not listed."""
    try:
        return name in os.listdir(folder)
    except OSError:
        return False


@lru_cache
def _relative_to_root(root: Path, also: Path | None, raw: str) -> PurePosixPath:
    """The path relative to the root if it is inside, or absolute."""
    _check_syntax(raw)
    path = PurePosixPath(raw)
    homes = (root, also) if path.is_absolute() else ()
    inside = (path.relative_to(home) for home in homes if home and path.is_relative_to(home))
    return next(inside, path)


def _follow_links(root: Path, path: PurePosixPath, raw: str) -> Located:
    done = [] if path.is_absolute() else list(root.parts[1:])
    waiting, ways = _reversed_parts(path), list[str]()
    while waiting:
        part = waiting.pop()
        if part == "..":
            done = done[:-1]
            continue
        at = f"/{'/'.join([*done, part])}"
        _check_kernel(at, root, raw)
        target = _link_target(at, raw)
        if target is None:
            done.append(part)
            continue
        ways.append(posixpath.normpath("/".join([at, *reversed(waiting)])))
        if len(ways) > _MOST_LINKS:
            raise ToolError(f"{raw} is a loop of symbolic links; name the file.")
        done = [] if target.is_absolute() else done
        waiting += _reversed_parts(target)
    return Located(f"/{'/'.join(done)}", tuple(ways))


def _reversed_parts(path: PurePosixPath) -> list[str]:
    """The parts of a path, last one first."""
    return [part for part in reversed(path.parts) if part.strip("/")]


def _check_kernel(at: str, root: Path, raw: str) -> None:
    first = at.split("/", 2)[1]
    if first.casefold() in _KERNEL and not at.startswith(f"{root}/"):
        raise ToolError(f"{raw} belongs to the operating system and is not a file to work on.")


def _link_target(path: str, raw: str) -> PurePosixPath | None:
    try:
        target = os.readlink(path)
    except OSError:
        return None  # not a link, or nothing there; other errors appear when it is opened
    if not os.path.exists(path):
        raise ToolError(
            f"{raw} uses {visible(path)}, a symbolic link to {visible(target)}, "
            "which does not exist."
        )
    return PurePosixPath(target)


GIT_IGNORE_FILE = ".gitignore"
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC

Rules: TypeAlias = tuple[tuple[str, FileRules], ...]
"""The ignore files above a folder, the nearest first, each with the folder it is in."""


def is_ignored(path: str, rules: Rules, *, is_folder: bool) -> bool:
    """Whether the path is ignored; the nearest ignore file with a matching rule decides."""
    for folder, own in rules:
        inner = path[len(folder) + 1 :] if folder else path
        opinion = own.opinion(inner.split("/"), is_folder=is_folder)
        if opinion is not None:
            return opinion
    return False


def own_rules(folder: int) -> FileRules | None:
    """The rules of the `.gitignore` in an open folder, if there is one."""
    with suppress(OSError), open(os.open(GIT_IGNORE_FILE, _FILE, dir_fd=folder), "rb") as file:
        if stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            text = file.read(_LARGEST).decode("utf-8", "replace")
            return FileRules.of_ignore_file(text.removeprefix("\ufeff").split("\n"))
    return None
