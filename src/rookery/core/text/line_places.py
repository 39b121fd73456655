"""Where a run of lines is in a text: exactly, or but for trailing blanks or indentation."""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from heapq import merge
from itertools import islice
from typing import TypeAlias

View: TypeAlias = Callable[[str], str]
Adapt: TypeAlias = Callable[[str], str]
"""Gives a replacement line the indentation it needs at the place that was found."""

MOST_PLACES = 1000
_BLANKS = " \t\r"


def _exact(row: str) -> str:
    return row


def _without_trailing(row: str) -> str:
    return row.rstrip(_BLANKS)


def _without_indentation(row: str) -> str:
    return row.strip(_BLANKS)


class LinePlaces:
    """Finds runs of lines; what it needs for a view is made once, when first asked for."""

    def __init__(self, rows: Sequence[str]) -> None:
        self._rows = rows
        self._indexes: dict[View, tuple[list[str], dict[str, list[int]]]] = {}

    @property
    def count(self) -> int:
        return len(self._rows)

    def of(self, search: Sequence[str], near: int) -> Mapping[int, Adapt]:
        """The places of the lines, in the strictest view that sees any. If there are very many,
        those nearest to the line `near`.
        """
        for view in (_exact, _without_trailing):
            if found := self._seen(view, search, near):
                return dict.fromkeys(found, str)
        shifts = {
            at: _shift(search, self._rows[at : at + len(search)])
            for at in self._seen(_without_indentation, search, near)
        }
        return {at: shift for at, shift in shifts.items() if shift}

    def _seen(self, view: View, search: Sequence[str], near: int) -> list[int]:
        keys, index = self._index(view)
        wanted = [view(row) for row in search]
        rarest = min(range(len(wanted)), key=lambda offset: len(index.get(wanted[offset], ())))
        holders = index.get(wanted[rarest], [])
        starts = (at - rarest for at in _outwards(holders, near + rarest) if at >= rarest)
        found = (at for at in starts if keys[at : at + len(wanted)] == wanted)
        return sorted(islice(found, MOST_PLACES))

    def _index(self, view: View) -> tuple[list[str], dict[str, list[int]]]:
        if view not in self._indexes:
            keys = [view(row) for row in self._rows]
            index: defaultdict[str, list[int]] = defaultdict(list)
            for at, key in enumerate(keys):
                index[key].append(at)
            self._indexes[view] = keys, dict(index)
        return self._indexes[view]


def _outwards(numbers: Sequence[int], near: int) -> Iterator[int]:
    """Ascending numbers, the nearest first."""
    middle = bisect_left(numbers, near)
    below = (numbers[at] for at in range(middle - 1, -1, -1))
    above = (numbers[at] for at in range(middle, len(numbers)))
    return merge(below, above, key=lambda number: abs(number - near))


def _shift(search: Sequence[str], found: Sequence[str]) -> Adapt | None:
    """How the indentation somebody quoted becomes that of the file; None if it does so unevenly."""
    becomes: dict[str, str] = {}
    for quoted, there in zip(search, found, strict=True):
        if not quoted.strip():
            continue
        old, new = _indentation(quoted), _indentation(there)
        if becomes.setdefault(old, new) != new:
            return None

    def adapt(row: str) -> str:
        own = _indentation(row)
        return _translated(own, becomes) + row[len(own) :] if row.strip() else row

    return adapt


def _translated(own: str, becomes: Mapping[str, str]) -> str:
    inner = [old for old in becomes if own.startswith(old)]
    if inner:
        base = max(inner, key=len)
        return becomes[base] + own[len(base) :]
    outer = [old for old in becomes if old.startswith(own)]
    if not outer:
        return own  # tabs against spaces: there is no telling, so it stays as it was said
    base = min(outer, key=len)
    return becomes[base][: max(0, len(becomes[base]) - (len(base) - len(own)))]


def _indentation(row: str) -> str:
    return row[: len(row) - len(row.lstrip(" \t"))]
