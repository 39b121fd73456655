"""Looks up the names in a command on disk.

Finds the program a name refers to, skipping folders that the agent can write to; the files a
pattern matches; and project files that would make a tool run the project's code.
"""

import os
import re
from collections.abc import Iterator, Sequence
from fnmatch import translate
from functools import cache
from pathlib import Path

from rookery.commands.programs import CommandEffect
from rookery.first_use import lazy_pattern
from rookery.platform.paths import within, within_any

MOST_LINKS = 40
_PROCESSES = "/proc"
_TEMPORARY = ("/tmp", "/var/tmp", "/dev/shm", "/run/user")

MOST_ENTRIES = 5_000
MOST_OF_A_LINE = 60_000
FOLDER_COST = 4
"""Opening a folder costs as much time as reading this many entries."""
MOST_PARTS = 32
LONGEST = 1024
_MAGIC = lazy_pattern(r"[*?\[]")
_LITERAL = lazy_pattern(r"\[([*?\[{])\]")

SHIMS = """
    .tool-versions mise.toml .mise.toml mise.local.toml .mise.local.toml .mise .config/mise
    .python-version .ruby-version .node-version
"""
"""Files by which version managers choose the program behind a shim; it may be one of the
project's."""
MOST_FOLDERS = 32


def temporary_folders() -> tuple[str, ...]:
    """World-writable folders for temporary files."""
    import tempfile

    named = dict.fromkeys((tempfile.gettempdir(), *_TEMPORARY))
    return tuple(os.path.realpath(folder) for folder in named)


class ProgramPath:
    """The folders in which programs are looked up. Unsafe folders are relative, in the
    workspace, temporary, or `writable` for commands in the sandbox."""

    def __init__(
        self, path: str, root: Path, *, temporary: Sequence[str], writable: Sequence[str] = ()
    ) -> None:
        self._root = str(root)
        self._folders = path.split(os.pathsep)
        self._unsafe = (self._root, *temporary, *map(os.path.realpath, writable))
        self._safe = _safe_folders(path, self._unsafe)

    def find(self, name: str, *, unshadowed: bool = False, or_missing: bool = False) -> str | None:
        """Return the program's absolute path, if it is in a safe folder. `unshadowed`: only if a
        shell, and scripts that start programs by name, find no other one. `or_missing`: for one
        that is not installed, a path in a safe folder."""
        if not name or "/" in name:
            return None
        found = next((at for at in self._safe if _runs(os.path.join(at, name))), None)
        program = os.path.join(found, name) if found else ""
        if not program or within_any(os.path.realpath(program), self._unsafe):
            return self._path_for_missing(name) if or_missing else None
        if unshadowed and (self.shadows(name) or not self._starts_safe_ones(program)):
            return None
        return program

    def shadows(self, name: str) -> bool:
        """Whether a shell would find another program of this name first, in an unsafe folder."""
        for folder in self._folders:
            if _runs(os.path.join(self._root, folder, name)):
                return folder not in self._safe
        return False

    def _path_for_missing(self, name: str) -> str | None:
        there = (os.path.lexists(os.path.join(self._root, at, name)) for at in self._folders)
        return os.path.join(self._safe[0], name) if self._safe and not any(there) else None

    def _starts_safe_ones(self, program: str) -> bool:
        """Whether all programs that it may start by name are in safe folders."""
        return len(self._safe) == len(self._folders) or not starts_programs(program)


def _runs(program: str) -> bool:
    return os.path.isfile(program) and os.access(program, os.X_OK)


def starts_programs(program: str) -> bool:
    """Whether the program starts others by name: scripts do, and tar does to decompress."""
    if os.path.basename(program) == "tar":
        return True
    try:
        with open(program, "rb") as file:
            return file.read(2) == b"#!"
    except OSError:
        return True


@cache
def _safe_folders(path_variable: str, unsafe: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(
        folder
        for folder in path_variable.split(os.pathsep)
        if os.path.isabs(folder) and not within_any(os.path.realpath(folder), unsafe)
    )


def leads_through_proc(path: str) -> bool:
    """Whether an absolute path leads through /proc, where `self` and open files differ per
    process."""
    waiting = [part for part in reversed(path.split("/")) if part not in {"", "."}]
    at, met = "/", set[tuple[str, ...]]()
    while waiting:
        part = waiting.pop()
        if part == "..":
            at = os.path.dirname(at)
            continue
        at = os.path.join(at, part)
        if within(at, _PROCESSES):
            return True
        try:
            target = os.readlink(at)
        except (OSError, ValueError):
            continue  # not a link
        if (at, *waiting) in met:
            return False  # a loop, which leads nowhere
        met.add((at, *waiting))
        if len(met) > MOST_LINKS:
            return True
        at = "/" if os.path.isabs(target) else os.path.dirname(at)
        waiting += [piece for piece in reversed(target.split("/")) if piece not in {"", "."}]
    return False


def resolved(path: str | Path) -> str:
    """The real path; `/`, which is never harmless, if it cannot be determined."""
    try:
        return os.path.realpath(path)
    except (OSError, ValueError):
        return "/"


class LookupBudget:
    """How many folder entries may still be read while one line is judged."""

    def __init__(self, most: int = MOST_OF_A_LINE) -> None:
        self.left = most

    def take(self, count: int = 1) -> bool:
        """Spend some of the budget; False once it is used up."""
        self.left -= count
        return self.left >= 0


def expand_glob(pattern: str, budget: LookupBudget) -> list[str] | None:
    """The files that an absolute pattern matches, or the path itself if it is no pattern; None
    if there are too many entries to search."""
    parts = pattern.split("/")
    if budget.left < 0 or len(parts) > MOST_PARTS or len(pattern) > LONGEST:
        return None
    found, looked_at = ["/"], 0
    for part in filter(None, parts):
        plain = _LITERAL.sub(r"\1", part)
        if not _MAGIC.search(_LITERAL.sub("", part)):
            found = [os.path.join(folder, plain) for folder in found]
            continue
        matches = re.compile(translate(part.replace("[^", "[!"))).match
        below = list[str]()
        for folder in found:
            names = _names(folder)
            looked_at += len(names)
            if not budget.take(len(names) + FOLDER_COST) or looked_at > MOST_ENTRIES:
                return None
            hidden = part.startswith(".")
            below += [
                os.path.join(folder, name)
                for name in names
                if matches(name) and (hidden or not name.startswith("."))
            ]
        found = below
    return (
        found if not _MAGIC.search(pattern) else [path for path in found if os.path.lexists(path)]
    )


def _names(folder: str) -> list[str]:
    names = list[str]()
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                names.append(entry.name)
                if len(names) > MOST_ENTRIES:
                    break
    except OSError:
        return []
    return names


def why_runs_project(effect: CommandEffect, folders: Sequence[str], root: str) -> Iterator[str]:
    """Why a tool would run project code, by files in the folder and its parents."""
    if not effect.unless:
        return
    for folder in folders:
        for above in _up_to(folder, root):
            for pattern in effect.unless.split():
                if _is_there(os.path.join(above, pattern)):
                    yield f"the tool may run what {pattern} configures"


def _is_there(pattern: str) -> bool:
    if "*" not in pattern:
        return os.path.lexists(pattern)
    found = expand_glob(pattern, LookupBudget())
    return found is None or bool(found)


def _up_to(folder: str, root: str) -> Iterator[str]:
    at = os.path.normpath(folder)
    for _ in range(MOST_FOLDERS):
        if not within(at, root):
            return
        yield at
        at = os.path.dirname(at)
