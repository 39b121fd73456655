"""What the user keeps from the agent: `.rookeryignore` and `.rooignore` in the workspace.

The files are read when the workspace is opened and whenever they have changed. What they kept
back at first they keep back to the end: whoever edits them can lock more, and unlock nothing.
A file that cannot be understood keeps everything back, for nobody knows what it would have.
"""

import os
import stat
from pathlib import Path
from typing import TypeAlias

from msgspec import Struct

from rookery.core.limits import KIB
from rookery.core.protected_paths import IGNORE_FILES
from rookery.core.text.characters import caseless, folded
from rookery.platform.patterns import FilePattern, FileRules, file_pattern

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
