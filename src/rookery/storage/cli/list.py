"""`rookery list` and `rookery search`: list sessions, for people and for scripts."""

import json
import os
import re
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from msgspec.structs import replace

from rookery.cli.command_line import folder_option, format_option
from rookery.core.stored_tasks import SearchHit, StoredStatus, TaskSummary
from rookery.core.text.characters import as_utf8, whole_values
from rookery.core.text.terminal_text import Paint, harmless, harmless_line
from rookery.errors import SettingsError
from rookery.platform.user_folders import Places, find_places
from rookery.storage.cli.session_listing import (
    TableStyle,
    age,
    cut,
    folder_name,
    one_line,
    root_of,
    short_ids,
    table,
    table_style,
    title,
)
from rookery.storage.sessions import TaskStore
from rookery.storage.summary import TITLE_LENGTH

if TYPE_CHECKING:
    from rookery.core.queries import KnownCommand, KnownMode
    from rookery.manager.sessions.session_record import SessionRecord


def _hidden(ctx: click.Context, option: click.Parameter, value: str | None) -> None:
    """Hide a key that was given although it is not needed."""
    if value:
        from rookery.cli.command_line import hide_argument

        hide_argument(value)


class ListFormat(StrEnum):
    JSON = "json"
    TEXT = "text"


@click.command()
@click.argument("what", required=False, metavar="[sessions|commands|modes|models]")
@folder_option("The workspace folder.")
@click.option("--all", "everywhere", is_flag=True, help="Sessions of all workspaces.")
@click.option("--archived", is_flag=True, help="Also archived sessions.")
@click.option("--search", metavar="WORDS", help="Only sessions that contain all these words.")
@click.option("--format", "form", default=None, metavar="json|text", help="The output format.")
@click.option("-k", "--api-key", "key", callback=_hidden, hidden=True)
@click.option("-e", "--extension", hidden=True)
@click.option("-d", "--debug", is_flag=True, hidden=True)
def command(
    what: str | None,
    workspace: Path,
    everywhere: bool,
    archived: bool,
    search: str | None,
    form: str | None,
    **_: object,
) -> int:
    """List the sessions of a workspace with their sub-tasks, newest first, as `sessions list`
    does. --search searches every workspace.

    At a terminal: a table with short ids, which --session-id accepts. In a pipe: one line per
    session, with tabs between id, time (UTC), status and task.

    With an argument, print a list for programs, as JSON unless --format says otherwise: the
    sessions, or the slash commands, modes or models of the workspace.
    """
    chosen = _form(form, ListFormat.TEXT if what is None else ListFormat.JSON)
    if what not in (None, "sessions"):
        if everywhere or search is not None:
            raise SettingsError("--all and --search are for sessions.")
        print(_known(what or "", workspace, chosen))
        return 0
    places = find_places(os.environ)
    store = TaskStore(places)
    here = None if everywhere or search is not None else str(workspace)
    if search is None:
        sessions, known = listed_sessions(places, here, archived=archived)
        snippets = {}
    else:
        found, known = store.search(as_utf8(search)), {}
        sessions = [hit.task for hit in found]
        snippets = {hit.task.id: hit.snippet for hit in found}
    if chosen is ListFormat.JSON:
        print(_json(here, sessions, snippets, known))
    elif what is not None:
        print("".join(f"{_spare_line(session)}\n" for session in sessions), end="")
    elif not sessions:
        print("No sessions in this folder." if search is None else "Nothing was found.")
    elif sys.stdout.isatty():
        ids = [*(session.id for session in store.list()), *known]
        below = {one.id: _description(known[one.id], one) for one in sessions if one.id in known}
        style = table_style(places, folders=here is None)
        print(table(sessions, snippets or below, ids, style))
    else:
        print("\n".join(_line(session, snippets.get(session.id, "")) for session in sessions))
    return 0


def listed_sessions(
    places: Places, here: str | None, *, archived: bool = False
) -> tuple[list[TaskSummary], "dict[str, SessionRecord]"]:
    """The sessions of a folder and its worktrees, or of all folders, newest first, with the
    manager's records of them."""
    store = TaskStore(places)
    stored = {each.id: each for each in store.list(hidden=False)}
    recorded = _recorded(places, here).items()
    known = {id: _current(record, stored.get(id), store) for id, record in recorded}

    def is_listed(session: TaskSummary) -> bool:
        root = root_of(session, stored)
        record = known.get(root)
        if record and record.archived and not archived:
            return False
        # a worker of the folder's session has a worktree of its own
        folders = (session.workspace, stored[root].workspace if root in stored else "")
        return here is None or here in folders or record is not None

    waiting = [
        _not_started(each) for each in known.values() if not each.announced or each.process_open
    ]
    every = [*stored.values(), *(each for each in waiting if each.id not in stored)]
    return sorted(filter(is_listed, every), key=lambda each: -each.updated), known


def _recorded(places: Places, here: str | None) -> "dict[str, SessionRecord]":
    """The sessions that the managers of a folder, or of all folders, started or took over."""
    if not (places.state / "manager").is_dir():
        return {}
    from rookery.manager.sessions.session_store import manager_folder, records_in

    every = (places.state / "manager").iterdir() if here is None else ()
    folders = [manager_folder(places, Path(here))] if here else every
    return {each.session_id: each for folder in folders for each in records_in(folder)}


def _current(
    record: "SessionRecord", task: TaskSummary | None, store: TaskStore
) -> "SessionRecord":
    """The record, shown as working if another process works on it, such as in a terminal."""
    is_open = task is not None and task.status is StoredStatus.OPEN
    if record.process_open or not (is_open and store.in_use(record.session_id)):
        return record
    from rookery.manager.sessions.session_states import SessionState

    return replace(record, state=SessionState.STREAMING)


def _not_started(record: "SessionRecord") -> TaskSummary:
    """A session without a journal, such as a queued one."""
    return TaskSummary(
        id=record.session_id,
        title=record.prompt[:TITLE_LENGTH],
        workspace=record.workspace,
        mode=record.mode or "",
        created=record.start_time,
        updated=record.start_time,
    )


def _facts(record: "SessionRecord", session: TaskSummary) -> dict[str, Any]:
    """What the manager adds. For a session that has ended, the journal is better."""
    branch = record.parallel_mode.branch if record.parallel_mode else ""
    state = record.state if session.status is StoredStatus.OPEN else ""
    facts = {"state": state, "branch": branch, "archived": record.archived}
    return {name: value for name, value in facts.items() if value}


def _description(record: "SessionRecord", session: TaskSummary) -> str:
    from rookery.manager.cli.sessions_list import label_of

    facts = _facts(record, session)
    branch = f"branch {facts['branch']}" if "branch" in facts else ""
    state = label_of(facts["state"]) if "state" in facts else ""
    return ", ".join(filter(None, (state, branch, "archived" * record.archived)))


def _form(given: str | None, usual: ListFormat) -> ListFormat:
    if given is None:
        return usual
    try:
        return ListFormat(given.lower())
    except ValueError:
        raise SettingsError(f"--format is json or text, not {given!r}.") from None


def _known(what: str, workspace: Path, form: ListFormat) -> str:
    rows, lines = _rows_and_lines(what, workspace)
    if form is ListFormat.TEXT:
        return "\n".join(lines)
    return json.dumps(whole_values({what: rows}))


def _rows_and_lines(what: str, workspace: Path) -> tuple[Any, list[str]]:
    """The value for `--json`, and the lines for a terminal."""
    match what:
        case "commands":
            from rookery.app.temporary_host import query_host
            from rookery.core.queries import AskCommands

            commands = query_host(workspace, AskCommands())
            texts = [f"/{each.name} ({each.source}) - {each.description}" for each in commands]
            return list(map(_command_row, commands)), list(map(harmless_line, texts))
        case "modes":
            from rookery.app.temporary_host import query_host
            from rookery.core.queries import AskModes

            modes = query_host(workspace, AskModes())
            cells = [(harmless_line(each.slug), harmless_line(each.name)) for each in modes]
            return list(map(_mode_row, modes)), list(map("\t".join, cells))
        case "models":
            from rookery.providers.cli.models_command import described_models

            models = described_models(os.environ)
            return models, list(map(harmless_line, sorted(models)))
        case _:
            raise SettingsError(
                f"Cannot list {what!r}. Available: sessions, commands, modes, models."
            )


def _command_row(each: "KnownCommand") -> dict[str, str]:
    row = {"name": each.name, "source": each.source, "description": each.description}
    return {**row, "argumentHint": each.argument_hint} if each.argument_hint else row


def _mode_row(each: "KnownMode") -> dict[str, str]:
    row = {"slug": each.slug, "name": each.name}
    return {**row, "whenToUse": each.when_to_use, "source": each.source}


def _json(
    here: str | None,
    sessions: Sequence[TaskSummary],
    snippets: Mapping[str, str],
    known: "Mapping[str, SessionRecord]",
) -> str:
    rows = [
        {
            "id": session.id,
            "task": session.title,
            "ts": session.updated,
            "workspace": session.workspace,
            "mode": session.mode,
            "status": session.status,
            "cost": session.cost,
            "tokensIn": session.tokens_in,
            "tokensOut": session.tokens_out,
            **({"parent": session.parent} if session.parent else {}),
            **({"damage": session.damage} if session.damage else {}),
            **({"snippet": snippets[session.id]} if session.id in snippets else {}),
            **(_facts(known[session.id], session) if session.id in known else {}),
        }
        for session in sessions
    ]
    return json.dumps({"workspace": here, "sessions": rows})


def _line(session: TaskSummary, snippet: str) -> str:
    mark = f"  ({session.damage})" if session.damage else ""
    found = f"\n\t{harmless(snippet)}" if snippet else ""
    when = _when(session.updated)
    return f"{session.id}\t{when}\t{session.status}\t{title(session.title)}{mark}{found}"


def _spare_line(session: TaskSummary) -> str:
    """The format of similar programs."""
    return f"{session.id}\t{_when(session.updated)}\t{title(session.title)}"


def _when(ts: int) -> str:
    try:
        return datetime.fromtimestamp(ts / 1000, UTC).isoformat(timespec="seconds")
    except (ValueError, OverflowError, OSError):
        return "unknown-time"


@click.command()
@click.argument("words", nargs=-1, required=True)
@folder_option("The folder whose sessions to search.")
@click.option("--all", "everywhere", is_flag=True, help="Search the sessions of all workspaces.")
@format_option
def search_command(words: Sequence[str], workspace: Path, everywhere: bool, form: str) -> int:
    """Find sessions that contain all the words, newest first. The exit code is 1 if there are
    none."""
    wanted = as_utf8(" ".join(words))
    if not wanted.strip():
        raise SettingsError("Give words to search for.")
    places = find_places(os.environ)
    store = TaskStore(places)
    found = store.search(wanted, None if everywhere else str(workspace))
    if form == "json":
        print(json.dumps(whole_values({"sessions": [_row(hit) for hit in found]})))
    elif found:
        short = short_ids([session.id for session in store.list()])
        style = table_style(places, folders=everywhere)
        print("\n".join(_lines(hit, short[hit.task.id], wanted.split(), style) for hit in found))
    else:
        where = "anywhere" if everywhere else "in this folder; --all searches every folder"
        print(f"Nothing was found {where}.")
    return 0 if found else 1


def _row(hit: SearchHit) -> dict[str, object]:
    task = hit.task
    return {
        "id": task.id,
        "task": task.title,
        "ts": task.updated,
        "workspace": task.workspace,
        "status": task.status,
        "snippet": hit.snippet,
    }


def _lines(hit: SearchHit, short: str, terms: Sequence[str], style: TableStyle) -> str:
    """A line that identifies the session, and a line with the match."""
    task = hit.task
    folder = [folder_name(task.workspace, style.home)] if style.folders else []
    first = "  ".join([age(task.updated, style.now), *folder])
    title = one_line(task.title)
    snippet = marked(one_line(_unescaped(hit.snippet)), terms, style.paint)
    if sys.stdout.isatty():
        title = cut(title, max(20, style.width - len(short) - len(first) - 4))
    return f"{style.paint.cyan(short)}  {style.paint.dim(first)}  {title}\n    {snippet}"


_ESCAPE = re.compile(r'\\(["\\/nrt])')
_JSON = re.compile(r'\\"|":["{\[]')


def _unescaped(text: str) -> str:
    """Questions about calls are stored as JSON, and part of one cannot be parsed."""
    if not _JSON.search(text):
        return text
    return _ESCAPE.sub(lambda escape: " " if escape[1] in "nrt" else escape[1], text)


def marked(text: str, terms: Sequence[str], paint: Paint) -> str:
    """The text with the search words in bold, or between asterisks without colours."""
    wanted = sorted(filter(None, terms), key=len, reverse=True)
    pattern = re.compile("|".join(map(re.escape, wanted)), re.IGNORECASE)
    return pattern.sub(lambda word: paint.bold(word[0]) if paint.on else f"*{word[0]}*", text)
