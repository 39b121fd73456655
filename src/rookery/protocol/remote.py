"""A host behind a channel, with the same interface as a local one.

Once the connection is lost everything raises `Disconnected`. A client that reconnects names the
last event it has and misses nothing.
"""

from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import aclosing, asynccontextmanager, suppress
from typing import Any, TypeVar

import anyio
import msgspec

from rookery import NAME, VERSION
from rookery.core.commands import Command
from rookery.core.facts import Event
from rookery.core.queries import Asking
from rookery.errors import CommandRejected
from rookery.protocol.channels import LONGEST_MESSAGE, Channel
from rookery.protocol.codec import (
    PROTOCOL,
    answer_from_json,
    answer_to_json,
    command_to_json,
    event_from_json,
    query_to_json,
)
from rookery.protocol.jsonrpc import (
    METHOD_NOT_FOUND,
    Disconnected,
    Params,
    Peer,
    RpcError,
    client_error,
)

T = TypeVar("T")
SECONDS_TO_ANSWER = 10.0
"""Time for the server to answer `initialize`."""
_FRAME = 1_000
"""Bytes of a message besides its parameters, at most."""


class NoHost(Disconnected):
    """The other end is not a host."""


@asynccontextmanager
async def remote_host(channel: Channel) -> "AsyncIterator[RemoteHost]":
    """Connect to the host at the other end of a channel; closes it afterwards. Raises `RpcError`
    if it refuses the client, and `NoHost` if it does not speak the protocol."""
    host = RemoteHost(channel)
    try:
        async with anyio.create_task_group() as group:
            group.start_soon(host.run)
            await _introduce(host)
            yield host
            group.cancel_scope.cancel()
    finally:
        with anyio.CancelScope(shield=True):
            await channel.aclose()


async def _introduce(host: "RemoteHost") -> None:
    try:
        with anyio.fail_after(SECONDS_TO_ANSWER):
            await host.initialize({"client": {"name": NAME, "version": VERSION}})
    except TimeoutError as error:
        raise NoHost(
            f"The server did not answer within {SECONDS_TO_ANSWER:.0f} seconds."
        ) from error
    except Disconnected as error:
        raise NoHost("The server closed the connection at the first message.") from error


class RemoteServer:
    """A server at the other end of a channel: methods to call, and notifications to follow."""

    name = "server"

    def __init__(self, channel: Channel) -> None:
        self._peer = Peer(channel, self)
        self._follows: dict[int, _Arrivals] = {}

    async def run(self) -> None:
        try:
            await self._peer.run()
        finally:
            for arrivals in self._follows.values():
                arrivals.end(Disconnected(f"The connection to the {self.name} was lost."))

    async def initialize(self, params: Mapping[str, object]) -> None:
        """Raises `RpcError`."""
        await self._peer.call("initialize", {"protocol": PROTOCOL, **params})

    async def call(
        self, method: str, params: object, at_once: Callable[[Any], None] | None = None
    ) -> Any:
        """Call a method. Raises the server's exception."""
        if isinstance(params, msgspec.Raw) and len(memoryview(params)) > LONGEST_MESSAGE - _FRAME:
            raise CommandRejected(f"The message is larger than {LONGEST_MESSAGE >> 20} MiB.")
        try:
            return await self._peer.call(method, params, at_once=at_once)
        except RpcError as error:
            raise client_error(error) from error

    async def news(self, method: str, params: object) -> AsyncGenerator[Any, None]:
        """Follow something; yields each notification as `read` returns it, until it ends."""
        arrivals = _Arrivals()
        number = 0

        def begin(result: Any) -> None:
            nonlocal number
            number = result["follow_id"]
            self._follows[number] = arrivals

        try:
            await self.call(method, params, begin)
            while (each := await arrivals.next()) is not None:
                yield each
        finally:
            if self._follows.pop(number, None):
                with suppress(Disconnected):
                    self._peer.notify("unfollow", {"follow_id": number})

    def read(self, method: str, fields: dict[str, Any]) -> object:
        """The content of a notification; None for one of a newer server."""
        raise NotImplementedError

    async def answer(self, method: str, params: Params) -> object:
        raise RpcError(METHOD_NOT_FOUND, "Clients do not accept requests.")

    async def on_notification(self, method: str, params: Params) -> None:
        match params:
            case {"follow_id": int(number), **rest}:
                if not (arrivals := self._follows.get(number)):
                    return
                if method == "ended":
                    del self._follows[number]
                    arrivals.end(_failure(rest.get("error")))
                elif (said := self.read(method, rest)) is not None:  # type: ignore[arg-type]
                    arrivals.put(said)


class RemoteHost(RemoteServer):
    name = "host"

    async def send(self, command: Command) -> None:
        await self.call("send", msgspec.Raw(command_to_json(command)))

    async def query(self, query: Asking[T]) -> T:
        answer = await self.call("query", msgspec.Raw(query_to_json(query)))
        return answer_from_json(query, answer)

    async def follow(self, task_id: str, after: int = 0) -> AsyncIterator[Event]:
        params = {"task_id": task_id, "after": after, "as": "events"}
        async with aclosing(self.news("follow", params)) as events:
            async for event in events:
                yield event

    def read(self, method: str, fields: dict[str, Any]) -> object:
        return event_from_json(answer_to_json(fields["event"])) if method == "event" else None


class _Arrivals:
    """Notifications that wait to be read."""

    def __init__(self) -> None:
        self._waiting: deque[object] = deque()
        self._ended = False
        self._failure: Exception | None = None
        self._changed = anyio.Event()

    def put(self, said: object) -> None:
        self._waiting.append(said)
        self._changed.set()

    def end(self, failure: Exception | None) -> None:
        self._ended, self._failure = True, failure
        self._changed.set()

    async def next(self) -> object:
        """The next one; None at the end."""
        while not self._waiting:
            if self._failure:
                raise self._failure
            if self._ended:
                return None
            self._changed = anyio.Event()
            await self._changed.wait()
        return self._waiting.popleft()


def _failure(error: Any) -> Exception | None:
    match error:
        case {"code": int(code), "message": str(message)}:
            return client_error(RpcError(code, message))
        case _:
            return None
