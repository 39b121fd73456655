"""Followers see every durable event once and in order, even if they reconnect."""

import os

import anyio
import anyio.abc
import anyio.lowlevel
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Struct, field

from rookery.core.facts import Event, Noted, TextStreamed
from rookery.protocol.channels import memory_channels
from rookery.protocol.remote import RemoteHost
from rookery.protocol.server import serve
from support.protocol_hosts import Logs

TORTURE = bool(os.environ.get("ROOKERY_TORTURE"))
MOVES = st.lists(
    st.one_of(
        st.tuples(st.just("news"), st.integers(1, 3)),
        st.tuples(st.just("note"), st.integers(1, 3)),
        st.tuples(st.just("follow"), st.integers(0, 1)),
        st.tuples(st.just("unfollow"), st.integers(0, 1)),
        st.tuples(st.just("cut"), st.integers(0, 1)),
        st.tuples(st.just("wait"), st.just(0)),
    ),
    max_size=40,
)


class Client(Struct):
    """Follows, unfollows and disconnects, and records the events it received."""

    host: Logs
    seen: list[Event] = field(default_factory=list)
    following: anyio.CancelScope | None = None
    connection: anyio.CancelScope | None = None
    remote: RemoteHost | None = None

    @property
    def last(self) -> int:
        return max((event.seq for event in self.seen if not event.sub), default=0)

    async def connect(self) -> None:
        """Connect with a buffer so small that the client lags as soon as it stops reading."""
        with memory_channels(1) as (near, far), anyio.CancelScope() as self.connection:
            async with anyio.create_task_group() as group:
                group.start_soon(serve, self.host, far)
                remote = RemoteHost(near)
                group.start_soon(remote.run)
                await remote.initialize({})
                self.remote = remote
                await anyio.sleep_forever()

    async def follow(self) -> None:
        assert self.remote
        with anyio.CancelScope() as mine:
            self.following = mine
            async for event in self.remote.follow("t", self.last):
                if self.following is not mine:
                    break
                self.seen.append(event)

    def cut(self) -> None:
        self.unfollow()
        if self.connection:
            self.connection.cancel()
        self.connection = self.remote = None

    def unfollow(self) -> None:
        if self.following:
            self.following.cancel()
        self.following = None


async def run_others() -> None:
    """Let the other tasks run."""
    for _ in range(10):
        await anyio.lowlevel.checkpoint()


async def play(moves: list[tuple[str, int]]) -> None:
    host = Logs("t")
    clients = [Client(host), Client(host)]
    with anyio.fail_after(60):
        async with anyio.create_task_group() as group:
            for move, number in moves:
                match move:
                    case "news":
                        for _ in range(number):
                            host.append("t", TextStreamed(request_id="r", text="word"))
                    case "note":
                        for _ in range(number):
                            host.append("t", Noted(text="note"))
                    case "follow":
                        await ready(clients[number], group)
                    case "unfollow":
                        clients[number].unfollow()
                    case "cut":
                        clients[number].cut()
                    case _:
                        await run_others()
            host.append("t", Noted(text="the end"))
            total = len(host.logs["t"].events)
            for client in clients:
                await ready(client, group)
            while any(client.last < total for client in clients):
                await run_others()
            group.cancel_scope.cancel()
    for client in clients:
        durable = [event for event in client.seen if not event.sub]
        assert durable == list(host.logs["t"].events)


async def ready(client: Client, group: anyio.abc.TaskGroup) -> None:
    if client.remote is None:
        group.start_soon(client.connect)
        while client.remote is None:
            await run_others()
    if client.following is None:
        group.start_soon(client.follow)
        await run_others()


@given(MOVES)
@settings(max_examples=1000 if TORTURE else 40)
def test_every_durable_event_is_seen_once_and_in_order(moves: list[tuple[str, int]]):
    anyio.run(play, moves)


@pytest.mark.parametrize("outbox", [1, 300, 2_000])
@given(moves=MOVES)
@settings(max_examples=1000 if TORTURE else 20)
def test_lagging_followers_see_every_durable_event_too(outbox: int, moves: list[tuple[str, int]]):
    """With an outbox that holds next to nothing."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("rookery.protocol.jsonrpc.OUTBOX", outbox)
        anyio.run(play, moves)
