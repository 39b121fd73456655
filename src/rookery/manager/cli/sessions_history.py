"""`rookery sessions fork`, `export`, `checkpoints`, `restore`: what was said and done so far."""

import sys
from collections.abc import Iterator
from datetime import datetime
from typing import Literal

import click

from rookery.cli.exit_codes import Exit
from rookery.core.queries import RestoreRehearsal
from rookery.core.text.terminal_text import harmless, harmless_line
from rookery.errors import SettingsError
from rookery.manager.cli.sessions_common import Desk, at_the_desk, one_session, short, some
from rookery.manager.requests import (
    ExportSession,
    ForkSession,
    ListCheckpoints,
    RehearseRestore,
    RestoreSession,
)
from rookery.manager.shown_rows import CheckpointRow
from rookery.storage.cli.session_listing import counted


@click.command("fork")
@one_session
@click.option("--ts", type=int, help="With what came up to the row of this time; else all of it.")
@at_the_desk
async def fork_command(desk: Desk, session: str, ts: int | None) -> int:
    """Start a second session that begins as this one did."""
    row = await desk.session(session)
    started = await desk.do(ForkSession(session_id=row.session_id, ts=ts))
    desk.tell(started, started.session_ids)
    if not desk.as_json:
        for note in started.notes:
            print(harmless(note), file=sys.stderr, flush=True)
    return Exit.DONE


@click.command("export")
@one_session
@click.option("--format", type=click.Choice(["markdown", "json", "html"]), default="markdown")
@at_the_desk
async def export_command(
    desk: Desk, session: str, format: Literal["markdown", "json", "html"]
) -> int:
    """Print a session as a document. Look before you pass it on."""
    row = await desk.session(session)
    exported = await desk.do(ExportSession(session_id=row.session_id, format=format))
    text = harmless(exported.text) if sys.stdout.isatty() else exported.text
    desk.tell(exported, [text.rstrip("\n")])
    return Exit.DONE


@click.command("checkpoints")
@one_session
@at_the_desk
async def checkpoints_command(desk: Desk, session: str) -> int:
    """Print the moments that one can go back to, newest last."""
    row = await desk.session(session)
    found = await desk.do(ListCheckpoints(session_id=row.session_id))
    desk.tell(found, map(_moment, found) if found else ["There is nothing to go back to."])
    return Exit.DONE


@click.command("restore")
@one_session
@click.option("--to", type=int, required=True, metavar="NUMBER", help="As checkpoints tells it.")
@click.option("--files/--no-files", default=True, help="Put files back; this is usual.")
@click.option("--conversation", is_flag=True, help="Also forget what was said since.")
@click.option("--overwrite", is_flag=True, help="Also what somebody else has changed since.")
@click.option("--dry-run", is_flag=True, help="Only say what would happen to files.")
@at_the_desk
async def restore_command(
    desk: Desk,
    session: str,
    to: int,
    files: bool,
    conversation: bool,
    overwrite: bool,
    dry_run: bool,
) -> int:
    """Go back to an earlier moment of a session."""
    if not (files or conversation):
        raise SettingsError("Say what to go back with: --files, --conversation, or both.")
    row = await desk.session(session)
    if dry_run:
        rehearsal = await desk.do(
            RehearseRestore(session_id=row.session_id, to=to, overwrite=overwrite)
        )
        desk.tell(rehearsal, _rehearsed(rehearsal))
        return Exit.DONE
    request = RestoreSession(
        session_id=row.session_id,
        to=to,
        files=files,
        conversation=conversation,
        overwrite=overwrite,
    )
    return await desk.carry_out(request, f"{short(row.session_id)} is back at {to}.")


def _moment(row: CheckpointRow) -> str:
    when = datetime.fromtimestamp(row.ts / 1000).strftime("%H:%M:%S")
    paths = f"  ({harmless_line(some(row.paths))})" if row.paths else ""
    return f"{row.seq:>6}  {when}  {harmless_line(row.title)}{paths}"


def _rehearsed(told: RestoreRehearsal) -> Iterator[str]:
    for verb, paths in (
        ("would be put back", told.written),
        ("would be removed", told.removed),
        ("would stay, as somebody else has changed it", told.kept),
        ("was never kept", told.unsaved),
    ):
        yield from (f"{harmless_line(path)} {verb}" for path in paths)
    if told.problem:
        yield harmless(told.problem)
    changed = len(told.written) + len(told.removed)
    yield f"{counted(changed, 'file')} would change. Do it without --dry-run."
