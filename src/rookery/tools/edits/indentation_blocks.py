"""The block of code around a line, found by indentation alone."""

from collections.abc import Sequence

from msgspec import Struct

TAB = 4
COMMENTS = ("#", "//", "--", "/*", "*", '"""', "'''")


class CodeBlock(Struct, frozen=True):
    """Line indices, the last one included. `cut` if the limit stopped its growth."""

    first: int
    last: int
    cut: bool


def block_around(
    lines: Sequence[str],
    anchor: int,
    *,
    max_levels: int = 0,
    include_siblings: bool = False,
    include_header: bool = True,
    limit: int,
) -> CodeBlock:
    """Grow from the anchor, one line up and one line down in turn, while lines belong to it.

    A line belongs if it is not outside the outermost wanted level. Of the lines at that level
    only the nearest one on each side is taken, and above it the comments that introduce it,
    unless siblings are wanted.
    """
    levels = _levels(lines)
    outermost = max(0, levels[anchor] - max_levels) if max_levels else 0

    def belongs(at: int, edges: int, *, header: bool) -> bool:
        if not 0 <= at < len(lines) or levels[at] < outermost:
            return False
        if levels[at] > outermost or include_siblings or edges == 0:
            return True
        return header and lines[at].lstrip().startswith(COMMENTS)

    first = last = anchor
    edges_above = edges_below = 0
    up = down = True
    while (up or down) and last - first + 1 < limit:
        up = up and belongs(first - 1, edges_above, header=include_header)
        if up:
            first -= 1
            edges_above += levels[first] == outermost
        if last - first + 1 >= limit:
            break
        down = down and belongs(last + 1, edges_below, header=False)
        if down:
            last += 1
            edges_below += levels[last] == outermost
    cut = (up and belongs(first - 1, edges_above, header=include_header)) or (
        down and belongs(last + 1, edges_below, header=False)
    )
    return _trimmed(lines, first, last, cut)


def _levels(lines: Sequence[str]) -> list[int]:
    """Blank lines are as deep as the line before them."""
    levels: list[int] = []
    for line in lines:
        code = line.lstrip(" \t")
        if code.strip():
            levels.append(len(line[: len(line) - len(code)].replace("\t", " " * TAB)) // TAB)
        else:
            levels.append(levels[-1] if levels else 0)
    return levels


def _trimmed(lines: Sequence[str], first: int, last: int, cut: bool) -> CodeBlock:
    while first < last and not lines[first].strip():
        first += 1
    while last > first and not lines[last].strip():
        last -= 1
    return CodeBlock(first, last, cut)
