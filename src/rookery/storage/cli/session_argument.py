"""What commands about one session have in common: which one is meant, and how it is printed."""

import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click
from msgspec.structs import replace

from rookery.cli.main import resolve_folder
from rookery.core.facts import Event
from rookery.core.folds.view import View, see
from rookery.core.settings import Settings
from rookery.core.text.terminal_text import Paint
from rookery.errors import SettingsError
from rookery.platform.user_folders import Places
from rookery.storage.cli.session_table import family_tree
from rookery.storage.settings_files import find_settings
from rookery.storage.summary import TaskSummary

workspace_option: Callable[[Callable[..., Any]], Callable[..., Any]] = click.option(
    "-w",
    "--workspace",
    type=click.Path(path_type=Path),
    default=".",
    callback=resolve_folder,
    help="The folder whose last session is meant if none is named.",
)
format_option: Callable[[Callable[..., Any]], Callable[..., Any]] = click.option(
    "--format",
    "form",
    type=click.Choice(["text", "json"], case_sensitive=False),
    default="text",
    help="How to print it.",
)


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
        raise SettingsError("Nobody is there to say yes; add -y.")
    try:
        return input(f"{question} [y/N] ").strip().lower() in ("y", "yes")
    except EOFError:
        return False


def counted(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number:,} {what}s"
