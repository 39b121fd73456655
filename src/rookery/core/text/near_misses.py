"""Where in a file the lines somebody looked for nearly are, and what keeps them from being there.

The cost grows with the length of the file, not with its square: every line of the file votes,
by the words it shares with the wanted lines, for the place where they would begin, and only
the few places with most votes are compared.
"""

import re
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from difflib import SequenceMatcher
from heapq import nsmallest

from msgspec import Struct

from rookery.core.text.typography import plain_punctuation

PLACES = 5
COMPARED_LINES = 200
COMPARED_LENGTH = 160
COMPARED_PAIRS = 40
"""Lines of one place that are compared letter by letter; of the others only equal ones count."""
VOTING_LENGTH = 2000
VOTES_PER_WORD = 8
SHOWN = 6
SHOWN_LENGTH = 300

_WORD = re.compile(r"\w+")


class Difference(Struct, frozen=True):
    """A line of the file (None: there is none) against the line that was looked for."""

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
    """The stretch of `lines` that is most like `wanted`; None if nothing is like it at all."""
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
    """How much a line says for standing so many lines below the place."""
    weights: defaultdict[int, float] = defaultdict(float)
    for key in seekers.keys() & _keys(line):
        for offset, weight in seekers[key]:
            weights[offset] += weight
    return list(weights.items())


def _seekers(wanted: Sequence[str]) -> dict[str, list[tuple[int, float]]]:
    """Which wanted lines hold a key, and how much it says: a rare one says more, and one that
    many hold says nothing unless there are no others.
    """
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
