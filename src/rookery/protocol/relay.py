"""Sends one client the events of a task or the changes of its view, at the client's pace.

The log is the client's queue. A client that keeps up gets everything. Once too much waits for it,
its position in the log is released, so that nothing piles up, and resumed after the last lasting
event when there is room.

Changes of a view are JSON for clients that only draw. A row leaves out empty fields. A changed row
has its `ts` and the new fields; a text that grew has what was appended, after dropping the part
that no longer matches.
"""

from bisect import bisect_left
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator
from contextlib import aclosing
from typing import Any, TypeAlias, cast

import anyio
import anyio.lowlevel
import msgspec
from msgspec import NODEFAULT
from msgspec.structs import fields

from rookery.core.facts import Event
from rookery.core.folds.view import PARTS, View, changes, see
from rookery.core.message import Message
from rookery.errors import RookeryError
from rookery.protocol.codec import answer_to_json, event_to_json
from rookery.protocol.jsonrpc import Disconnected, Peer, error_of

Resume: TypeAlias = Callable[[int], AsyncIterator[Event]]
"""The events of the task after a number."""
_EVENTS_PER_TURN = 50
SECONDS_BETWEEN_VIEWS = 1 / 30
"""Changes in between are sent together."""

PIECE = 2**18
"""Bytes of rows per message."""
WORTH_KEEPING = 32
"""Shorter texts are sent again in full."""
_TOP_OF_BASIC_PLANE = "\uffff"
_DEFAULTS: dict[str, Any] = {
    field.name: field.default for field in fields(Message) if field.name != "content"
}


class Outlet:
    """Sends the notifications of one follow until it ends."""

    def __init__(self, peer: Peer, follow_id: int) -> None:
        self._peer = peer
        self._head = b'{"follow_id":%d' % follow_id
        self._stopped = False
        self.scope = anyio.CancelScope()

    def stop(self) -> None:
        self._stopped = True
        self.scope.cancel()

    def notify(self, method: str, rest: bytes) -> None:
        if self._stopped:  # a cancelled task may still get to its next wait
            return
        try:
            self._peer.notify(method, msgspec.Raw(b"%b%b}" % (self._head, rest)))
        except Disconnected:
            self.stop()

    def end(self, error: Exception | None = None) -> None:
        rest = b"" if error is None else b',"error":' + answer_to_json(error_of(error))
        self.notify("ended", rest)

    @property
    def has_room(self) -> bool:
        return self._peer.has_room

    async def room(self) -> None:
        """Wait for room to send. Wakes only as many waiters as there is room for."""
        try:
            while not self._peer.has_room:
                await self._peer.room()
        except Disconnected:
            self.stop()
            await anyio.lowlevel.checkpoint()  # the caller is cancelled here


async def relay_events(
    outlet: Outlet, resume: Resume, events: AsyncIterator[Event], after: int
) -> None:
    """Send every lasting event once and in order. After a gap, passing events are sent only if
    they continue what was sent."""
    turns = _Turns()
    last: Event | None = None
    lagged = False
    await outlet.room()
    while True:
        async with aclosing(_generator(events)) as running:
            async for event in running:
                await turns.take()
                if event.fact.lasting:
                    after = event.seq
                elif lagged and not _continues(last, event):
                    continue
                last = event
                outlet.notify("event", b',"event":' + event_to_json(event))
                if not outlet.has_room:
                    break
            else:
                return outlet.end()
        await outlet.room()
        lagged = True
        events = resume(after)


async def relay_view(outlet: Outlet, events: AsyncIterator[Event]) -> None:
    """Send the view of the task, then its changes. A slow client gets several changes in one
    message."""
    seen = _Seen()
    async with anyio.create_task_group() as group:
        group.start_soon(seen.watch, events)
        shown = View()
        while not (seen.over and seen.view is shown):
            await seen.news()
            now = seen.view
            pieces = changes_in_pieces(shown, now)
            await outlet.room()  # before a piece is made: those of many who wait add up
            while piece := next(pieces, None):
                outlet.notify("view", b',"seq":%d,"change":%b' % (now.seq, piece))
                await outlet.room()
            shown = now
            await anyio.sleep(SECONDS_BETWEEN_VIEWS)
    outlet.end(seen.failure)


class _Seen:
    def __init__(self) -> None:
        self.view = View()
        self.over = False
        self.failure: RookeryError | None = None
        self._changed = anyio.Event()

    async def watch(self, events: AsyncIterator[Event]) -> None:
        turns = _Turns()
        try:
            async with aclosing(_generator(events)) as running:
                async for event in running:
                    await turns.take()
                    self.view = see(self.view, event)
                    self._changed.set()
        except RookeryError as error:
            self.failure = error
        self.over = True
        self._changed.set()

    async def news(self) -> None:
        await self._changed.wait()
        self._changed = anyio.Event()


class _Turns:
    """Yields to other tasks now and then, since reading a long log never blocks."""

    def __init__(self) -> None:
        self._count = 0

    async def take(self) -> None:
        self._count += 1
        if self._count % _EVENTS_PER_TURN == 0:
            await anyio.lowlevel.checkpoint()


def _generator(events: AsyncIterator[Event]) -> AsyncGenerator[Event, None]:
    """Holding one holds its position in the log until it is closed."""
    return cast(AsyncGenerator[Event, None], events)


def _continues(last: Event | None, event: Event) -> bool:
    return last is not None and (event.seq, event.sub) == (last.seq, last.sub + 1)


def changes_in_pieces(before: View, after: View) -> Iterator[bytes]:
    """What a client that shows `before` needs to show `after`."""
    change = changes(before, after)
    if not change:
        return
    piece = _Piece()
    for ts in change.removed:
        piece.add("removed", answer_to_json(ts))
    for row in change.changed:
        if new := _news_about(_row_at(before, row.ts), row):
            piece.add("changed", answer_to_json({"ts": row.ts, **new}))
        if piece.full:
            yield piece.take()
    for row in change.added:
        piece.add("added", answer_to_json(row_of(row)))
        if piece.full:
            yield piece.take()
    parts = {name: PARTS[name](after) for name in sorted(change.parts)}
    if parts or not piece.empty:
        yield piece.take(parts)


class _Piece:
    def __init__(self) -> None:
        self._lists: dict[str, list[msgspec.Raw]] = {}
        self._size = 0

    @property
    def empty(self) -> bool:
        return not self._lists

    @property
    def full(self) -> bool:
        return self._size > PIECE

    def add(self, name: str, item: bytes) -> None:
        self._lists.setdefault(name, []).append(msgspec.Raw(item))
        self._size += len(item)

    def take(self, parts: dict[str, object] | None = None) -> bytes:
        lists, self._lists, self._size = self._lists, {}, 0
        fields = {"parts": msgspec.Raw(answer_to_json(parts))} if parts else {}
        return answer_to_json({**lists, **fields})


def row_of(row: Message) -> dict[str, object]:
    fields = {name: getattr(row, name) for name in _DEFAULTS}
    text = {} if row.text is None else {"text": row.text}
    return {name: fields[name] for name in fields if fields[name] != _DEFAULTS[name]} | text


def _news_about(old: Message, new: Message) -> dict[str, object]:
    fields = {
        name: getattr(new, name) for name in _DEFAULTS if getattr(new, name) != getattr(old, name)
    }
    return {**fields, **_text_change(old.text, new.text)}


def _text_change(old: str | None, new: str | None) -> dict[str, object]:
    if old == new:
        return {}
    if not old or not new:
        return {"text": new}
    kept = _alike(old, new)
    dropped = old[kept:]
    # beyond the basic plane a character counts twice for some clients, so no such is counted
    if dropped and (kept < WORTH_KEEPING or max(dropped) > _TOP_OF_BASIC_PLANE):
        return {"text": new}
    return {**({"drop": len(dropped)} if dropped else {}), "append": new[kept:]}


def _alike(one: str, other: str) -> int:
    """The length of the common prefix of two texts."""
    if other.startswith(one):
        return len(one)
    lengths = range(1, min(len(one), len(other)) + 1)
    return bisect_left(lengths, True, key=lambda length: one[:length] != other[:length])


def _row_at(view: View, ts: int) -> Message:
    position = view.messages.find(ts)
    assert position is not None
    return view.messages[position]


assert _DEFAULTS["ts"] is NODEFAULT  # so that it is always sent
