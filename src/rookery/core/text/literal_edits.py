"""Replaces text that is quoted exactly, or almost.

`replace_text` matches literally; only line endings may differ. `replace_loosely` tries three ways,
each looser: exactly; with different whitespace, but line breaks only where one was quoted; and as
the same words in the same order. A way counts only if it finds exactly the expected number of
matches.
"""

import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

from msgspec import Struct

from rookery.core.text.text_lines import alike, lines_of, usual_end, with_lf
from rookery.first_use import lazy_pattern

LISTED = 10

MOST_COMPARED = 5_000_000
"""Total words of all candidates; in a more repetitive text, nothing is found."""

_WORD = lazy_pattern(r"\S+")
_LINE_END = lazy_pattern(r"\r\n|\n|\r")
_ACROSS = " \t"


class Missing(Struct, frozen=True):
    """The text is not in the file."""


class Ambiguous(Struct, frozen=True):
    """There is more than one match; `lines` are the first ones."""

    lines: tuple[int, ...]


class Miscounted(Struct, frozen=True):
    """The number of matches is not the expected one; `lines` are the first ones."""

    found: int
    lines: tuple[int, ...]


class _Loosely:
    """Matches a quotation as a sequence of words. Its first word may be the end of a longer word
    in the text, its last one the beginning of one."""

    def __init__(self, text: str, old: str) -> None:
        self._text = text
        self._wanted = _WORD.findall(old)
        self._blanks = _WORD.split(old)

    def spans(self) -> Iterator[Iterator[tuple[int, int]]]:
        """Matches with different whitespace, then matches of the words."""
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
        for at in _places(self._text, word, step=1):
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
        """The match extended by the quoted whitespace around it, if present."""
        before = _blanks_before(self._text, start, self._blanks[0])
        after = _blanks_after(self._text, end, self._blanks[-1])
        if before is not None and after is not None:
            yield start - before, end + after


def replace_text(text: str, old: str, new: str, everywhere: bool) -> str | Missing | Ambiguous:
    old, new = with_lf(old), with_lf(new)
    even = with_lf(text)
    found = _places(even, old, step=len(old) if everywhere else 1)
    places = list(found if everywhere else islice(found, LISTED))
    if not places:
        return Missing()
    if len(places) > 1 and not everywhere:
        return Ambiguous(tuple(even.count("\n", 0, at) + 1 for at in places))
    same = alike(old, new)
    tail = alike(old[same:][::-1], new[same:][::-1])
    fresh = new[same : len(new) - tail]
    cuts = [(at + same, at + len(old) - tail) for at in places]
    return _cut_in(text, cuts, fresh)


def explain(text: str, old: str, miss: Missing | Ambiguous, *, can_all: bool = False) -> str:
    match miss:
        case Ambiguous(lines):
            listed = ", ".join(map(str, lines))
            or_all = ", or set replace_all" if can_all else ""
            return (
                f"The text is in the file more than once, at lines {listed}. Quote "
                f"more lines around it{or_all}."
            )
        case Missing():
            wanted = [line.text for line in lines_of(with_lf(old))]
            from rookery.core.text.line_places import describe, nearest

            near = nearest([line.text for line in lines_of(text)], wanted)
            return f"The text is not in the file.\n{describe(near)}"


def runs(items: Sequence[str], wanted: Sequence[str], start: int = 0) -> Iterator[int]:
    """Every match, including overlapping ones, in linear time (Knuth-Morris-Pratt)."""
    falls = _falls(wanted)
    met = 0
    for at in range(start, len(items)):
        item = items[at]
        while met and wanted[met] != item:
            met = falls[met]
        met += wanted[met] == item
        if met == len(wanted):
            yield at + 1 - met
            met = falls[met]


def replace_loosely(text: str, old: str, new: str, expected: int) -> str | Missing | Miscounted:
    miss = _replaced_literally(text, old, new, expected)
    if isinstance(miss, str) or (isinstance(miss, Miscounted) and miss.found > expected):
        return miss
    old, new = _without_common_blanks(with_lf(old), with_lf(new))
    for found in _Loosely(text, old).spans():
        spans = list(found) if expected == 1 else _apart(found)
        if len(spans) == expected:
            return _cut_in_spans(text, spans, new)
        if spans:
            miss = _miscounted(text, [start for start, _ in spans])
        if len(spans) > expected:
            break
    return miss


def explain_loose(text: str, old: str, miss: Missing | Miscounted, expected: int) -> str:
    match miss:
        case Miscounted(found, lines):
            listed = ", ".join(map(str, lines))
            return (
                f"Expected to find the text {_times(expected)}, but found it "
                f"{_times(found)}, at lines {listed}. Quote more lines around it, or "
                "set expected_replacements."
            )
        case Missing():
            return explain(text, old, miss)


def _places(text: str, piece: str, *, step: int) -> Iterator[int]:
    at = text.find(piece)
    while at >= 0:
        yield at
        at = text.find(piece, at + step)


def _cut_in(text: str, cuts: list[tuple[int, int]], fresh: str) -> str:
    """The text with every match replaced by `fresh`; positions refer to the normalised text."""
    doubled = _doubled(text)
    spans = [
        (first + bisect_left(doubled, first), last + bisect_left(doubled, last))
        for first, last in cuts
    ]
    return _cut_in_spans(text, spans, fresh)


def _doubled(text: str) -> list[int]:
    """Positions in the normalised text of line endings that had two characters."""
    return [at - before for before, at in enumerate(_places(text, "\r\n", step=2))]


def _falls(wanted: Sequence[str]) -> list[int]:
    """The failure table: matched items that still match if the next one differs."""
    falls = [0, 0]
    met = 0
    for item in wanted[1:]:
        while met and wanted[met] != item:
            met = falls[met]
        met += wanted[met] == item
        falls.append(met)
    return falls


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


def _replaced_literally(text: str, old: str, new: str, expected: int) -> str | Missing | Miscounted:
    even, piece = with_lf(text), with_lf(old)
    places = list(_places(even, piece, step=1 if expected == 1 else len(piece)))
    if not places:
        return Missing()
    if len(places) != expected:
        return _miscounted(even, places)
    edited = replace_text(text, old, new, everywhere=True)
    assert isinstance(edited, str)
    return edited


def _miscounted(text: str, places: Sequence[int]) -> Miscounted:
    end = "\n" if "\n" in text else "\r"
    lines = tuple(text.count(end, 0, at) + 1 for at in places[:LISTED])
    return Miscounted(len(places), lines)


def _without_common_blanks(old: str, new: str) -> tuple[str, str]:
    """Both without surrounding whitespace that does not change."""
    before = old[: len(old) - len(old.lstrip())]
    if before and new[: len(new) - len(new.lstrip())] == before:
        old, new = old[len(before) :], new[len(before) :]
    after = old[len(old.rstrip()) :]
    if after and new[len(new.rstrip()) :] == after:
        old, new = old[: -len(after)], new[: -len(after)]
    return old, new


def _cut_in_spans(text: str, spans: Sequence[tuple[int, int]], new: str) -> str:
    fresh = new.replace("\n", usual_end(lines_of(text))) if "\n" in new else new
    pieces, done = list[str](), 0
    for start, end in spans:
        pieces += [text[done:start], fresh]
        done = end
    return "".join([*pieces, text[done:]])


def _apart(spans: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Matches that do not overlap an earlier one."""
    chosen: list[tuple[int, int]] = []
    for span in spans:
        if not chosen or span[0] >= chosen[-1][1]:
            chosen.append(span)
    return chosen


def _blanks_before(text: str, at: int, quoted: str) -> int | None:
    """The number of blanks before the match that belong to it: no more line breaks than were
    quoted."""
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
