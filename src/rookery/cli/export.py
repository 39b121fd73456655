"""`rookery export`: a session as a document of its own."""

import json
import os
import stat
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import click

from rookery import NAME
from rookery.cli.list import title
from rookery.cli.session_argument import family_of, view_of, workspace_option
from rookery.cli.session_ids import chosen_session
from rookery.cli.show import header
from rookery.clients.terminal_text import harmless_line
from rookery.clients.transcript_text import as_markdown, passages
from rookery.core.characters import whole
from rookery.errors import SettingsError
from rookery.storage.disk import PRIVATE_FILE, put, reason
from rookery.storage.places import find_places
from rookery.storage.summary import TaskSummary
from rookery.storage.tasks import TaskStore
from rookery.wire.codec import event_to_json


@click.command()
@click.argument("session", required=False)
@workspace_option
@click.option(
    "--format",
    "form",
    type=click.Choice(["markdown", "json"], case_sensitive=False),
    default="markdown",
    help="A document to read, or all facts for a program.",
)
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Write to this file.")
@click.option("--force", is_flag=True, help="Replace the file if there is one.")
def command(
    session: str | None, workspace: Path, form: str, output: Path | None, force: bool
) -> int:
    """Write a session and its sub-tasks as one document; without a session, the last one of this
    folder. What the agent read is in it: look before you pass it on.
    """
    store = TaskStore(find_places(os.environ))
    task_id = chosen_session(store, session, workspace, "export")
    family = family_of(store.list(), task_id)
    if form == "json":
        text = json.dumps({"tool": NAME, "sessions": [_object(store, one) for _, one in family]})
    else:
        text = "\n\n".join(_document(store, family))
    if output is None:
        print(text)
    else:
        _write(output, f"{text}\n", force=force)
        print(f"Wrote {harmless_line(str(output))}.", file=sys.stderr)
    return 0


def _object(store: TaskStore, one: TaskSummary) -> dict[str, Any]:
    return {
        "id": one.id,
        "task": one.title,
        "workspace": one.workspace,
        "parent": one.parent,
        "mode": one.mode,
        "status": one.status,
        "created": one.created,
        "updated": one.updated,
        "tokensIn": one.tokens_in,
        "tokensOut": one.tokens_out,
        "cost": one.cost,
        "facts": [json.loads(event_to_json(event)) for event in store.read(one.id)],
    }


def _document(store: TaskStore, family: Sequence[tuple[int, TaskSummary]]) -> Iterator[str]:
    for depth, one in family:
        view = view_of(list(store.read(one.id)))
        yield f"{'#' if depth == 0 else '---' + chr(10) * 2 + '#'} {_heading(one, depth)}"
        yield f"*{header(one, view)}*"
        yield from as_markdown(passages(view.messages))


def _heading(one: TaskSummary, depth: int) -> str:
    return title(one.title) if depth == 0 else f"Sub-task: {title(one.title)}"


def _write(file: Path, text: str, *, force: bool) -> None:
    """Only the user can read it: nobody knows what is in it."""
    data = whole(text).encode("utf-8")
    flags = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_EXCL
    try:
        if force and os.path.lexists(file):
            _insist_on_a_file(file)
            put(file, [data])
            return
        with open(os.open(file, flags, PRIVATE_FILE), "wb") as stream:
            stream.write(data)
    except FileExistsError as error:
        raise SettingsError(
            f"There already is a file {file}; add --force to replace it."
        ) from error
    except OSError as error:
        raise SettingsError(f"{file} cannot be written: {reason(error)}.") from error


def _insist_on_a_file(file: Path) -> None:
    """A link leads to what nobody named, and what is no file does not keep what it is told."""
    if not stat.S_ISREG(file.lstat().st_mode):
        raise SettingsError(f"{file} is no regular file, so it is not replaced; take another name.")
