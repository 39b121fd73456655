"""Sends one task to one client: its last rows, then changes.

The text of a row is sent as it arrives; its HTML is rendered in a thread and sent later. Rows
before the window are only counted until the client requests them. The view comes from a supervised
session or, in a read-only manager, from the journal.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Protocol

import anyio
import msgspec

from rookery.core.folds.rows import Rows
from rookery.core.folds.view import PARTS, View
from rookery.core.message import Message
from rookery.errors import CommandRejected
from rookery.manager.rendering.session_rows import RowLooks
from rookery.manager.sessions.session_task import FollowedTask
from rookery.manager.sessions.stored_session import Glimpse, StoredHistory
from rookery.manager.sessions.supervised_session import SupervisedSession
from rookery.manager.sessions.supervisor import Supervisor
from rookery.protocol.codec import answer_to_json
from rookery.protocol.relay import (
    PIECE,
    SECONDS_BETWEEN_VIEWS,
    Outlet,
    changes_in_pieces,
    row_of,
)

_decode = msgspec.json.Decoder().decode


class RowSource(Protocol):
    @property
    def view(self) -> View: ...

    @property
    def unread(self) -> int:
        """Estimated number of rows that were not read yet, so are not in the view."""

    @property
    def subtasks(self) -> Mapping[str, Mapping[str, str]]:
        """Names of all sub-tasks, running or finished, by call id and then by id."""

    @property
    def is_gone(self) -> bool:
        """Whether the session was removed."""

    async def until(self, holds: Callable[[], bool]) -> None:
        """Wait until the condition holds; checked when the view changes, and at a `wake`."""

    def wake(self) -> None: ...


class Window:
    """The part of a task that a client shows: the last `tail` rows, and earlier ones on request."""

    def __init__(self, tail: int) -> None:
        self.tail = tail
        self.wanted = 0
        """Number of earlier rows requested and not sent yet."""
        self._source: RowSource | None = None

    def look_at(self, source: RowSource) -> None:
        self._source = source

    def widen(self, most: int) -> None:
        self.wanted += most
        if self._source:
            self._source.wake()


async def relay_session(
    outlet: Outlet, *, supervisor: Supervisor, session_id: str, task_id: str, window: Window
) -> None:
    """Send a task until its session is removed. Raises `CommandRejected` if it does not exist."""
    await relay_rows(outlet, window, await source_of(supervisor, session_id, task_id))


async def relay_rows(outlet: Outlet, window: Window, source: RowSource) -> None:
    window.look_at(source)
    await _Follow(outlet, window, source).run()
    outlet.end()


class _Follow:
    def __init__(self, outlet: Outlet, window: Window, source: RowSource) -> None:
        self._outlet = outlet
        self._window = window
        self._source = source
        self._sent = View()
        """The view last sent to the client, of which it shows the window."""
        self._first = 0
        """The `ts` of the first row in the window."""
        self._unread = 0
        """Rows missing in the sent view because they were not read yet."""
        self._subtasks = 0
        """Number of sub-tasks that the client knows."""
        self._looks = RowLooks(lambda: self._sent.messages)

    async def run(self) -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(self._send_html)
            await self._open(self._source.view)
            while not self._source.is_gone:
                if self._unread and not self._source.unread:
                    await self._send_complete(self._source.view)
                else:
                    await self._send_changes(self._source.view)
                await self._widen()
                await self._send_subtasks()
                await anyio.sleep(SECONDS_BETWEEN_VIEWS)
                await self._source.until(self._has_news)
            group.cancel_scope.cancel()

    def _has_news(self) -> bool:
        source = self._source
        more = (self._window.wanted and not self._unread) or _count(
            source.subtasks
        ) > self._subtasks
        return source.is_gone or bool(more) or source.view is not self._sent

    async def _open(self, view: View) -> None:
        begin = max(0, len(view.messages) - self._window.tail)
        self._sent, self._unread = view, self._source.unread
        self._begin_at(begin)
        self._subtasks = _count(self._source.subtasks)
        await self._add(view.messages[begin:])
        self._send({"parts": _all_parts(view)})

    def _begin_at(self, position: int) -> None:
        rows = self._sent.messages
        self._first = rows[position].ts if position < len(rows) else 0

    @property
    def _earlier(self) -> int:
        """Number of rows before the window."""
        return self._position(self._sent.messages) + self._unread

    def _position(self, rows: Rows[Message]) -> int:
        """Index of the first row of the window."""
        return bisect_left(rows, self._first, key=lambda row: row.ts)

    async def _send_complete(self, now: View) -> None:
        """Replace a glimpse by the complete view: correct the number of earlier rows, and send
        the rows that differ."""
        glimpsed = self._sent.messages
        old = {row.ts: row for row in glimpsed.since(self._position(glimpsed))}
        self._sent, self._unread = now, 0
        new = {row.ts: row for row in now.messages.since(self._position(now.messages))}
        wrong = [ts for ts, row in old.items() if new.get(ts) != row]
        await self._outlet.room()
        self._send({"removed": wrong, "parts": _all_parts(now)})
        await self._add([row for ts, row in new.items() if old.get(ts) != row])
        await self._fill_up()

    async def _send_changes(self, now: View) -> None:
        if not self._sent.messages and len(now.messages) > self._window.tail:
            await self._open(now)
            return
        pieces = changes_in_pieces(self._sent, now)
        await self._outlet.room()  # first, because pieces made for many slow clients add up
        self._sent = now
        removed = False
        while piece := next(pieces, None):
            change = self._inside(_decode(piece))
            removed = removed or "removed" in change
            self._looks.look_at(row["ts"] for row in _rows_in(change))
            if change:
                self._send(change)
            await self._outlet.room()
        if removed:
            await self._fill_up()

    def _inside(self, change: dict[str, Any]) -> dict[str, Any]:
        """The part of a change that is inside the window."""
        lists: dict[str, list[Any]] = {
            name: [row for row in change[name] if row["ts"] >= self._first]
            for name in ("added", "changed")
            if name in change
        }
        lists["removed"] = [ts for ts in change.get("removed", ()) if ts >= self._first]
        parts = {"parts": change["parts"]} if "parts" in change else {}
        return {name: rows for name, rows in lists.items() if rows} | parts

    async def _fill_up(self) -> None:
        """Extend the window if removed rows made it shorter than the tail."""
        shown = len(self._sent.messages) - self._position(self._sent.messages)
        if shown < self._window.tail:
            await self._extend(self._window.tail - shown)

    async def _widen(self) -> None:
        if (more := self._window.wanted) and not self._unread:
            self._window.wanted = 0
            await self._extend(more)

    async def _extend(self, more: int) -> None:
        end = self._position(self._sent.messages)
        begin = max(0, end - more)
        if begin < end:
            rows = self._sent.messages[begin:end]
            self._begin_at(begin)
            await self._add(rows)
        else:
            self._send({})

    async def _add(self, rows: list[Message]) -> None:
        for piece in _in_pieces(row_of(row) | self._links(row) for row in rows):
            await self._outlet.room()
            self._send({"added": piece})
        self._looks.look_at(row.ts for row in rows)

    def _links(self, row: Message) -> dict[str, Any]:
        """The sub-tasks that a call started: one, or agents side by side."""
        found = self._source.subtasks.get(row.call_id, {}) if row.call_id else {}
        if not found:
            return {}
        named = [{"task_id": id, "name": name} for id, name in found.items() if name]
        return {"task_id": next(iter(found)), **({"agents": named} if named else {})}

    async def _send_subtasks(self) -> None:
        """Send the ids of new sub-tasks with the rows that called them."""
        subtasks = self._source.subtasks
        if _count(subtasks) == self._subtasks:
            return
        self._subtasks = _count(subtasks)
        rows = self._sent.messages.since(self._position(self._sent.messages))
        known = [(row.ts, self._links(row)) for row in rows if row.call_id in subtasks]
        await self._outlet.room()
        self._send({"changed": [{"ts": ts, **links} for ts, links in known]})

    async def _send_html(self) -> None:
        while True:
            made = await self._looks.made()
            await self._outlet.room()
            if changed := self._looks.fitting(made):
                self._send({"changed": changed})

    def _send(self, change: dict[str, Any]) -> None:
        head = b',"seq":%d,"earlier":%d,"change":' % (self._sent.seq, self._earlier)
        self._outlet.notify("view", head + answer_to_json(change))


def _all_parts(view: View) -> dict[str, object]:
    return {name: part(view) for name, part in PARTS.items()}


def _rows_in(change: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield from change.get("added", ())
    yield from change.get("changed", ())


def _in_pieces(rows: Iterable[dict[str, Any]]) -> Iterator[list[msgspec.Raw]]:
    piece: list[msgspec.Raw] = []
    size = 0
    for row in rows:
        encoded = answer_to_json(row)
        piece.append(msgspec.Raw(encoded))
        size += len(encoded)
        if size > PIECE:
            yield piece
            piece, size = [], 0
    if piece:
        yield piece


async def source_of(supervisor: Supervisor, session_id: str, task_id: str) -> RowSource:
    """The source of a session's own task, which has the session's id, or of one of its
    sub-tasks. Raises `CommandRejected` if there is no such task."""
    supervisor.summary(session_id)
    session = await supervisor.ensure_supervised(session_id)
    if session and task_id == session_id:
        await _read_tail(supervisor, session)
        return SessionSource(session, session.root)
    past = session.history if session else _stored(supervisor, session_id)
    if not (task := await past.task(task_id)):
        raise CommandRejected(f"No task {task_id} in session {session_id}.")
    return SessionSource(session, task) if session else StoredSource(task)


async def _read_tail(supervisor: Supervisor, session: SupervisedSession) -> None:
    """Wait until at least the last rows of a session are known; the rest is read later."""
    done = anyio.Event()

    async def read() -> None:
        await session.load_history()
        done.set()
        session.wake()

    supervisor.group.start_soon(read)
    await session.until(lambda: done.is_set() or session.history.glimpse is not None)


def _stored(supervisor: Supervisor, session_id: str) -> StoredHistory:
    return StoredHistory(FollowedTask(session_id), supervisor.tasks, lambda: None)


class SessionSource:
    """The session's own task or a sub-task, in a supervised session."""

    def __init__(self, session: SupervisedSession, task: FollowedTask) -> None:
        self._session = session
        self._task = task

    @property
    def view(self) -> View:
        glimpse = self._glimpse
        return glimpse.view if glimpse else self._now().view

    @property
    def unread(self) -> int:
        return self._glimpse.earlier if self._glimpse else 0

    @property
    def _glimpse(self) -> Glimpse | None:
        is_root = self._task is self._session.root
        return self._session.history.glimpse if is_root else None

    @property
    def subtasks(self) -> Mapping[str, Mapping[str, str]]:
        return self._now().subtasks

    @property
    def is_gone(self) -> bool:
        return self._session.is_forgotten

    async def until(self, holds: Callable[[], bool]) -> None:
        await self._session.until(holds)

    def wake(self) -> None:
        self._session.wake()

    def _now(self) -> FollowedTask:
        """The followed task, if there is one: a sub-task that has ended keeps its last state."""
        for task in self._session.keeper.tasks:
            if task.task_id == self._task.task_id and task.view.seq:
                self._task = task
        return self._task


class StoredSource:
    """A task read from its journal, for a read-only manager."""

    is_gone = False
    unread = 0

    def __init__(self, task: FollowedTask) -> None:
        self.view = task.view
        self.subtasks = task.subtasks
        self._woken = anyio.Event()

    async def until(self, holds: Callable[[], bool]) -> None:
        while not holds():
            await self._woken.wait()
            self._woken = anyio.Event()

    def wake(self) -> None:
        self._woken.set()


def _count(subtasks: Mapping[str, Mapping[str, str]]) -> int:
    return sum(map(len, subtasks.values()))
