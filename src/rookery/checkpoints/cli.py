"""`rookery rewind`: restore the files or the conversation of a session to an earlier point."""

import os
import signal
import sys
from collections.abc import Iterator, Sequence
from datetime import datetime
from itertools import groupby
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

import anyio
import click
from msgspec import Struct

from rookery import NAME
from rookery.cli.command_line import folder_option
from rookery.core.event_list import live
from rookery.core.facts import (
    CheckpointSaved,
    Effect,
    Event,
    FilesRestored,
    Noted,
    Rewound,
    TaskOpened,
    ToolStarted,
)
from rookery.core.folds.points import Point, points, standing_changes
from rookery.core.replies import restored_files
from rookery.core.text.terminal_text import counted, harmless_line
from rookery.errors import SettingsError
from rookery.platform.user_folders import find_places
from rookery.storage.cli.session_listing import age, chosen_session, cut, one_line
from rookery.storage.sessions import TaskStore
from rookery.storage.settings_files import find_settings

if TYPE_CHECKING:
    from rookery.app.past_session import PastSession

MOST_SHOWN = 30
NO_FILE = "No files to restore."
MOST_ALIKE = 5
"""Files of one folder that are listed one by one."""


class _Options(Struct, frozen=True, kw_only=True):
    to: Sequence[int]
    """Candidates for the point to rewind to: the first at which files have changed is used."""
    files: bool
    conversation: bool
    overwrite: bool


@click.command()
@click.argument("session", required=False)
@folder_option("The folder whose last session to use.")
@click.option("--to", type=int, help="The point to rewind to; without it, list them.")
@click.option("--last", is_flag=True, help="Undo the last change to files.")
@click.option("--files", is_flag=True, help="Restore only the files.")
@click.option("--conversation", is_flag=True, help="Rewind only the conversation.")
@click.option("--overwrite", is_flag=True, help="Also restore files that you changed.")
@click.option("--dry-run", is_flag=True, help="Show what would happen.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
def command(
    session: str | None,
    workspace: Path,
    to: int | None,
    last: bool,
    files: bool,
    conversation: bool,
    overwrite: bool,
    dry_run: bool,
    yes: bool,
) -> int:
    """Undo: restore files, the conversation, or both to an earlier point.

    Files that you changed yourself since then are kept and listed. A rewind can be undone in
    the same way.
    """
    if files and conversation:
        raise SettingsError("Give --files or --conversation, not both.")
    if to is not None and last:
        raise SettingsError("Give --to or --last, not both.")
    places = find_places(os.environ)
    store = TaskStore(places)
    task_id = chosen_session(store, session, workspace, "rewind")
    events = list(store.read(task_id))
    known = points(events)
    if to is None and not last:
        _list(known, session or ("" if workspace == Path.cwd() else task_id[:8]))
        return 0
    wanted = _changes_to_undo(events) if last else [to or 0]
    settings = find_settings(places.settings_file, None, os.environ, {}).settings
    home = _folder_of(events, workspace)
    options = _Options(
        to=wanted, files=not conversation, conversation=not files, overwrite=overwrite
    )

    from rookery.app.past_session import open_past_session

    async def carry_out() -> int:
        async with open_past_session(settings, places, store, task_id, home) as past:
            return await _rewind(past, options, dry_run=dry_run, sure=yes)

    try:
        return anyio.run(carry_out)
    except BaseExceptionGroup as group:  # report the error itself
        raise group.exceptions[0] from group


async def _rewind(past: "PastSession", options: _Options, *, dry_run: bool, sure: bool) -> int:
    to = await _resolve_point(past, options)
    if options.conversation:
        print(f"The conversation will be rewound to {to}: {_steps_after(past.events, to)} undone.")
    if options.files and not await _preview_files(past, to, options):
        return 1
    if dry_run:
        return 0
    if not (sure or _confirmed()):
        print("Nothing was changed.")
        return 1
    now = len(past.events)
    if options.files:
        await past.restore(to, overwrite=options.overwrite)
        _print_notes(past.events[now:])
    if options.conversation:
        past.append(Rewound(to=to))
    if any(point.to >= now for point in points(past.events)):
        print(f"Done. To undo this: {NAME} rewind {past.task_id} --to {now}")
    return 0


async def _resolve_point(past: "PastSession", options: _Options) -> int:
    """The first candidate with files to restore: old sessions have steps without any."""
    first, *earlier = [past.settled_before(to) for to in options.to]
    for to in (first, *earlier) if earlier else ():
        plan = await past.rehearse(to, overwrite=options.overwrite)
        if plan.effects or plan.kept or plan.problem:
            return to
    return first


def _steps_after(events: Sequence[Event], to: int) -> str:
    """The number of live steps that will be undone; earlier rewinds and restores do not count."""
    standing = [e for e in live(events) if not isinstance(e.fact, FilesRestored | Rewound)]
    gone = [point for point in points(standing) if point.to >= to and point.to > 1]
    return counted(len(gone), "step")


async def _preview_files(past: "PastSession", to: int, options: _Options) -> bool:
    plan = await past.rehearse(to, overwrite=options.overwrite)
    if plan.problem:
        print(f"The files cannot be restored. {plan.problem}", file=sys.stderr)
        return False
    print(f"{counted(len(plan.effects), 'file')} to restore." if plan.effects else NO_FILE)
    rows = list(_summary(plan.effects))
    for verb, what in rows[:MOST_SHOWN]:
        print(f"  {verb:9} {harmless_line(what)}")
    if len(rows) > MOST_SHOWN:
        print(f"  … and {len(rows) - MOST_SHOWN} more")
    if plan.kept:
        print("Skipped, because someone else changed them (--overwrite restores them too):")
        for path in plan.kept:
            print(f"  {harmless_line(path)}")
    if plan.unsaved:
        print("Not in any checkpoint, so these stay as they are:")
        for path in plan.unsaved:
            print(f"  {harmless_line(path)}")
    return True


def _summary(effects: Sequence[Effect]) -> Iterator[tuple[str, str]]:
    """Rows of verb and path; many files of one folder share a row."""

    def alike(effect: Effect) -> tuple[str, str]:
        return _verb(effect), str(PurePosixPath(effect.path).parent)

    for (verb, folder), group in groupby(sorted(effects, key=alike), key=alike):
        same = list(group)
        if len(same) > MOST_ALIKE:
            yield verb, f"{len(same)} files in {folder}/"
        else:
            yield from ((verb, effect.path) for effect in same)


def _print_notes(events: Sequence[Event]) -> None:
    """Print the notes that were recorded during the restore."""
    for event in events:
        match event.fact:
            case FilesRestored() as restored:
                print(harmless_line(restored_files(restored)))
            case Noted(text=text):
                print(harmless_line(text))
            case _:
                pass


def _verb(effect: Effect) -> str:
    if effect.after is None:
        return "remove"
    return "create" if effect.before is None else "change"


def _folder_of(events: Sequence[Event], workspace: Path) -> Path:
    """The folder the session worked in, or `workspace` if it no longer exists."""
    opened = events[0].fact if events else None
    home = Path(opened.workspace) if isinstance(opened, TaskOpened) else workspace
    return home if home.is_dir() else workspace


def _changes_to_undo(events: Sequence[Event]) -> Sequence[int]:
    if found := standing_changes(events):
        return found
    if any(isinstance(event.fact, CheckpointSaved) for event in events):
        raise SettingsError("No step is left that changed files.")
    if any(isinstance(e.fact, ToolStarted) and e.fact.changes for e in events):
        raise SettingsError("This session has no checkpoints. See the setting checkpoints.use.")
    raise SettingsError("No step of this session changed files.")


def _list(known: Sequence[Point], session: str) -> None:
    now = datetime.now().astimezone()
    for point in known:
        who = "you " if point.by_user else "    "
        mark = "±" if point.changed_files else " "
        when = age(point.ts, now)
        print(f"{point.to:>5}  {when:>12}  {mark} {who}{cut(one_line(point.what), 90)}")
    command = f"{NAME} rewind {session}".rstrip()
    print(f"\n± changed files. To rewind to before a step: {command} --to NUMBER")


def _confirmed() -> bool:
    if not sys.stdin.isatty():
        raise SettingsError("Not interactive: use -y to approve, or --dry-run to look.")
    # anyio's SIGINT handler does not interrupt input()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        return input("Rewind? [y/N] ").strip().lower() in ("y", "yes")
    except EOFError:
        return False
