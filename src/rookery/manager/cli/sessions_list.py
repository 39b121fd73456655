"""`rookery sessions list`: the sessions that the Agent Manager looks after, and how they are."""

import shlex
import sys
from collections.abc import Iterator, Sequence
from datetime import datetime

import click

from rookery import NAME
from rookery.cli.exit_codes import Exit
from rookery.core.text.terminal_text import Paint, harmless, harmless_line
from rookery.governance.cli.intents_common import aligned
from rookery.manager.cli.sessions_common import Desk, at_the_desk
from rookery.manager.requests import ListSessions
from rookery.manager.sessions.session_states import SessionState
from rookery.manager.sessions.session_store import manager_folder, sessions_kept
from rookery.manager.shown_rows import Overview, SessionRow
from rookery.storage.cli.session_listing import age, cut, money, one_line, short_ids

HEAD = ["ID", "STATE", "STARTED", "MODEL", "COST", "NAME"]
_COST = frozenset({4})
NAME_WIDTH = 60
_WORDS = {
    SessionState.IDLE: "Idle",
    SessionState.CREATING: "Starting",
    SessionState.STREAMING: "Working",
    SessionState.WAITING_APPROVAL: "Needs approval",
    SessionState.WAITING_INPUT: "Has a question",
    SessionState.COMPLETED: "Done",
    SessionState.PAUSED: "Paused",
    SessionState.ERROR: "Failed",
    SessionState.STOPPED: "Stopped",
}
"""As the page calls them."""


@click.command("list")
@click.argument("words", nargs=-1)
@click.option("--archived", is_flag=True, help="Also those that were put away.")
@at_the_desk
async def list_command(desk: Desk, words: Sequence[str], archived: bool) -> int:
    """Print the sessions, those at work first. With WORDS only those that hold all of them."""
    listing = await desk.do(ListSessions(words=" ".join(words), archived=archived))
    sums = _sums(listing.overview, bool(words)) or _none_here(desk)
    desk.tell(listing, [*_table(listing.sessions, desk.paint), sums])
    if not desk.as_json:
        tell_notices(listing.overview)
    return Exit.DONE


def tell_notices(overview: Overview) -> None:
    for notice in overview.notices:
        print(f"note: {harmless(notice)}", file=sys.stderr)


def words_for(state: SessionState) -> str:
    return _WORDS[state]


def state_of(row: SessionRow) -> str:
    """How a session is, in the words of a table."""
    if row.queued:
        return "Queued"
    if row.unresponsive:
        return "Not responding"
    if row.state is SessionState.CREATING and row.step:
        return f"Starting: {harmless_line(row.step)}"
    return words_for(row.state)


def _table(rows: Sequence[SessionRow], paint: Paint) -> Iterator[str]:
    if not rows:
        return
    now = datetime.now().astimezone()
    ids = short_ids(row.session_id for row in rows)
    cells = [HEAD, *(_cells(row, ids[row.session_id], now) for row in rows)]
    head, *lines = aligned(cells, right=_COST)
    yield paint.dim(head)
    for row, line in zip(rows, lines, strict=True):
        yield _coloured(row, line, paint)


def _cells(row: SessionRow, id: str, now: datetime) -> list[str]:
    branch = f"  ({row.branch})" if row.branch else ""
    archived = "  [archived]" if row.archived else ""
    return [
        id,
        state_of(row) + (" *" if row.unread else ""),
        age(row.start_time, now),
        row.model or "-",
        money(row.cost),
        f"{cut(one_line(row.name), NAME_WIDTH)}{branch}{archived}",
    ]


def _coloured(row: SessionRow, line: str, paint: Paint) -> str:
    match row.state:
        case SessionState.WAITING_APPROVAL | SessionState.WAITING_INPUT:
            return paint.yellow(line)
        case SessionState.ERROR:
            return paint.red(line)
        case SessionState.CREATING | SessionState.STREAMING:
            return paint.bold(line)
        case _:
            return line


def _sums(overview: Overview, searched: bool) -> str:
    """Nothing if there is none."""
    counts = overview.counts
    if not (counts.active or counts.history or counts.archived):
        return ""
    said = [
        f"{counts.active} active" if counts.active else "",
        f"{counts.history} at rest" if counts.history else "",
        f"{counts.archived} archived" if counts.archived else "",
    ]
    everything = ("In all: " if searched else "") + ", ".join(filter(None, said)) + "."
    needs = "needs" if counts.attention == 1 else "need"
    waiting = f" {counts.attention} {needs} you: {NAME} sessions inbox" if counts.attention else ""
    return everything + waiting


def _none_here(desk: Desk) -> str:
    """Perhaps the project above is meant."""
    for above in desk.folder.parents:
        if number := sessions_kept(manager_folder(desk.places, above)):
            folder = harmless_line(shlex.quote(str(above)))
            return f"There are no sessions here; {folder} has {number}: {NAME} sessions -w {folder}"
    return f'There are no sessions here. Start one: {NAME} sessions start "your task"'
