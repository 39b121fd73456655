"""Serves a manager to one client, a page or a command: its requests and its subscriptions.

A request is completed even if its client disconnects. The list is sent completely once, then only
changes.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import aclosing
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import anyio
import anyio.to_thread
import msgspec
from msgspec import Struct

from rookery.core.queries import Asking
from rookery.errors import CommandRejected
from rookery.first_use import prepared
from rookery.manager.dependencies import FleetView
from rookery.manager.handlers.list_handler import NO_FLEET
from rookery.manager.handlers.router import Router, reply_to_json, request_from_json
from rookery.manager.handlers.terminals import ShellTerminal, TerminalSize
from rookery.manager.rendering.markdown_html import make_ready
from rookery.manager.rendering.session_rows import inbox_row, session_row
from rookery.manager.session_feed import Window, relay_rows, relay_session
from rookery.manager.sessions.session_record import active_first, archived_records
from rookery.manager.sessions.session_summary import SessionQuestion, sort_questions
from rookery.manager.sessions.supervisor import Supervisor
from rookery.manager.shown_rows import InboxRow, Overview, SessionRow
from rookery.protocol.channels import Channel
from rookery.protocol.codec import answer_to_json, kind_of
from rookery.protocol.jsonrpc import INVALID_PARAMS, RpcError
from rookery.protocol.relay import Outlet
from rookery.protocol.server import Follows, Method, ServedMethods, everybody, serve_client

if TYPE_CHECKING:
    from rookery.manager.manager import Manager

T = TypeVar("T")
TOKEN_SECONDS = 5.0
SECONDS_BETWEEN = 0.1
"""Changes within this time are sent together."""
ROWS_AT_ONCE = 200
"""Rows in one message."""


DEFAULT_TAIL, MAX_TAIL = 200, 10_000
"""Default and maximum number of rows that a client can request at once."""


async def serve_manager(
    manager: "Manager",
    channel: Channel,
    *,
    token: str | None = None,
    admit: Callable[[], bool] = everybody,
) -> None:
    """Serve a client until it disconnects."""
    offer = partial(_offer, manager)
    await serve_client(offer, channel, token=token, admit=admit, within=TOKEN_SECONDS)


def _offer(manager: "Manager", follows: Follows) -> ServedMethods:
    async def do(fields: dict[str, Any]) -> object:
        return msgspec.Raw(reply_to_json(await _do(manager, request_from_json(fields))))

    async def ping(fields: dict[str, Any]) -> None:
        pass

    async def refresh(fields: dict[str, Any]) -> None:
        await manager.supervisor.refresh()
        await manager.look_for_projects()

    async def follow_list(fields: dict[str, Any]) -> object:
        follows.check_room()
        return follows.begin(partial(relay_list, manager=manager))

    async def follow_session(fields: dict[str, Any]) -> object:
        return await _follow_session(manager.supervisor, follows, fields)

    async def follow_fleet(fields: dict[str, Any]) -> object:
        return _follow_fleet(manager.fleet, follows, fields)

    async def widen(fields: dict[str, Any]) -> None:
        window = follows.view(fields)
        if not isinstance(window, Window):
            raise RpcError(INVALID_PARAMS, "widen needs the follow_id of a session.")
        window.widen(_rows(fields.get("most", DEFAULT_TAIL), "most"))

    async def open_terminal(fields: dict[str, Any]) -> object:
        terminals, asked = manager.supervisor.terminals, _read(fields, _OpenTerminal)
        if terminals is None:
            raise CommandRejected("This manager opens no terminals.")
        follows.check_room(terminals)
        terminal = await terminals.open(asked.session_id, asked.size)
        return follows.begin(terminal.relay, terminal)

    async def type_in_terminal(fields: dict[str, Any]) -> None:
        _terminal(follows, fields).type(_read(fields, _Typed).data)

    async def resize_terminal(fields: dict[str, Any]) -> None:
        _terminal(follows, fields).resize(_read(fields, _Resized).size)

    async def acknowledge_output(fields: dict[str, Any]) -> None:
        _terminal(follows, fields).acknowledge(_read(fields, _Shown).count)

    return ServedMethods(
        {"requests": sorted(map(kind_of, manager.router.requests))},
        {
            "do": Method(do),
            "ping": Method(ping, ()),
            "refresh": Method(refresh, ()),
            "follow_list": Method(follow_list, ()),
            "follow_session": Method(follow_session, ("session_id", "task_id", "tail")),
            "follow_fleet": Method(follow_fleet, ("session_id", "tail")),
            "widen": Method(widen, ("follow_id", "most")),
            "open_terminal": Method(open_terminal, ("session_id", "size")),
            "type_in_terminal": Method(type_in_terminal, ("follow_id", "data")),
            "resize_terminal": Method(resize_terminal, ("follow_id", "size")),
            "acknowledge_output": Method(acknowledge_output, ("follow_id", "count")),
        },
    )


class _OpenTerminal(Struct, frozen=True, kw_only=True):
    session_id: str
    size: TerminalSize


class _Typed(Struct, frozen=True, kw_only=True):
    data: bytes
    """In base64."""


class _Resized(Struct, frozen=True, kw_only=True):
    size: TerminalSize


class _Shown(Struct, frozen=True, kw_only=True):
    count: int


def _read(fields: dict[str, Any], kind: type[T]) -> T:
    try:
        return msgspec.convert(fields, prepared(kind))
    except msgspec.ValidationError as error:
        raise RpcError(INVALID_PARAMS, f"{error}.") from error


def _terminal(follows: Follows, fields: dict[str, Any]) -> ShellTerminal:
    terminal = follows.view(fields)
    if not isinstance(terminal, ShellTerminal):
        raise RpcError(INVALID_PARAMS, "Give the follow_id of a terminal.")
    return terminal


async def _do(manager: "Manager", request: Asking[Any]) -> object:
    """Run a request in the supervisor's task group, where it outlives its client."""
    running = _RunningRequest(manager.router, request)
    manager.supervisor.group.start_soon(running.run)
    return await running.outcome()


async def _follow_session(
    supervisor: Supervisor, follows: Follows, fields: Mapping[str, Any]
) -> object:
    session_id, task_id = fields.get("session_id"), fields.get("task_id")
    if not isinstance(session_id, str) or not isinstance(task_id, str | None):
        raise RpcError(
            INVALID_PARAMS, "follow_session needs a session_id, and optionally a task_id."
        )
    window = Window(_rows(fields.get("tail", DEFAULT_TAIL), "tail"))
    if supervisor.session(session_id) is None:  # a terminal may have just started it
        await supervisor.refresh()
    supervisor.summary(session_id)
    follows.check_room(window)
    relay = partial(
        relay_session,
        supervisor=supervisor,
        session_id=session_id,
        task_id=task_id or session_id,
        window=window,
    )
    return follows.begin(relay, window)


def _follow_fleet(fleet: FleetView | None, follows: Follows, fields: Mapping[str, Any]) -> object:
    session_id = fields.get("session_id")
    if not isinstance(session_id, str):
        raise RpcError(INVALID_PARAMS, "follow_fleet needs a session_id.")
    if fleet is None:
        raise CommandRejected(NO_FLEET)
    window = Window(_rows(fields.get("tail", DEFAULT_TAIL), "tail"))
    follows.check_room(window)

    async def relay(outlet: Outlet) -> None:
        async with fleet.follow(session_id) as source:
            await relay_rows(outlet, window, source)

    return follows.begin(relay, window)


class _RunningRequest:
    """A request that runs to its end whether or not a client waits for it."""

    def __init__(self, router: Router, request: Asking[Any]) -> None:
        self._router = router
        self._request = request
        self._answer: object = None
        self._failure: Exception | None = CommandRejected("The manager ended before that was done.")
        self._over = anyio.Event()

    async def run(self) -> None:
        try:
            self._answer = await self._router.do(self._request)
            self._failure = None
        except Exception as error:
            # the client gets it; a bug in one request must not end the others
            self._failure = error
        finally:
            self._over.set()

    async def outcome(self) -> object:
        await self._over.wait()
        if self._failure:
            raise self._failure
        return self._answer


def _rows(value: object, name: str) -> int:
    if type(value) is not int or not 1 <= value <= MAX_TAIL:
        raise RpcError(INVALID_PARAMS, f"{name} must be a number of rows from 1 to {MAX_TAIL}.")
    return value


async def relay_list(outlet: Outlet, manager: "Manager") -> None:
    state = _ListChanges(manager)
    manager.supervisor.on_followed()
    async with (
        aclosing(manager.supervisor.changes()) as changes,
        anyio.create_task_group() as group,
    ):
        # a client that opens the list opens a session next
        group.start_soon(partial(anyio.to_thread.run_sync, make_ready, abandon_on_cancel=True))
        group.start_soon(manager.supervisor.refresh)
        async for changed in changes:
            await outlet.room()
            for piece in _pieces(await state.news(changed)):
                outlet.notify("list", b"," + answer_to_json(piece)[1:-1])
                await outlet.room()
            await anyio.sleep(SECONDS_BETWEEN)


def _pieces(news: dict[str, Any]) -> Iterator[dict[str, Any]]:
    rows = news.pop("rows", [])
    if news or rows:
        yield news | ({"rows": rows[:ROWS_AT_ONCE]} if rows else {})
    for place in range(ROWS_AT_ONCE, len(rows), ROWS_AT_ONCE):
        yield {"rows": rows[place : place + ROWS_AT_ONCE]}


class _ListChanges:
    """What a client has received, so that only changes are sent."""

    def __init__(self, manager: "Manager") -> None:
        self._manager = manager
        self._rows: dict[str, SessionRow] = {}
        self._order: tuple[str, ...] | None = None
        self._overview: Overview | None = None
        self._questions: dict[str, SessionQuestion] = {}

    async def news(self, changed: frozenset[str]) -> dict[str, Any]:
        first = self._overview is None
        if first:
            changed = frozenset(each.session_id for each in self._manager.supervisor.records())
        rows, removed = self._changed_rows(changed)
        update: dict[str, Any] = {}
        if rows:
            update["rows"] = rows
        if removed:
            update["removed"] = removed
        if rows or removed or "" in changed or first:
            update |= self._overview_changes()
        if self._has_new_questions(changed) or first:
            update["inbox"] = await self._inbox()
        return update

    def _changed_rows(self, changed: frozenset[str]) -> tuple[list[SessionRow], list[str]]:
        rows: list[SessionRow] = []
        removed: list[str] = []
        for session_id in sorted(changed - {""}):
            summary = self._manager.supervisor.session(session_id)
            if summary is None:
                if self._rows.pop(session_id, None):
                    removed.append(session_id)
                continue
            row = session_row(summary)
            if self._rows.get(session_id) != row:
                self._rows[session_id] = row
                rows.append(row)
        return rows, removed

    def _overview_changes(self) -> dict[str, Any]:
        records = self._manager.supervisor.records()
        listed = (*active_first(records), *archived_records(records))
        order = tuple(record.session_id for record in listed)
        overview = self._manager.overview()
        update: dict[str, Any] = {}
        if order != self._order:
            update["order"] = self._order = order
        if overview != self._overview:
            update["overview"] = self._overview = overview
        return update

    def _has_new_questions(self, changed: frozenset[str]) -> bool:
        new = False
        for session_id in changed:
            question = self._manager.supervisor.question(session_id)
            if question != self._questions.pop(session_id, None):
                new = True
            if question:
                self._questions[session_id] = question
        return new

    async def _inbox(self) -> tuple[InboxRow, ...]:
        asked = sort_questions(self._questions.values())
        # rendering their text may take a moment
        return await anyio.to_thread.run_sync(lambda: tuple(map(inbox_row, asked)))
