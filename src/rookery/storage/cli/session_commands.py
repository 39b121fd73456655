"""`rookery show`, `fork` and `ps`."""

import json
import os
import shutil
import sys
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path

import click

from rookery import NAME
from rookery.cli.command_line import format_option, json_option
from rookery.core.folds.agent_rows import AgentRows, agents_in
from rookery.core.stored_tasks import TaskSummary
from rookery.core.text.terminal_text import Paint, aligned, counted, harmless, harmless_line
from rookery.errors import SettingsError
from rookery.platform.user_folders import find_places
from rookery.protocol.codec import event_to_json
from rookery.protocol.transcript_text import PassageKind, as_text, passages
from rookery.storage.cli.session_listing import (
    age,
    branch,
    chosen_session,
    cut,
    cut_front,
    family_of,
    folder_name,
    money,
    one_line,
    paint_for_output,
    short_ids,
    time_of,
    view_of,
    workspace_option,
)
from rookery.storage.running_commands import CommandRegistry, ListedCommand
from rookery.storage.session_copies import fork
from rookery.storage.sessions import TaskStore


@click.command()
@click.argument("session", required=False)
@workspace_option
@click.option("--json", "facts", is_flag=True, help="Print its events, one JSON object per line.")
@click.option("--tree", is_flag=True, help="Print only the session and its sub-tasks.")
@click.option("--thinking", is_flag=True, help="Also print the model's reasoning.")
def show_command(
    session: str | None, workspace: Path, facts: bool, tree: bool, thinking: bool
) -> int:
    """Print a session; without one, the last session of this folder.

    Rewound parts are left out, except with --json, which prints the whole log.
    """
    if facts and tree:
        raise SettingsError("Give --json or --tree, not both.")
    places = find_places(os.environ)
    store = TaskStore(places)
    task_id = chosen_session(store, session, workspace, "show")
    if facts:
        seen = sys.stdout.isatty()
        for event in store.read(task_id):
            line = event_to_json(event).decode()
            sys.stdout.write((harmless_json(line) if seen else line) + "\n")
        return 0
    paint = paint_for_output(places)
    everyone = store.list()
    family = family_of(everyone, task_id)
    if tree:
        agents = agents_in(list(store.read(task_id)), {})
        short = short_ids([task_id, *(one.id for one in everyone)])
        print("\n".join(_tree(family, agents, short, paint)))
        return 0
    view = view_of(list(store.read(task_id)))
    print(paint.dim(header(family[0][1], view.model)))
    shown = [
        each for each in passages(view.messages) if thinking or each.kind is not PassageKind.THOUGHT
    ]
    for passage in as_text(shown, paint):
        print(f"\n{passage}")
    if len(family) > 1:
        helped = counted(len(family) - 1, "sub-task")
        print(paint.dim(f"\nIt had {helped}: {NAME} show --tree {task_id}"))
    return 0


def harmless_json(line: str) -> str:
    """The same JSON, with control and hidden characters escaped."""
    return line if harmless(line) == line else "".join(map(_spelled, line))


def _spelled(char: str) -> str:
    if harmless(char) == char:
        return char
    units = char.encode("utf-16-be")
    return "".join(f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2))


def header(summary: TaskSummary, model: str) -> str:
    """One line that describes a session."""
    when = time_of(summary.created)
    tokens = f"{summary.tokens_in:,} tokens in, {summary.tokens_out:,} out"
    parts = [
        f"session {summary.id}",
        when,
        str(summary.status),
        f"{summary.mode} mode" if summary.mode else "",
        model,
        tokens if summary.tokens_in or summary.tokens_out else "",
        money(summary.cost),
    ]
    return harmless_line(" · ".join(filter(None, parts)))


def _tree(
    family: Sequence[tuple[int, TaskSummary]],
    agents: AgentRows,
    short: Mapping[str, str],
    paint: Paint,
) -> Iterator[str]:
    for depth, one in family:
        agent = agents.find(one.id)
        state = agent.state if agent and not agent.runs else str(one.status)
        name = f"{harmless_line(agent.name)}: " if agent else ""
        facts = ", ".join(filter(None, [state, one.mode, money(one.cost)]))
        line = f"{branch(depth)}{short[one.id]}  {name}{one_line(one.title)}"
        yield f"{line}  {paint.dim(harmless_line(f'({facts})'))}"


@click.command()
@click.argument("session", required=False)
@workspace_option
@click.option("--at", type=int, metavar="EVENT", help="Copy only up to this event.")
@format_option
def fork_command(session: str | None, workspace: Path, at: int | None, form: str) -> int:
    """Copy a session, as it is now or after an event, into a new one; without a session, the
    last one of this folder. Files and the original session are not changed.

    `rewind` lists the numbers of events.
    """
    store = TaskStore(find_places(os.environ))
    source = chosen_session(store, session, workspace, "fork")
    task_id = str(uuid.uuid4())
    cut = fork(store, source, task_id, at=at, now=time.time_ns() // 1_000_000)
    if form == "json":
        print(json.dumps({"id": task_id, "from": source, "at": cut}))
        return 0
    if at is not None and cut != at:
        print(f"A call was running at event {at}, so the fork ends before it, at {cut}.")
    print(f"Session {task_id} is a copy of {source} at event {cut}.")
    print(f"Continue with: {NAME} --session-id {task_id}")
    return 0


EVERY = "all"


@click.command()
@click.option("--stop", metavar="ID|all", help="End a command and all its processes.")
@click.option("--keep", metavar="ID", help="Let a command outlive its session.")
@json_option
def ps_command(stop: str | None, keep: str | None, as_json: bool) -> int:
    """List running commands, oldest first.

    A background command ends with its session, unless it is kept.
    """
    commands = CommandRegistry(find_places(os.environ).running)
    running = commands.all()
    if stop is not None:
        chosen = running if stop == EVERY else [_running_command(running, stop)]
        for one in chosen:
            commands.stop(one)
        print(f"Ended {counted(len(chosen), 'command')}.")
    elif keep is not None:
        commands.keep(_running_command(running, keep))
        print(f"It continues when its session ends. To end it: {NAME} ps --stop {keep}")
    elif as_json:
        print(json.dumps({"commands": [_command_row(one) for one in running]}))
    elif running:
        print(
            _command_table(
                running, shutil.get_terminal_size().columns if sys.stdout.isatty() else None
            )
        )
    else:
        print("No command is running.")
    return 0


def _running_command(running: Sequence[ListedCommand], given: str) -> ListedCommand:
    for one in running:
        if str(one.id) == given:
            return one
    raise SettingsError(f"No command {given} is running. See {NAME} ps.")


def _command_row(one: ListedCommand) -> dict[str, object]:
    return {
        "id": one.id,
        "session": one.task_id,
        "callId": one.call_id,
        "command": one.command,
        "folder": one.folder,
        "state": one.state,
        "ts": one.started,
    }


def _command_table(running: Sequence[ListedCommand], width: int | None) -> str:
    """One line per command, as wide as the terminal, or unlimited in a pipe."""
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
    lines = aligned(rows)
    shown = lines if width is None else [cut(line, width) for line in lines]
    return "\n".join([*shown, "", f"End one with: {NAME} ps --stop ID"])
