"""A text as lines, and the differences between two texts.

Lines remember how they end, so that an edit can leave them as they were. A model is shown them
numbered, and cut where they are too long. `line_diff` is a change as people read it.
`exact_pieces` and `stands_as_before` tell whether an edit named the exact text it replaces and
still applies to a file that changed elsewhere; nothing is guessed there, and only line ends are
not told apart.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from difflib import SequenceMatcher, unified_diff
from typing import NamedTuple

from msgspec import Struct

from rookery.core.text.characters import as_utf8


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


CONTEXT = 3
COMPARED_LINES = 20_000
"""Above this, what changed is shown as one block: finding small changes could take minutes."""

LONGEST_SHOWN = 6_000
"""Characters of a difference that the model is shown of one file."""
ONLY_LINE_ENDS = "(Only line ends or the end of the last line differ.)"
LEFT_OUT = "[The rest of the difference is left out. Read the file before you write all of it.]"


class LineDiff(Struct, frozen=True):
    text: str
    added: int
    removed: int


def line_diff(old: str, new: str) -> LineDiff:
    """Hunks without file headers. Line ends are not shown and do not count."""
    before = [line.text for line in lines_of(old)]
    after = [line.text for line in lines_of(new)]
    rows = _rows(before, after)
    return LineDiff(
        text="\n".join(rows),
        added=sum(row.startswith("+") for row in rows),
        removed=sum(row.startswith("-") for row in rows),
    )


def shown_difference(old: str, new: str) -> tuple[str, bool]:
    """What the model is shown of a difference, and whether that is all of it."""
    text = line_diff(as_utf8(old), as_utf8(new)).text
    if len(text) > LONGEST_SHOWN:
        return f"{text[:LONGEST_SHOWN]}\n{LEFT_OUT}", False
    return text or ONLY_LINE_ENDS, True


def _rows(before: list[str], after: list[str]) -> list[str]:
    if len(before) + len(after) <= COMPARED_LINES:
        context = CONTEXT if before else 0
        return list(unified_diff(before, after, n=context, lineterm=""))[2:]
    head = alike(before, after)
    tail = alike(before[head:][::-1], after[head:][::-1])
    removed, added = before[head : len(before) - tail], after[head : len(after) - tail]
    if not removed and not added:
        return []
    first = max(0, head - CONTEXT)
    above, below = before[first:head], before[len(before) - tail :][:CONTEXT]
    around = len(above) + len(below)
    return [
        f"@@ -{first + 1},{len(removed) + around} +{first + 1},{len(added) + around} @@",
        *(f" {line}" for line in above),
        *(f"-{line}" for line in removed),
        *(f"+{line}" for line in added),
        *(f" {line}" for line in below),
    ]


class Swap(Struct, frozen=True):
    """A piece of text as the model quoted it, and what shall stand there instead."""

    old: str
    new: str
    lines: bool = False
    """Whether whole lines are meant."""


def line_swap(old: Iterable[str], new: Iterable[str]) -> Swap:
    """The same for whole lines."""
    return Swap("".join(f"{row}\n" for row in old), "".join(f"{row}\n" for row in new), True)


def exact_pieces(text: str, edited: str, swaps: Sequence[Swap]) -> tuple[str, ...]:
    """The replaced pieces, if each is in the text once and nothing else was changed; else none."""
    even = _closed(text)
    places = ((_only_place(even, _even(swap.old)), swap) for swap in swaps)
    found = sorted(places, key=lambda place: place[0])
    parts: list[str] = []
    done = 0
    for at, swap in found:
        if at < done:  # overlapping, or not there exactly once
            return ()
        if swap.lines and at and even[at - 1] != "\n":
            return ()
        parts += [even[done:at], _even(swap.new)]
        done = at + len(_even(swap.old))
    made = "".join([*parts, even[done:]])
    return tuple(_even(swap.old) for swap in swaps) if made == _closed(edited) else ()


def stands_as_before(was: str, now: str, pieces: Sequence[str]) -> bool:
    """Whether a text changed only elsewhere: each piece is in both versions once, and no line
    that it is part of was changed, added or removed."""
    before, after = _closed(was), _closed(now)
    spans = [(_span(before, piece), _span(after, piece)) for piece in pieces]
    if not spans or any(old is None or new is None for old, new in spans):
        return False
    blocks = _equal_blocks(before.split("\n"), after.split("\n"))
    return all(any(_holds(block, old, new) for block in blocks) for old, new in spans)


_Span = tuple[int, int]
_Block = tuple[int, int, int]


def _span(text: str, piece: str) -> _Span | None:
    """The first and the last line of the only place of a piece."""
    if (at := _only_place(text, piece)) < 0:
        return None
    first = text.count("\n", 0, at)
    return first, first + piece.count("\n", 0, len(piece) - 1)


def _holds(block: _Block, old: _Span | None, new: _Span | None) -> bool:
    if old is None or new is None:
        return False
    before, after, size = block
    return (
        before <= old[0]
        and old[1] < before + size
        and new[0] - after == old[0] - before
        and new[1] - new[0] == old[1] - old[0]
    )


def _equal_blocks(before: list[str], after: list[str]) -> list[_Block]:
    """Runs of lines that both have, in the same order: where each begins, and how many."""
    head = alike(before, after)
    tail = alike(before[head:][::-1], after[head:][::-1])
    left, right = before[head : len(before) - tail], after[head : len(after) - tail]
    ends = [(0, 0, head), (len(before) - tail, len(after) - tail, tail)]
    if len(left) + len(right) > COMPARED_LINES:
        return ends
    between = SequenceMatcher(None, left, right).get_matching_blocks()
    return [*ends, *((head + match.a, head + match.b, match.size) for match in between)]


def _only_place(text: str, piece: str) -> int:
    """Where a piece is; -1 if it is nowhere, or in more than one place."""
    at = text.find(piece) if piece else -1
    return at if at >= 0 and text.find(piece, at + 1) < 0 else -1


def _even(text: str) -> str:
    return text.replace("\r\n", "\n")


def _closed(text: str) -> str:
    """Even, and with an end of its last line."""
    even = _even(text)
    return even if even.endswith("\n") else f"{even}\n"
