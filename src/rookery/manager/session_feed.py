"""Sends one task to one client: its last rows, then what changes in them.

The text of a row is sent as it comes; its HTML is made in a thread and sent a little later. Rows
before the window are only counted, until the client wants them. The view comes from a running
session or, for whoever may only look, from its log.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Protocol

import anyio
import msgspec

from rookery.core.folds.rows import Rows
from rookery.core.folds.view import View
from rookery.core.message import Message
from rookery.errors import CommandRejected
from rookery.manager.rendering.session_rows import RowLooks
from rookery.manager.sessions.session_task import FollowedTask
from rookery.manager.sessions.stored_session import Glimpse, Recollection
from rookery.manager.sessions.supervised_session import SupervisedSession
from rookery.manager.sessions.supervisor import Supervisor
from rookery.protocol.codec import answer_to_json
from rookery.protocol.relay import (
    PARTS,
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
        """About how many rows of it are not in the view yet, because they are still being read."""

    @property
    def workers(self) -> Mapping[str, str]:
        """The tasks that work for it or have, by the call they work for."""

    @property
    def gone(self) -> bool:
        """There is no such session any more."""

    async def until(self, holds: Callable[[], bool]) -> None:
        """Waits until that holds; looked at whenever the view has changed, or at a `wake`."""

    def wake(self) -> None: ...


class Window:
    """How much of a task a client wants to see: the last `tail` rows, and more before them."""

    def __init__(self, tail: int) -> None:
        self.tail = tail
        self.wanted = 0
        """How many rows more."""
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
    """Until the session is gone. Raises `CommandRejected` if there is no such task in it."""
    source = await source_of(supervisor, session_id, task_id)
    window.look_at(source)
    await _Follow(outlet, window, source).run()
    outlet.end()


class _Follow:
    def __init__(self, outlet: Outlet, window: Window, source: RowSource) -> None:
        self._outlet = outlet
        self._window = window
        self._source = source
        self._told = View()
        """What the client shows, as far as it is in the window."""
        self._first = 0
        """The `ts` of the row the window begins with."""
        self._unread = 0
        """Rows that are not in what is told only because they were not read yet."""
        self._workers = 0
        """Of how many tasks that work for this one it has been told."""
        self._looks = RowLooks(lambda: self._told.messages)

    async def run(self) -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(self._tell_looks)
            await self._open(self._source.view)
            while not self._source.gone:
                if self._unread and not self._source.unread:
                    await self._tell_the_whole(self._source.view)
                else:
                    await self._tell_changes(self._source.view)
                await self._widen()
                await self._tell_workers()
                await anyio.sleep(SECONDS_BETWEEN_VIEWS)
                await self._source.until(self._has_news)
            group.cancel_scope.cancel()

    def _has_news(self) -> bool:
        source = self._source
        more = (self._window.wanted and not self._unread) or len(source.workers) > self._workers
        return source.gone or bool(more) or source.view is not self._told

    async def _open(self, view: View) -> None:
        begin = max(0, len(view.messages) - self._window.tail)
        self._told, self._unread = view, self._source.unread
        self._begin_at(begin)
        self._workers = len(self._source.workers)
        await self._add(view.messages[begin:])
        self._tell({"parts": _all_parts(view)})

    def _begin_at(self, position: int) -> None:
        rows = self._told.messages
        self._first = rows[position].ts if position < len(rows) else 0

    @property
    def _earlier(self) -> int:
        """How many rows are before the window."""
        return self._position(self._told.messages) + self._unread

    def _position(self, rows: Rows[Message]) -> int:
        """Of the first row of the window."""
        return bisect_left(rows, self._first, key=lambda row: row.ts)

    async def _tell_the_whole(self, now: View) -> None:
        """All of it is read: how much there is before the window is known, and what was different
        in a glimpse is put right."""
        glimpsed = self._told.messages
        old = {row.ts: row for row in glimpsed.since(self._position(glimpsed))}
        self._told, self._unread = now, 0
        new = {row.ts: row for row in now.messages.since(self._position(now.messages))}
        wrong = [ts for ts, row in old.items() if new.get(ts) != row]
        await self._outlet.room()
        self._tell({"removed": wrong, "parts": _all_parts(now)})
        await self._add([row for ts, row in new.items() if old.get(ts) != row])
        await self._fill_up()

    async def _tell_changes(self, now: View) -> None:
        if not self._told.messages and len(now.messages) > self._window.tail:
            await self._open(now)
            return
        pieces = changes_in_pieces(self._told, now)
        await self._outlet.room()  # before a piece is made: those of many who wait add up
        self._told = now
        removed = False
        while piece := next(pieces, None):
            change = self._inside(_decode(piece))
            removed = removed or "removed" in change
            self._looks.look_at(row["ts"] for row in _rows_in(change))
            if change:
                self._tell(change)
            await self._outlet.room()
        if removed:
            await self._fill_up()

    def _inside(self, change: dict[str, Any]) -> dict[str, Any]:
        """What of it concerns the window."""
        lists: dict[str, list[Any]] = {
            name: [row for row in change[name] if row["ts"] >= self._first]
            for name in ("added", "changed")
            if name in change
        }
        lists["removed"] = [ts for ts in change.get("removed", ()) if ts >= self._first]
        parts = {"parts": change["parts"]} if "parts" in change else {}
        return {name: rows for name, rows in lists.items() if rows} | parts

    async def _fill_up(self) -> None:
        """Where rows were taken back, earlier ones come into the window."""
        shown = len(self._told.messages) - self._position(self._told.messages)
        if shown < self._window.tail:
            await self._extend(self._window.tail - shown)

    async def _widen(self) -> None:
        if (more := self._window.wanted) and not self._unread:
            self._window.wanted = 0
            await self._extend(more)

    async def _extend(self, more: int) -> None:
        end = self._position(self._told.messages)
        begin = max(0, end - more)
        if begin < end:
            rows = self._told.messages[begin:end]
            self._begin_at(begin)
            await self._add(rows)
        else:
            self._tell({})

    async def _add(self, rows: list[Message]) -> None:
        for piece in _in_pieces(map(self._drawn, rows)):
            await self._outlet.room()
            self._tell({"added": piece})
        self._looks.look_at(row.ts for row in rows)

    def _drawn(self, row: Message) -> dict[str, Any]:
        worker = self._source.workers.get(row.call_id) if row.call_id else None
        return row_of(row) | ({"task_id": worker} if worker else {})

    async def _tell_workers(self) -> None:
        """Which row a task works for."""
        workers = self._source.workers
        if len(workers) == self._workers:
            return
        self._workers = len(workers)
        rows = self._told.messages.since(self._position(self._told.messages))
        known = [(row.ts, workers[row.call_id]) for row in rows if row.call_id in workers]
        await self._outlet.room()
        self._tell({"changed": [{"ts": ts, "task_id": task_id} for ts, task_id in known]})

    async def _tell_looks(self) -> None:
        while True:
            made = await self._looks.made()
            await self._outlet.room()
            if changed := self._looks.fitting(made):
                self._tell({"changed": changed})

    def _tell(self, change: dict[str, Any]) -> None:
        head = b',"seq":%d,"earlier":%d,"change":' % (self._told.seq, self._earlier)
        self._outlet.tell("view", head + answer_to_json(change))


def _all_parts(view: View) -> dict[str, object]:
    return {name: part(view) for name, part in PARTS.items()}


def _rows_in(change: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield from change.get("added", ())
    yield from change.get("changed", ())


def _in_pieces(rows: Iterable[dict[str, Any]]) -> Iterator[list[msgspec.Raw]]:
    piece: list[msgspec.Raw] = []
    size = 0
    for row in rows:
        spelled = answer_to_json(row)
        piece.append(msgspec.Raw(spelled))
        size += len(spelled)
        if size > PIECE:
            yield piece
            piece, size = [], 0
    if piece:
        yield piece


async def source_of(supervisor: Supervisor, session_id: str, task_id: str) -> RowSource:
    """What there is to be followed of a session: its own task, whose id is its own, or one that
    works for it or has. Raises `CommandRejected` if there is no such."""
    if supervisor.session(session_id) is None:
        raise CommandRejected(f"No such session: {session_id}.")
    session = await supervisor.take_over(session_id)
    if session and task_id == session_id:
        await _look(supervisor, session)
        return SessionSource(session, session.root)
    past = session.recollection if session else _stored(supervisor, session_id)
    if not (task := await past.task(task_id)):
        raise CommandRejected(f"No task {task_id} in session {session_id}.")
    return SessionSource(session, task) if session else StoredSource(task)


async def _look(supervisor: Supervisor, session: SupervisedSession) -> None:
    """Until at least the last rows of a session are known; the others are read on."""
    done = anyio.Event()

    async def read() -> None:
        await session.recall()
        done.set()
        session.wake()

    supervisor.group.start_soon(read)
    await session.until(lambda: done.is_set() or session.recollection.glimpse is not None)


def _stored(supervisor: Supervisor, session_id: str) -> Recollection:
    return Recollection(FollowedTask(session_id), supervisor.tasks, lambda: None)


class SessionSource:
    """A task of a session under supervision: its own, or one that works for it or has."""

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
        return self._session.recollection.glimpse if is_root else None

    @property
    def workers(self) -> Mapping[str, str]:
        return self._now().workers

    @property
    def gone(self) -> bool:
        return self._session.is_forgotten

    async def until(self, holds: Callable[[], bool]) -> None:
        await self._session.until(holds)

    def wake(self) -> None:
        self._session.wake()

    def _now(self) -> FollowedTask:
        """One that has ended is no longer heard of, and stays as it was heard last."""
        for task in self._session.keeper.tasks:
            if task.task_id == self._task.task_id and task.view.seq:
                self._task = task
        return self._task


class StoredSource:
    """A task as it is stored, for whoever may only look."""

    gone = False
    unread = 0

    def __init__(self, task: FollowedTask) -> None:
        self.view = task.view
        self.workers = task.workers
        self._woken = anyio.Event()

    async def until(self, holds: Callable[[], bool]) -> None:
        while not holds():
            await self._woken.wait()
            self._woken = anyio.Event()

    def wake(self) -> None:
        self._woken.set()
