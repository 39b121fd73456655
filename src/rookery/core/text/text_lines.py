"""A text as lines.

They remember how they end, so that an edit can leave them as they were. A model is shown them
numbered, and cut where they are too long.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from msgspec import Struct


class Line(NamedTuple):
    text: str
    end: str


def lines_of(text: str) -> list[Line]:
    """Joined again they are the text. A final line end opens no further line.

    A carriage return alone ends a line only in a text that has no other line ends.
    """
    bare = "\r" in text and "\n" not in text
    pieces = re.split(r"(\r)" if bare else r"(\r\n|\n)", text)
    lines = list(map(Line, pieces[::2], [*pieces[1::2], ""]))
    return lines if lines[-1].text else lines[:-1]


def rows_of(text: str) -> list[str]:
    """The lines by the same rule, to look at: quicker, and a row may keep its carriage return."""
    bare = "\r" in text and "\n" not in text
    rows = text.split("\r" if bare else "\n")
    return rows if rows[-1] else rows[:-1]


def joined(lines: Sequence[Line]) -> str:
    return "".join(line.text + line.end for line in lines)


def usual_end(lines: Sequence[Line]) -> str:
    """The line end that most of the lines have."""
    ends = Counter(line.end for line in lines if line.end)
    return ends.most_common(1)[0][0] if ends else "\n"


def rewritten(
    found: Sequence[Line],
    old: Sequence[str],
    new: Sequence[str],
    *,
    end: str,
    adapt: Callable[[str], str] = str,
) -> list[Line]:
    """The found lines after a change of `old` into `new`.

    `old` is the found lines as somebody quoted them. What the quotation and its replacement
    begin and end with alike stays as it was found, to the byte; the lines between are adapted
    and take over the ends of those they replace. A last line without an end stays without.
    """
    head = alike(old, new)
    tail = alike(old[head:][::-1], new[head:][::-1])
    replaced = found[head : len(found) - tail]
    fresh = [
        Line(adapt(text), replaced[place].end if place < len(replaced) else end)
        for place, text in enumerate(new[head : len(new) - tail])
    ]
    lines = [*found[:head], *fresh, *found[len(found) - tail :]]
    closed = [line if line.end else Line(line.text, end) for line in lines]
    if closed and not found[-1].end:
        closed[-1] = Line(closed[-1].text, "")
    return closed


def with_ends_of(old: str, new: str) -> str:
    """`new` with the line ends that `old` has, where `new` says nothing of its own."""
    if "\r" not in old or "\r" in new:
        return new
    if "\n" not in old:
        return new.replace("\n", "\r")
    if old.count("\n") == old.count("\r\n"):
        return new.replace("\n", "\r\n")
    before, after = lines_of(old), lines_of(new)
    kept = rewritten(
        before,
        [line.text for line in before],
        [line.text for line in after],
        end=usual_end(before),
    )
    if not after:
        return ""
    last = kept[-1]
    final = (last.end or usual_end(before)) if after[-1].end else ""
    return joined([*kept[:-1], Line(last.text, final)])


def alike(one: Sequence[str], other: Sequence[str]) -> int:
    """How many items both begin with."""
    different = (at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b)
    return next(different, min(len(one), len(other)))


class Span(Struct, frozen=True):
    """Lines by their places in a text, counted from 0; the last one is included."""

    first: int
    last: int

    def __str__(self) -> str:
        return f"{self.first + 1}-{self.last + 1}"


class Passage(Struct, frozen=True, kw_only=True):
    """Lines that are shown. `uncut` if every one of them is there to its end."""

    span: Span
    rows: tuple[str, ...]
    size: int
    uncut: bool


def joined_spans(spans: Iterable[Span]) -> list[Span]:
    """The same lines in order, each in one span only."""
    joined: list[Span] = []
    for span in sorted(spans, key=lambda span: span.first):
        if joined and span.first <= joined[-1].last + 1:
            joined[-1] = Span(joined[-1].first, max(joined[-1].last, span.last))
        else:
            joined.append(span)
    return joined


def passage(rows: Sequence[str], span: Span, *, width: int, longest: int, room: int) -> Passage:
    """As many of the lines as there is room for in bytes, but at least one."""
    shown: list[str] = []
    size, uncut = 0, True
    for number in range(span.first, span.last + 1):
        row = rows[number].removesuffix("\r")
        text = f"{number + 1:>{width}} | {_cut(row, longest)}"
        needed = len(text.encode()) + 1
        if shown and size + needed > room:
            break
        shown.append(text)
        size += needed
        uncut = uncut and len(row) <= longest
    last = span.first + len(shown) - 1
    return Passage(span=Span(span.first, last), rows=tuple(shown), size=size, uncut=uncut)


def _cut(row: str, longest: int) -> str:
    return row if len(row) <= longest else row[: longest - 3] + "..."
