"""A change as people read it: added and removed lines with a little context."""

from difflib import unified_diff

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
