"""Hosts and clients to connect over a wire."""

import json
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path
from typing import Any, TypeVar

import anyio
from anyio.abc import UNIXSocketStream

from rookery.app.local_host import open_host
from rookery.app.model_choice import ModelChoice, choose_model
from rookery.app.task_hooks import Consent
from rookery.core.commands import Command
from rookery.core.facts import Event, Fact
from rookery.core.folds.task_record import TaskRecord
from rookery.core.queries import Asking
from rookery.core.settings import Settings
from rookery.engine.event_log import EventLog
from rookery.errors import CommandRejected
from rookery.platform.user_folders import find_places
from rookery.protocol.channels import Channel, ChannelEnded, memory_channels
from rookery.protocol.codec import Host
from rookery.protocol.remote import RemoteHost, remote_host
from rookery.protocol.server import serve
from rookery.storage.sessions import TaskStore

T = TypeVar("T")
INITIALIZE = {"protocol": 1, "client": {"name": "test"}}


@asynccontextmanager
async def workplace(
    folder: Path, script: str, settings: Settings | None = None, **consent: Any
) -> AsyncIterator[Host]:
    """The real host with a scripted model."""
    work = folder / "work"
    work.mkdir(exist_ok=True)
    (folder / "script.yaml").write_text(script, encoding="utf-8")
    places = find_places({"ROOKERY_HOME": str(folder / "home")})

    def choose(settings: Settings) -> ModelChoice:
        return choose_model(settings, {}, places.keys_file, None)

    async with open_host(
        settings or Settings(),
        ModelChoice("scripted", str(folder / "script.yaml"), None, None),
        TaskStore(places),
        work,
        places,
        Consent(**{"trusted": True} | consent),
        choose,
    ) as host:
        yield host


class NoDisk:
    """A journal that is not stored."""

    recovered = ""

    def read(self) -> TaskRecord:
        return TaskRecord()

    def write(self, event: Event) -> None:
        pass

    def close(self) -> None:
        pass


class Logs:
    """A host of logs that a test writes itself."""

    def __init__(self, *task_ids: str) -> None:
        clock = count(1)
        self.logs = {each: EventLog(NoDisk(), lambda: next(clock)) for each in task_ids}
        self.sent: list[Command] = []

    def append(self, task_id: str, fact: Fact) -> Event:
        return self.logs[task_id].append(fact)

    async def send(self, command: Command) -> None:
        self.sent.append(command)

    def follow(self, task_id: str, after: int = 0) -> AsyncIterator[Event]:
        if task_id not in self.logs:
            raise CommandRejected(f"Session {task_id} is not open. Open it first.")
        return self.logs[task_id].follow(after)

    async def query(self, query: Asking[T]) -> T:
        raise CommandRejected("Nobody knows.")


@asynccontextmanager
async def connected(host: Host, room: float = 1_000) -> AsyncIterator[RemoteHost]:
    """The same host, connected through memory channels."""
    with memory_channels(room) as (near, far):
        async with anyio.create_task_group() as group:
            group.start_soon(serve, host, far)
            async with remote_host(near) as remote:
                yield remote
            group.cancel_scope.cancel()


class Caller:
    """A client that writes raw JSON and records all messages."""

    def __init__(self, channel: Channel) -> None:
        self.channel = channel
        self.received: list[dict[str, Any]] = []
        self.said: list[dict[str, Any]] = []
        self._numbers = count(1)

    async def say(self, **message: Any) -> None:
        self.said.append({"jsonrpc": "2.0", **message})
        await self.channel.send([json.dumps(self.said[-1]).encode()])

    async def raw(self, data: bytes) -> None:
        await self.channel.send([data])

    async def receive(self) -> dict[str, Any]:
        with anyio.fail_after(60):
            self.received.append(json.loads(await self.channel.receive()))
        return self.received[-1]

    async def until(self, fits: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        while not fits(message := await self.receive()):
            pass
        return message

    async def call(self, method: str, **params: Any) -> dict[str, Any]:
        """The whole response."""
        number = next(self._numbers)
        await self.say(id=number, method=method, params=params)
        return await self.until(lambda message: message.get("id") == number)

    async def initialize(self) -> None:
        assert "result" in await self.call("initialize", **INITIALIZE)

    async def is_disconnected(self) -> None:
        """Wait until the host closes the connection."""
        try:
            while True:
                await self.receive()
        except ChannelEnded:
            pass


@asynccontextmanager
async def caller(host: Host, room: float = 1_000) -> AsyncIterator[Caller]:
    with memory_channels(room) as (near, far):
        async with anyio.create_task_group() as group:
            group.start_soon(serve, host, far)
            yield Caller(near)
            group.cancel_scope.cancel()


@asynccontextmanager
async def socket_pair() -> AsyncIterator[tuple[UNIXSocketStream, UNIXSocketStream]]:
    one, two = socket.socketpair()
    async with (
        await UNIXSocketStream.from_socket(one) as near,
        await UNIXSocketStream.from_socket(two) as far,
    ):
        yield near, far
