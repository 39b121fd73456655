"""`rookery sessions show`, `follow`, `wait`: print what happens in a session.

Each row is printed once: text as it streams, command output line by line, anything else when it is
complete.
"""

import re
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

import anyio
import click

from rookery import NAME
from rookery.cli.command_line import Seconds
from rookery.cli.reports import Exit
from rookery.core.message import Message
from rookery.core.text.terminal_text import Paint, harmless, harmless_line
from rookery.errors import CommandRejected
from rookery.manager.cli.sessions_common import (
    ManagerClient,
    as_json,
    long_running,
    one_session,
    short,
    with_manager,
)
from rookery.manager.cli.sessions_list import label_of, row_lines, state_of
from rookery.manager.requests import ListQuestions
from rookery.manager.sessions.session_states import ErrorKind, SessionState
from rookery.manager.shown_rows import SessionRow
from rookery.protocol.transcript_text import as_text, passages, undone
from rookery.storage.cli.session_listing import money

WORKING = (SessionState.IDLE, SessionState.CREATING, SessionState.STREAMING)
STABLE_SECONDS = 0.3
"""A session idle this long has stopped, rather than being between two states."""
LAST_ROWS_SECONDS = 2.0
"""Seconds to wait for the last rows of a session that has stopped."""
_EXIT_CODES: dict[ErrorKind, Exit] = {
    ErrorKind.AUTH: Exit.AUTH,
    ErrorKind.PAYMENT: Exit.BUDGET,
    ErrorKind.MISTAKES: Exit.STALLED,
}
_BY_SEVERITY = (Exit.AUTH, Exit.BUDGET, Exit.STALLED, Exit.FAILED, Exit.NEEDS_HUMAN)


@click.command("show")
@one_session
@with_manager
async def show_command(client: ManagerClient, session: str) -> int:
    """Show the state of a session and what it waits for."""
    row = await client.session(session)
    asked = [each for each in await client.do(ListQuestions()) if each.session_id == row.session_id]
    client.print(
        row, [*_facts(row), *(line for each in asked for line in row_lines(each, client.paint))]
    )
    return Exit.DONE


@click.command("follow")
@one_session
@click.option(
    "--tail", type=click.IntRange(1, 2_000), default=200, help="Start this many messages back."
)
@long_running
async def follow_command(client: ManagerClient, session: str, tail: int) -> int:
    """Print what happens in a session until it stops."""
    row = await client.session(session)
    transcript = click.get_current_context().ensure_object(FollowedTranscript)
    async with anyio.create_task_group() as group:
        news = client.manager.follow_session(row.session_id, tail=tail)
        reader = _Reader(client, transcript, news)
        group.start_soon(reader.run)
        (row,) = await _wait_until_idle(client, [row.session_id])
        with anyio.move_on_after(LAST_ROWS_SECONDS):
            await reader.caught_up()
        group.cancel_scope.cancel()
    if client.as_json:
        print(as_json({"session": row}), flush=True)
        return _code(row)
    reader.print_new(finish=True)
    print(f"\n{short(row.session_id)} {_outcome_text(row)}", flush=True)
    return _code(row)


@click.command("wait")
@click.argument("sessions", nargs=-1, required=True, metavar="ID...")
@click.option("--timeout", "patience", type=Seconds(min=0), help="Give up after this many seconds.")
@long_running
async def wait_command(
    client: ManagerClient, sessions: Sequence[str], patience: float | None
) -> int:
    """Wait until sessions stop. The exit code is 0 if all completed, and 6 if one asks
    something."""
    wanted = [(await client.session(each)).session_id for each in sessions]
    rows: list[SessionRow] = []
    with anyio.move_on_after(patience) as waiting:
        rows = await _wait_until_idle(client, wanted)
    if waiting.cancelled_caught:  # with --timeout 0 this is the only check
        known = {row.session_id: row for row in await client.sessions()}
        rows = [known[each] for each in wanted if each in known]
        if not _all_idle(rows, len(wanted)):
            return Exit.TIMED_OUT
    client.print(tuple(rows), (f"{short(row.session_id)} {_outcome_text(row)}" for row in rows))
    codes = set(map(_code, rows))
    return next((code for code in _BY_SEVERITY if code in codes), Exit.DONE)


class FollowedTranscript:
    def __init__(self) -> None:
        self._rows: dict[int, dict[str, Any]] = {}
        self._printed: dict[int, int] = {}
        """Characters printed so far of each row."""
        self._finished: set[int] = set()
        self._undone: set[int] = set()
        """Rows whose failure or rejection was printed."""
        self._open_line: int | None = None
        """The row whose line is still open."""
        self._earlier = 0
        self.is_idle = False
        """Whether the rows say that the session ended or waits for an answer."""

    def apply(self, news: Mapping[str, Any]) -> None:
        """Apply a notification to the rows."""
        change = news["change"]
        self._earlier = news.get("earlier", 0)
        for ts in change.get("removed", ()):
            self._rows.pop(ts, None)
        for row in change.get("added", ()):
            self._rows[row["ts"]] = row
        for new in change.get("changed", ()):
            if row := self._rows.get(new["ts"]):
                self._rows[new["ts"]] = _changed(row, new)
        parts = change.get("parts", {})
        if "open_ask" in parts or "closed" in parts:
            self.is_idle = parts.get("open_ask") is not None or bool(parts.get("closed"))

    def new_text(self, paint: Paint, *, finish: bool = False) -> Iterator[str]:
        """Yield the text not printed yet: what is available, or with `finish` all of it and
        a final line end."""
        for place, ts in enumerate(sorted(self._rows)):
            row = self._rows[ts]
            if ts in self._finished:
                yield from self._late_outcome(row, paint)
                continue
            whole = finish or not row.get("partial", False)
            is_prompt = place == 0 and not self._earlier
            if row.get("say") in _STREAMED and not is_prompt:
                yield from self._stream_text(row, paint, whole=whole)
            elif row.get("say") in _LINE_BY_LINE:
                yield from self._stream_lines(row, paint, whole=whole)
            elif whole:
                yield from self._whole_row(row, paint, is_prompt=is_prompt)
            if not whole:
                return
            self._finished.add(ts)
        if finish:
            yield from self._end_line()

    def _whole_row(self, row: Mapping[str, Any], paint: Paint, *, is_prompt: bool) -> Iterator[str]:
        before, message = [] if is_prompt else [_PRECEDING], _row(row)
        if undone(message):
            self._undone.add(message.ts)
        for each in as_text(passages([*before, message]), paint):
            yield from self._end_line()
            yield f"\n{each}\n"

    def _late_outcome(self, row: Mapping[str, Any], paint: Paint) -> Iterator[str]:
        """Report the outcome of a call that was printed when it was requested."""
        if row["ts"] in self._undone or not (became := undone(_row(row))):
            return
        self._undone.add(row["ts"])
        yield from self._end_line()
        title = harmless_line(row.get("title") or row.get("text") or "")
        yield "\n" + paint.red(f"✗ {became}: {title}") + "\n"

    def _stream_text(self, row: Mapping[str, Any], paint: Paint, *, whole: bool) -> Iterator[str]:
        """Print text as it streams, so a line may come in pieces."""
        ts, text = row["ts"], (row.get("text") or "").strip("\n")
        done = self._printed.get(ts, 0)
        upto = len(text) if whole else _stable_length(text)
        if upto > done:
            if not done:
                yield from self._end_line()
                yield f"\n{paint.green('✔')} " if row.get("say") == "completion_result" else "\n"
            self._printed[ts], self._open_line = upto, ts
            yield harmless(text[done:upto])
        if whole and self._open_line == ts:
            yield from self._end_line()

    def _stream_lines(self, row: Mapping[str, Any], paint: Paint, *, whole: bool) -> Iterator[str]:
        ts, text = row["ts"], (row.get("text") or "").strip("\n")
        done = self._printed.get(ts, 0)
        upto = len(text) if whole else text.rfind("\n") + 1
        if upto <= done:
            return
        if not done:
            yield from self._end_line()
            yield "\n"
        self._printed[ts] = upto
        for line in harmless(text[done:upto]).removesuffix("\n").split("\n"):
            yield paint.dim(f"  {line}") + "\n"

    def _end_line(self) -> Iterator[str]:
        if self._open_line is not None:
            self._open_line = None
            yield "\n"


class _Reader:
    """Prints the notifications of one session."""

    def __init__(
        self,
        client: ManagerClient,
        transcript: FollowedTranscript,
        news: AsyncIterator[Mapping[str, Any]],
    ) -> None:
        self._client = client
        self._transcript = transcript
        self._news = news
        self._changed = anyio.Event()

    async def run(self) -> None:
        async for news in self._news:
            self._transcript.apply(news)
            if self._client.as_json:
                print(as_json(news), flush=True)
            else:
                self.print_new()
            self._changed.set()
            self._changed = anyio.Event()

    def print_new(self, *, finish: bool = False) -> None:
        for piece in self._transcript.new_text(self._client.paint, finish=finish):
            print(piece, end="", flush=True)

    async def caught_up(self) -> None:
        while not self._transcript.is_idle:
            await self._changed.wait()


async def _wait_until_idle(client: ManagerClient, wanted: Sequence[str]) -> list[SessionRow]:
    """Wait until all sessions have stopped, and return them."""
    rows: dict[str, SessionRow] = {}
    changed = anyio.Event()

    async def watch() -> None:
        nonlocal changed
        async for news in client.manager.follow_list():
            rows.update({row.session_id: row for row in news.rows if row.session_id in wanted})
            if gone := set(wanted) & set(news.removed):
                raise CommandRejected(f"Session {short(min(gone))} was removed.")
            changed.set()
            changed = anyio.Event()

    async with anyio.create_task_group() as group:
        group.start_soon(watch)
        await _wait_until_stable(lambda: _all_idle(rows.values(), len(wanted)), lambda: changed)
        group.cancel_scope.cancel()
    return [rows[each] for each in wanted]


async def _wait_until_stable(holds: Callable[[], bool], changed: Callable[[], anyio.Event]) -> None:
    """Wait until a condition has held for `STABLE_SECONDS`."""
    while True:
        while not holds():
            await changed().wait()
        with anyio.move_on_after(STABLE_SECONDS) as surely:
            while holds():
                await changed().wait()
        if surely.cancelled_caught:
            return


def _all_idle(rows: Iterable[SessionRow], number: int) -> bool:
    there = list(rows)
    return len(there) == number and not any(row.state in WORKING for row in there)


def _code(row: SessionRow) -> int:
    match row.state:
        case SessionState.COMPLETED:
            return Exit.DONE
        case SessionState.WAITING_APPROVAL | SessionState.WAITING_INPUT:
            return Exit.NEEDS_HUMAN
        case _:
            return _EXIT_CODES.get(row.failure.kind, Exit.FAILED) if row.failure else Exit.FAILED


def _outcome_text(row: SessionRow) -> str:
    id = short(row.session_id)
    match row.state:
        case SessionState.WAITING_APPROVAL:
            return f"needs approval: {NAME} sessions approve {id}, or reject {id}"
        case SessionState.WAITING_INPUT:
            return f"has a question: {NAME} sessions answer {id} TEXT"
        case SessionState.ERROR:
            why = f" ({harmless(row.failure.text)})" if row.failure else ""
            return f"failed{why}. To retry: {NAME} sessions retry {id}"
        case SessionState.PAUSED | SessionState.STOPPED:
            return f"is {label_of(row.state).lower()}: {NAME} sessions resume {id}"
        case _:
            return f"is {label_of(row.state).lower()}."


def _facts(row: SessionRow) -> Iterator[str]:
    fields = {
        "session": row.session_id,
        "name": row.name,
        "state": state_of(row),
        "failure": row.failure.text if row.failure else "",
        "started": datetime.fromtimestamp(row.start_time / 1000).strftime("%Y-%m-%d %H:%M"),
        "model": " ".join(filter(None, (row.provider, row.model))),
        "mode": row.mode or "",
        "approval": "auto-approve" if row.auto_approve else "asks first",
        "intent": row.intent,
        "branch": row.branch,
        "folder": row.workspace,
        "tokens": f"{row.tokens:,}" if row.tokens else "",
        "cost": money(row.cost) if row.cost else "",
        "undelivered": f"{len(row.undelivered)} not delivered" if row.undelivered else "",
    }
    for name, text in fields.items():
        if text:
            yield f"{name + ':':<10}{harmless_line(text)}"
    yield from (f"  {harmless_line(line)}" for line in row.logs[-5:] if row.failure)
    yield f"{'history:':<10}{NAME} show {short(row.session_id)}"


_PRECEDING = Message(ts=0, type="say", say="checkpoint_saved")
"""A row that is not shown. It makes the row after it not be taken for the prompt."""
_STREAMED = ("text", "completion_result")
_LINE_BY_LINE = ("reasoning", "command_output")
_UNSETTLED = re.compile(
    "[\r\u200d\ufe0f\u2190-\u21ff\u2300-\u23ff\u2600-\u27bf\u2b00-\u2bff\U0001f300-\U0001faff]"
)
"""Characters whose appearance the next one may change, such as parts of a joined emoji."""


def _stable_length(text: str) -> int:
    """Length of the text whose appearance further text cannot change."""
    end = len(text)
    while end and _UNSETTLED.match(text[end - 1]):
        end -= 1
    return end


def _changed(row: dict[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    merged = {**row, **{name: new[name] for name in new if name not in ("append", "drop")}}
    if "append" in new:
        text = row.get("text") or ""
        merged["text"] = text[: len(text) - new.get("drop", 0)] + new["append"]
    return merged


def _row(row: Mapping[str, Any]) -> Message:
    """Build the message that `transcript_text` needs."""
    names = ("say", "ask", "partial", "answered", "outcome", "ask_id", "call_id", "title", "diff")
    known = {name: row[name] for name in names if name in row}
    return Message(ts=row["ts"], type=row["type"], content=row.get("text"), **known)
