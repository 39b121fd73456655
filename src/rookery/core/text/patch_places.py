"""Applies the hunks of a patch: finds their places in a file and changes the lines there.

Each hunk is searched below the previous one and applies at the first place that fits, in the
strictest view with a match: exactly, ignoring trailing blanks, ignoring indentation, ignoring
typographic characters. Lines that a hunk keeps stay exactly as in the file, and so does the end of
the last line.
"""

from collections.abc import Callable, Sequence
from itertools import groupby
from typing import TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from rookery.core.text.characters import plain_punctuation
from rookery.core.text.line_places import Adapt, LinePlaces, describe, nearest
from rookery.core.text.literal_edits import runs
from rookery.core.text.patch_text import Hunk, PatchRow, Sign, shown
from rookery.core.text.text_lines import Line, joined, lines_of, rewritten, usual_end

_BLANKS = " \t\r"
_View: TypeAlias = Callable[[str], str]

VIEWS: tuple[_View, ...] = (
    str,
    lambda row: row.rstrip(_BLANKS),
    lambda row: row.strip(_BLANKS),
    lambda row: plain_punctuation(row).strip(_BLANKS),
)


class Lost(Struct, frozen=True):
    """Lines that are not in the file at line `start` (from 0) or below."""

    hunk: Hunk
    wanted: tuple[str, ...]
    start: int


class Pointless(Struct, frozen=True):
    """A hunk with headers but without context lines."""

    hunk: Hunk


Miss: TypeAlias = Lost | Pointless


class _Place(Struct, frozen=True):
    at: int
    hunk: Hunk
    adapt: Adapt

    @property
    def end(self) -> int:
        return self.at + len(self.hunk.old)


def patched(text: str, hunks: Sequence[Hunk]) -> str | Miss:
    lines = lines_of(text)
    places = _placed(_Rows([line.text for line in lines]), hunks)
    if not isinstance(places, list):
        return places
    usual, done, result = usual_end(lines), 0, list[Line]()
    for place in sorted(places, key=lambda place: place.at):
        found = lines[place.at : place.end]
        result += lines[done : place.at]
        result += _changed(found, place.hunk.rows, usual, place.adapt)
        done = place.end
    return joined(_closed([*result, *lines[done:]], usual))


def explain(text: str, miss: Miss) -> str:
    match miss:
        case Pointless(hunk):
            return (
                f"The hunk at line {hunk.line} of the patch names '{shown(hunk.headers[-1])}' and "
                "has only lines to add. Quote the lines beside them, each after a space."
            )
        case Lost(hunk, wanted, start):
            return f"{_whereabouts(text, hunk, wanted, start)} Nothing of the patch was applied."


def _whereabouts(text: str, hunk: Hunk, wanted: Sequence[str], start: int) -> str:
    rows = [line.text for line in lines_of(text)]
    is_whole = list(wanted) == hunk.old
    what = "Its lines are" if is_whole else f"'{shown(wanted[0])}' is"
    said = f"The hunk at line {hunk.line} of the patch does not match. {what} not"
    elsewhere = _Rows(rows).first(wanted, 0)
    if elsewhere is None:
        return f"{said} in the file.\n{describe(nearest(rows, wanted))}\n"
    if is_whole and hunk.at_end:
        return f"{said} at the end of the file, but at line {elsewhere[0] + 1}."
    return (
        f"{said} below line {start}, but at line {elsewhere[0] + 1}: hunks follow the order of "
        "the file."
    )


class _Rows:
    """The lines of a file in every view, each computed on first use."""

    def __init__(self, rows: Sequence[str]) -> None:
        self.rows = rows
        self._seen: dict[_View, tuple[list[str], frozenset[str]]] = {}

    def first(self, wanted: Sequence[str], start: int) -> tuple[int, Adapt] | None:
        """The first place at or below `start`, and how to adapt the new lines."""
        for view in VIEWS:
            rows, known = self._in(view)
            sought = [view(row) for row in wanted]
            if not known.issuperset(sought):
                continue
            for at in runs(rows, sought, start):
                if adapt := self._adapt(wanted, at):
                    return at, adapt
        return None

    def _in(self, view: _View) -> tuple[list[str], frozenset[str]]:
        if view not in self._seen:
            rows = [view(row) for row in self.rows]
            self._seen[view] = rows, frozenset(rows)
        return self._seen[view]

    def _adapt(self, wanted: Sequence[str], at: int) -> Adapt | None:
        found = self.rows[at : at + len(wanted)]
        if found == wanted:
            return str
        there = LinePlaces([plain_punctuation(row) for row in found])
        return there.of([plain_punctuation(row) for row in wanted], 0).get(0)


def _placed(rows: _Rows, hunks: Sequence[Hunk]) -> list[_Place] | Miss:
    places: list[_Place] = []
    position = 0
    for hunk in hunks:
        place = _place(rows, hunk, position)
        if not isinstance(place, _Place):
            return place
        places.append(place)
        if hunk.old:
            position = place.end
    return places


def _place(rows: _Rows, hunk: Hunk, position: int) -> _Place | Miss:
    for header in hunk.headers:
        passed = rows.first([header], position)
        if passed is None:
            return Lost(hunk, (header,), position)
        position = passed[0] + 1
    if not hunk.old:
        return Pointless(hunk) if hunk.headers else _Place(len(rows.rows), hunk, str)
    for attempt in filter(None, (hunk, _without_last_empty(hunk))):
        old = attempt.old
        start = max(position, len(rows.rows) - len(old)) if hunk.at_end else position
        if found := rows.first(old, start):
            return _Place(found[0], attempt, found[1])
    return Lost(hunk, tuple(hunk.old), position)


def _without_last_empty(hunk: Hunk) -> Hunk | None:
    """The hunk without the empty line that some models add for the final line break."""
    rows = list(hunk.rows)
    at = max(place for place, row in enumerate(rows) if row.sign is not Sign.ADDED)
    row = rows[at]
    if row.text or len(hunk.old) == 1:
        return None
    if row.sign is Sign.KEPT and at + 1 < len(rows):
        rows[at] = PatchRow(Sign.ADDED, "")
    else:
        del rows[at]
        if row.sign is Sign.REMOVED and rows[-1] == PatchRow(Sign.ADDED, ""):
            del rows[-1]
    return replace(hunk, rows=tuple(rows))


def _changed(
    found: Sequence[Line], rows: Sequence[PatchRow], usual: str, adapt: Adapt
) -> list[Line]:
    result: list[Line] = []
    done = 0
    for kept, group in groupby(rows, key=lambda row: row.sign is Sign.KEPT):
        run = list(group)
        old = [row.text for row in run if row.sign is not Sign.ADDED]
        new = [row.text for row in run if row.sign is not Sign.REMOVED]
        there = found[done : done + len(old)]
        done += len(old)
        if kept:
            result += there
        elif there:
            result += rewritten(there, old, new, end=usual, adapt=adapt)
        else:
            result += [Line(adapt(text), usual) for text in new]
    return result


def _closed(lines: list[Line], usual: str) -> list[Line]:
    """Move a missing final line break to the new last line."""
    for at, line in enumerate(lines[:-1]):
        if not line.end:
            lines[at] = Line(line.text, usual)
            lines[-1] = Line(lines[-1].text, "")
    return lines
