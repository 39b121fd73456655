"""Sends one client what happens in one task, at the client's pace.

The log is the client's queue. While it takes what it is sent it is sent everything; once too
much waits for it, its place in the log is given up, so that nothing piles up for its sake, and
found again by the number of the last lasting event when there is room.
"""

from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing
from typing import TypeAlias, cast

import anyio
import anyio.lowlevel
import msgspec

from rookery.core.facts import Event
from rookery.core.folds.view import View, see
from rookery.errors import RookeryError
from rookery.protocol.codec import answer_to_json, event_to_json
from rookery.protocol.jsonrpc import Peer
from rookery.protocol.outbox import Disconnected
from rookery.protocol.rpc_errors import error_of
from rookery.protocol.view_changes import changes_in_pieces

Resume: TypeAlias = Callable[[int], AsyncIterator[Event]]
"""The events of the task past a number."""
_EVENTS_PER_TURN = 50
SECONDS_BETWEEN_VIEWS = 1 / 30
"""More than an eye can follow; what comes in between is sent in one."""


class Outlet:
    """Where the news of one follow go, until nobody wants them any more."""

    def __init__(self, peer: Peer, follow_id: int) -> None:
        self._peer = peer
        self._head = b'{"follow_id":%d' % follow_id
        self._stopped = False
        self.scope = anyio.CancelScope()

    def stop(self) -> None:
        self._stopped = True
        self.scope.cancel()

    def tell(self, method: str, rest: bytes) -> None:
        if self._stopped:  # a cancelled task may still get to its next wait
            return
        try:
            self._peer.notify(method, msgspec.Raw(b"%b%b}" % (self._head, rest)))
        except Disconnected:
            self.stop()

    def end(self, error: Exception | None = None) -> None:
        rest = b"" if error is None else b',"error":' + answer_to_json(error_of(error))
        self.tell("ended", rest)

    @property
    def has_room(self) -> bool:
        return self._peer.has_room

    async def room(self) -> None:
        """Wait until something can be told. Of many who wait, only so many are let through as
        there is room for."""
        try:
            while not self._peer.has_room:
                await self._peer.room()
        except Disconnected:
            self.stop()
            await anyio.lowlevel.checkpoint()  # which ends whoever would tell more


async def relay_events(
    outlet: Outlet, resume: Resume, events: AsyncIterator[Event], after: int
) -> None:
    """Every lasting event once and in order. News come only behind what they continue, once
    some had to be left out."""
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
                outlet.tell("event", b',"event":' + event_to_json(event))
                if not outlet.has_room:
                    break
            else:
                return outlet.end()
        await outlet.room()
        lagged = True
        events = resume(after)


async def relay_view(outlet: Outlet, events: AsyncIterator[Event]) -> None:
    """The view of the task, then what changes in it. Whoever is slow gets several changes
    in one."""
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
                outlet.tell("view", b',"seq":%d,"change":%b' % (now.seq, piece))
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
    """Gives others a chance now and then: a log that is long does not wait for anything."""

    def __init__(self) -> None:
        self._count = 0

    async def take(self) -> None:
        self._count += 1
        if self._count % _EVENTS_PER_TURN == 0:
            await anyio.lowlevel.checkpoint()


def _generator(events: AsyncIterator[Event]) -> AsyncGenerator[Event, None]:
    """Whoever holds one holds its place in the log until it is closed."""
    return cast(AsyncGenerator[Event, None], events)


def _continues(last: Event | None, event: Event) -> bool:
    return last is not None and (event.seq, event.sub) == (last.seq, last.sub + 1)
