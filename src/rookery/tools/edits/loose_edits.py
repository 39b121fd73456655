"""Replacing a piece of text that was not quoted to the letter.

Three ways to find it, each looser than the one before: as it stands; with other blanks than
those quoted, but line ends only where a line end was quoted; and as the same words in the same
order. A way counts only if it finds the piece exactly as often as it is expected.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

from msgspec import Struct

from rookery.core.text.text_lines import lines_of, usual_end
from rookery.tools.edits.literal_edits import LISTED, Missing, replace_text
from rookery.tools.edits.literal_edits import explain as explain_literal
from rookery.tools.edits.subsequences import runs

MOST_COMPARED = 5_000_000
"""Words of all candidates together; in a text more repetitive than that, nothing is found."""

_WORD = re.compile(r"\S+")
_LINE_END = re.compile(r"\r\n|\n|\r")
_ACROSS = " \t"


class Miscounted(Struct, frozen=True):
    """It is there, but not as often as expected; `lines` are where, as many as need be told."""

    found: int
    lines: tuple[int, ...]


def replace_loosely(text: str, old: str, new: str, expected: int) -> str | Missing | Miscounted:
    miss = _replaced_literally(text, old, new, expected)
    if isinstance(miss, str) or (isinstance(miss, Miscounted) and miss.found > expected):
        return miss
    old, new = _without_common_blanks(_even(old), _even(new))
    for found in _Loosely(text, old).spans():
        spans = list(found) if expected == 1 else _apart(found)
        if len(spans) == expected:
            return _cut_in(text, spans, new)
        if spans:
            miss = _miscounted(text, [start for start, _ in spans])
        if len(spans) > expected:
            break
    return miss


def explain(text: str, old: str, miss: Missing | Miscounted, expected: int) -> str:
    match miss:
        case Miscounted(found, lines):
            listed = ", ".join(map(str, lines))
            return (
                f"Expected to find the text {_times(expected)}, but it is there {_times(found)}, "
                f"at lines {listed}. Quote more of what is around it, or set "
                "expected_replacements."
            )
        case Missing():
            return explain_literal(text, old, miss)


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


def _even(text: str) -> str:
    return text.replace("\r\n", "\n")


def _replaced_literally(text: str, old: str, new: str, expected: int) -> str | Missing | Miscounted:
    even, piece = _even(text), _even(old)
    places = list(_occurrences(even, piece, step=1 if expected == 1 else len(piece)))
    if not places:
        return Missing()
    if len(places) != expected:
        return _miscounted(even, places)
    edited = replace_text(text, old, new, everywhere=True)
    assert isinstance(edited, str)
    return edited


def _occurrences(text: str, piece: str, *, step: int) -> Iterator[int]:
    at = text.find(piece)
    while at >= 0:
        yield at
        at = text.find(piece, at + step)


def _miscounted(text: str, places: Sequence[int]) -> Miscounted:
    end = "\n" if "\n" in text else "\r"
    lines = tuple(text.count(end, 0, at) + 1 for at in places[:LISTED])
    return Miscounted(len(places), lines)


def _without_common_blanks(old: str, new: str) -> tuple[str, str]:
    """Both without the blanks around them, as far as those are not to change."""
    before = old[: len(old) - len(old.lstrip())]
    if before and new[: len(new) - len(new.lstrip())] == before:
        old, new = old[len(before) :], new[len(before) :]
    after = old[len(old.rstrip()) :]
    if after and new[len(new.rstrip()) :] == after:
        old, new = old[: -len(after)], new[: -len(after)]
    return old, new


def _cut_in(text: str, spans: Sequence[tuple[int, int]], new: str) -> str:
    fresh = new.replace("\n", usual_end(lines_of(text)))
    pieces, done = list[str](), 0
    for start, end in spans:
        pieces += [text[done:start], fresh]
        done = end
    return "".join([*pieces, text[done:]])


class _Loosely:
    """The places of a piece as a row of words. The first of them may be the end of a longer
    word in the text and the last the beginning of one, as with any quotation.
    """

    def __init__(self, text: str, old: str) -> None:
        self._text = text
        self._wanted = _WORD.findall(old)
        self._blanks = _WORD.split(old)

    def spans(self) -> Iterator[Iterator[tuple[int, int]]]:
        """Where it is with other blanks, then where its words are."""
        if not self._wanted:
            return
        if len(self._wanted) == 1:
            yield self._single()
            return
        most = MOST_COMPARED // len(self._wanted)
        found = list(islice(self._candidates(self._text.split()), most + 1))
        if not found or len(found) > most:
            return
        words = list(_WORD.finditer(self._text))
        yield self._around(words, [at for at in found if self._blanks_fit(words, at)])
        yield self._around(words, found)

    def _single(self) -> Iterator[tuple[int, int]]:
        (word,) = self._wanted
        for at in _occurrences(self._text, word, step=1):
            yield from self._with_edges(at, at + len(word))

    def _candidates(self, words: Sequence[str]) -> Iterator[int]:
        first, *middle, last = self._wanted
        if not set(words).issuperset(middle):
            return
        starts = (at - 1 for at in runs(words, middle, 1)) if middle else range(len(words))
        for at in starts:
            end = at + len(middle) + 1
            if end < len(words) and words[at].endswith(first) and words[end].startswith(last):
                yield at

    def _blanks_fit(self, words: Sequence[re.Match[str]], at: int) -> bool:
        between = enumerate(self._blanks[1:-1], at)
        return all(
            "\n" in quoted or not self._text[words[n].end() : words[n + 1].start()].strip(_ACROSS)
            for n, quoted in between
        )

    def _around(
        self, words: Sequence[re.Match[str]], found: Sequence[int]
    ) -> Iterator[tuple[int, int]]:
        for at in found:
            start = words[at].end() - len(self._wanted[0])
            end = words[at + len(self._wanted) - 1].start() + len(self._wanted[-1])
            yield from self._with_edges(start, end)

    def _with_edges(self, start: int, end: int) -> Iterator[tuple[int, int]]:
        """The place with the blanks around it that were quoted, if there are such."""
        before = _blanks_before(self._text, start, self._blanks[0])
        after = _blanks_after(self._text, end, self._blanks[-1])
        if before is not None and after is not None:
            yield start - before, end + after


def _apart(spans: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Those that do not overlap one before them."""
    chosen: list[tuple[int, int]] = []
    for span in spans:
        if not chosen or span[0] >= chosen[-1][1]:
            chosen.append(span)
    return chosen


def _blanks_before(text: str, at: int, quoted: str) -> int | None:
    """How many blanks before the place belong to it: of lines, no more than were quoted."""
    if not quoted:
        return 0
    lines = quoted.count("\n")
    first = at
    while first and (text[first - 1].isspace() if lines else text[first - 1] in _ACROSS):
        first -= 1
    ends = [end.start() for end in _LINE_END.finditer(text, first, at)]
    if lines and len(ends) >= lines:
        first = ends[-lines]
    return at - first or None


def _blanks_after(text: str, at: int, quoted: str) -> int | None:
    if not quoted:
        return 0
    lines = quoted.count("\n")
    last = at
    while last < len(text) and (text[last].isspace() if lines else text[last] in _ACROSS):
        last += 1
    ends = [end.end() for end in _LINE_END.finditer(text, at, last)]
    if lines and len(ends) >= lines:
        last = ends[lines - 1]
    return last - at or None
