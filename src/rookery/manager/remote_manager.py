"""A manager behind a channel: what it is asked, and what it tells of its sessions as they go on."""

from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing, asynccontextmanager, suppress
from math import inf
from typing import Any, TypeAlias, TypeVar

import anyio
import msgspec
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from msgspec import Struct

from rookery.core.queries import Asking
from rookery.errors import CommandRejected, RookeryError
from rookery.manager.handlers.router import LOOKING
from rookery.manager.request_json import reply_from_json, request_to_json
from rookery.manager.shown_rows import SessionRow
from rookery.protocol.channels import LONGEST_MESSAGE, Channel
from rookery.protocol.codec import PROTOCOL
from rookery.protocol.jsonrpc import (
    METHOD_NOT_FOUND,
    Disconnected,
    Params,
    Peer,
    RpcError,
    raised_again,
)

T = TypeVar("T")
News: TypeAlias = Mapping[str, Any]
"""What a notification says, as it came."""
SECONDS_TO_ANSWER = 10.0
"""To whoever introduces themselves."""
_FRAME = 1_000
"""Bytes of a message beside its parameters, at most."""


class ListNews(Struct, frozen=True, kw_only=True):
    """What is new about the list: rows that changed, whole, and the ids of those that are gone."""

    rows: tuple[SessionRow, ...] = ()
    removed: tuple[str, ...] = ()


class NoManager(Disconnected):
    """Whoever is at the other end does not answer."""


class ManagerLeft(Disconnected):
    """It was there a moment ago."""


@asynccontextmanager
async def remote_manager(channel: Channel) -> "AsyncIterator[RemoteManager]":
    """The manager at the other end of a channel, which is closed afterwards. Raises `NoManager` or
    `ManagerLeft` if there is none."""
    remote = RemoteManager(channel)
    try:
        async with anyio.create_task_group() as group:
            group.start_soon(remote.run)
            problem = await _introduce(remote)
            if not problem:
                yield remote
            group.cancel_scope.cancel()
        if problem:
            raise problem
    finally:
        with anyio.CancelScope(shield=True):
            await channel.aclose()


async def _introduce(remote: "RemoteManager") -> RookeryError | None:
    """Why it cannot be talked to, if so."""
    try:
        with anyio.fail_after(SECONDS_TO_ANSWER):
            await remote.call("initialize", {"protocol": PROTOCOL})
    except TimeoutError:
        return NoManager(f"The manager has not answered in {SECONDS_TO_ANSWER:g} seconds.")
    except Disconnected:
        return ManagerLeft("The manager hangs up when greeted.")
    except RookeryError as refusal:
        return refusal
    return None


class RemoteManager:
    """Everything raises `Disconnected` once the connection is lost."""

    def __init__(self, channel: Channel) -> None:
        self.has_acted = False
        """Something was asked for that does more than look."""
        self._peer = Peer(channel, self)
        self._follows: dict[int, MemoryObjectSendStream[News]] = {}

    async def run(self) -> None:
        try:
            await self._peer.run()
        finally:
            for arrivals in self._follows.values():
                arrivals.close()

    async def call(self, method: str, params: object = None) -> Any:
        """What a method answers. Raises what it was refused with."""
        try:
            return await self._peer.call(method, params)
        except RpcError as error:
            raise raised_again(error) from error

    async def do(self, request: Asking[T]) -> T:
        """Raises `RookeryError`, and then nothing was changed; but after `Disconnected` nobody
        knows whether it was."""
        self.has_acted |= type(request) not in LOOKING
        said = request_to_json(request)
        if len(said) > LONGEST_MESSAGE - _FRAME:
            raise CommandRejected(f"That is more than {LONGEST_MESSAGE >> 20} MiB. Say less.")
        return reply_from_json(request, await self.call("do", msgspec.Raw(said)))

    async def follow_list(self) -> AsyncIterator[ListNews]:
        """All sessions, then what changes about them."""
        async with aclosing(self._follow("follow_list", {})) as arrivals:
            async for news in arrivals:
                yield msgspec.convert(news, ListNews)

    def follow_session(self, session_id: str, *, tail: int) -> AsyncIterator[News]:
        """The last rows of a session, then what changes in it and what is added."""
        return self._follow("follow_session", {"session_id": session_id, "tail": tail})

    async def answer(self, method: str, params: Params) -> object:
        raise RpcError(METHOD_NOT_FOUND, "A client has nothing to be asked.")

    async def hear(self, method: str, params: Params) -> None:
        match method, params:
            case "list" | "view", {"follow_id": int(number), **rest}:
                if arrivals := self._follows.get(number):
                    arrivals.send_nowait({str(name): said for name, said in rest.items()})
            case "ended", {"follow_id": int(number), **rest}:
                if arrivals := self._follows.pop(number, None):
                    arrivals.send_nowait({"ended": rest.get("error")})
                    arrivals.close()
            case _:
                pass  # something that later managers tell

    async def _follow(self, method: str, params: News) -> AsyncGenerator[News, None]:
        number = 0
        sender, arrivals = anyio.create_memory_object_stream[News](inf)

        def begin(result: Any) -> None:
            nonlocal number
            number = result["follow_id"]
            self._follows[number] = sender

        try:
            try:
                await self._peer.call(method, params, at_once=begin)
            except RpcError as error:
                raise raised_again(error) from error
            async for news in _until_ended(arrivals):
                yield news
        finally:
            sender.close()
            arrivals.close()
            if self._follows.pop(number, None):
                with suppress(Disconnected):
                    self._peer.notify("unfollow", {"follow_id": number})


async def _until_ended(arrivals: MemoryObjectReceiveStream[News]) -> AsyncIterator[News]:
    async for news in arrivals:
        match news:
            case {"ended": None}:
                return
            case {"ended": {"code": int(code), "message": str(message)}}:
                raise raised_again(RpcError(code, message))
            case _:
                yield news
    raise Disconnected("The connection to the manager was lost.")
