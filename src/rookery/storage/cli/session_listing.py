"""Sessions as commands name them and list them: options, short ids, and the table.

People give an id whole, or as few characters as tell it apart. The table is as wide as the
terminal, puts a session below the one it works for, and leaves out columns that tell nothing.
"""

import os
import sys
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import click
from msgspec import Struct
from msgspec.structs import replace

from rookery import NAME
from rookery.cli.main import resolve_folder
from rookery.core.facts import Event
from rookery.core.folds.view import View, see
from rookery.core.settings import Settings
from rookery.core.text.terminal_text import Paint, cells_of, harmless, harmless_line
from rookery.errors import SettingsError
from rookery.platform.user_folders import Places
from rookery.storage.sessions import TaskStore
from rookery.storage.settings_files import find_settings
from rookery.storage.summary import StoredStatus, TaskSummary

GAP = "  "
BELOW = "└ "
NARROWEST_TASK = 12

workspace_option: Callable[[Callable[..., Any]], Callable[..., Any]] = click.option(
    "-w",
    "--workspace",
    type=click.Path(path_type=Path),
    default=".",
    callback=resolve_folder,
    help="The folder whose last session to use if none is named.",
)

format_option: Callable[[Callable[..., Any]], Callable[..., Any]] = click.option(
    "--format",
    "form",
    type=click.Choice(["text", "json"], case_sensitive=False),
    default="text",
    help="The output format.",
)

SHORT = 8
SHORTEST = 4
MOST_NAMED = 5


class TableStyle(Struct, frozen=True, kw_only=True):
    """How a table is drawn."""

    width: int
    paint: Paint
    now: datetime
    home: str = ""
    """What is written as `~`."""
    folders: bool = False
    """Whether each session's folder is shown."""


class _TableRow(Struct, frozen=True, kw_only=True):
    id: str
    age: str
    status: StoredStatus
    mode: str
    cost: str
    folder: str
    task: str
    below: Sequence[str]


def table(
    sessions: Sequence[TaskSummary],
    snippets: Mapping[str, str],
    known_ids: Sequence[str],
    style: TableStyle,
) -> str:
    """The sessions in the order given, but each below the one it works for; their ids are short,
    and still fit none of the `known_ids` but their own."""
    short = short_ids(known_ids)
    rows = [
        _TableRow(
            id=short[session.id],
            age=age(session.updated, style.now),
            status=session.status,
            mode=harmless_line(session.mode),
            cost=money(session.cost),
            folder=cut_front(folder_name(session.workspace, style.home), style.width // 3),
            task=branch(depth) + one_line(session.title),
            below=[note for note in (session.damage, snippets.get(session.id)) if note],
        )
        for depth, session in family_tree(sessions)
    ]
    columns = zip(*(_columns(row, style) for row in rows), strict=True)
    widths = [max(map(cells_of, column)) for column in columns]
    lines = [line for row in rows for line in _lines(row, widths, style)]
    return "\n".join([*lines, "", f"Continue with: {NAME} --session-id ID"])


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


def family_of(everyone: Sequence[TaskSummary], task_id: str) -> list[tuple[int, TaskSummary]]:
    """A session and all that worked for it, and for those, each with how deep it stands."""
    known = {one.id: one for one in everyone}
    first = known.get(task_id, TaskSummary(id=task_id))
    members, more = {task_id}, {task_id}
    while more:
        more = {one.id for one in everyone if one.parent in more} - members
        members |= more
    children = [one for one in everyone if one.id in members and one.id != task_id]
    return list(family_tree([replace(first, parent=None), *children]))


def view_of(events: Sequence[Event]) -> View:
    view = View()
    for event in events:
        view = see(view, event)
    return view


def paint_for_output(places: Places) -> Paint:
    """Colours as the settings say; the usual ones if those are faulty, which is told elsewhere."""
    try:
        settings = find_settings(places.settings_file, None, os.environ, {}).settings
    except SettingsError:
        settings = Settings()
    return Paint(settings.colours(sys.stdout, os.environ))


def confirmed(question: str) -> bool:
    """Whether whoever sits at the terminal says yes."""
    if not sys.stdin.isatty():
        raise SettingsError("Not interactive: use -y to approve.")
    try:
        return input(f"{question} [y/N] ").strip().lower() in ("y", "yes")
    except EOFError:
        return False


def counted(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number:,} {what}s"


def full_id(store: TaskStore, given: str) -> str:
    """The id that a session was given by. A whole UUID is taken as it is, whether or not there
    is such a session; anything else must be the beginning of exactly one."""
    wanted = given.lower()
    if _is_uuid(wanted):
        return wanted
    if len(wanted) < SHORTEST:
        raise SettingsError(
            f"{given!r} is too short for a session id; give at least {SHORTEST} characters of it."
        )
    known = [session.id for session in store.list()]
    fitting = [one for one in known if one.lower().startswith(wanted)]
    match [one for one in fitting if one.lower() == wanted] or fitting:
        case []:
            raise SettingsError(f"No session begins with {given}. See {NAME} list --all.")
        case [only]:
            return only
        case _:
            named = [short for one, short in short_ids(known).items() if one in fitting]
            shown = ", ".join(named[:MOST_NAMED]) + (", …" if len(named) > MOST_NAMED else "")
            raise SettingsError(f"{given} matches several sessions: {shown}. Give more characters.")


def chosen_session(
    store: TaskStore, given: str | None, workspace: Path, wish: str = "continue"
) -> str:
    """The session that is meant: the one given, or else the last one of the workspace. `wish` is
    what somebody wants to do with it."""
    if given is not None:
        task_id = full_id(store, given)
        if not store.exists(task_id):
            raise SettingsError(f"No such session: {task_id}. See {NAME} list.")
        return task_id
    sessions = store.list(str(workspace), hidden=False)
    if not sessions:
        raise SettingsError(
            f"No session to {wish} in {workspace}. See other folders with {NAME} list "
            f'--all, or start one here: {NAME} "your task"'
        )
    return _root_of(sessions[0], {session.id: session for session in sessions}).id


def short_ids(ids: Iterable[str]) -> dict[str, str]:
    """For each id its first characters: eight, or as many as no other id begins with."""
    ordered = sorted(set(ids))
    pairs = zip(ordered, ["", *ordered], [*ordered[1:], ""], strict=False)
    return {one: _short(one, (before, after)) for one, before, after in pairs}


def _columns(row: _TableRow, style: TableStyle) -> list[str]:
    return [row.id, row.age, row.status, row.mode, row.cost, *([row.folder] * style.folders)]


def _lines(row: _TableRow, widths: Sequence[int], style: TableStyle) -> list[str]:
    cells = [padded(*cell) for cell in zip(_columns(row, style), widths, strict=True)]
    cells[1] = style.paint.dim(cells[1])
    cells[2] = _coloured(row.status, cells[2], style.paint)
    cells[4] = row.cost.rjust(widths[4])
    told = [cell for cell, width in zip(cells, widths, strict=True) if width]
    taken = sum(cells_of(cell) + len(GAP) for cell in told)
    task = cut(row.task, max(NARROWEST_TASK, style.width - taken))
    indented = [cut(f"{GAP}{one_line(note)}", style.width) for note in row.below]
    return [GAP.join([*told, task]), *map(style.paint.dim, indented)]


def _coloured(status: StoredStatus, text: str, paint: Paint) -> str:
    match status:
        case StoredStatus.COMPLETED:
            return paint.green(text)
        case StoredStatus.FAILED:
            return paint.red(text)
        case StoredStatus.OPEN:
            return paint.yellow(text)
        case StoredStatus.CLOSED:
            return paint.dim(text)


def padded(text: str, width: int) -> str:
    return text + " " * (width - cells_of(text))


def _root_of(session: TaskSummary, known: Mapping[str, TaskSummary]) -> TaskSummary:
    """The task that the others work for: only with it their results arrive."""
    while session.parent and session.parent in known:
        session = known[session.parent]
    return session


def _short(one: str, neighbours: Sequence[str]) -> str:
    """In order of the alphabet, whoever begins most alike stands beside."""
    alike = max(_common(one, other) for other in neighbours)
    return one[: max(SHORT, alike + 1)]


def _common(one: str, other: str) -> int:
    """How many characters two ids begin with alike."""
    length = 0
    for char, beside in zip(one, other, strict=False):
        if char != beside:
            break
        length += 1
    return length


def _is_uuid(text: str) -> bool:
    try:
        return str(uuid.UUID(text)) == text
    except ValueError:
        return False
