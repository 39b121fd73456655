"""`rookery export`: a session as a document of its own."""

import os
import stat
import sys
from pathlib import Path
from typing import get_args

import click

from rookery.core.text.characters import whole
from rookery.core.text.terminal_text import harmless_line
from rookery.errors import SettingsError
from rookery.manager.dependencies import Form
from rookery.platform.disk import PRIVATE_FILE, put, reason
from rookery.platform.user_folders import find_places
from rookery.storage.cli.session_argument import workspace_option
from rookery.storage.cli.session_documents import session_document
from rookery.storage.cli.session_ids import chosen_session
from rookery.storage.sessions import TaskStore


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
