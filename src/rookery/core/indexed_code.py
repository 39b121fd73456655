"""Indexed code: files, their definitions, and search results.

Parsers find definitions; Markdown headings are found here. Lines count from 1, as everywhere a
model sees them.
"""

import re
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import TypeAlias

from msgspec import Struct
from msgspec.structs import replace

Mark: TypeAlias = tuple[int, int, int, int]
"""Size, mtime, ctime and inode; the file is unchanged while they are."""

_SMOOTHING = 60
LONGEST_ROW = 120
MOST_HEADINGS = 20_000
LARGEST_REST = 4000
_WORTHWHILE = 4
_HEADING = re.compile(r" {0,3}(#{1,6})(?:[ \t]+(.*?))?[ \t]*#*[ \t\r]*")
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")


class Found(Struct, frozen=True):
    path: str
    mark: Mark


class SourceListing(Struct, frozen=True, kw_only=True):
    """The files to index. Not `complete` if some were not listed."""

    files: Sequence[Found]
    complete: bool = True
    notes: tuple[str, ...] = ()


class Source(Struct, frozen=True, kw_only=True):
    """A file and its text, which is empty if the file is not text."""

    text: str
    mark: Mark
    digest: bytes


class CodeHit(Struct, frozen=True):
    """Lines of a file. A `score` of 1 means first in every ranking."""

    path: str
    start: int
    end: int
    text: str
    score: float


class CodeHits(Struct, frozen=True, kw_only=True):
    hits: tuple[CodeHit, ...] = ()
    notes: tuple[str, ...] = ()


def fused(rankings: Sequence[Sequence[int]]) -> list[tuple[int, float]]:
    """Reciprocal rank fusion of several rankings."""
    scores: dict[int, float] = {}
    for ranking in rankings:
        for place, id in enumerate(ranking):
            share = (_SMOOTHING + 1) / (_SMOOTHING + 1 + place) / len(rankings)
            scores[id] = scores.get(id, 0.0) + share
    return sorted(scores.items(), key=lambda item: -item[1])


class Definition(Struct, frozen=True, kw_only=True):
    """`depth` is the number of enclosing definitions."""

    name: str
    kind: str
    start: int
    end: int
    depth: int = 0
    first_line: str = ""


class Outline(Struct, frozen=True):
    """The definitions of a file, in order."""

    path: str
    definitions: tuple[Definition, ...] = ()


def headings(rows: Sequence[str]) -> list[Definition]:
    """The sections of a Markdown text; each ends where the next of its level starts."""
    sections: list[Definition] = []
    ends: list[int] = []
    unfinished: list[tuple[int, int]] = []
    for row, level, name in islice(_heading_rows(rows), MOST_HEADINGS):
        while unfinished and unfinished[-1][0] >= level:
            ends[unfinished.pop()[1]] = row
        unfinished.append((level, len(sections)))
        ends.append(len(rows))
        sections.append(
            Definition(
                name=name,
                kind="heading",
                start=row + 1,
                end=row + 1,
                depth=len(unfinished) - 1,
                first_line=rows[row].strip(),
            )
        )
    return [replace(each, end=end) for each, end in zip(sections, ends, strict=True)]


def _heading_rows(rows: Sequence[str]) -> Iterator[tuple[int, int, str]]:
    fence = ""
    for place, row in enumerate(rows):
        if marker := _FENCE.match(row):
            said = marker[1]
            if not fence:
                fence = said
            elif said[0] == fence[0] and len(said) >= len(fence):
                fence = ""
        elif not fence and (heading := _HEADING.fullmatch(row)):
            yield place, len(heading[1]), heading[2] or ""


def rendered(definitions: Sequence[Definition]) -> str:
    return "\n".join(map(_row, definitions))


def folded(definitions: Sequence[Definition], budget: int) -> str:
    """The definitions in at most `budget` characters: the deepest are dropped first, then the
    last. Empty if not even one fits."""
    for depth in sorted({each.depth for each in definitions}, reverse=True):
        definitions = [each for each in definitions if each.depth <= depth]
        text = rendered(definitions)
        if len(text) <= budget:
            return text
    return _first_of(definitions, budget)


def rest_in_short(definitions: Sequence[Definition], after: int, size: int) -> str:
    """An outline of what follows line `after`, much shorter than its `size` characters; empty if
    that is not possible."""
    later = [each for each in definitions if each.start > after]
    return folded(later, min(LARGEST_REST, size // _WORTHWHILE))


def _first_of(definitions: Sequence[Definition], budget: int) -> str:
    rows: list[str] = []
    last = f"({len(definitions)} more definitions.)"
    room = budget - len(last)
    for each in definitions:
        row = _row(each)
        room -= len(row) + 1
        if room < 0:
            break
        rows.append(row)
    if not rows or len(rows) == len(definitions):
        return "\n".join(rows)
    return "\n".join([*rows, f"({len(definitions) - len(rows)} more definitions.)"])


def _row(definition: Definition) -> str:
    words = definition.first_line.strip()
    shown = words if len(words) <= LONGEST_ROW else words[: LONGEST_ROW - 3] + "..."
    return f"{definition.start}--{definition.end} | {'  ' * definition.depth}{shown}"
