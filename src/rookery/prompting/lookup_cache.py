"""Looks at the disk: what was found, and whether another look would find the same."""

import os
import stat
import time
from collections.abc import Callable
from typing import Generic, NamedTuple, TypeAlias, TypeVar

_SECOND = 1_000_000_000
_SETTLED = 2 * _SECOND
"""Nanoseconds after a change from which on another must show in the times of a file."""

Mark: TypeAlias = tuple[tuple[int, ...] | None, ...]
T = TypeVar("T")


class Look:
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


class Remembered(Generic[T]):
    """What was read from files, read again only once one of them has changed. For `rest`
    seconds after a look there is no other."""

    def __init__(
        self,
        read: Callable[[Look], T],
        now: Callable[[], int] = time.time_ns,
        *,
        rest: float = 0.0,
    ) -> None:
        self._read = read
        self._now = now
        self._rest = int(rest * _SECOND)
        self._known: _Known[T] | None = None

    def get(self) -> T:
        if self._known is None or not self._holds(self._known):
            look, began = Look(), self._now()
            found = self._read(look)
            settled = all(_latest(mark) < began - _SETTLED for mark in look.marks.values())
            self._known = _Known(found, look.marks, settled, began)
        return self._known.found

    def _holds(self, known: "_Known[T]") -> bool:
        if 0 <= self._now() - known.looked < self._rest:
            return True
        marks = known.marks.items()
        return known.settled and all(_mark(path) == mark for path, mark in marks)


class _Known(NamedTuple, Generic[T]):
    """`settled` if no change since can go unnoticed."""

    found: T
    marks: dict[str, Mark]
    settled: bool
    looked: int


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
