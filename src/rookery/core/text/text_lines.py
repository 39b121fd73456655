"""A text as lines, and the differences between two texts.

Lines keep their endings, so that an edit can leave them unchanged. The model sees them numbered,
and cut where they are too long. `line_diff` is a diff for people. `exact_pieces` and
`unchanged_around` say whether an edit quoted the exact text it replaces and still applies to a file
that changed elsewhere. They never guess; only line endings may differ.
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
    """Joined, they are the text. A final line break starts no further line.

    A carriage return alone ends a line only in a text without other line breaks.
    """
    bare = "\r" in text and "\n" not in text
    pieces = re.split(r"(\r)" if bare else r"(\r\n|\n)", text)
    lines = list(map(Line, pieces[::2], [*pieces[1::2], ""]))
    return lines if lines[-1].text else lines[:-1]


def rows_of(text: str) -> list[str]:
    """The same lines for display: faster, and a row may keep its carriage return."""
    bare = "\r" in text and "\n" not in text
    rows = text.split("\r" if bare else "\n")
    return rows if rows[-1] else rows[:-1]


def joined(lines: Sequence[Line]) -> str:
    return "".join(line.text + line.end for line in lines)


def usual_end(lines: Sequence[Line]) -> str:
    """The most common line ending."""
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
    """The found lines after changing `old` into `new`.

    `old` is the found lines as quoted. The common beginning and end of both stay exactly as found;
    the lines between are adapted and take the endings of the lines they replace. A last line
    without an ending stays without.
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
    """`new` with the line endings of `old`, where `new` has none of its own."""
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
    """The length of the common prefix."""
    different = (at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b)
    return next(different, min(len(one), len(other)))


class Span(Struct, frozen=True):
    """A range of lines, from 0, including the last."""

    first: int
    last: int

    def __str__(self) -> str:
        return f"{self.first + 1}-{self.last + 1}"


class Passage(Struct, frozen=True, kw_only=True):
    """Lines for display. `uncut` if none of them was shortened."""

    span: Span
    rows: tuple[str, ...]
    size: int
    uncut: bool


def joined_spans(spans: Iterable[Span]) -> list[Span]:
    """The same lines in order, with overlaps merged."""
    joined: list[Span] = []
    for span in sorted(spans, key=lambda span: span.first):
        if joined and span.first <= joined[-1].last + 1:
            joined[-1] = Span(joined[-1].first, max(joined[-1].last, span.last))
        else:
            joined.append(span)
    return joined


def passage(rows: Sequence[str], span: Span, *, width: int, longest: int, room: int) -> Passage:
    """As many lines as fit in this many bytes, but at least one."""
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
"""Above this, the change is shown as one block: a detailed diff could take minutes."""

LONGEST_SHOWN = 6_000
"""Characters of one file's difference that the model sees."""
ONLY_LINE_ENDS = "(Only line ends or the end of the last line differ.)"
LEFT_OUT = "[The rest of the difference is left out. Read the file before you write all of it.]"


class LineDiff(Struct, frozen=True):
    text: str
    added: int
    removed: int


def line_diff(old: str, new: str) -> LineDiff:
    """Hunks without file headers. Line endings are ignored."""
    before = [line.text for line in lines_of(old)]
    after = [line.text for line in lines_of(new)]
    rows = _rows(before, after)
    return LineDiff(
        text="\n".join(rows),
        added=sum(row.startswith("+") for row in rows),
        removed=sum(row.startswith("-") for row in rows),
    )


def shown_difference(old: str, new: str) -> tuple[str, bool]:
    """The difference for the model, and whether it is complete."""
    text = line_diff(as_utf8(old), as_utf8(new)).text
    if len(text) > LONGEST_SHOWN:
        return f"{text[:LONGEST_SHOWN]}\n{LEFT_OUT}", False
    return text or ONLY_LINE_ENDS, True


def _rows(before: list[str], after: list[str]) -> list[str]:
    head = alike(before, after)
    tail = alike(before[head:][::-1], after[head:][::-1])
    removed, added = before[head : len(before) - tail], after[head : len(after) - tail]
    if not removed and not added:
        return []
    replaced = removed and added and not set(removed) & set(added)
    if not replaced and len(before) + len(after) <= COMPARED_LINES:
        context = CONTEXT if before else 0
        return list(unified_diff(before, after, n=context, lineterm=""))[2:]
    first = max(0, head - CONTEXT)
    above, below = before[first:head], before[len(before) - tail :][:CONTEXT]
    around = len(above) + len(below)
    old, new = _range(first, len(removed) + around), _range(first, len(added) + around)
    return [
        f"@@ -{old} +{new} @@",
        *(f" {line}" for line in above),
        *(f"-{line}" for line in removed),
        *(f"+{line}" for line in added),
        *(f" {line}" for line in below),
    ]


def _range(first: int, count: int) -> str:
    """Lines from `first`, counted from 0, as hunks name them."""
    return f"{first + 1}" if count == 1 else f"{first + 1 if count else first},{count}"


class Swap(Struct, frozen=True):
    """Text as the model quoted it, and its replacement."""

    old: str
    new: str
    lines: bool = False
    """Whether it consists of whole lines."""


def line_swap(old: Iterable[str], new: Iterable[str]) -> Swap:
    """A swap of whole lines."""
    return Swap("".join(f"{row}\n" for row in old), "".join(f"{row}\n" for row in new), True)


def exact_pieces(text: str, edited: str, swaps: Sequence[Swap]) -> tuple[str, ...]:
    """The replaced pieces, if each occurs once in the text and nothing else changed; otherwise
    none."""
    even = _closed(text)
    places = ((_only_place(even, with_lf(swap.old)), swap) for swap in swaps)
    found = sorted(places, key=lambda place: place[0])
    parts: list[str] = []
    done = 0
    for at, swap in found:
        if at < done:  # overlapping, or not there exactly once
            return ()
        if swap.lines and at and even[at - 1] != "\n":
            return ()
        parts += [even[done:at], with_lf(swap.new)]
        done = at + len(with_lf(swap.old))
    made = "".join([*parts, even[done:]])
    return tuple(with_lf(swap.old) for swap in swaps) if made == _closed(edited) else ()


def unchanged_around(was: str, now: str, pieces: Sequence[str]) -> bool:
    """Whether a text changed only elsewhere: each piece occurs once in both versions, and none
    of its lines was changed, added or removed."""
    before, after = _closed(was), _closed(now)
    spans = [(_span(before, piece), _span(after, piece)) for piece in pieces]
    if not spans or any(old is None or new is None for old, new in spans):
        return False
    blocks = _equal_blocks(before.split("\n"), after.split("\n"))
    return all(any(_holds(block, old, new) for block in blocks) for old, new in spans)


_Span = tuple[int, int]
_Block = tuple[int, int, int]


def _span(text: str, piece: str) -> _Span | None:
    """The first and last line of the only match of a piece."""
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
    """Common runs of lines, in the same order: their starts and lengths."""
    head = alike(before, after)
    tail = alike(before[head:][::-1], after[head:][::-1])
    left, right = before[head : len(before) - tail], after[head : len(after) - tail]
    ends = [(0, 0, head), (len(before) - tail, len(after) - tail, tail)]
    if len(left) + len(right) > COMPARED_LINES:
        return ends
    between = SequenceMatcher(None, left, right).get_matching_blocks()
    return [*ends, *((head + match.a, head + match.b, match.size) for match in between)]


def _only_place(text: str, piece: str) -> int:
    """The position of a piece; -1 if it does not occur exactly once."""
    at = text.find(piece) if piece else -1
    return at if at >= 0 and text.find(piece, at + 1) < 0 else -1


def with_lf(text: str) -> str:
    """The text with `\\n` for each `\\r\\n`."""
    return text.replace("\r\n", "\n")


def _closed(text: str) -> str:
    """Normalised, and with a final line break."""
    even = with_lf(text)
    return even if even.endswith("\n") else f"{even}\n"
