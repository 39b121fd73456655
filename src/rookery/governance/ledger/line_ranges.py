"""Which lines of a text a change wrote, and which it removed, as hashes and never as content."""

from collections.abc import Sequence
from difflib import SequenceMatcher
from hashlib import sha256

from msgspec import Struct

from rookery.core.text.text_lines import alike

COMPARED_LINES = 3_000
"""Above this, what changed is one block: finding small changes would take too long."""
MARKED_LINES = 2_000
MARK = 8
"""Hex digits that tell a line from another, when it is looked for again."""


class LineRange(Struct, frozen=True):
    """Lines from 1, both ends included."""

    start: int
    end: int
    content_hash: str


class LineChange(Struct, frozen=True, kw_only=True):
    written: tuple[LineRange, ...] = ()
    """In the new text."""
    removed: tuple[LineRange, ...] = ()
    """In the old one."""
    added: int = 0
    deleted: int = 0
    marks: str = ""
    """Eight digits for every line written, one after the other; empty if they are too many."""
    words: str = ""
    """The same for what is left of each line without blanks."""


def plain_lines(text: str) -> list[str]:
    """The lines with every kind of line end taken off. A final one opens no further line."""
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    return lines if lines[-1] else lines[:-1]


def content_hash(lines: Sequence[str]) -> str:
    return "sha256:" + sha256("".join(f"{line}\n" for line in lines).encode()).hexdigest()


def line_mark(line: str) -> str:
    return sha256(f"{line}\n".encode()).hexdigest()[:MARK]


def word_mark(line: str) -> str:
    """The same for a line that was only indented or spaced in another way."""
    return sha256("".join(line.split()).encode()).hexdigest()[:MARK]


def line_change(old: str, new: str) -> LineChange:
    """What became of the lines of `old` in `new`."""
    before, after = plain_lines(old), plain_lines(new)
    written, removed = _changed_spans(before, after)
    fresh = [line for start, end in written for line in after[start:end]]
    marked = fresh if len(fresh) <= MARKED_LINES else []
    return LineChange(
        written=tuple(_range(after, *span) for span in written),
        removed=tuple(_range(before, *span) for span in removed),
        added=len(fresh),
        deleted=sum(end - start for start, end in removed),
        marks="".join(map(line_mark, marked)),
        words="".join(map(word_mark, marked)),
    )


Span = tuple[int, int]


def _changed_spans(before: list[str], after: list[str]) -> tuple[list[Span], list[Span]]:
    head = alike(before, after)
    tail = alike(before[head:][::-1], after[head:][::-1])
    old, new = before[head : len(before) - tail], after[head : len(after) - tail]
    written, removed = list[Span](), list[Span]()
    for tag, a, b, c, d in _steps(old, new):
        if tag != "equal":
            removed += [(head + a, head + b)] if b > a else []
            written += [(head + c, head + d)] if d > c else []
    return written, removed


def _steps(old: list[str], new: list[str]) -> Sequence[tuple[str, int, int, int, int]]:
    if not old or not new or len(old) + len(new) > COMPARED_LINES:
        return [("replace", 0, len(old), 0, len(new))]
    return SequenceMatcher(None, old, new).get_opcodes()


def _range(lines: list[str], start: int, end: int) -> LineRange:
    return LineRange(start + 1, end, content_hash(lines[start:end]))
