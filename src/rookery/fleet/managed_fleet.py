"""The fleet in the Agent Manager: its lists, and sessions that are followed.

Lasting events are read from the database; they are what counts. Passing ones come from the slot
that runs the session, and are dropped once the session is another slot's.
"""

from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from functools import partial
from typing import Any, Literal, TypeVar

import anyio
import anyio.to_thread

from rookery.core.facts import Event
from rookery.core.fleet_rows import FleetListing
from rookery.core.folds.view import View, see
from rookery.errors import RookeryError, StorageError
from rookery.fleet.database import WATCH_SECONDS, Watcher, this_machine
from rookery.fleet.orders import Fleet, Given
from rookery.protocol.channels import Channel
from rookery.protocol.jsonrpc import Disconnected, RpcError
from rookery.protocol.remote import remote_host
from rookery.protocol.worker_channel import WorkerGreeting

T = TypeVar("T")
LOOK_SECONDS = 1.0
"""How often the database is read for a session that a client follows."""
MOST_PASSING = 100_000
"""Passing events after one lasting event that are kept; a worker could send any number."""
_LOOKS_PER_WATCH = int(WATCH_SECONDS / LOOK_SECONDS / 3)


class FollowedSession:
    """What one client sees of a session. Passing events count if they build on the last lasting
    one that is stored; those that are ahead of the database wait for it."""

    unread = 0
    subtasks: Mapping[str, Mapping[str, str]] = {}
    is_gone = False

    def __init__(self) -> None:
        self.view = View()
        self.seq = 0
        self.passing: list[Event] = []
        self._stored = View()
        self._changed = anyio.Event()

    def add_stored(self, events: Sequence[Event]) -> None:
        if not events:
            return
        for event in events:
            self._stored = see(self._stored, event)
        self.seq = events[-1].seq
        self._show(each for each in self.passing if each.seq >= self.seq)

    def add_passing(self, event: Event) -> None:
        if event.seq < self.seq or len(self.passing) >= MOST_PASSING:
            return
        self.passing.append(event)
        if event.seq == self.seq:
            self.view = see(self.view, event)
            self.wake()

    def drop_passing(self) -> None:
        self._show(())

    def _show(self, passing: Any) -> None:
        self.passing, self.view = list(passing), self._stored
        for event in self.passing:
            if event.seq == self.seq:
                self.view = see(self.view, event)
        self.wake()

    async def until(self, holds: Callable[[], bool]) -> None:
        while not holds():
            await self._changed.wait()

    def wake(self) -> None:
        self._changed.set()
        self._changed = anyio.Event()


class ManagedFleet:
    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self._one_at_a_time = anyio.Lock()
        self._followed: dict[str, list[FollowedSession]] = {}
        self._shown: dict[str, _ShowingWorker] = {}
        self._watcher: Watcher | None = None

    def is_at(self, url: str, fingerprint: str) -> None:
        machine = this_machine() if url.startswith("http://127.0.0.1:") else ""
        self._watcher = Watcher(url.rstrip("/"), fingerprint, machine)

    async def listing(self, most: int) -> FleetListing:
        return await self._ask(self._fleet.listing, most)

    async def answer(
        self, session_id: str, reply: Literal["yes", "no", "message"], text: str, digest: str
    ) -> None:
        given = Given(reply=reply, text=text, digest=digest)
        await self._ask(self._fleet.answer, session_id, given)

    async def cancel(self, session_id: str) -> None:
        await self._ask(self._fleet.cancel, session_id)

    @asynccontextmanager
    async def follow(self, session_id: str) -> AsyncIterator[FollowedSession]:
        await self._ask(self._fleet.session, session_id)
        followed = FollowedSession()
        followed.add_stored(await self._ask(self._fleet.events, session_id))
        beside = self._followed.setdefault(session_id, [])
        for event in beside[0].passing if beside else ():
            followed.add_passing(event)
        beside.append(followed)
        try:
            async with anyio.create_task_group() as group:
                group.start_soon(self._keep_reading, session_id, followed)
                yield followed
                group.cancel_scope.cancel()
        finally:
            beside.remove(followed)
            if not beside:
                del self._followed[session_id]
                await self._stop_watching(session_id)

    async def _keep_reading(self, session_id: str, followed: FollowedSession) -> None:
        looks = 0
        while True:
            with suppress(StorageError):  # the database may be away for a while
                if looks % _LOOKS_PER_WATCH == 0 and self._watcher:
                    await self._ask(self._fleet.watch, session_id, self._watcher)
                looks += 1
                await self._check_writer(session_id)
                followed.add_stored(await self._ask(self._fleet.events, session_id, followed.seq))
            await anyio.sleep(LOOK_SECONDS)

    async def _check_writer(self, session_id: str) -> None:
        shown = self._shown.get(session_id)
        if shown and await self._ask(self._fleet.writer, session_id) != shown.executor:
            shown.scope.cancel()

    async def _stop_watching(self, session_id: str) -> None:
        if shown := self._shown.get(session_id):
            shown.scope.cancel()
        if self._watcher:
            with anyio.CancelScope(shield=True), suppress(RookeryError):
                await self._ask(self._fleet.stop_watching, session_id, self._watcher)

    async def admits(self, greeting: WorkerGreeting) -> bool:
        """Whether a client follows the session, and the slot is the one that writes it."""
        if greeting.session_id not in self._followed:
            return False
        return await self._ask(
            self._fleet.is_writer, greeting.session_id, greeting.executor, greeting.secret
        )

    async def show(self, greeting: WorkerGreeting, channel: Channel) -> None:
        session_id = greeting.session_id
        if before := self._shown.get(session_id):
            before.scope.cancel()
        shown = self._shown[session_id] = _ShowingWorker(greeting.executor)
        try:
            with shown.scope, suppress(Disconnected, RpcError, RookeryError):
                async with remote_host(channel) as host:
                    async for event in host.follow(session_id, self._before_last(session_id)):
                        if event.fact.lasting:
                            continue  # the database has those that count
                        for followed in self._followed.get(session_id, ()):
                            followed.add_passing(event)
        finally:
            if self._shown.get(session_id) is shown:
                del self._shown[session_id]
            for followed in self._followed.get(session_id, ()):
                followed.drop_passing()

    def _before_last(self, session_id: str) -> int:
        """The event before the last one that all clients have. Sending continues there, so that a
        client that missed the last one gets an unfinished answer from its start."""
        known = [each.seq for each in self._followed.get(session_id, ())]
        return max(0, min(known, default=0) - 1)

    async def _ask(self, question: Callable[..., T], *about: Any) -> T:
        """The connection is for one question at a time."""
        async with self._one_at_a_time:
            return await anyio.to_thread.run_sync(partial(question, *about))


class _ShowingWorker:
    """A worker that shows a session."""

    def __init__(self, executor: str) -> None:
        self.executor = executor
        self.scope = anyio.CancelScope()


@contextmanager
def fleet_at(database: str) -> Iterator[ManagedFleet]:
    """The fleet with this database, for a manager. Raises `SettingsError` or `StorageError`."""
    from rookery.fleet.cli import open_fleet

    with open_fleet(database) as fleet:
        yield ManagedFleet(fleet)
