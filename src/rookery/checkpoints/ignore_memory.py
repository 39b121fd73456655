"""What .gitignore files say of each name in the workspace, asked once for each of them.

To match patterns takes longer than to look at a file. Patterns and names seldom change, so what
was said stays said as long as both are the same.
"""

import os
import stat
import time
from collections.abc import Callable
from contextlib import suppress

from msgspec import Struct

from rookery.checkpoints.file_versions import content_of, status_of
from rookery.core.limits import KIB
from rookery.platform.patterns import FileRules
from rookery.platform.stat_index import times_are_settled

IGNORE_FILE = ".gitignore"
_IGNORE_FILE_BYTES = 256 * KIB
_EVERYTHING = FileRules.of_ignore_file(["*"])


class Rules:
    """An ignore file and those above it. `start` is the length of its folder's path. As long as
    none of the files changes they are one and the same object."""

    __slots__ = ("_above", "_own", "_start")

    def __init__(self, start: int, own: FileRules, above: "Rules | None") -> None:
        self._start = start
        self._own = own
        self._above = above

    def ignore(self, path: str, *, is_folder: bool) -> bool:
        """The nearest ignore file with an opinion decides."""
        rules: Rules | None = self
        while rules:
            names = path[rules._start :].split("/")
            opinion = rules._own.opinion(names, is_folder=is_folder)
            if opinion is not None:
                return opinion
            rules = rules._above
        return False


def in_ignored_folder(path: str, above: Rules) -> Rules:
    """All is ignored there, whatever it is."""
    return Rules(len(path) + 1, _EVERYTHING, above)


class _Read(Struct, frozen=True):
    """An ignore file as it was when it had these signs."""

    sign: tuple[int, int, int, int]
    above: Rules | None
    rules: Rules | None


class _Said(Struct, frozen=True):
    rules: Rules
    verdicts: dict[str, bool]


class IgnoreMemory:
    def __init__(self) -> None:
        self._read: dict[str, _Read] = {}
        self._said: dict[str, _Said] = {}
        self._read_before = self._read
        self._said_before = self._said

    def begin(self) -> None:
        """A new walk begins; what the last one did not come by is forgotten."""
        self._read_before, self._read = self._read, {}
        self._said_before, self._said = self._said, {}

    def rules_in(self, folder: int, path: str, above: Rules | None) -> Rules | None:
        """What holds in a folder that has an ignore file."""
        began = time.time_ns()
        status = status_of(folder, IGNORE_FILE)
        if status is None or not stat.S_ISREG(status.st_mode):
            return above
        sign = status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns
        known = self._read_before.get(path)
        if not known or known.sign != sign or known.above is not above:
            known = _Read(sign, above, _rules(folder, path, above, status))
        if times_are_settled(status, began):
            self._read[path] = known
        return known.rules

    def verdicts(self, path: str, rules: Rules) -> dict[str, bool]:
        """What is known of the names in a folder; to be filled with what is asked anew."""
        known = self._said_before.get(path)
        if not known or known.rules is not rules:
            known = _Said(rules, {})
        self._said[path] = known
        return known.verdicts


def settle(verdicts: dict[str, bool], name: str, ask: Callable[[], bool]) -> bool:
    """What is known of a name, or what is said now."""
    known = verdicts.get(name)
    if known is None:
        known = verdicts[name] = ask()
    return known


def _rules(folder: int, path: str, above: Rules | None, status: os.stat_result) -> Rules | None:
    with suppress(OSError):  # one that cannot be read says nothing
        content = content_of(folder, IGNORE_FILE, status, _IGNORE_FILE_BYTES)
        if content:
            text = content.data.decode("utf-8", "replace").removeprefix("\ufeff")
            return Rules(len(path), FileRules.of_ignore_file(text.split("\n")), above)
    return above
