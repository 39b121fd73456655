"""Splits a text into chunks to index, and builds the words to find them by.

Chunks follow each other without gap or overlap. A text is split where its definitions begin and
end; a chunk that is still too large at its statements, then between paragraphs, between lines, and
last within a line. SQLite's tokenizer splits at every character that is not a letter or a digit;
`searchable` adds the parts of camel-case names.
"""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from typing import NamedTuple, TypeAlias

from msgspec import Struct

from rookery.core.indexed_code import Definition
from rookery.core.text.text_lines import rows_of

LEAST = 50
MOST = 1000
TOLERATED = 1150

_STATEMENT, _PARAGRAPH, _ROW = 100, 101, 102
"""Strength of a split; a definition's is its depth. Smaller is stronger."""
_BELONGS_TO_NEXT = re.compile(r"\s*(?:#|//|/\*|\*|@|--|\[|\"\"\"|template\b)")


_Range: TypeAlias = tuple[int, int]
_TOKEN = re.compile(r"[A-Za-z0-9]{3,100}")
_SEAM = re.compile(r"[a-z0-9][A-Z]|[A-Z]{2}[a-z]")
_PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_WORD = re.compile(r"\w+")
_STOP_WORD_LIST = """
    a an and any are as at be but by can code do does each file files find for from function get
    gets has have how i if in into is it its make made of on or our out show so some than that the
    their them then there these this to up was we were what when where which who why will with
    would you
"""
_STOP_WORDS = frozenset(_STOP_WORD_LIST.split())
MOST_TERMS = 24


class Chunk(Struct, frozen=True, kw_only=True):
    """A range of a text. `start` and `end` are lines, counted from 1; `begin` and `finish` are
    characters, counted from 0 and without the last."""

    start: int
    end: int
    begin: int
    finish: int


class _Units(NamedTuple):
    """The lines with their line ends, with long lines split. `edges` is where each unit begins,
    plus the end of the last; `rows` is the line each belongs to."""

    edges: list[int]
    rows: list[int]

    def size(self, first: int, last: int) -> int:
        return self.edges[last] - self.edges[first]


def chunks(
    text: str, definitions: Sequence[Definition] = (), statements: Sequence[int] = ()
) -> list[Chunk]:
    """Split a text into chunks of LEAST to TOLERATED characters, or one if the text is smaller.
    `definitions` are in order of their start; `statements` are the lines at which one begins."""
    rows = rows_of(text)
    units = _units(text, rows)
    if not units.rows:
        return []
    levels = _levels(rows, units, definitions, statements)
    return [
        Chunk(
            start=units.rows[first] + 1,
            end=units.rows[last - 1] + 1,
            begin=units.edges[first],
            finish=units.edges[last],
        )
        for first, last in _merge_small(_split(units, levels), units, text)
    ]


def names_of(found: Sequence[Chunk], definitions: Sequence[Definition]) -> list[list[str]]:
    """For each chunk, the names of the definitions that overlap it."""
    names: list[list[str]] = [[] for _ in found]
    starts, ends = [chunk.start for chunk in found], [chunk.end for chunk in found]
    for definition in definitions:
        first = bisect_left(ends, definition.start)
        for place in range(first, bisect_right(starts, definition.end)):
            names[place].append(definition.name)
    return names


def parts_of(token: str) -> list[str]:
    """Split a camel-case name into words; empty if it is one word."""
    return _PART.findall(token) if _SEAM.search(token) else []


def searchable(text: str) -> str:
    """Return the text followed by the words of its camel-case names."""
    joined = sorted({token for token in _TOKEN.findall(text) if _SEAM.search(token)})
    return "\n".join([text, *(" ".join(parts_of(token)) for token in joined)])


def fts_query(query: str) -> str:
    """Build the FTS query: any of the words, without stop words unless there are no others.
    Empty if the query has no words."""
    words = _WORD.findall(query)
    useful = [word for word in words if word.lower() not in _STOP_WORDS] or words
    terms = dict.fromkeys(
        term for word in useful for term in (word, *parts_of(word)) if term.strip("_")
    )
    return " OR ".join(f'"{term}"' for term in list(terms)[:MOST_TERMS])


def _units(text: str, rows: Sequence[str]) -> _Units:
    units, begin = _Units([], []), 0
    for row, words in enumerate(rows):
        finish = min(begin + len(words) + 1, len(text))
        for edge in range(begin, finish, MOST):
            units.edges.append(edge)
            units.rows.append(row)
        begin = finish
    units.edges.append(begin)
    return units


def _levels(
    rows: Sequence[str],
    units: _Units,
    definitions: Sequence[Definition],
    statements: Sequence[int],
) -> list[int]:
    """Strength of the split before each unit."""
    of_rows = [_ROW] * (len(rows) + 1)
    for row in range(1, len(rows)):
        if rows[row].strip() and not rows[row - 1].strip():
            of_rows[row] = _PARAGRAPH
    for line in statements:
        if 1 <= line <= len(rows):
            of_rows[line - 1] = _STATEMENT
    taken = -1
    for each in definitions:
        if 1 <= each.start <= each.end <= len(rows):
            row = _first_row(rows, each.start - 1, above=taken)
            level = min(each.depth, _STATEMENT - 1)
            of_rows[row] = min(of_rows[row], level)
            of_rows[each.end] = min(of_rows[each.end], level)
            taken = each.start - 1
    above = [-1, *units.rows]
    return [
        of_rows[row] if row > last else _ROW for row, last in zip(units.rows, above, strict=False)
    ]


def _first_row(rows: Sequence[str], row: int, *, above: int) -> int:
    """First row of a definition, including the comments directly above it."""
    while row - 1 > above and _BELONGS_TO_NEXT.match(rows[row - 1]):
        row -= 1
    return row


def _split(units: _Units, levels: Sequence[int]) -> list[_Range]:
    """Split into ranges of at most MOST characters. Iterative, because texts can nest deeply."""
    done: list[_Range] = []
    waiting: list[_Range] = [(0, len(units.rows))]
    while waiting:
        first, last = waiting.pop()
        if units.size(first, last) <= MOST:
            done.append((first, last))
            continue
        strongest = min(levels[first + 1 : last])
        cuts = [place for place in range(first + 1, last) if levels[place] == strongest]
        if strongest >= _STATEMENT:
            cuts = list(_choose_cuts(first, cuts, last, units.edges))
        waiting.extend(reversed(list(zip([first, *cuts], [*cuts, last], strict=True))))
    return done


def _choose_cuts(first: int, cuts: Sequence[int], last: int, edges: Sequence[int]) -> Iterator[int]:
    """Choose as few cuts as possible, at about equal distances."""
    whole = edges[last] - edges[first]
    target = whole / -(-whole // MOST)
    begin, before = edges[first], first
    for cut in (*cuts, last):
        if before > first and (edges[before] - begin >= target or edges[cut] - begin > MOST):
            yield before
            begin, first = edges[before], before
        before = cut


def _merge_small(ranges: Sequence[_Range], units: _Units, text: str) -> list[_Range]:
    """Merge ranges that are too small: closing brackets with the one before, others with the
    next."""
    joined: list[_Range] = []
    held: int | None = None
    for first, last in ranges:
        start = first if held is None else held
        if units.size(start, last) >= LEAST:
            joined.append((start, last))
            held = None
        elif joined and _closes(joined[-1], start, last, units, text):
            joined[-1] = (joined[-1][0], last)
            held = None
        else:
            held = start
    if held is not None:
        start = joined.pop()[0] if joined else held
        joined.append((start, len(units.rows)))
    return joined


def _closes(previous: _Range, first: int, last: int, units: _Units, text: str) -> bool:
    words = text[units.edges[first] : units.edges[last]]
    fits = units.size(previous[0], last) <= TOLERATED - LEAST
    return fits and not any(map(str.isalnum, words))
