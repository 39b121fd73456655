"""`rookery search`: in which session was it?"""

import json
import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path

import click

from rookery.cli.main import resolve_folder
from rookery.core.text.characters import as_utf8, whole_values
from rookery.core.text.terminal_text import Paint
from rookery.errors import SettingsError
from rookery.platform.user_folders import find_places
from rookery.storage.cli.list import look_at
from rookery.storage.cli.session_listing import (
    Look,
    age,
    cut,
    folder_name,
    format_option,
    one_line,
    short_ids,
)
from rookery.storage.index import Found
from rookery.storage.sessions import TaskStore


@click.command()
@click.argument("words", nargs=-1, required=True)
@click.option(
    "-w",
    "--workspace",
    type=click.Path(path_type=Path),
    default=".",
    callback=resolve_folder,
    help="The folder whose sessions are searched.",
)
@click.option("--all", "everywhere", is_flag=True, help="Search the sessions of all workspaces.")
@format_option
def command(words: Sequence[str], workspace: Path, everywhere: bool, form: str) -> int:
    """Find the sessions in which all the words occur, newest first, and where. The exit code is 1
    if there are none."""
    wanted = as_utf8(" ".join(words))
    if not wanted.strip():
        raise SettingsError("Say which words to search for.")
    places = find_places(os.environ)
    store = TaskStore(places)
    found = store.search(wanted, None if everywhere else str(workspace))
    if form == "json":
        print(json.dumps(whole_values({"sessions": [_row(hit) for hit in found]})))
    elif found:
        short = short_ids([session.id for session in store.list()])
        look = look_at(places, folders=everywhere)
        print("\n".join(_lines(hit, short[hit.task.id], wanted.split(), look) for hit in found))
    else:
        where = "anywhere" if everywhere else "in this folder; --all searches every folder"
        print(f"Nothing was found {where}.")
    return 0 if found else 1


def _row(hit: Found) -> dict[str, object]:
    task = hit.task
    return {
        "id": task.id,
        "task": task.title,
        "ts": task.updated,
        "workspace": task.workspace,
        "status": task.status,
        "snippet": hit.snippet,
    }


def _lines(hit: Found, short: str, terms: Sequence[str], look: Look) -> str:
    """A line that says which session it is, and one with the place that was found."""
    task = hit.task
    folder = [folder_name(task.workspace, look.home)] if look.folders else []
    first = "  ".join([age(task.updated, look.now), *folder])
    title = one_line(task.title)
    snippet = marked(one_line(_unescaped(hit.snippet)), terms, look.paint)
    if sys.stdout.isatty():
        title = cut(title, max(20, look.width - len(short) - len(first) - 4))
    return f"{look.paint.cyan(short)}  {look.paint.dim(first)}  {title}\n    {snippet}"


_ESCAPE = re.compile(r'\\(["\\/nrt])')
_JSON = re.compile(r'\\"|":["{\[]')


def _unescaped(text: str) -> str:
    """What was asked about a call was kept as JSON, and a part of it cannot be read as such."""
    if not _JSON.search(text):
        return text
    return _ESCAPE.sub(lambda escape: " " if escape[1] in "nrt" else escape[1], text)


def marked(text: str, terms: Sequence[str], paint: Paint) -> str:
    """The text with the words that were looked for in bold, or between stars without colours."""
    wanted = sorted(filter(None, terms), key=len, reverse=True)
    pattern = re.compile("|".join(map(re.escape, wanted)), re.IGNORECASE)
    return pattern.sub(lambda word: paint.bold(word[0]) if paint.on else f"*{word[0]}*", text)
