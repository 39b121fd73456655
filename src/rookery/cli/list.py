"""`rookery list`: the sessions there are, for people and for scripts."""

import json
import os
import shutil
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import click

from rookery.cli.main import resolve_folder
from rookery.cli.session_table import Look, one_line, table
from rookery.clients.terminal_text import Paint, harmless
from rookery.core.characters import as_utf8
from rookery.errors import SettingsError
from rookery.storage.places import Places, find_places
from rookery.storage.settings_files import find_settings
from rookery.storage.summary import TaskSummary
from rookery.storage.tasks import TaskStore

TITLE_WIDTH = 120


@click.command()
@click.argument("what", default="sessions", metavar="[sessions]")
@click.option(
    "-w",
    "--workspace",
    type=click.Path(path_type=Path),
    default=".",
    callback=resolve_folder,
    help="Whose.",
)
@click.option("--all", "everywhere", is_flag=True, help="Those of all workspaces.")
@click.option("--search", metavar="WORDS", help="Only those in which all these words occur.")
@click.option("--format", "form", default=None, metavar="json|text", help="How to print them.")
def command(
    what: str, workspace: Path, everywhere: bool, search: str | None, form: str | None
) -> int:
    """Print the sessions of a workspace, newest first. --search looks in every workspace.

    At a terminal they are a table with short ids, which --session-id takes; into a pipe goes a
    line for each, with tabs between id, time (UTC), status and task.
    """
    if what != "sessions":
        raise SettingsError(f"There is nothing called {what!r} to list; there are sessions.")
    form = (form if form is not None else "text").lower()
    if form not in ("json", "text"):
        raise SettingsError(f"--format is json or text, not {form!r}.")
    places = find_places(os.environ)
    store = TaskStore(places)
    here = None if everywhere or search is not None else str(workspace)
    if search is None:
        sessions, snippets = list(store.list(here)), {}
    else:
        found = store.search(as_utf8(search))
        sessions = [hit.task for hit in found]
        snippets = {hit.task.id: hit.snippet for hit in found}
    if form == "json":
        print(_json(here, sessions, snippets))
    elif not sessions:
        print("There are no sessions here." if search is None else "Nothing was found.")
    elif sys.stdout.isatty():
        known_ids = [session.id for session in store.list()]
        print(table(sessions, snippets, known_ids, _look(places, folders=here is None)))
    else:
        print("\n".join(_line(session, snippets.get(session.id, "")) for session in sessions))
    return 0


def _look(places: Places, *, folders: bool) -> Look:
    settings = find_settings(places.settings_file, None, os.environ, {}).settings
    return Look(
        width=shutil.get_terminal_size().columns,
        paint=Paint(settings.colours(sys.stdout, os.environ)),
        now=datetime.now().astimezone(),
        home=os.path.expanduser("~"),
        folders=folders,
    )


def _json(here: str | None, sessions: Sequence[TaskSummary], snippets: dict[str, str]) -> str:
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
        }
        for session in sessions
    ]
    return json.dumps({"workspace": here, "sessions": rows})


def _line(session: TaskSummary, snippet: str) -> str:
    mark = f"  ({session.damage})" if session.damage else ""
    found = f"\n\t{harmless(snippet)}" if snippet else ""
    when = _when(session.updated)
    return f"{session.id}\t{when}\t{session.status}\t{title(session.title)}{mark}{found}"


def title(text: str) -> str:
    """A task's text on one line of at most 120 characters."""
    line = one_line(text)
    return line if len(line) <= TITLE_WIDTH else line[: TITLE_WIDTH - 3] + "..."


def _when(ts: int) -> str:
    try:
        return datetime.fromtimestamp(ts / 1000, UTC).isoformat(timespec="seconds")
    except (ValueError, OverflowError, OSError):
        return "unknown-time"
