"""Diffs in colour, with the lines' numbers."""

import re
from collections.abc import Iterator, Sequence

from rich.text import Text

from rookery.clients.tui.look import Look
from rookery.clients.tui.rows.lines import LONGEST_LINE, clean, padded, wrapped
from rookery.core.values import record

_HUNK = re.compile(r"@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@")


@record
class DiffLine:
    """A line of a diff: its sign, its number in the file, and its words."""

    sign: str
    number: int | None
    words: str


def diff_lines(diff: str) -> Iterator[DiffLine]:
    """The lines between the hunks' heads; each head becomes one with the sign `@`."""
    old = new = 0
    for row in diff.splitlines():
        if head := _HUNK.match(row):
            old, new = int(head[1]), int(head[2])
            yield DiffLine("@", None, "")
            continue
        sign, words = row[:1], row[1:]
        match sign:
            case "+":
                yield DiffLine("+", new or None, words)
                new += 1
            case "-":
                yield DiffLine("-", old or None, words)
                old += 1
            case "\\":
                yield DiffLine("\\", None, words)
            case _:
                yield DiffLine(" ", new or None, words)
                old, new = old + 1, new + 1


def drawn_diff(diff: str, width: int, look: Look, longest: int = LONGEST_LINE) -> list[Text]:
    """All of it. Every line reaches to the edge, so that what changed stands out as a block."""
    rows = list(diff_lines(clean(diff)))
    gutter = len(str(max((row.number or 0 for row in rows), default=0)))
    shown = _without_first_head(rows)
    return [line for row in shown for line in _drawn(row, gutter, width, look, longest)]


def _without_first_head(rows: Sequence[DiffLine]) -> Sequence[DiffLine]:
    return rows[1:] if rows and rows[0].sign == "@" else rows


def _drawn(row: DiffLine, gutter: int, width: int, look: Look, longest: int) -> Iterator[Text]:
    if row.sign == "@":
        yield Text(f"{'⋮':>{gutter}}", look.ink(look.quiet))
        return
    number = "" if row.number is None else str(row.number)
    ink, ground = {
        "+": (look.good, look.added),
        "-": (look.bad, look.removed),
    }.get(row.sign, (look.quiet, ""))
    margin = f"{number:>{gutter}} {row.sign if row.sign in '+-' else ' '} "
    words = Text(row.words, look.ink(look.words if ground else look.quiet))
    for at, part in enumerate(wrapped(words, width - len(margin), longest)):
        head = margin if at == 0 else " " * len(margin)
        line = Text.assemble((head, look.ink(ink)), part)
        yield padded(line, width, look.on(look.words, ground)) if ground else line
