"""`rookery sessions list`, `inbox`, `approve`, `reject`, `answer`: sessions and their questions.

An approval covers exactly what was printed: the question is shown with everything it allows, and
the answer carries its digest.
"""

import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime

import click

from rookery import NAME
from rookery.cli.reports import Exit
from rookery.core.asks import CHOICES, AskKind, Choice, question_lines, reply_of
from rookery.core.text.terminal_text import (
    Paint,
    aligned,
    approvable,
    folded_diff,
    harmless,
    harmless_line,
    plainly_visible,
    visible_line,
)
from rookery.errors import CommandRejected, SettingsError
from rookery.manager.cli.sessions_common import (
    ManagerClient,
    one_session,
    short,
    text_of,
    with_manager,
)
from rookery.manager.requests import (
    ApproveAction,
    ListQuestions,
    ListSessions,
    RejectAction,
    SendWords,
)
from rookery.manager.sessions.session_states import SessionState
from rookery.manager.shown_rows import InboxRow, Overview, SessionRow
from rookery.protocol.codec import ceiling, chosen, followup, suggestions
from rookery.storage.cli.list import listed_sessions
from rookery.storage.cli.session_listing import age, cut, money, one_line, short_ids

HEAD = ["ID", "STATE", "STARTED", "MODEL", "COST", "NAME"]
_COST = frozenset({4})
NAME_WIDTH = 60
_STATE_LABELS = {
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
"""The same labels as on the page."""


@click.command("list")
@click.argument("words", nargs=-1)
@click.option("--archived", is_flag=True, help="Include archived sessions.")
@with_manager
async def list_command(client: ManagerClient, words: Sequence[str], archived: bool) -> int:
    """List the sessions, running ones first. With WORDS, only those that contain all of them.
    They are the sessions that `rookery list` shows."""
    listing = await client.do(ListSessions(words=" ".join(words), archived=archived))
    sums = _totals(listing.overview, bool(words)) or _no_sessions(client)
    client.print(listing, [*_table(listing.sessions, client.paint), sums])
    if not client.as_json:
        print_notices(listing.overview)
    return Exit.DONE


def print_notices(overview: Overview) -> None:
    for notice in overview.notices:
        print(f"note: {harmless(notice)}", file=sys.stderr)


def label_of(state: SessionState) -> str:
    return _STATE_LABELS[state]


def state_of(row: SessionRow) -> str:
    """State of a session, as a table cell."""
    if row.queued:
        return "Queued"
    if row.unresponsive:
        return "Not responding"
    if row.state is SessionState.CREATING and row.step:
        return f"Starting: {harmless_line(row.step)}"
    return label_of(row.state)


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


def _totals(overview: Overview, searched: bool) -> str:
    """Totals of all sessions; empty if there are none."""
    counts = overview.counts
    if not (counts.active or counts.history or counts.archived):
        return ""
    parts = [
        f"{counts.active} active" if counts.active else "",
        f"{counts.history} inactive" if counts.history else "",
        f"{counts.archived} archived" if counts.archived else "",
    ]
    everything = ("Total: " if searched else "") + ", ".join(filter(None, parts)) + "."
    needs = "needs" if counts.attention == 1 else "need"
    waiting = f" {counts.attention} {needs} you: {NAME} sessions inbox" if counts.attention else ""
    return everything + waiting


def _no_sessions(client: ManagerClient) -> str:
    """Message for a project without sessions; suggests a parent folder that has some."""
    for above in client.folder.parents:
        sessions, _ = listed_sessions(client.places, str(above))
        if number := sum(session.parent is None for session in sessions):
            folder = harmless_line(shlex.quote(str(above)))
            return (
                f"No sessions in this project; {folder} has {number}: {NAME} sessions -w {folder}"
            )
    return f'No sessions in this project. Start one: {NAME} sessions start "your task"'


_APPROVALS = [each for each in CHOICES if reply_of(each) == "yes"]
WAITING = (SessionState.WAITING_APPROVAL, SessionState.WAITING_INPUT)
_CHOICE_OPTIONS: Mapping[Choice, str] = {
    "task": "approve --choice task:",
    "expand": "approve --choice expand:",
    "halt": "reject --halt:",
}
_ts_option = click.option(
    "--ts", type=int, help="The id of the question, from inbox --json. Default: the oldest."
)


@click.command("approve")
@one_session
@click.option("--note", default="", help="A message for the model.")
@click.option("--always", is_flag=True, help="Also save the rule, if the question offers one.")
@click.option(
    "--choice",
    type=click.Choice(_APPROVALS),
    help="For governance: allow for the task, or expand the scope.",
)
@click.option("--digest", help="Approve only this digest, from the inbox.")
@_ts_option
@with_manager
async def approve_command(
    client: ManagerClient,
    session: str,
    note: str,
    always: bool,
    choice: Choice | None,
    digest: str | None,
    ts: int | None,
) -> int:
    """Print what a session asks for, and approve it."""
    row = await _question(client, session, ts, SessionState.WAITING_APPROVAL)
    if digest is not None and digest != row.digest:
        raise CommandRejected(
            f"Session {short(row.session_id)} now asks for something else, so nothing "
            f"was approved. Read it again: {NAME} sessions inbox"
        )
    if not client.as_json:
        print("\n".join(row_lines(row, client.paint)), flush=True)
    request = ApproveAction(
        session_id=row.session_id,
        ask_ts=row.ts,
        digest=row.digest,
        text=note,
        always=always,
        choice=choice,
    )
    return await client.carry_out(request, "Approved.")


@click.command("reject")
@one_session
@click.argument("reason", default="")
@click.option("--halt", is_flag=True, help="For governance: also stop the task.")
@_ts_option
@with_manager
async def reject_command(
    client: ManagerClient, session: str, reason: str, halt: bool, ts: int | None
) -> int:
    """Reject what a session asks for. The model gets the reason."""
    row = await _question(client, session, ts, SessionState.WAITING_APPROVAL)
    request = RejectAction(
        session_id=row.session_id, ask_ts=row.ts, text=reason, choice="halt" if halt else None
    )
    return await client.carry_out(request, f"Rejected: {_subject(row)}")


@click.command("answer")
@one_session
@click.argument("text")
@_ts_option
@with_manager
async def answer_command(client: ManagerClient, session: str, text: str, ts: int | None) -> int:
    """Answer a question. A number picks one of its choices; - reads standard input."""
    row = await _question(client, session, ts)
    answer = _answer_to(row, text_of(text))
    request = SendWords(session_id=row.session_id, text=answer, ask_ts=row.ts)
    return await client.carry_out(request, f"Answered: {harmless(answer)}")


def _answer_to(row: InboxRow, text: str) -> str:
    """The text, or the suggestion it selects by number."""
    offered = suggestions(row.text) if row.ask == AskKind.FOLLOWUP else []
    if offered and text.strip().isdecimal() and not 1 <= int(text) <= len(offered):
        raise SettingsError(f"Choose 1 to {len(offered)}. Nothing was answered.")
    return chosen(text, offered).answer


async def _question(
    client: ManagerClient, given: str, ts: int | None, state: SessionState | None = None
) -> InboxRow:
    """The oldest open question of a session, optionally only in `state`."""
    session = await client.session(given)
    rows = [
        each for each in await client.do(ListQuestions()) if each.session_id == session.session_id
    ]
    states = [state] if state else WAITING
    fitting = [each for each in rows if ts in (None, each.ts) and each.state in states]
    if not fitting:
        id = short(session.session_id)
        if state:
            raise SettingsError(f"Session {id} has nothing to approve.")
        raise SettingsError(
            f"Session {id} has no open question. To send a message: {NAME} sessions send {id} TEXT"
        )
    return fitting[0]


def inbox_lines(rows: Sequence[InboxRow], paint: Paint) -> Iterator[str]:
    if not rows:
        yield "The inbox is empty."
    for row in rows:
        yield _head(row, paint)
        yield from row_lines(row, paint)
        yield paint.dim(f"  {_hint(row)}\n")


def _head(row: InboxRow, paint: Paint) -> str:
    return f"{paint.bold(short(row.session_id))}  {label_of(row.state)}  {harmless_line(row.name)}"


def row_lines(row: InboxRow, paint: Paint) -> Iterator[str]:
    """Lines of a question, with everything needed to answer it."""
    for line in _question_text(row, paint):
        yield "\n".join(f"  {each}" for each in line.split("\n"))


def _question_text(row: InboxRow, paint: Paint) -> Iterator[str]:
    match row.ask:
        case AskKind.FOLLOWUP:
            question, offered = followup(row.text)
            yield harmless(question)
            yield from (f"{at}. {harmless_line(each)}" for at, each in enumerate(offered, 1))
        case AskKind.COMMAND:
            yield paint.bold("Run this command:")
            yield plainly_visible(row.text)
        case AskKind.TOOL | AskKind.USE_MCP_SERVER | AskKind.BROWSER_ACTION_LAUNCH:
            yield paint.bold(visible_line(row.title or row.text))
        case AskKind.AUTO_APPROVAL_MAX_REQ_REACHED:
            yield ceiling(row.text)
        case _:
            yield harmless(row.text) if row.text else _default_text(row)
    if row.diff:
        yield paint.diff(folded_diff(approvable(row.diff)))
    if row.where:
        yield paint.dim(visible_line(row.where))
    yield from (paint.yellow(f"! {visible_line(each)}") for each in row.notes)
    if row.governance:
        yield from (visible_line(each) for each in question_lines(row.governance, _CHOICE_OPTIONS))
    if row.rule:
        yield paint.dim(f"--always allows: {plainly_visible(row.rule)}")


def _default_text(row: InboxRow) -> str:
    """Text for a question that has none."""
    match row.state:
        case SessionState.COMPLETED:
            return "Done, without a result."
        case SessionState.ERROR:
            return "Failed, without a reason."
        case _:
            return row.ask.replace("_", " ") or "The question has not arrived yet."


def _subject(row: InboxRow) -> str:
    return visible_line(row.title or row.text or row.ask)


def _hint(row: InboxRow) -> str:
    """The command to answer with."""
    session = short(row.session_id)
    match row.state:
        case SessionState.WAITING_APPROVAL:
            exactly = f" --digest {harmless_line(row.digest)}" if row.digest else ""
            return f"{NAME} sessions approve {session}{exactly}"
        case SessionState.WAITING_INPUT:
            return f"{NAME} sessions answer {session} TEXT"
        case SessionState.ERROR:
            return f"{NAME} sessions retry {session}"
        case _:
            return f"{NAME} sessions send {session} TEXT, or mark-read {session}"
