"""How commands name and list sessions: options, short ids, and the table.

An id can be given in full or by a unique prefix. The table is as wide as the terminal, puts
sub-tasks below their parents, and leaves out columns without information.
"""

import os
import shutil
import sys
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from rookery import NAME
from rookery.cli.command_line import folder_option
from rookery.core.facts import Event
from rookery.core.settings import Settings
from rookery.core.stored_tasks import StoredStatus, TaskSummary
from rookery.core.text.terminal_text import Paint, cells_of, harmless, harmless_line
from rookery.errors import SettingsError
from rookery.platform.user_folders import Places
from rookery.storage.sessions import TaskStore
from rookery.storage.settings_files import find_settings

if TYPE_CHECKING:
    from rookery.core.folds.view import View

GAP = "  "
BELOW = "└ "
NARROWEST_TASK = 12
TITLE_WIDTH = 120

workspace_option = folder_option("The folder whose last session to use if none is named.")

SHORT = 8
SHORTEST = 4
MOST_NAMED = 5


class TableStyle(Struct, frozen=True, kw_only=True):
    """How a table is drawn."""

    width: int
    paint: Paint
    now: datetime
    home: str = ""
    """The path shown as `~`."""
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
    """The sessions in the given order, sub-tasks below their parents, with ids shortened to
    prefixes that are unique among `known_ids`."""
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
    """Every session once with its depth, after its parent if that is among them."""
    known = {session.id for session in sessions}
    children: dict[str, list[TaskSummary]] = {}
    for session in sorted(sessions, key=lambda one: one.created):
        if session.parent in known and session.parent != session.id:
            children.setdefault(session.parent or "", []).append(session)
    seen: set[str] = set()
    roots = [one for one in sessions if one.parent not in known or one.parent == one.id]
    waiting = [(0, session) for session in reversed((*roots, *sessions))]
    while waiting:
        depth, session = waiting.pop()
        if session.id in seen:  # damaged journals may name one another as their parents
            continue
        seen.add(session.id)
        yield depth, session
        waiting += [(depth + 1, child) for child in reversed(children.get(session.id, []))]


def branch(depth: int) -> str:
    """The indentation of a sub-task."""
    return GAP * (depth - 1) + BELOW if depth else ""


def money(cost: float | None) -> str:
    """Dollars with a sensible precision; empty if unknown."""
    if cost is None:
        return ""
    return f"${cost:.2f}" if cost >= 0.995 or not cost else f"${cost:.4f}"


def age(ts: int, now: datetime) -> str:
    """How long ago something was, in words; `now` has a timezone."""
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
    """A folder on one printable line, with `~` for the home folder."""
    if home and (folder == home or folder.startswith(home + os.sep)):
        folder = "~" + folder.removeprefix(home)
    return harmless_line(folder)


def one_line(text: str) -> str:
    return " ".join(harmless(text).split()) or "(untitled)"


def cut(text: str, width: int) -> str:
    """As much of the beginning as fits, with a mark if text is missing."""
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
    """As much of the end as fits, which is the useful part of a path."""
    return cut(text[::-1], width)[::-1]


def family_of(everyone: Sequence[TaskSummary], task_id: str) -> list[tuple[int, TaskSummary]]:
    """A session and all its sub-tasks, each with its depth."""
    known = {one.id: one for one in everyone}
    first = known.get(task_id, TaskSummary(id=task_id))
    members, more = {task_id}, {task_id}
    while more:
        more = {one.id for one in everyone if one.parent in more} - members
        members |= more
    children = [one for one in everyone if one.id in members and one.id != task_id]
    return list(family_tree([replace(first, parent=None), *children]))


def view_of(events: Sequence[Event]) -> "View":
    from rookery.core.folds.view import View, see

    view = View()
    for event in events:
        view = see(view, event)
    return view


def paint_for_output(places: Places) -> Paint:
    """Colours by the settings; the default if the settings are invalid, which is reported
    elsewhere."""
    try:
        settings = find_settings(places.settings_file, None, os.environ, {}).settings
    except SettingsError:
        settings = Settings()
    return Paint(settings.colours(sys.stdout, os.environ))


def confirmed(question: str) -> bool:
    """Ask at the terminal; whether the answer is yes."""
    if not sys.stdin.isatty():
        raise SettingsError("Not interactive: use -y to approve.")
    try:
        return input(f"{question} [y/N] ").strip().lower() in ("y", "yes")
    except EOFError:
        return False


def full_id(store: TaskStore, given: str) -> str:
    """Resolve an id. A full UUID is returned unchanged, even if there is no such session;
    anything else must be a prefix of exactly one."""
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
    store: TaskStore, given: str | None, workspace: Path, purpose: str = "continue"
) -> str:
    """The given session, or the last one of the workspace. `purpose` is what to do with it, for
    messages."""
    if given is not None:
        task_id = full_id(store, given)
        if not store.exists(task_id):
            new = " To start one: --create-with-session-id" if purpose == "continue" else ""
            raise SettingsError(f"No such session: {task_id}. See {NAME} list.{new}")
        return task_id
    sessions = store.list(str(workspace), hidden=False)
    if not sessions:
        raise SettingsError(
            f"No session to {purpose} in {workspace}. See other folders with {NAME} list "
            f'--all, or start one here: {NAME} "your task"'
        )
    return root_of(sessions[0], {session.id: session for session in sessions})


def short_ids(ids: Iterable[str]) -> dict[str, str]:
    """A unique prefix of each id, of at least eight characters."""
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
    seen = [cell for cell, width in zip(cells, widths, strict=True) if width]
    taken = sum(cells_of(cell) + len(GAP) for cell in seen)
    task = cut(row.task, max(NARROWEST_TASK, style.width - taken))
    indented = [cut(f"{GAP}{one_line(note)}", style.width) for note in row.below]
    return [GAP.join([*seen, task]), *map(style.paint.dim, indented)]


def _coloured(status: StoredStatus, text: str, paint: Paint) -> str:
    match status:
        case StoredStatus.COMPLETED:
            return paint.green(text)
        case StoredStatus.FAILED:
            return paint.red(text)
        case StoredStatus.OPEN | StoredStatus.WAITING:
            return paint.yellow(text)
        case StoredStatus.CLOSED:
            return paint.dim(text)


def padded(text: str, width: int) -> str:
    return text + " " * (width - cells_of(text))


def root_of(session: TaskSummary, known: Mapping[str, TaskSummary]) -> str:
    """The id of the top-level session of a sub-task: only with it the results of sub-tasks
    arrive. Damaged journals may contain cycles."""
    seen = {session.id}
    while (parent := session.parent) and parent in known and parent not in seen:
        seen.add(parent)
        session = known[parent]
    return session.id


def _short(one: str, neighbours: Sequence[str]) -> str:
    """In alphabetical order, ids with the longest common prefix are neighbours."""
    alike = max(_common(one, other) for other in neighbours)
    return one[: max(SHORT, alike + 1)]


def _common(one: str, other: str) -> int:
    """The length of the common prefix of two ids."""
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


def title(text: str) -> str:
    """A task's text on one line of at most 120 characters."""
    line = one_line(text)
    return line if len(line) <= TITLE_WIDTH else line[: TITLE_WIDTH - 3] + "..."


def table_style(places: Places, *, folders: bool) -> TableStyle:
    settings = find_settings(places.settings_file, None, os.environ, {}).settings
    return TableStyle(
        width=shutil.get_terminal_size().columns,
        paint=Paint(settings.colours(sys.stdout, os.environ)),
        now=datetime.now().astimezone(),
        home=os.path.expanduser("~"),
        folders=folders,
    )


def time_of(ts: int) -> str:
    try:
        return datetime.fromtimestamp(ts / 1000).strftime("%Y-%m-%d %H:%M")
    except (ValueError, OverflowError, OSError):
        return "unknown time"
