"""`rookery delete`: delete sessions and their sub-tasks permanently."""

import json
import os
import re
import sys
import time
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path

import click
from msgspec import Struct

from rookery import NAME
from rookery.cli.command_line import format_option
from rookery.cli.reports import Exit
from rookery.core.stored_tasks import TaskSummary
from rookery.core.text.terminal_text import counted
from rookery.errors import SettingsError, StorageError
from rookery.platform.user_folders import find_places
from rookery.storage.cli.session_listing import (
    chosen_session,
    confirmed,
    cut,
    family_of,
    one_line,
    short_ids,
    workspace_option,
)
from rookery.storage.journal import TaskLock
from rookery.storage.sessions import TaskStore

MOST_NAMED = 10
_AGE = re.compile(r"(\d{1,6})\s*(h|d|w)")
_SECONDS = {"h": 3600, "d": 86_400, "w": 604_800}


class _Done(Struct, frozen=True, kw_only=True):
    deleted: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()
    """A sentence for each session that was not deleted."""


@click.command()
@click.argument("sessions", nargs=-1)
@workspace_option
@click.option(
    "--older-than", metavar="AGE", help="Delete sessions not used for this long: 12h, 30d, 8w."
)
@click.option("--all", "every", is_flag=True, help="All sessions of the workspace.")
@click.option("--everywhere", is_flag=True, help="With --older-than or --all: every workspace.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@format_option
def command(
    sessions: Sequence[str],
    workspace: Path,
    older_than: str | None,
    every: bool,
    everywhere: bool,
    yes: bool,
    form: str,
) -> int:
    """Delete sessions and their sub-tasks permanently. Files in the workspace are not changed.
    Running sessions are not deleted."""
    if bool(sessions) + bool(older_than) + every != 1:
        raise SettingsError("Give session ids, or --older-than or --all.")
    if everywhere and sessions:
        raise SettingsError("--everywhere needs --older-than or --all.")
    store = TaskStore(find_places(os.environ))
    everyone = store.list()
    if sessions:
        wanted = [chosen_session(store, given, workspace, "delete") for given in sessions]
    else:
        seconds = _seconds(older_than) if older_than else 0
        here = [one for one in everyone if everywhere or one.workspace == str(workspace)]
        wanted = _untouched(here, everyone, seconds)
    families = _families(wanted, everyone)
    if not families:
        print(
            json.dumps({"deleted": [], "refused": []})
            if form == "json"
            else "No matching sessions."
        )
        return 0
    if not yes:
        _name(families, everyone)
        if not confirmed(f"Delete {counted(len(families), 'session')} permanently?"):
            print("Nothing was deleted.")
            return 1
    done = _delete(store, families)
    _report(done, form)
    return Exit.STORAGE if done.refused else Exit.DONE


def delete_with_subtasks(store: TaskStore, task_id: str) -> None:
    """Raises `StorageError` if the session was not deleted."""
    done = _delete(store, _families([task_id], store.list()))
    if done.refused:
        raise StorageError(done.refused[0])


def _seconds(age: str) -> int:
    found = _AGE.fullmatch(age.strip().lower())
    if found is None:
        raise SettingsError(f"{age!r} is not an age; write 12h, 30d or 8w.")
    return int(found[1]) * _SECONDS[found[2]]


def _untouched(
    here: Iterable[TaskSummary], everyone: Sequence[TaskSummary], seconds: int
) -> list[str]:
    """Sessions without a parent and without newer sub-tasks."""
    known = {one.id for one in everyone}
    before = (time.time() - seconds) * 1000
    return [
        one.id
        for one in here
        if one.parent not in known
        and all(member.updated <= before for _, member in family_of(everyone, one.id))
    ]


def _families(
    wanted: Iterable[str], everyone: Sequence[TaskSummary]
) -> list[Sequence[TaskSummary]]:
    """Each wanted session with its sub-tasks, without duplicates."""
    families: list[Sequence[TaskSummary]] = []
    seen: set[str] = set()
    for task_id in wanted:
        members = [one for _, one in family_of(everyone, task_id) if one.id not in seen]
        seen |= {one.id for one in members}
        families += [members] if members else []
    return families


def _name(families: Sequence[Sequence[TaskSummary]], everyone: Iterable[TaskSummary]) -> None:
    short = short_ids([*(one.id for one in everyone), *(family[0].id for family in families)])
    for first, *rest in families[:MOST_NAMED]:
        helped = f" and {counted(len(rest), 'sub-task')}" if rest else ""
        print(f"  {short[first.id]}  {cut(one_line(first.title), 60)}{helped}")
    if len(families) > MOST_NAMED:
        print(f"  … and {len(families) - MOST_NAMED:,} more")


def _delete(store: TaskStore, families: Iterable[Sequence[TaskSummary]]) -> _Done:
    from rookery.app.past_session import drop_files, record_unfinished

    deleted: list[str] = []
    refused: list[str] = []
    gone: set[str] = set()
    places = find_places(os.environ)
    store.before_delete = partial(record_unfinished, places, store)
    store.after_delete = gone.update
    for family in families:
        try:
            for one in family:  # all of them or none
                TaskLock(store.folder(one.id)).release()
            for one in family:
                store.delete(one.id)
                deleted.append(one.id)
        except StorageError as error:
            refused.append(str(error))
    if deleted and (problem := drop_files(places, store, gone)):
        refused.append(problem)
    return _Done(deleted=tuple(deleted), refused=tuple(refused))


def _report(done: _Done, form: str) -> None:
    if form == "json":
        print(json.dumps({"deleted": done.deleted, "refused": done.refused}))
        return
    if done.deleted:
        print(f"Deleted {counted(len(done.deleted), 'session')}.")
    for sentence in done.refused:
        print(f"Not deleted: {sentence}", file=sys.stderr)
    if done.refused:
        print(f"The commands that are running: {NAME} ps", file=sys.stderr)
