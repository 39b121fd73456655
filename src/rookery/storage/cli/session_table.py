"""Sessions as a table for a person at a terminal, as wide as the terminal is.

A session that works for another one stands below it. A column that tells nothing is left out.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime

from msgspec import Struct

from rookery import NAME
from rookery.core.text.terminal_text import Paint, cells_of, harmless, harmless_line
from rookery.storage.cli.session_ids import short_ids
from rookery.storage.summary import Status, TaskSummary

GAP = "  "
BELOW = "└ "
NARROWEST_TASK = 12


class Look(Struct, frozen=True, kw_only=True):
    """How a table is drawn."""

    width: int
    paint: Paint
    now: datetime
    home: str = ""
    """What is written as `~`."""
    folders: bool = False
    """Whether each session's folder is shown."""


class _Row(Struct, frozen=True, kw_only=True):
    id: str
    age: str
    status: Status
    mode: str
    cost: str
    folder: str
    task: str
    below: Sequence[str]


def table(
    sessions: Sequence[TaskSummary],
    snippets: Mapping[str, str],
    known_ids: Sequence[str],
    look: Look,
) -> str:
    """The sessions in the order given, but each below the one it works for; their ids are short,
    and still fit none of the `known_ids` but their own."""
    short = short_ids(known_ids)
    rows = [
        _Row(
            id=short[session.id],
            age=age(session.updated, look.now),
            status=session.status,
            mode=harmless_line(session.mode),
            cost=money(session.cost),
            folder=cut_front(folder_name(session.workspace, look.home), look.width // 3),
            task=branch(depth) + one_line(session.title),
            below=[note for note in (session.damage, snippets.get(session.id)) if note],
        )
        for depth, session in family_tree(sessions)
    ]
    columns = zip(*(_columns(row, look) for row in rows), strict=True)
    widths = [max(map(cells_of, column)) for column in columns]
    lines = [line for row in rows for line in _lines(row, widths, look)]
    return "\n".join([*lines, "", f"Go on with: {NAME} --session-id ID"])


def family_tree(sessions: Sequence[TaskSummary]) -> Iterator[tuple[int, TaskSummary]]:
    """Every session once, after the one it works for if that is among them, and how many stand
    above it."""
    known = {session.id for session in sessions}
    children: dict[str, list[TaskSummary]] = {}
    for session in sorted(sessions, key=lambda one: one.created):
        if session.parent in known and session.parent != session.id:
            children.setdefault(session.parent or "", []).append(session)
    told: set[str] = set()
    roots = [one for one in sessions if one.parent not in known or one.parent == one.id]
    waiting = [(0, session) for session in reversed((*roots, *sessions))]
    while waiting:
        depth, session = waiting.pop()
        if session.id in told:  # damaged journals may name one another as their parents
            continue
        told.add(session.id)
        yield depth, session
        waiting += [(depth + 1, child) for child in reversed(children.get(session.id, []))]


def branch(depth: int) -> str:
    """What stands before a session that works for another one."""
    return GAP * (depth - 1) + BELOW if depth else ""


def money(cost: float | None) -> str:
    """Dollars, as exactly as one wants to know them; nothing if nobody knows."""
    if cost is None:
        return ""
    return f"${cost:.2f}" if cost >= 0.995 or not cost else f"${cost:.4f}"


def _columns(row: _Row, look: Look) -> list[str]:
    return [row.id, row.age, row.status, row.mode, row.cost, *([row.folder] * look.folders)]


def _lines(row: _Row, widths: Sequence[int], look: Look) -> list[str]:
    cells = [_padded(*cell) for cell in zip(_columns(row, look), widths, strict=True)]
    cells[1] = look.paint.dim(cells[1])
    cells[2] = _coloured(row.status, cells[2], look.paint)
    cells[4] = row.cost.rjust(widths[4])
    told = [cell for cell, width in zip(cells, widths, strict=True) if width]
    taken = sum(cells_of(cell) + len(GAP) for cell in told)
    task = cut(row.task, max(NARROWEST_TASK, look.width - taken))
    indented = [cut(f"{GAP}{one_line(note)}", look.width) for note in row.below]
    return [GAP.join([*told, task]), *map(look.paint.dim, indented)]


def _coloured(status: Status, text: str, paint: Paint) -> str:
    match status:
        case Status.COMPLETED:
            return paint.green(text)
        case Status.FAILED:
            return paint.red(text)
        case Status.OPEN:
            return paint.yellow(text)
        case Status.CLOSED:
            return paint.dim(text)


def age(ts: int, now: datetime) -> str:
    """How long ago something was, as one says it; `now` knows its timezone."""
    try:
        then = datetime.fromtimestamp(ts / 1000, now.tzinfo)
    except (ValueError, OverflowError, OSError):
        return "unknown time"
    minutes = int((now - then).total_seconds()) // 60
    hours = minutes // 60
    days = (now.date() - then.date()).days
    if minutes in (-1, 0):
        return "just now"
    if 0 < minutes < 60:
        return f"{minutes} min ago"
    if 0 < hours < (24 if days == 0 else 12):
        return f"{hours} h ago"
    return "yesterday" if days == 1 else then.date().isoformat()


def folder_name(folder: str, home: str) -> str:
    """A folder as its owner calls it, on one harmless line."""
    if home and (folder == home or folder.startswith(home + os.sep)):
        folder = "~" + folder.removeprefix(home)
    return harmless_line(folder)


def one_line(text: str) -> str:
    return " ".join(harmless(text).split()) or "(untitled)"


def cut(text: str, width: int) -> str:
    """As much of the beginning as fits, with a mark if something is missing."""
    if cells_of(text) <= width:
        return text
    taken, room = "", width - 1
    for char in text:
        room -= cells_of(char)
        if room < 0:
            break
        taken += char
    return taken + "…"


def cut_front(text: str, width: int) -> str:
    """As much of the end as fits: of a path that is what tells."""
    return cut(text[::-1], width)[::-1]


def _padded(text: str, width: int) -> str:
    return text + " " * (width - cells_of(text))
