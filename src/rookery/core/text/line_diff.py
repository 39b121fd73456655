"""Differences between two texts, by lines.

`line_diff` is a change as people read it. `exact_pieces` and `stands_as_before` tell whether an
edit named the exact text it replaces and still applies to a file that changed elsewhere; nothing
is guessed there, and only line ends are not told apart.
"""

from collections.abc import Iterable, Sequence
from difflib import SequenceMatcher, unified_diff

from msgspec import Struct

from rookery.core.text.characters import as_utf8
from rookery.core.text.text_lines import alike, lines_of

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
