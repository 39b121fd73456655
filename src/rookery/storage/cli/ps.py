"""`rookery ps`: the commands that agents have running, in all sessions."""

import json
import os
import shutil
import sys
from collections.abc import Sequence
from datetime import datetime

import click

from rookery import NAME
from rookery.core.text.terminal_text import cells_of
from rookery.errors import SettingsError
from rookery.platform.user_folders import find_places
from rookery.storage.cli.session_listing import (
    GAP,
    age,
    cut,
    cut_front,
    folder_name,
    one_line,
    short_ids,
)
from rookery.storage.running_commands import ListedCommand, RunningCommands
from rookery.storage.sessions import TaskStore

EVERY = "all"


@click.command()
@click.option("--stop", metavar="ID|all", help="End a command and all it started.")
@click.option("--keep", metavar="ID", help="Let a command outlive its session.")
@click.option("--json", "as_json", is_flag=True, help="Print them for a program.")
def command(stop: str | None, keep: str | None, as_json: bool) -> int:
    """Print the commands that run now and have run for a while, oldest first.

    A command in the background ends with its session, unless it is kept.
    """
    commands = RunningCommands(find_places(os.environ).running)
    running = commands.all()
    if stop is not None:
        chosen = running if stop == EVERY else [_chosen(running, stop)]
        for one in chosen:
            commands.stop(one)
        print(f"Ended {_counted(len(chosen))}.")
    elif keep is not None:
        commands.keep(_chosen(running, keep))
        print(f"It goes on when its session ends. End it with: {NAME} ps --stop {keep}")
    elif as_json:
        print(json.dumps({"commands": [_row(one) for one in running]}))
    elif running:
        print(_table(running, shutil.get_terminal_size().columns if sys.stdout.isatty() else None))
    else:
        print("No command is running.")
    return 0


def _chosen(running: Sequence[ListedCommand], given: str) -> ListedCommand:
    for one in running:
        if str(one.id) == given:
            return one
    raise SettingsError(f"No command {given} is running. See {NAME} ps.")


def _counted(number: int) -> str:
    return f"{number} command" if number == 1 else f"{number} commands"


def _row(one: ListedCommand) -> dict[str, object]:
    return {
        "id": one.id,
        "session": one.task_id,
        "callId": one.call_id,
        "command": one.command,
        "folder": one.folder,
        "state": one.state,
        "ts": one.started,
    }


def _table(running: Sequence[ListedCommand], width: int | None) -> str:
    """A line for each, as wide as the terminal; of any width into a pipe."""
    places = find_places(os.environ)
    sessions = {one.task_id for one in running} | {row.id for row in TaskStore(places).list()}
    short, now, home = short_ids(sessions), datetime.now().astimezone(), os.path.expanduser("~")
    rows = [
        [
            str(one.id),
            short[one.task_id],
            age(one.started, now),
            one.state,
            cut_front(folder_name(one.folder, home), (width or 120) // 3),
            one_line(one.command),
        ]
        for one in running
    ]
    widths = [max(map(cells_of, column)) for column in zip(*rows, strict=True)]
    widths[-1] = 0
    lines = [GAP.join(map(_padded, row, widths)) for row in rows]
    shown = lines if width is None else [cut(line, width) for line in lines]
    return "\n".join([*shown, "", f"End one with: {NAME} ps --stop ID"])


def _padded(cell: str, width: int) -> str:
    return cell + " " * (width - cells_of(cell))
