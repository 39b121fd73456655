"""Paths as text: displaying them, folder membership, and .gitignore patterns.

Patterns come from repositories and are untrusted, so matching must not take exponential time. A
pattern is matched name by name, and within a name the part after a star is searched once, from left
to right: the time grows with the length of the pattern times that of the path.
"""

import os
import re
import time
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from stat import S_ISLNK
from typing import TypeAlias

from msgspec import Struct

from rookery.first_use import lazy_pattern
from rookery.platform.descriptors import times_are_settled

LONGEST = 4096
"""Longer patterns are refused; no system has longer paths."""

Step: TypeAlias = Callable[[str], object] | None
"""Matches one name of a path; None stands for any number of names, including none."""

_ANY_DEPTH = lazy_pattern(r"\*{2,}")
_SPECIAL = lazy_pattern(r"[\\*?\[]")
_TOKEN = lazy_pattern(
    r"\\(?P<escaped>.)"
    r"|(?P<star>\*+)"
    r"|(?P<one>\?)"
    r"|\[(?P<unlike>[!^]?)(?P<items>\]?(?:\\.|[^\]\\])*+)\]"
    r"|(?P<plain>[^\\*?\[])",
    re.DOTALL,
)
_ITEM = lazy_pattern(r"(?:\\(.)|(.))(?:-(?:\\(.)|(.)))?", re.DOTALL)


class FilePattern(Struct, frozen=True):
    steps: tuple[Step, ...]
    negated: bool = False
    only_folders: bool = False

    def fits(self, names: Sequence[str], *, is_folder: bool) -> bool:
        if self.only_folders and not is_folder:
            return False
        last = self.steps[-1]
        return bool(last is None or last(names[-1])) and _fit(self.steps, names)


def file_pattern(line: str) -> FilePattern | None:
    """Parse a line; None if it is blank or a comment. Raises `ValueError` if it is invalid."""
    text = _without_trailing_blanks(line.removesuffix("\r"))
    if not text or text.startswith("#"):
        return None
    if len(text) > LONGEST:
        raise ValueError(f"it is longer than {LONGEST} characters")
    pattern = text.removeprefix("!")
    way = pattern.removesuffix("/")
    names = way.removeprefix("/").split("/")
    steps = [None if _ANY_DEPTH.fullmatch(name) else _step(name) for name in names]
    if "/" not in way:
        steps.insert(0, None)
    if steps[-1] is None:
        steps.append(_step("*"))  # `a/**` matches what is below a, not a itself
    return FilePattern(tuple(steps), negated=pattern != text, only_folders=way != pattern)


class FileRules(Struct, frozen=True):
    """Patterns, of which the first match decides."""

    patterns: tuple[FilePattern, ...]

    @classmethod
    def of_ignore_file(cls, lines: Iterable[str]) -> "FileRules":
        """The rules of an ignore file; the last match decides, and invalid lines are skipped as
        in git."""
        patterns: list[FilePattern] = []
        for line in lines:
            with suppress(ValueError):
                if pattern := file_pattern(line):
                    patterns.append(pattern)
        return cls(tuple(reversed(patterns)))

    def opinion(self, names: Sequence[str], *, is_folder: bool) -> bool | None:
        """Whether the path is matched; None if no pattern decides."""
        for pattern in self.patterns:
            if pattern.fits(names, is_folder=is_folder):
                return not pattern.negated
        return None

    def cover(self, path: str) -> bool:
        """Whether the file or one of its parent folders is matched."""
        names = path.split("/")
        depths = range(1, len(names) + 1)
        return any(self.opinion(names[:depth], is_folder=depth < len(names)) for depth in depths)


def _fit(steps: Sequence[Step], names: Sequence[str]) -> bool:
    """Whether the steps match all of the names.

    After a mismatch only the latest `**` needs to take more names; extending an earlier one gains
    nothing.
    """
    at = done = 0
    free: tuple[int, int] | None = None
    while done < len(names):
        step = steps[at] if at < len(steps) else _nothing
        if step is None:
            free = at, done
            at += 1
        elif step(names[done]):
            at, done = at + 1, done + 1
        elif free:
            free = free[0], free[1] + 1
            at, done = free[0] + 1, free[1]
        else:
            return False
    return all(step is None for step in steps[at:])


def _nothing(_: str) -> bool:
    return False


def _step(name: str) -> Callable[[str], object]:
    if not name:
        raise ValueError("a name in it is empty")
    if not _SPECIAL.search(name):
        return name.__eq__
    return re.compile(_regex(name), re.DOTALL).fullmatch


def _regex(name: str) -> str:
    """An expression that never backtracks past a star once the part after it has matched."""
    pieces = [""]
    at = 0
    while at < len(name):
        token = _TOKEN.match(name, at)
        if token is None:
            raise ValueError("a bracket in it is not closed, or a backslash is its end")
        at = token.end()
        if token["star"]:
            pieces.append("")
        else:
            pieces[-1] += _one_character(token)
    if len(pieces) == 1:
        return pieces[0]
    first, *inner, last = pieces
    return first + "".join(f"(?>.*?{piece})" for piece in inner) + f".*{last}"


def _one_character(token: re.Match[str]) -> str:
    if token["one"]:
        return "."
    if token["items"] is None:
        return re.escape(token["escaped"] or token["plain"])
    ranges = [_range(item) for item in _ITEM.finditer(token["items"])]
    if not ranges:
        raise ValueError("the brackets in it are empty")
    return f"[{'^' if token['unlike'] else ''}{''.join(ranges)}]"


def _range(item: re.Match[str]) -> str:
    first = item[1] or item[2]
    last = item[3] or item[4] or first
    if first > last:
        raise ValueError(f"the range {first}-{last} in it is empty")
    return f"{re.escape(first)}-{re.escape(last)}"


def _without_trailing_blanks(line: str) -> str:
    kept = line.rstrip(" ")
    escapes = len(kept) - len(kept.rstrip("\\"))
    return line[: len(kept) + escapes % 2]


_HIDDEN_CHARACTERS = {"Cc", "Cf", "Cs", "Zl", "Zp"}


def within(path: str, folder: str) -> bool:
    """Whether the path is the folder or inside it; both are canonical."""
    if not path.startswith(folder):
        return False
    return path == folder or folder.endswith("/") or path[len(folder)] == "/"


def within_any(path: str, folders: Iterable[str]) -> bool:
    for folder in folders:  # noqa: SIM110 (called hundreds of times for one command)
        if within(path, folder):
            return True
    return False


def leads_into(place: str | os.PathLike[str], folder: str | os.PathLike[str]) -> bool:
    """Whether the path is in the folder, with links resolved."""
    return within(os.path.realpath(place), os.path.realpath(folder))


def path_outside(workspace: os.PathLike[str], path: str) -> str:
    """The folders of a PATH that are not in the workspace."""
    folders = [each for each in path.split(os.pathsep) if os.path.isabs(each)]
    return os.pathsep.join(each for each in folders if not leads_into(each, workspace))


_NO_NAMES = ("", ".", "..")


def real_paths(paths: Iterable[str]) -> Iterator[str]:
    """`realpath` of each path. A shared folder is looked at only once."""
    known = {"/": "/"}
    return (_real_path(path, known) for path in paths)


def existing_paths(paths: Iterable[str]) -> Iterator[str]:
    """`realpath` of each path that exists. Each folder is resolved only once."""
    known = {"/": "/"}
    for path in paths:
        try:
            is_link = S_ISLNK(os.lstat(path).st_mode)
        except (OSError, ValueError):
            continue
        folder, _, name = path.rpartition("/")
        if is_link or not folder or name in _NO_NAMES:
            if os.path.exists(real := os.path.realpath(path)):
                yield real
            continue
        yield f"{_real_path(folder, known).rstrip('/')}/{name}"


def _real_path(path: str, known: dict[str, str]) -> str:
    """`realpath`, folder by folder. `known` caches the folders."""
    outer = [path]
    while outer[-1] not in known:
        folder, slash, name = outer[-1].rpartition("/")
        if not slash or name in _NO_NAMES:
            known[outer[-1]] = os.path.realpath(outer[-1])
        else:
            outer.append(folder or "/")
    real = known[outer.pop()]
    while outer:
        at = f"{real.rstrip('/')}/{outer[-1].rpartition('/')[2]}"
        real = known[outer.pop()] = os.path.realpath(at) if os.path.islink(at) else at
    return real


class NamedPlaces:
    """Looks up relative paths below a folder. Most of them do not exist, so it lists the names in
    each folder, and lists them again only when the folder has changed."""

    def __init__(self, places: Iterable[str]) -> None:
        self._steps: dict[str, dict[str, tuple[str, list[str]]]] = {}
        """For each folder, by the next name in lower case: the path it leads to, and the places at
        or below that path."""
        self._listed: dict[str, tuple[tuple[int, ...], dict[str, bool]]] = {}
        for place in places:
            names = place.split("/")
            for depth, name in enumerate(names):
                steps = self._steps.setdefault("/".join(names[:depth]), {})
                reached = "/".join(names[: depth + 1])
                steps.setdefault(name.lower(), (reached, []))[1].append(place)

    def below(self, folder: str) -> Iterator[tuple[str, bool]]:
        """The paths that may exist, and whether one is a link or reached by one."""
        return self._below(folder, "")

    def _below(self, top: str, at: str) -> Iterator[tuple[str, bool]]:
        steps = self._steps[at]
        for step, is_link in self._steps_in(top, at).items():
            reached, places = steps[step]
            if is_link:
                yield from ((f"{top}/{place}", True) for place in places)
                continue
            if reached in places:
                yield f"{top}/{reached}", False
            if reached in self._steps:
                yield from self._below(top, reached)

    def _steps_in(self, top: str, at: str) -> dict[str, bool]:
        """The next names in a folder, and whether each is a link; all of them if it cannot be
        listed, though its files may be accessible."""
        steps, folder, now = self._steps[at], f"{top}/{at}" if at else top, time.time_ns()
        try:
            there = os.stat(folder)
            version = there.st_dev, there.st_ino, there.st_mtime_ns, there.st_ctime_ns
            known, found = self._listed.get(folder, ((), {}))
            if known == version:
                return found
            names = steps.keys() & set(map(str.lower, os.listdir(folder)))
            is_settled = times_are_settled(there, now)
        except PermissionError:
            names, is_settled = set(steps), False
        except OSError:
            return {}
        found = {step: os.path.islink(f"{top}/{steps[step][0]}") for step in names}
        if is_settled:
            self._listed[folder] = version, found
        return found


def hidden(name: str) -> bool:
    """Whether the name has characters that hide, move or break text."""
    if name.isprintable():
        return False
    return any(unicodedata.category(character) in _HIDDEN_CHARACTERS for character in name)


def visible(name: str) -> str:
    """Escape the characters in a name that hide, move or break text."""
    return "".join(
        character.encode("unicode_escape").decode()
        if unicodedata.category(character) in _HIDDEN_CHARACTERS
        else character
        for character in name
    )
