"""Marks the words that differ between a removed line and the added line that replaces it.

Lines are highlighted HTML. They are compared by the text that a reader sees, and the marks are put
into the HTML between its tags, so that it stays well-formed.
"""

import re
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from html import unescape

from msgspec.structs import replace

from rookery.manager.shown_rows import DiffLine

MOST_WORDS = 300
"""Words of a line that is still compared."""
MOST_PAIRS = 400
"""Pairs of lines that are compared in one diff."""
LEAST_COMMON = 0.4
"""Lines that have less in common are different lines rather than a changed one."""
_PARTS = re.compile(r"(<[^>]*>)|(&[#\w]{1,10};)|([^<&]+|&)")
_WORDS = re.compile(r"\w+|\s+|.", re.DOTALL)
OPEN, CLOSE = "<mark>", "</mark>"


def mark_words(lines: Sequence[DiffLine]) -> tuple[DiffLine, ...]:
    """The lines with their changed words marked."""
    marked = list(lines)
    for old, new in list(_pairs(lines))[:MOST_PAIRS]:
        if spans := changed_words(_text(lines[old].html), _text(lines[new].html)):
            for at, its_spans in zip((old, new), spans, strict=True):
                marked[at] = replace(lines[at], html=with_marks(lines[at].html, its_spans))
    return tuple(marked)


def _pairs(lines: Sequence[DiffLine]) -> Iterator[tuple[int, int]]:
    """Positions of removed lines and the added ones that directly follow and replace them."""
    removed: list[int] = []
    added: list[int] = []
    for at, line in enumerate(lines):
        if line.kind == "added":
            added.append(at)
            continue
        if line.kind != "removed" or added:
            yield from zip(removed, added, strict=False)
            removed, added = [], []
        if line.kind == "removed":
            removed.append(at)
    yield from zip(removed, added, strict=False)


Spans = list[tuple[int, int]]


def changed_words(old: str, new: str) -> tuple[Spans, Spans] | None:
    """Where each text has words that the other has not; None if that says nothing."""
    ours, theirs = _WORDS.findall(old), _WORDS.findall(new)
    if not ours or not theirs or max(len(ours), len(theirs)) > MOST_WORDS:
        return None
    matcher = SequenceMatcher(None, ours, theirs, autojunk=False)
    if matcher.ratio() < LEAST_COMMON:
        return None
    changes = [each for each in matcher.get_opcodes() if each[0] != "equal"]
    starts = [_starts(ours), _starts(theirs)]
    first = [(starts[0][begin], starts[0][end]) for _, begin, end, _, _ in changes if end > begin]
    second = [(starts[1][begin], starts[1][end]) for _, _, _, begin, end in changes if end > begin]
    return (first, second) if first or second else None


def _starts(words: Sequence[str]) -> list[int]:
    starts = [0]
    for word in words:
        starts.append(starts[-1] + len(word))
    return starts


def with_marks(html: str, spans: Spans) -> str:
    """The HTML with these spans of its text marked. A mark is closed before each tag."""
    made: list[str] = []
    at = 0
    for tag, entity, text in _PARTS.findall(html):
        for shown, length in [(tag, 0)] if tag else _units(entity, text):
            inside = bool(length) and any(begin <= at < end for begin, end in spans)
            made.append(f"{OPEN}{shown}{CLOSE}" if inside else shown)
            at += length
    return "".join(made).replace(CLOSE + OPEN, "")


def _units(entity: str, text: str) -> list[tuple[str, int]]:
    return [(entity, len(unescape(entity)))] if entity else [(each, 1) for each in text]


def _text(html: str) -> str:
    return "".join(unescape(entity) or text for _, entity, text in _PARTS.findall(html))
