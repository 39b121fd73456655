"""Diffs in colour, with the lines' numbers. A line that belongs to no diff is shown as it is: what
is drawn here may be what somebody is about to approve."""

import re
from collections.abc import Iterator, Sequence
from functools import partial

from msgspec import Struct
from rich.text import Text

from rookery.tui.rows.lines import Piece, all_lines, chunks, clean, indented, padded, wrapped
from rookery.tui.theme import Theme

_HUNK = re.compile(r"@@ -(\d{1,9})(?:,\d+)? \+(\d{1,9})(?:,\d+)? @@(.*)")
_RAW = ""
PIECE_LINES = 60


class DiffLine(Struct, frozen=True):
    """A line of a diff: its sign, its number in the file, and its words. Without a sign, the words
    are all of the line."""

    sign: str
    number: int | None
    words: str
    goes_on: bool = False
    """It is the rest of a long line."""


def diff_lines(diff: str) -> Iterator[DiffLine]:
    """The lines between the hunks' heads; each head becomes one with the sign `@`, and with what
    stands behind its numbers."""
    old = new = 0
    for row in diff.removesuffix("\n").split("\n") if diff else ():
        if head := _HUNK.fullmatch(row):
            old, new = int(head[1]), int(head[2])
            yield DiffLine("@", None, head[3].strip())
            continue
        sign, words = row[:1], row[1:]
        match sign:
            case "+":
                yield DiffLine("+", new or None, words)
                new += 1
            case "-":
                yield DiffLine("-", old or None, words)
                old += 1
            case " " | "":
                yield DiffLine(" ", new or None, words)
                old, new = old + 1, new + 1
            case _:
                yield DiffLine(_RAW, None, row)


def drawn_diff(diff: str, width: int, theme: Theme) -> list[Text]:
    """All of it. Every line reaches to the edge, so that what changed stands out as a block."""
    return all_lines(diff_pieces(diff, width, theme))


def diff_pieces(diff: str, width: int, theme: Theme) -> list[Piece]:
    rows = list(diff_lines(clean(diff)))
    gutter = len(str(max((row.number or 0 for row in rows), default=0)))
    shown = [part for row in _without_first_head(rows) for part in _shortened(row)]
    room = max(1, width - gutter - 3)
    pieces: list[Piece] = []
    begin = size = 0
    for at, row in enumerate(shown, 1):
        size += 1 + len(row.words) // room
        if size >= PIECE_LINES or at == len(shown):
            draw = partial(_drawn_rows, shown[begin:at], gutter, width, theme)
            pieces.append(Piece(size, draw))
            begin, size = at, 0
    return pieces


def _shortened(row: DiffLine) -> Iterator[DiffLine]:
    """A line that is too long in several parts, the first with its number."""
    for at, part in enumerate(chunks(row.words)):
        yield DiffLine(row.sign, row.number, part, goes_on=at > 0)


def _drawn_rows(rows: Sequence[DiffLine], gutter: int, width: int, theme: Theme) -> list[Text]:
    return [line for row in rows for line in _drawn(row, gutter, width, theme)]


def _without_first_head(rows: Sequence[DiffLine]) -> Sequence[DiffLine]:
    return rows[1:] if rows and rows[0].sign == "@" and not rows[0].words else rows


def _drawn(row: DiffLine, gutter: int, width: int, theme: Theme) -> Iterator[Text]:
    if row.sign == "@":
        mark = Text(f"{'⋮':>{gutter}}{' ' if row.words else ''}", theme.ink(theme.quiet))
        behind = wrapped(Text(row.words, theme.ink(theme.words)), width - mark.cell_len)
        yield from indented(behind, mark, Text(" " * mark.cell_len))
        return
    if row.sign == _RAW:
        yield from wrapped(Text(row.words, theme.ink(theme.words)), width)
        return
    number = "" if row.number is None else str(row.number)
    ink, ground = {
        "+": (theme.good, theme.added),
        "-": (theme.bad, theme.removed),
    }.get(row.sign, (theme.quiet, ""))
    margin = f"{number:>{gutter}} {row.sign} "
    words = Text(row.words, theme.ink(theme.words if ground else theme.quiet))
    for at, part in enumerate(wrapped(words, width - len(margin))):
        head = margin if at == 0 and not row.goes_on else " " * len(margin)
        line = Text.assemble((head, theme.ink(ink)), part)
        yield padded(line, width, theme.on(theme.words, ground)) if ground else line
