"""A manager behind a channel: what it is asked, and what it tells of its sessions as they go on."""

from collections.abc import AsyncIterator, Mapping
from contextlib import aclosing, asynccontextmanager
from typing import Any, TypeAlias, TypeVar

import anyio
import msgspec
from msgspec import Struct

from rookery.core.queries import Asking
from rookery.errors import RookeryError
from rookery.manager.handlers.router import LOOKING
from rookery.manager.request_json import reply_from_json, request_to_json
from rookery.manager.shown_rows import SessionRow
from rookery.protocol.channels import Channel
from rookery.protocol.jsonrpc import Disconnected, RpcError, raised_again
from rookery.protocol.remote import SECONDS_TO_ANSWER, RemoteServer

T = TypeVar("T")
News: TypeAlias = Mapping[str, Any]
"""What a notification says, as it came."""


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
            await remote.initialize({})
    except TimeoutError:
        return NoManager(f"The manager has not answered in {SECONDS_TO_ANSWER:g} seconds.")
    except Disconnected:
        return ManagerLeft("The manager hangs up when greeted.")
    except RpcError as error:
        return raised_again(error)
    return None


class RemoteManager(RemoteServer):
    """Everything raises `Disconnected` once the connection is lost."""

    name = "manager"
    has_acted = False
    """Something was asked for that does more than look."""

    async def do(self, request: Asking[T]) -> T:
        """Raises `RookeryError`, and then nothing was changed; but after `Disconnected` nobody
        knows whether it was."""
        self.has_acted |= type(request) not in LOOKING
        answer = await self.call("do", msgspec.Raw(request_to_json(request)))
        return reply_from_json(request, answer)

    async def follow_list(self) -> AsyncIterator[ListNews]:
        """All sessions, then what changes about them."""
        async with aclosing(self.news("follow_list", {})) as arrivals:
            async for news in arrivals:
                yield msgspec.convert(news, ListNews)

    def follow_session(self, session_id: str, *, tail: int) -> AsyncIterator[News]:
        """The last rows of a session, then what changes in it and what is added."""
        return self.news("follow_session", {"session_id": session_id, "tail": tail})

    def read(self, method: str, fields: dict[str, Any]) -> object:
        return fields if method in ("list", "view") else None
