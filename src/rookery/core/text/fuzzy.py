"""Names that fit some letters, as people type them: in order, with gaps, the best first."""

from collections.abc import Callable, Iterable
from heapq import nsmallest
from typing import TypeVar

T = TypeVar("T")

_BORDERS = "/._- "


def best_matches(
    candidates: Iterable[T], letters: str, most: int, name: Callable[[T], str]
) -> list[T]:
    """Those whose name holds the letters in their order, whatever their case. Without letters,
    the first ones as they come."""
    wanted = "".join(letters.split()).casefold()
    scored = (
        (rank, place, candidate)
        for place, candidate in enumerate(candidates)
        if (rank := _rank(name(candidate), wanted)) is not None
    )
    return [candidate for _, _, candidate in nsmallest(most, scored, key=lambda each: each[:2])]


def _rank(name: str, wanted: str) -> tuple[int, int, int] | None:
    """The smaller the better: in one piece in the last part, in one piece, at the beginnings of
    words, scattered. None if it does not fit."""
    if not wanted:
        return (0, 0, 0)
    text = name.casefold()
    last = text.rstrip("/").rpartition("/")[2]
    if (at := last.find(wanted)) >= 0:
        return (0 if at == 0 else 1, at, len(text))
    if (at := text.find(wanted)) >= 0:
        return (2, at, len(text))
    gaps = _gaps(text, wanted)
    return None if gaps is None else (3, gaps, len(text))


def _gaps(text: str, wanted: str) -> int | None:
    """How scattered the letters are, read from the end, where names differ most."""
    at, gaps = len(text), 0
    for letter in reversed(wanted):
        found = text.rfind(letter, 0, at)
        if found < 0:
            return None
        starts_word = found == 0 or text[found - 1] in _BORDERS
        gaps += 0 if found == at - 1 or starts_word else 1
        at = found
    return gaps
