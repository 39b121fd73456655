"""Finds a run of lines in a text: exactly, ignoring blanks or indentation, or approximately.

The cost of approximate matching is linear in the length of the file: every line votes, by the words
it shares with the wanted lines, for the place where they would start, and only the few places with
the most votes are compared.
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from heapq import merge, nsmallest
from itertools import islice
from typing import TypeAlias

from msgspec import Struct

from rookery.core.text.characters import plain_punctuation
from rookery.first_use import lazy_pattern

View: TypeAlias = Callable[[str], str]
Adapt: TypeAlias = Callable[[str], str]
"""Gives a replacement line the indentation of the found place."""

MOST_PLACES = 1000
_BLANKS = " \t\r"

PLACES = 5
COMPARED_LINES = 200
COMPARED_LENGTH = 160
COMPARED_PAIRS = 40
"""Lines of one place that are compared by character; of the rest only equal ones count."""
VOTING_LENGTH = 2000
VOTES_PER_WORD = 8
SHOWN = 6
SHOWN_LENGTH = 300
_WORD = lazy_pattern(r"\w+")


def _exact(row: str) -> str:
    return row


def _without_trailing(row: str) -> str:
    return row.rstrip(_BLANKS)


def _without_indentation(row: str) -> str:
    return row.strip(_BLANKS)


class LinePlaces:
    """Finds runs of lines; each view of the text is computed once, on first use."""

    def __init__(self, rows: Sequence[str]) -> None:
        self._rows = rows
        self._indexes: dict[View, tuple[list[str], dict[str, list[int]]]] = {}

    @property
    def count(self) -> int:
        return len(self._rows)

    def of(self, search: Sequence[str], near: int) -> Mapping[int, Adapt]:
        """The places of the lines in the strictest view with any match. If there are very many,
        those nearest to the line `near`."""
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
    """Ascending numbers, nearest first."""
    middle = bisect_left(numbers, near)
    below = (numbers[at] for at in range(middle - 1, -1, -1))
    above = (numbers[at] for at in range(middle, len(numbers)))
    return merge(below, above, key=lambda number: abs(number - near))


def _shift(search: Sequence[str], found: Sequence[str]) -> Adapt | None:
    """The change from quoted indentation to the file's; None if it is not uniform."""
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


class Difference(Struct, frozen=True):
    """A line of the file (None if missing) and the line that was searched for."""

    number: int
    there: str | None
    wanted: str | None


class NearMiss(Struct, frozen=True):
    first: int
    last: int
    percent: int
    reason: str
    differences: tuple[Difference, ...]


def nearest(lines: Sequence[str], wanted: Sequence[str]) -> NearMiss | None:
    """The part of `lines` most like `wanted`; None if nothing is similar."""
    wanted = wanted[:COMPARED_LINES]
    scored = [_compare(lines, wanted, place) for place in _places(lines, wanted)]
    return max(scored, key=lambda near: near.percent, default=None)


def describe(near: NearMiss | None) -> str:
    if near is None:
        return "Nothing in the file resembles it. Read the file again."
    rows = [f"Nearest: lines {near.first}-{near.last}, {near.percent} % alike; {near.reason}."]
    for difference in near.differences[:SHOWN]:
        rows += [
            f"{difference.number} file:   {_shown(difference.there)}",
            f"{difference.number} search: {_shown(difference.wanted)}",
        ]
    if len(near.differences) > SHOWN:
        rows.append(f"({len(near.differences) - SHOWN} more lines differ.)")
    return "\n".join(rows)


def _places(lines: Sequence[str], wanted: Sequence[str]) -> list[int]:
    seekers = _seekers(wanted)
    known: dict[str, list[tuple[int, float]]] = {}
    votes: defaultdict[int, float] = defaultdict(float)
    for number, line in enumerate(lines):
        if (own := known.get(line)) is None:
            own = known[line] = _votes(line, seekers)
        for offset, weight in own:
            votes[max(0, number - offset)] += weight
    return nsmallest(PLACES, votes, key=lambda place: (-votes[place], place))


def _votes(
    line: str, seekers: Mapping[str, Sequence[tuple[int, float]]]
) -> list[tuple[int, float]]:
    """How strongly a line suggests each starting place."""
    weights: defaultdict[int, float] = defaultdict(float)
    for key in seekers.keys() & _keys(line):
        for offset, weight in seekers[key]:
            weights[offset] += weight
    return list(weights.items())


def _seekers(wanted: Sequence[str]) -> dict[str, list[tuple[int, float]]]:
    """The wanted lines with each key, and its weight: a rare key weighs more, and a very common
    one nothing unless there are no others."""
    offsets: defaultdict[str, list[int]] = defaultdict(list)
    for offset, line in enumerate(wanted):
        for key in _keys(line):
            offsets[key].append(offset)
    rare = {key: holders for key, holders in offsets.items() if len(holders) <= VOTES_PER_WORD}
    return {
        key: [(offset, len(key) ** 0.5 / len(holders)) for offset in holders[:VOTES_PER_WORD]]
        for key, holders in (rare or offsets).items()
    }


def _keys(line: str) -> set[str]:
    line = line[:VOTING_LENGTH].strip()
    return {line.casefold(), *_WORD.findall(line.casefold())} - {""}


def _compare(lines: Sequence[str], wanted: Sequence[str], place: int) -> NearMiss:
    window = lines[place : place + len(wanted)]
    matcher = SequenceMatcher(None, window, wanted, autojunk=False)
    alike, differences = 0.0, list[Difference]()
    for tag, first, last, first_wanted, last_wanted in matcher.get_opcodes():
        if tag == "equal":
            alike += last - first
            continue
        for step in range(max(last - first, last_wanted - first_wanted)):
            there = window[first + step] if first + step < last else None
            want = wanted[first_wanted + step] if first_wanted + step < last_wanted else None
            differences.append(Difference(place + first + step + 1, there, want))
            if len(differences) <= COMPARED_PAIRS:
                alike += _likeness(there, want)
    percent = min(99, int(100 * alike / max(len(wanted), len(window))))
    last_line = place + len(window)
    return NearMiss(place + 1, last_line, percent, _reason(differences), tuple(differences))


def _likeness(there: str | None, wanted: str | None) -> float:
    if there is None or wanted is None:
        return 0.0
    one, other = there[:COMPARED_LENGTH], wanted[:COMPARED_LENGTH]
    return SequenceMatcher(None, one, other, autojunk=False).ratio()


_REASONS: tuple[tuple[Callable[[str], str], str], ...] = (
    (lambda line: line.replace("\r", ""), "only stray carriage returns differ"),
    (lambda line: line.rstrip(), "only whitespace at the end of lines differs"),
    (lambda line: line.strip(), "only indentation differs"),
    (lambda line: "".join(line.split()), "only spacing differs"),
    (
        lambda line: "".join(plain_punctuation(line).split()),
        "only typographic characters differ (quotes, dashes, special spaces)",
    ),
    (lambda line: line.casefold(), "only upper and lower case differ"),
)


def _reason(differences: Sequence[Difference]) -> str:
    pairs = [(difference.there, difference.wanted) for difference in differences]
    for view, reason in _REASONS:
        if all(
            there is not None and want is not None and view(there) == view(want)
            for there, want in pairs
        ):
            return reason
    return f"{len(pairs)} {'line differs' if len(pairs) == 1 else 'lines differ'}"


def _shown(line: str | None) -> str:
    if line is None:
        return "(no such line)"
    shown = line if len(line) <= SHOWN_LENGTH else line[:SHOWN_LENGTH] + " [cut]"
    return shown.replace("\t", "\\t") + ("$" if shown != shown.rstrip() else "")
