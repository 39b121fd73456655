"""`rookery sessions show`, `follow`, `wait`: what a session says, as it says it.

Each row is printed once: words as they are spoken, the output of a command line by line, anything
else when it is complete.
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
    for_a_while,
    one_session,
    short,
    with_manager,
)
from rookery.manager.cli.sessions_list import lines_of, state_of, words_for
from rookery.manager.requests import (
    ListQuestions,
)
from rookery.manager.sessions.session_failures import ErrorKind
from rookery.manager.sessions.session_states import SessionState
from rookery.manager.shown_rows import SessionRow
from rookery.plain.transcript_text import as_text, passages, undone
from rookery.storage.cli.session_listing import money

WORKING = (SessionState.IDLE, SessionState.CREATING, SessionState.STREAMING)
SECONDS_TO_BE_SURE = 0.3
"""A session that has rested for so long was not merely passing by."""
SECONDS_FOR_LAST_WORDS = 2.0
"""Until the rows of a session that rests say so too."""
_WHY: dict[ErrorKind, Exit] = {
    ErrorKind.AUTH: Exit.AUTH,
    ErrorKind.PAYMENT: Exit.BUDGET,
    ErrorKind.MISTAKES: Exit.STALLED,
}
_GRAVEST = (Exit.AUTH, Exit.BUDGET, Exit.STALLED, Exit.FAILED, Exit.NEEDS_HUMAN)


@click.command("show")
@one_session
@with_manager
async def show_command(client: ManagerClient, session: str) -> int:
    """Show the state of a session and what it waits for."""
    row = await client.session(session)
    asked = [each for each in await client.do(ListQuestions()) if each.session_id == row.session_id]
    client.tell(
        row, [*_facts(row), *(line for each in asked for line in lines_of(each, client.paint))]
    )
    return Exit.DONE


@click.command("follow")
@one_session
@click.option(
    "--tail", type=click.IntRange(1, 2_000), default=200, help="Start this many messages back."
)
@for_a_while
async def follow_command(client: ManagerClient, session: str, tail: int) -> int:
    """Print what happens in a session until it stops."""
    row = await client.session(session)
    transcript = click.get_current_context().ensure_object(FollowedTranscript)
    async with anyio.create_task_group() as group:
        news = client.manager.follow_session(row.session_id, tail=tail)
        reader = _Reader(client, transcript, news)
        group.start_soon(reader.run)
        (row,) = await _at_rest(client, [row.session_id])
        with anyio.move_on_after(SECONDS_FOR_LAST_WORDS):
            await reader.caught_up()
        group.cancel_scope.cancel()
    if client.as_json:
        print(as_json({"session": row}), flush=True)
        return _code(row)
    reader.tell(to_the_end=True)
    print(f"\n{short(row.session_id)} {_how_it_rests(row)}", flush=True)
    return _code(row)


@click.command("wait")
@click.argument("sessions", nargs=-1, required=True, metavar="ID...")
@click.option("--timeout", "patience", type=Seconds(min=0), help="Give up after this many seconds.")
@for_a_while
async def wait_command(
    client: ManagerClient, sessions: Sequence[str], patience: float | None
) -> int:
    """Wait until sessions stop. The exit code is 0 if all completed, and 6 if one asks
    something."""
    wanted = [(await client.session(each)).session_id for each in sessions]
    rows: list[SessionRow] = []
    with anyio.move_on_after(patience) as waiting:
        rows = await _at_rest(client, wanted)
    if waiting.cancelled_caught:  # a last look: with no time at all it is the only one
        known = {row.session_id: row for row in await client.sessions()}
        rows = [known[each] for each in wanted if each in known]
        if not _all_rest(rows, len(wanted)):
            return Exit.TIMED_OUT
    client.tell(tuple(rows), (f"{short(row.session_id)} {_how_it_rests(row)}" for row in rows))
    codes = set(map(_code, rows))
    return next((code for code in _GRAVEST if code in codes), Exit.DONE)


class FollowedTranscript:
    def __init__(self) -> None:
        self._rows: dict[int, dict[str, Any]] = {}
        self._told: dict[int, int] = {}
        """Of each row that was begun to be told, how much of its text was."""
        self._over: set[int] = set()
        self._undone: set[int] = set()
        """Of which it was told that they came to nothing."""
        self._unended: int | None = None
        """The row that the line belongs to which is not at its end."""
        self._earlier = 0
        self.rests = False
        """Nothing more comes before somebody answers, as far as the rows tell."""

    def take(self, news: Mapping[str, Any]) -> None:
        """What a notification says is new."""
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
            self.rests = parts.get("open_ask") is not None or bool(parts.get("closed"))

    def fresh(self, paint: Paint, *, to_the_end: bool = False) -> Iterator[str]:
        """What was not told yet, to be printed one after the other: as far as it is there, or all
        of it and the end of the line."""
        for place, ts in enumerate(sorted(self._rows)):
            row = self._rows[ts]
            if ts in self._over:
                yield from self._late_outcome(row, paint)
                continue
            whole = to_the_end or not row.get("partial", False)
            is_prompt = place == 0 and not self._earlier
            if row.get("say") in _SPOKEN and not is_prompt:
                yield from self._words_of(row, paint, whole=whole)
            elif row.get("say") in _PRINTED:
                yield from self._lines_of(row, paint, whole=whole)
            elif whole:
                yield from self._all_of(row, paint, is_prompt=is_prompt)
            if not whole:
                return
            self._over.add(ts)
        if to_the_end:
            yield from self._end_line()

    def _all_of(self, row: Mapping[str, Any], paint: Paint, *, is_prompt: bool) -> Iterator[str]:
        before, message = [] if is_prompt else [_BEFORE], _row(row)
        if undone(message):
            self._undone.add(message.ts)
        for each in as_text(passages([*before, message]), paint):
            yield from self._end_line()
            yield f"\n{each}\n"

    def _late_outcome(self, row: Mapping[str, Any], paint: Paint) -> Iterator[str]:
        """Of a call that was told when it was asked for."""
        if row["ts"] in self._undone or not (became := undone(_row(row))):
            return
        self._undone.add(row["ts"])
        yield from self._end_line()
        title = harmless_line(row.get("title") or row.get("text") or "")
        yield "\n" + paint.red(f"✗ {became}: {title}") + "\n"

    def _words_of(self, row: Mapping[str, Any], paint: Paint, *, whole: bool) -> Iterator[str]:
        """As they are spoken, so that a line may be told in pieces."""
        ts, text = row["ts"], (row.get("text") or "").strip("\n")
        told = self._told.get(ts, 0)
        upto = len(text) if whole else _settled(text)
        if upto > told:
            if not told:
                yield from self._end_line()
                yield f"\n{paint.green('✔')} " if row.get("say") == "completion_result" else "\n"
            self._told[ts], self._unended = upto, ts
            yield harmless(text[told:upto])
        if whole and self._unended == ts:
            yield from self._end_line()

    def _lines_of(self, row: Mapping[str, Any], paint: Paint, *, whole: bool) -> Iterator[str]:
        ts, text = row["ts"], (row.get("text") or "").strip("\n")
        told = self._told.get(ts, 0)
        upto = len(text) if whole else text.rfind("\n") + 1
        if upto <= told:
            return
        if not told:
            yield from self._end_line()
            yield "\n"
        self._told[ts] = upto
        for line in harmless(text[told:upto]).removesuffix("\n").split("\n"):
            yield paint.dim(f"  {line}") + "\n"

    def _end_line(self) -> Iterator[str]:
        if self._unended is not None:
            self._unended = None
            yield "\n"


class _Reader:
    """Prints what comes of one session."""

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
            self._transcript.take(news)
            if self._client.as_json:
                print(as_json(news), flush=True)
            else:
                self.tell()
            self._changed.set()
            self._changed = anyio.Event()

    def tell(self, *, to_the_end: bool = False) -> None:
        for piece in self._transcript.fresh(self._client.paint, to_the_end=to_the_end):
            print(piece, end="", flush=True)

    async def caught_up(self) -> None:
        while not self._transcript.rests:
            await self._changed.wait()


async def _at_rest(client: ManagerClient, wanted: Sequence[str]) -> list[SessionRow]:
    """The sessions once all of them rest."""
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
        await _lasting(lambda: _all_rest(rows.values(), len(wanted)), lambda: changed)
        group.cancel_scope.cancel()
    return [rows[each] for each in wanted]


async def _lasting(holds: Callable[[], bool], changed: Callable[[], anyio.Event]) -> None:
    """Until something has held for a while."""
    while True:
        while not holds():
            await changed().wait()
        with anyio.move_on_after(SECONDS_TO_BE_SURE) as surely:
            while holds():
                await changed().wait()
        if surely.cancelled_caught:
            return


def _all_rest(rows: Iterable[SessionRow], number: int) -> bool:
    there = list(rows)
    return len(there) == number and not any(row.state in WORKING for row in there)


def _code(row: SessionRow) -> int:
    match row.state:
        case SessionState.COMPLETED:
            return Exit.DONE
        case SessionState.WAITING_APPROVAL | SessionState.WAITING_INPUT:
            return Exit.NEEDS_HUMAN
        case _:
            return _WHY.get(row.failure.kind, Exit.FAILED) if row.failure else Exit.FAILED


def _how_it_rests(row: SessionRow) -> str:
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
            return f"is {words_for(row.state).lower()}: {NAME} sessions resume {id}"
        case _:
            return f"is {words_for(row.state).lower()}."


def _facts(row: SessionRow) -> Iterator[str]:
    told = {
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
        "mail": f"{len(row.mail)} not delivered" if row.mail else "",
    }
    for name, said in told.items():
        if said:
            yield f"{name + ':':<10}{harmless_line(said)}"
    yield from (f"  {harmless_line(line)}" for line in row.logs[-5:] if row.failure)
    yield f"{'history:':<10}{NAME} show {short(row.session_id)}"


_BEFORE = Message(ts=0, type="say", say="checkpoint_saved")
"""A row that is never shown. What comes after another row is not the prompt."""
_SPOKEN = ("text", "completion_result")
_PRINTED = ("reasoning", "command_output")
_UNSETTLED = re.compile(
    "[\r\u200d\ufe0f\u2190-\u21ff\u2300-\u23ff\u2600-\u27bf\u2b00-\u2bff\U0001f300-\U0001faff]"
)
"""Characters that may look different with the next one, as a joined emoji does."""


def _settled(text: str) -> int:
    """How much of a text that grows looks as it will."""
    end = len(text)
    while end and _UNSETTLED.match(text[end - 1]):
        end -= 1
    return end


def _changed(row: dict[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    told = {**row, **{name: new[name] for name in new if name not in ("append", "drop")}}
    if "append" in new:
        text = row.get("text") or ""
        told["text"] = text[: len(text) - new.get("drop", 0)] + new["append"]
    return told


def _row(told: Mapping[str, Any]) -> Message:
    """As much of a row as a reader is shown."""
    names = ("say", "ask", "partial", "answered", "outcome", "ask_id", "call_id", "title", "diff")
    known = {name: told[name] for name in names if name in told}
    return Message(ts=told["ts"], type=told["type"], content=told.get("text"), **known)
