"""Patches of several files, read from their text.

    *** Begin Patch
    *** Update File: prices.py
    *** Move to: sums.py
    @@ def total(items):
         subtotal = 0
    -    return subtotal
    +    return round(subtotal, 2)
    *** Add File: notes.txt
    +the first line
    *** Delete File: old.txt
    *** End Patch

What a patch says is read here; whether it fits the files is for others to find out.
"""

import re
from collections.abc import Iterator, Sequence
from enum import Enum
from itertools import takewhile
from typing import TypeAlias

from msgspec import Struct

SHOWN = 100

_BEGIN, _END = "*** Begin Patch", "*** End Patch"
_ADD, _DELETE, _UPDATE = "*** Add File:", "*** Delete File:", "*** Update File:"
_MOVE = "*** Move to:"
_HEREDOC = re.compile(r"(?:apply_patch )?<<(['\"]?)(\w+)\1$")


class Sign(Enum):
    KEPT = " "
    REMOVED = "-"
    ADDED = "+"


class PatchRow(Struct, frozen=True):
    sign: Sign
    text: str


class Hunk(Struct, frozen=True):
    """`headers` are lines of the file to pass first; `line` is where the hunk starts in the
    patch."""

    line: int
    headers: tuple[str, ...] = ()
    rows: tuple[PatchRow, ...] = ()
    at_end: bool = False

    @property
    def old(self) -> list[str]:
        return [row.text for row in self.rows if row.sign is not Sign.ADDED]

    @property
    def new(self) -> list[str]:
        return [row.text for row in self.rows if row.sign is not Sign.REMOVED]


class Addition(Struct, frozen=True):
    line: int
    path: str
    text: str = ""


class Deletion(Struct, frozen=True):
    line: int
    path: str


class Update(Struct, frozen=True):
    """`to` is the new path; empty if the file is not moved."""

    line: int
    path: str
    hunks: tuple[Hunk, ...] = ()
    to: str = ""


Section: TypeAlias = Addition | Deletion | Update


class MalformedPatch(Struct, frozen=True):
    line: int
    reason: str


class _Unreadable(Exception):
    def __init__(self, line: int, reason: str) -> None:
        self.malformed = MalformedPatch(line, reason)


_Numbered: TypeAlias = tuple[int, str]


def parse(patch: str) -> tuple[Section, ...] | MalformedPatch:
    try:
        rows = _between_the_marks(patch.replace("\r\n", "\n").split("\n"))
        return tuple(_section(head, body) for head, body in _sections(rows))
    except _Unreadable as unreadable:
        return unreadable.malformed


def _between_the_marks(rows: Sequence[str]) -> list[_Numbered]:
    """The rows between the begin and end marks, with their line numbers."""
    numbered = _trimmed([*enumerate(rows, 1)])
    if numbered and (heredoc := _HEREDOC.match(numbered[0][1].strip())):
        closed = numbered[-1][1].strip() == heredoc[2]
        numbered = _trimmed(numbered[1 : len(numbered) - closed])
    if not numbered:
        raise _Unreadable(1, f"it is empty. It begins with '{_BEGIN}'.")
    first, last = numbered[0], numbered[-1]
    if first[1].strip() != _BEGIN:
        raise _Unreadable(first[0], f"'{_BEGIN}' is missing there.")
    if last[1].strip() != _END:
        raise _Unreadable(last[0], f"'{_END}' is missing after it; the patch may be cut off.")
    inner = _trimmed(numbered[1:-1])
    if not inner:
        raise _Unreadable(first[0], "there is nothing between the begin and the end.")
    return inner


def _trimmed(rows: list[_Numbered]) -> list[_Numbered]:
    filled = [at for at, (_, row) in enumerate(rows) if row.strip()]
    return rows[filled[0] : filled[-1] + 1] if filled else []


def _sections(rows: Sequence[_Numbered]) -> list[tuple[_Numbered, list[_Numbered]]]:
    """Each header with the rows below it."""
    sections: list[tuple[_Numbered, list[_Numbered]]] = []
    for number, row in rows:
        if row.startswith((_ADD, _DELETE, _UPDATE)):
            sections.append(((number, row), []))
        elif sections:
            sections[-1][1].append((number, row))
        else:
            raise _Unreadable(
                number,
                f"'{shown(row)}' stands before any file. Name one with '{_UPDATE} path', "
                f"'{_ADD} path' or '{_DELETE} path'.",
            )
    return sections


def _section(head: _Numbered, body: list[_Numbered]) -> Section:
    number, row = head
    kind, _, _ = row.partition(":")
    path = _path(number, row)
    match f"{kind}:":
        case "*** Add File:":
            return Addition(number, path, _added(_trimmed(body)))
        case "*** Delete File:":
            for stray, text in _trimmed(body):
                raise _Unreadable(stray, f"'{shown(text)}' stands below a deletion.")
            return Deletion(number, path)
        case _:
            return _update(number, path, body)


def _path(number: int, row: str) -> str:
    path = row.partition(":")[2].strip()
    if not path:
        raise _Unreadable(number, "the path is missing.")
    return path


def _added(body: Sequence[_Numbered]) -> str:
    for number, row in body:
        if not row.startswith("+"):
            raise _Unreadable(
                number, f"'{shown(row)}' does not begin with '+', as all lines of a new file do."
            )
    return "".join(f"{row[1:]}\n" for _, row in body)


def _update(number: int, path: str, body: list[_Numbered]) -> Update:
    to = ""
    if body and body[0][1].startswith(_MOVE):
        to = _path(*body[0])
        body = body[1:]
    hunks = tuple(map(_hunk, _hunks(body)))
    if not hunks and not to:
        raise _Unreadable(number, f"nothing is said about how {shown(path)} changes.")
    return Update(number, path, hunks, to)


def _hunks(body: Sequence[_Numbered]) -> Iterator[list[_Numbered]]:
    """The rows of each hunk, from one '@@' to the next or to the end."""
    rows: list[_Numbered] = []
    for number, row in body:
        if _is_header(row) and rows and not _is_header(rows[-1][1]):
            yield rows
            rows = []
        if row or rows:
            rows.append((number, row))
        if _is_end_of_file(row):
            yield rows
            rows = []
    if rows:
        yield rows


def _hunk(rows: Sequence[_Numbered]) -> Hunk:
    line, _ = rows[0]
    at_end = _is_end_of_file(rows[-1][1])
    headers = [row[3:] for _, row in takewhile(lambda each: _is_header(each[1]), rows)]
    changes = tuple(_row(*row) for row in rows[len(headers) : len(rows) - at_end])
    if not changes:
        raise _Unreadable(line, "the hunk has no lines.")
    return Hunk(line, tuple(filter(str.strip, headers)), changes, at_end)


def _is_header(row: str) -> bool:
    return row == "@@" or row.startswith("@@ ")


def _is_end_of_file(row: str) -> bool:
    return row.rstrip() == "*** End of File"


def _row(number: int, row: str) -> PatchRow:
    try:
        return PatchRow(Sign(row[:1] or " "), row[1:])
    except ValueError:
        raise _Unreadable(
            number,
            f"'{shown(row)}' begins with none of '@@', '+', '-' and a space. Unchanged lines "
            "begin with a space.",
        ) from None


def shown(text: str) -> str:
    text = text.strip()
    return text if len(text) <= SHOWN else f"{text[:SHOWN]} [cut]"
