"""`rookery fork`: go on with a session in two ways."""

import json
import os
import time
import uuid
from pathlib import Path

import click

from rookery import NAME
from rookery.platform.user_folders import find_places
from rookery.storage.cli.session_listing import chosen_session, format_option, workspace_option
from rookery.storage.sessions import TaskStore, fork


@click.command()
@click.argument("session", required=False)
@workspace_option
@click.option("--at", type=int, metavar="EVENT", help="Only what was up to there.")
@format_option
def command(session: str | None, workspace: Path, at: int | None, form: str) -> int:
    """Make a second session of what a session is now, or was after an event; without one, of the
    last session of this folder. Files stay as they are, and so does the session itself.

    The events one may want are the numbers that rewind lists.
    """
    store = TaskStore(find_places(os.environ))
    source = chosen_session(store, session, workspace, "fork")
    task_id = str(uuid.uuid4())
    cut = fork(store, source, task_id, at=at, now=time.time_ns() // 1_000_000)
    if form == "json":
        print(json.dumps({"id": task_id, "from": source, "at": cut}))
        return 0
    if at is not None and cut != at:
        print(f"A call was under way at event {at}, so the fork ends before it, at {cut}.")
    print(f"Session {task_id} is what {source} was at event {cut}.")
    print(f"Go on with: {NAME} --session-id {task_id}")
    return 0
