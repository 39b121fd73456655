"""`rookery export`: a session and its sub-tasks as one document, for a reader or a program."""

import json
import os
import stat
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, TypeAlias, get_args

import click

from rookery import NAME
from rookery.core.text.characters import whole
from rookery.core.text.terminal_text import harmless_line
from rookery.errors import SettingsError
from rookery.manager.dependencies import Form
from rookery.plain.transcript_text import as_heading, as_html, as_markdown, as_page, passages
from rookery.platform.disk import PRIVATE_FILE, put, reason
from rookery.platform.user_folders import find_places
from rookery.protocol.codec import event_to_json
from rookery.storage.cli.list import title
from rookery.storage.cli.session_listing import (
    chosen_session,
    family_of,
    view_of,
    workspace_option,
)
from rookery.storage.cli.show import header
from rookery.storage.sessions import TaskStore
from rookery.storage.summary import TaskSummary

Family: TypeAlias = Sequence[tuple[int, TaskSummary]]


@click.command()
@click.argument("session", required=False)
@workspace_option
@click.option(
    "--format",
    "form",
    type=click.Choice(get_args(Form), case_sensitive=False),
    default="markdown",
    help="A document to read, all facts for a program, or a page for a browser.",
)
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Write to this file.")
@click.option("--force", is_flag=True, help="Replace the file if there is one.")
def command(
    session: str | None, workspace: Path, form: Form, output: Path | None, force: bool
) -> int:
    """Write a session and its sub-tasks as one document; without a session, the last one of this
    folder. What the agent read is in it: look before you pass it on.
    """
    store = TaskStore(find_places(os.environ))
    task_id = chosen_session(store, session, workspace, "export")
    text = session_document(store, task_id, form)
    if output is None:
        print(text)
    else:
        _write(output, f"{text}\n", force=force)
        print(f"Wrote {harmless_line(str(output))}.", file=sys.stderr)
    return 0


def session_document(store: TaskStore, task_id: str, form: Form) -> str:
    family = family_of(store.list(), task_id)
    match form:
        case "markdown":
            return "\n\n".join(_markdown(store, family))
        case "json":
            return json.dumps(
                {"tool": NAME, "sessions": [_object(store, one) for _, one in family]}
            )
        case "html":
            return "".join(as_page(title(family[0][1].title), _html(store, family)))


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


def _markdown(store: TaskStore, family: Family) -> Iterator[str]:
    for depth, one in family:
        view = view_of(list(store.read(one.id)))
        yield f"{'#' if depth == 0 else '---' + chr(10) * 2 + '#'} {_heading(one, depth)}"
        yield f"*{header(one, view)}*"
        yield from as_markdown(passages(view.messages))


def _html(store: TaskStore, family: Family) -> Iterator[str]:
    for depth, one in family:
        view = view_of(list(store.read(one.id)))
        yield as_heading(_heading(one, depth), header(one, view), level=1 if depth == 0 else 2)
        yield from as_html(passages(view.messages))


def _heading(one: TaskSummary, depth: int) -> str:
    return title(one.title) if depth == 0 else f"Sub-task: {title(one.title)}"
