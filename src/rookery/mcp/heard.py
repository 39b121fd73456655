"""What the SDK hears of any server, and why one day it hears no more.

Descriptions of tools that nobody could understand are left out on the way: for one of them the
SDK would refuse the whole list.
"""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Self

import anyio

from rookery.mcp.config import ServerDefinition
from rookery.mcp.reasons import CLOSED, in_words

if TYPE_CHECKING:
    from mcp.shared._stream_protocols import ReadStream
    from mcp.shared.message import SessionMessage


class Fate:
    """Why a connection is over. The first reason given is the one that counts, and is told to
    whoever made this before anything is cleared away."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        self.reason = ""
        self._tell = tell
        self._over = anyio.Event()

    def seal(self, reason: str) -> None:
        if not self.sealed:
            self.reason = reason
            self._over.set()
            self._tell(reason)

    @property
    def sealed(self) -> bool:
        return self._over.is_set()

    async def wait(self) -> None:
        await self._over.wait()


class Heard:
    """What the SDK reads: the messages of a server, and its fate once there are no more."""

    def __init__(
        self,
        inbox: "ReadStream[SessionMessage | Exception]",
        fate: Fate,
        server: ServerDefinition,
    ) -> None:
        self._inbox = inbox
        self._fate = fate
        self._server = server
        self._trouble = CLOSED

    @property
    def last_context(self) -> Any:
        return getattr(self._inbox, "last_context", None)

    async def receive(self) -> "SessionMessage | Exception":
        try:
            item = await self._inbox.receive()
        except anyio.EndOfStream:
            self._fate.seal(self._trouble)
            raise
        if isinstance(item, Exception):
            self._trouble = in_words(item, self._server)
        else:
            _tidy(item)
        return item

    async def aclose(self) -> None:
        await self._inbox.aclose()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> "SessionMessage | Exception":
        try:
            return await self.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


def _tidy(item: "SessionMessage") -> None:
    """Of a list of tools leave only those that can be understood. What they say of their results
    is left out: to check it would mean to match patterns that the server has chosen."""
    from mcp_types import JSONRPCResponse

    message = item.message
    if isinstance(message, JSONRPCResponse) and isinstance(message.result.get("tools"), list):
        message.result["tools"] = list(_understood(message.result["tools"]))


def _understood(tools: list[Any]) -> Iterator[dict[str, Any]]:
    for tool in tools:
        if not isinstance(tool, dict) or not isinstance(tool.get("name"), str):
            continue
        schema = tool.get("inputSchema")
        if not isinstance(schema, dict) or schema.get("type", "object") != "object":
            continue
        description = tool.get("description")
        yield {
            "name": tool["name"],
            "description": description if isinstance(description, str) else "",
            "inputSchema": {**schema, "type": "object"},
        }
