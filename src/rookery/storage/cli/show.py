"""`rookery show`: a session from its beginning to its end."""

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path

import click

from rookery import NAME
from rookery.core.folds.view import View
from rookery.core.text.terminal_text import Paint, harmless, harmless_line
from rookery.errors import SettingsError
from rookery.plain.transcript_text import Kind, as_text, passages
from rookery.platform.user_folders import find_places
from rookery.protocol.codec import event_to_json
from rookery.storage.cli.session_listing import (
    branch,
    chosen_session,
    counted,
    family_of,
    money,
    one_line,
    paint_for_output,
    short_ids,
    view_of,
    workspace_option,
)
from rookery.storage.sessions import TaskStore
from rookery.storage.summary import TaskSummary


@click.command()
@click.argument("session", required=False)
@workspace_option
@click.option("--json", "facts", is_flag=True, help="Print its facts, one JSON object per line.")
@click.option("--tree", is_flag=True, help="Print only the session and its sub-tasks.")
@click.option("--thinking", is_flag=True, help="Also print how the model reasoned.")
def command(session: str | None, workspace: Path, facts: bool, tree: bool, thinking: bool) -> int:
    """Print what was said and done in a session; without one, in the last of this folder.

    What was taken back with rewind is left out, except with --json, which prints the whole log.
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
            sys.stdout.write((_harmless_json(line) if seen else line) + "\n")
        return 0
    paint = paint_for_output(places)
    everyone = store.list()
    family = family_of(everyone, task_id)
    if tree:
        print("\n".join(_tree(family, short_ids([task_id, *(one.id for one in everyone)]), paint)))
        return 0
    view = view_of(list(store.read(task_id)))
    print(paint.dim(header(family[0][1], view)))
    shown = [each for each in passages(view.messages) if thinking or each.kind is not Kind.THOUGHT]
    for passage in as_text(shown, paint):
        print(f"\n{passage}")
    if len(family) > 1:
        helped = counted(len(family) - 1, "sub-task")
        print(paint.dim(f"\nIt had {helped}: {NAME} show --tree {task_id}"))
    return 0


def _harmless_json(line: str) -> str:
    """The same JSON, with what a terminal would obey or hide spelled out."""
    return line if harmless(line) == line else "".join(map(_spelled, line))


def _spelled(char: str) -> str:
    if harmless(char) == char:
        return char
    units = char.encode("utf-16-be")
    return "".join(f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2))


def header(summary: TaskSummary, view: View) -> str:
    """What a session is, on one line."""
    when = _when(summary.created)
    tokens = f"{summary.tokens_in:,} tokens in, {summary.tokens_out:,} out"
    parts = [
        f"session {summary.id}",
        when,
        str(summary.status),
        f"{summary.mode} mode" if summary.mode else "",
        view.model,
        tokens if summary.tokens_in or summary.tokens_out else "",
        money(summary.cost),
    ]
    return harmless_line(" · ".join(filter(None, parts)))


def _when(ts: int) -> str:
    try:
        return datetime.fromtimestamp(ts / 1000).strftime("%Y-%m-%d %H:%M")
    except (ValueError, OverflowError, OSError):
        return "unknown time"


def _tree(
    family: Sequence[tuple[int, TaskSummary]], short: Mapping[str, str], paint: Paint
) -> Iterator[str]:
    for depth, one in family:
        facts = ", ".join(filter(None, [str(one.status), one.mode, money(one.cost)]))
        line = f"{branch(depth)}{short[one.id]}  {one_line(one.title)}"
        yield f"{line}  {paint.dim(harmless_line(f'({facts})'))}"
