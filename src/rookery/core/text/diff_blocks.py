"""Search/replace blocks: read them, find their places in a file, and put the new lines there.

    <<<<<<< SEARCH
    :start_line:12
    -------
    lines as they are
    =======
    lines as they shall be
    >>>>>>> REPLACE

Every block is looked for in the text as it was before any of them. A block whose place is in
doubt is refused and the others are applied.
"""

import re
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from enum import Enum, auto
from typing import TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from rookery.core.text.line_places import Adapt, LinePlaces, describe, nearest
from rookery.core.text.text_lines import Line, joined, lines_of, rewritten, usual_end

NEAR = 40
"""How many lines a start line may be off and still decide between two places."""
CLEARLY = 2
"""How many times farther the second place must be for the nearest to be chosen."""
LISTED = 10
SHOWN = 100
EXPLAINED = 10
"""Number of misses that are explained; the others are only counted."""

_MARKED = re.compile(r"\\(<<<<<<<|=======|>>>>>>>|-------|:start_line:|:end_line:)")
_HINT = re.compile(r":(start|end)_line:\s*+(\d*+)\s*+$")
_NUMBERED = re.compile(r" *+(\d*+) *+\|(?: (.*))?$")
_DIGITS = 9


class DiffBlock(Struct, frozen=True):
    search: tuple[str, ...]
    replace: tuple[str, ...]
    start_line: int = 0
    """Where the lines should be, from 1; 0 if not given."""


class Malformed(Struct, frozen=True):
    reason: str


class NotFound(Struct, frozen=True):
    number: int
    block: DiffBlock


class Refused(Struct, frozen=True):
    number: int
    reason: str


Miss: TypeAlias = NotFound | Refused


class Applied(Struct, frozen=True):
    """The text with `count` blocks applied, and why the others were not."""

    text: str
    count: int
    misses: tuple[Miss, ...] = ()


class _Mark(Enum):
    SEARCH = auto()
    SEPARATOR = auto()
    REPLACE = auto()
    STRAY = auto()


# ── reading ─────────────────────────────────────────────────────────────────────────────


def parse(diff: str) -> tuple[DiffBlock, ...] | Malformed:
    """The blocks of a diff. Text outside of blocks is ignored."""
    rows = diff.replace("\r\n", "\n").split("\n")
    marks = [_mark(row) for row in rows]
    blocks: list[DiffBlock] = []
    search: list[str] | None = None
    new: list[str] | None = None
    for number, (row, mark) in enumerate(zip(rows, marks, strict=True), 1):
        match mark, search, new:
            case _Mark.SEARCH, None, _:
                search = []
            case _Mark.SEPARATOR, list(), None:
                new = []
            case _Mark.REPLACE, list(), list():
                blocks.append(_block(search, new))
                search = new = None
            case None, list(), list():
                if _HINT.match(row):
                    return Malformed(
                        f"Line {number} has '{_shown(row)}' in the replacement; it belongs "
                        "under the SEARCH marker. Escape it with a backslash if it is text."
                    )
                new.append(row)
            case None, list(), None:
                search.append(row)
            case None, None, _:
                pass
            case _:
                return _misplaced(number, row, marks)
    if search is not None:
        wanted = "=======" if new is None else ">>>>>>> REPLACE"
        return Malformed(f"The last block is not finished: '{wanted}' is missing.")
    if not blocks:
        return Malformed("There is no block. A block begins with '<<<<<<< SEARCH'.")
    return tuple(blocks)


def _mark(row: str) -> _Mark | None:
    match row.rstrip():
        case "<<<<<<< SEARCH" | "<<<<<<< SEARCH>":
            return _Mark.SEARCH
        case "=======":
            return _Mark.SEPARATOR
        case ">>>>>>> REPLACE":
            return _Mark.REPLACE
        case text if re.match(r"(<<<<<<<|>>>>>>>)(\s|$)", text):
            return _Mark.STRAY
    return None


def _misplaced(number: int, row: str, marks: Sequence[_Mark | None]) -> Malformed:
    searches, separators, ends = (
        marks.count(mark) for mark in (_Mark.SEARCH, _Mark.SEPARATOR, _Mark.REPLACE)
    )
    if searches != ends or separators < searches:
        return Malformed(
            f"Line {number} has '{_shown(row)}' out of order: there are {searches} SEARCH, "
            f"{separators} ======= and {ends} REPLACE markers. Every block needs each once, "
            "in this order."
        )
    return Malformed(
        f"Line {number} has '{_shown(row)}' inside a block. If it is part of the file, escape "
        f"it with a backslash: '\\{_shown(row)}'."
    )


def _shown(row: str) -> str:
    row = row.strip()
    return row if len(row) <= SHOWN else f"{row[:SHOWN]} [cut]"


def _block(search: list[str], new: list[str]) -> DiffBlock:
    start = 0
    at = 0
    while at < len(search) and (hint := _HINT.match(search[at])):
        if hint[1] == "start":
            start = _line_number(hint[2])
        at += 1
    if at < len(search) and search[at].rstrip() == "-------":
        at += 1
    return DiffBlock(tuple(map(_plain, search[at:])), tuple(map(_plain, new)), start)


def _plain(row: str) -> str:
    return row[1:] if _MARKED.match(row) else row


def _line_number(digits: str) -> int:
    """Numbers with more digits than any line number are rejected."""
    return int(digits[:_DIGITS] or 0)


# ── applying ────────────────────────────────────────────────────────────────────────────


class _BlockPlace(Struct, frozen=True):
    number: int
    block: DiffBlock
    at: int
    adapt: Adapt

    @property
    def end(self) -> int:
        return self.at + len(self.block.search)

    def overlaps(self, other: "_BlockPlace") -> bool:
        return self.at < other.end and other.at < self.end


def apply(text: str, blocks: Sequence[DiffBlock]) -> Applied:
    lines = lines_of(text)
    sought = LinePlaces([line.text for line in lines])
    places: list[_BlockPlace] = []
    misses: list[Miss] = []
    for number, block in enumerate(blocks, 1):
        found = _place(sought, number, block)
        if isinstance(found, _BlockPlace):
            at = bisect_left(places, found.at, key=lambda place: place.at)
            rival = next((p for p in places[max(0, at - 1) : at + 1] if p.overlaps(found)), None)
            if rival is None:
                places.insert(at, found)
                continue
            found = Refused(number, f"It overlaps block {rival.number}.")
        misses.append(found)
    return Applied(joined(_rewritten(lines, places)), len(places), tuple(misses))


def _rewritten(lines: Sequence[Line], places: Iterable[_BlockPlace]) -> list[Line]:
    """The lines with all places changed; the places are in order."""
    end = usual_end(lines)
    done, result = 0, list[Line]()
    for place in places:
        search, new = place.block.search, place.block.replace
        found = lines[place.at : place.end]
        result += lines[done : place.at]
        result += rewritten(found, search, new, end=end, adapt=place.adapt)
        done = place.end
    return [*result, *lines[done:]]


def explain(text: str, misses: Sequence[Miss]) -> str:
    """Why blocks were not applied, with the closest lines in the file."""
    lines = [line.text for line in lines_of(text)]
    reasons = [_explained(lines, miss) for miss in misses[:EXPLAINED]]
    if len(misses) > EXPLAINED:
        reasons.append(f"{len(misses) - EXPLAINED} more blocks were not applied.")
    return "\n\n".join(reasons)


def _explained(lines: Sequence[str], miss: Miss) -> str:
    match miss:
        case Refused(number, reason):
            return f"Block {number} was not applied. {reason}"
        case NotFound(number, block):
            near = describe(nearest(lines, block.search))
            return f"Block {number} was not applied: its text is not in the file.\n{near}"


def _place(sought: LinePlaces, number: int, block: DiffBlock) -> _BlockPlace | Miss:
    if not block.search:
        return Refused(number, "Its SEARCH part is empty. Quote the lines beside the new ones.")
    if block.search == block.replace:
        return Refused(number, "Its SEARCH and REPLACE parts are the same.")
    for attempt in filter(None, (block, _without_numbers(block))):
        candidates = sought.of(attempt.search, attempt.start_line - 1)
        if not candidates:
            continue
        at = _decide(list(candidates), attempt.start_line)
        if at is None:
            return Refused(number, _ambiguous(list(candidates), attempt.start_line))
        return _BlockPlace(number, attempt, at, candidates[at])
    return _at_the_end(sought, number, block) or NotFound(number, block)


def _at_the_end(sought: LinePlaces, number: int, block: DiffBlock) -> _BlockPlace | None:
    """The place of lines at the end of a file, with an empty row after its last line."""
    if len(block.search) < 2 or block.search[-1].strip():
        return None
    new = block.replace[:-1] if block.replace and not block.replace[-1].strip() else block.replace
    shorter = replace(block, search=block.search[:-1], replace=new)
    last = sought.count - len(shorter.search)
    found = sought.of(shorter.search, last)
    return _BlockPlace(number, shorter, last, found[last]) if last in found else None


def _decide(candidates: Sequence[int], start_line: int) -> int | None:
    """The one intended place, if there is no doubt."""
    if len(candidates) == 1:
        return candidates[0]
    if not start_line:
        return None
    if start_line - 1 in candidates:
        return start_line - 1
    nearest, next_one = sorted(candidates, key=lambda at: abs(at - (start_line - 1)))[:2]
    off, next_off = (abs(at - (start_line - 1)) for at in (nearest, next_one))
    return nearest if off <= NEAR and off * CLEARLY <= next_off else None


def _ambiguous(candidates: Sequence[int], start_line: int) -> str:
    listed = ", ".join(str(at + 1) for at in candidates[:LISTED])
    more = " and others" if len(candidates) > LISTED else ""
    what_to_do = "Add lines around it, or a :start_line:."
    if start_line:
        what_to_do = (
            f"Line {start_line} is not clearly nearest to one of them. Add lines around it."
        )
    return f"Its text is in the file {len(candidates)} times, at lines {listed}{more}. {what_to_do}"


def _without_numbers(block: DiffBlock) -> DiffBlock | None:
    """The block without line numbers copied from a listing; None if some line has none."""
    search = [_NUMBERED.match(row) for row in block.search]
    new = [_NUMBERED.match(row) for row in block.replace]
    if not all(search) or not all(new):
        return None
    first = search[0][1] if search and search[0] else ""
    return replace(
        block,
        search=tuple(row[2] or "" for row in search if row),
        replace=tuple(row[2] or "" for row in new if row),
        start_line=block.start_line or _line_number(first),
    )
