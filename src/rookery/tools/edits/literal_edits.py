"""Replacing a piece of text by another, whatever the line ends of the file are.

Both pieces are meant as they stand; only line ends are not told apart. Of what is replaced,
only the part that really differs is touched.
"""

from bisect import bisect_left
from collections.abc import Iterator
from itertools import islice

from msgspec import Struct

from rookery.core.text.line_places import describe, nearest
from rookery.core.text.text_lines import alike, lines_of, usual_end

LISTED = 10


class Missing(Struct, frozen=True):
    """The text is nowhere in the file."""


class Ambiguous(Struct, frozen=True):
    """It is there more than once; `lines` are where, as many as need be told."""

    lines: tuple[int, ...]


def replace_text(text: str, old: str, new: str, everywhere: bool) -> str | Missing | Ambiguous:
    old, new = _one_kind(old), _one_kind(new)
    even = _one_kind(text)
    found = _places(even, old, step=len(old) if everywhere else 1)
    places = list(found if everywhere else islice(found, LISTED))
    if not places:
        return Missing()
    if len(places) > 1 and not everywhere:
        return Ambiguous(tuple(even.count("\n", 0, at) + 1 for at in places))
    same = alike(old, new)
    tail = alike(old[same:][::-1], new[same:][::-1])
    fresh = new[same : len(new) - tail]
    cuts = [(at + same, at + len(old) - tail) for at in places]
    return _cut_in(text, cuts, fresh)


def explain(text: str, old: str, miss: Missing | Ambiguous) -> str:
    match miss:
        case Ambiguous(lines):
            listed = ", ".join(map(str, lines))
            return (
                f"The text is in the file more than once, at lines {listed}. Quote more of what "
                "is around it, or set replace_all."
            )
        case Missing():
            wanted = [line.text for line in lines_of(_one_kind(old))]
            near = nearest([line.text for line in lines_of(text)], wanted)
            return f"The text is not in the file.\n{describe(near)}"


def _one_kind(text: str) -> str:
    return text.replace("\r\n", "\n")


def _places(text: str, piece: str, *, step: int) -> Iterator[int]:
    at = text.find(piece)
    while at >= 0:
        yield at
        at = text.find(piece, at + step)


def _cut_in(text: str, cuts: list[tuple[int, int]], fresh: str) -> str:
    """The text with `fresh` in place of every cut; cuts are counted in the evened text."""
    doubled = _doubled(text)
    end = usual_end(lines_of(text)) if "\n" in fresh else "\n"
    fresh = fresh.replace("\n", end)
    pieces: list[str] = []
    done = 0
    for first, last in cuts:
        start = first + bisect_left(doubled, first)
        pieces += [text[done:start], fresh]
        done = last + bisect_left(doubled, last)
    return "".join([*pieces, text[done:]])


def _doubled(text: str) -> list[int]:
    """Where, in the evened text, the line ends are that had two characters."""
    return [at - before for before, at in enumerate(_places(text, "\r\n", step=2))]
