"""Which file a path means, as a model said it, and which files the user keeps from the agent.

The answer is canonical: symbolic links and `..` are gone from it. Whoever opens it therefore
refuses every link on the way, and cannot be led elsewhere by one that was put there since.

`.rookeryignore` and `.rooignore` are read when the workspace is opened and whenever they have
changed. What they kept back at first they keep back to the end: whoever edits them can lock more,
and unlock nothing. A file that cannot be understood keeps everything back, for nobody knows what
it would have.
"""

import os
import posixpath
import re
import stat
from pathlib import Path, PurePosixPath
from typing import TypeAlias

from msgspec import Struct

from rookery.core.limits import KIB
from rookery.core.protected_paths import IGNORE_FILES
from rookery.core.text.characters import caseless, folded, hidden_marks
from rookery.errors import ToolError
from rookery.platform.paths import FilePattern, FileRules, file_pattern, hidden, visible

_LARGEST = 256 * KIB

_State: TypeAlias = tuple[tuple[int, ...] | None, ...]
"""What tells whether the files have changed."""


class IgnoreRules(Struct, frozen=True):
    """The rules of one moment; `problem` is why they cannot be known. Without names there are
    none. A path is kept back if any of the rules says so, as it is spelled or folded."""

    names: tuple[str, ...] = ()
    rules: tuple[FileRules, ...] = ()
    folded: tuple[FileRules, ...] = ()
    problem: str = ""

    def cover(self, path: str, *, is_folder: bool) -> bool:
        """Whether it, or a folder it is in, is kept back."""
        if not self.names:
            return False
        names = path.split("/")
        depths = range(1, len(names) + 1)
        return any(
            self.keep_back("/".join(names[:depth]), is_folder=is_folder or depth < len(names))
            for depth in depths
        )

    def keep_back(self, path: str, *, is_folder: bool) -> bool:
        """The same for what is in a folder that is not kept back."""
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
        self._state = self._look()
        self._first = self._now = self._read()

    def rules(self) -> IgnoreRules:
        """The rules that hold now."""
        state = self._look()
        if state != self._state:
            self._state, self._now = state, self._read()
            if self._first.problem:
                self._first = self._now
        return _together(self._first, self._now)

    def _look(self) -> _State:
        return tuple(_mark(file) for file in self._files)

    def _read(self) -> IgnoreRules:
        there = [file for file in self._files if os.path.lexists(file)]
        names = tuple(file.name for file in there)
        exact, folded_rules = list[FileRules](), list[FileRules]()
        for file in there:
            try:
                text = _text(file)
                exact.append(_rules(text))
                # a pattern may be faulty in this form only; then the other one has to do
                folded_rules.append(FileRules.of_ignore_file(caseless(text).split("\n")))
            except OSError as error:
                return _unusable(names, file, (error.strerror or str(error)).lower())
            except ValueError as error:
                return _unusable(names, file, str(error))
        return IgnoreRules(names, tuple(exact), tuple(folded_rules))


def _unusable(names: tuple[str, ...], file: Path, reason: str) -> IgnoreRules:
    return IgnoreRules(names, problem=f"{file.name} cannot be used: {reason}.")


def _together(first: IgnoreRules, now: IgnoreRules) -> IgnoreRules:
    if first is now:
        return now
    return IgnoreRules(
        tuple(dict.fromkeys(first.names + now.names)),
        first.rules + now.rules,
        first.folded + now.folded,
        first.problem or now.problem,
    )


def _mark(file: Path) -> tuple[int, ...] | None:
    try:
        there = file.stat()
    except OSError:
        return (0,) if os.path.lexists(file) else None
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
    """Of all lines, the last one first, for the last that fits decides."""
    patterns: list[FilePattern] = []
    for number, line in enumerate(text.split("\n"), start=1):
        try:
            pattern = file_pattern(line)
        except ValueError as error:
            raise ValueError(f"in line {number}, {error}") from error
        if pattern:
            patterns.append(pattern)
    return FileRules(tuple(reversed(patterns)))


_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
_VARIABLE = re.compile(r"\$(\w+|\{\w+\})$")
_DEVICE = re.compile(r"(con|prn|aux|nul|com\d|lpt\d)$", re.IGNORECASE)
_SHORT_NAME = re.compile(r"[^.~]{1,6}~\d(\.\w{1,3})?$")
_KERNEL = {"proc", "sys", "dev"}
_MOST_LINKS = 40
_LONGEST = 4096


class Located(Struct, frozen=True):
    """A canonical absolute path. `ways` are the other names by which it was reached: what each
    symbolic link on the way was called, with what was still to come behind it."""

    path: str
    ways: tuple[str, ...] = ()


def locate(root: Path, said: str, *, also: Path | None = None) -> Located:
    """Where a path leads, seen from `root`, which is canonical; `also` is another name of it."""
    located = _followed(root, _seen_from(root, also, said), said)
    if hidden(located.path):
        raise ToolError(
            f"{said} leads to {visible(located.path)!r}, a name with unusual characters."
        )
    _refuse_odd(root, located.path, said)
    return located


def lexical(root: Path, said: str, *, also: Path | None = None) -> str:
    """The path as it reads, absolute, without a look at the disk. Refuses what is no path."""
    return posixpath.normpath(str(root / _seen_from(root, also, said)))


def _refuse_improper(said: str) -> None:
    if len(said.encode("utf-8", "replace")) > _LONGEST:
        raise ToolError(f"The path is longer than {_LONGEST} bytes.")
    if not said.strip():
        raise ToolError("The path is empty. Name a file, relative to the workspace.")
    if hidden(said):
        raise ToolError(f"The path {visible(said)!r} has invisible or control characters in it.")
    if marks := hidden_marks(said):
        raise ToolError(
            f"The path {said} has {marks[0]} in it, which marks an invisible character. Such a "
            "file cannot be named here."
        )
    if "\\" in said:
        raise ToolError(f"{said} has a backslash in it; write paths with '/'.")
    if _SCHEME.match(said) or said.startswith("//"):
        raise ToolError(f"{said} is an address, not the path of a file here.")
    parts = PurePosixPath(said).parts
    if said.startswith("~") or _VARIABLE.match("".join(parts[:1])):
        raise ToolError(f"{said} would need expansion; write the full path.")


def _refuse_odd(root: Path, path: str, said: str) -> None:
    below = PurePosixPath(path)
    start = root if below.is_relative_to(root) else Path("/")
    names = below.relative_to(start).parts
    for depth, part in enumerate(names):
        if (reason := _odd(part)) and not _listed(start.joinpath(*names[:depth]), part):
            raise ToolError(f"{said} is not usable as a new path: '{part}' {reason}.")


def _odd(part: str) -> str:
    """Why a new name is refused: other systems, or other readers, take it for something else."""
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
    """Whether the folder itself calls a file so. A second name of a file can be opened, too."""
    try:
        return name in os.listdir(folder)
    except OSError:
        return False


def _seen_from(root: Path, also: Path | None, said: str) -> PurePosixPath:
    """The path relative to the root if it is meant so, or absolute."""
    _refuse_improper(said)
    path = PurePosixPath(said)
    homes = (root, also) if path.is_absolute() else ()
    inside = (path.relative_to(home) for home in homes if home and path.is_relative_to(home))
    return next(inside, path)


def _followed(root: Path, path: PurePosixPath, said: str) -> Located:
    done = [] if path.is_absolute() else list(root.parts[1:])
    waiting, ways = _turned(path), list[str]()
    while waiting:
        part = waiting.pop()
        if part == "..":
            done = done[:-1]
            continue
        at = f"/{'/'.join([*done, part])}"
        _refuse_kernel(at, root, said)
        target = _link_target(at, said)
        if target is None:
            done.append(part)
            continue
        ways.append(posixpath.normpath("/".join([at, *reversed(waiting)])))
        if len(ways) > _MOST_LINKS:
            raise ToolError(f"{said} is a loop of symbolic links; name the file.")
        done = [] if target.is_absolute() else done
        waiting += _turned(target)
    return Located(f"/{'/'.join(done)}", tuple(ways))


def _turned(path: PurePosixPath) -> list[str]:
    """The names in a path, the last one first."""
    return [part for part in reversed(path.parts) if part.strip("/")]


def _refuse_kernel(at: str, root: Path, said: str) -> None:
    first = at.split("/", 2)[1]
    if first.casefold() in _KERNEL and not at.startswith(f"{root}/"):
        raise ToolError(f"{said} belongs to the operating system and is not a file to work on.")


def _link_target(path: str, said: str) -> PurePosixPath | None:
    try:
        target = os.readlink(path)
    except OSError:
        return None  # no link, or nothing there; whatever else it is shows on opening
    if not os.path.exists(path):
        raise ToolError(
            f"{said} uses {visible(path)}, a symbolic link to {visible(target)}, "
            "which does not exist."
        )
    return PurePosixPath(target)
