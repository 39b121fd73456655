"""What the SDK receives from any server, within limits, and why it ends.

Descriptions of tools that nobody could understand are left out on the way: for one of them the
SDK would refuse the whole list. An answer that cannot be understood is an answer all the same,
and says so. The secrets that a server was given are in nothing that it says. `Flood` ends a server
that sends more than anybody would.
"""

import re
from collections import deque
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Self

import anyio
import msgspec

from rookery.core.limits import MIB
from rookery.core.text.output_preview import Hiding
from rookery.mcp.config import ServerDefinition
from rookery.mcp.results import CLOSED, ServerFailure, in_words

if TYPE_CHECKING:
    from mcp.shared._stream_protocols import ReadStream
    from mcp.shared.message import SessionMessage

FLOOD_SECONDS = 10.0
FLOOD_MESSAGES = 10_000
FLOOD_BYTES = 64 * MIB

NOT_UNDERSTOOD = "Its answer cannot be parsed: {}"
MOST_ANSWERED = 4
_ENDS = 300
"""Characters at either end of a message among which its id is looked for."""
_ID = re.compile(r'"id"\s*:\s*(?:(\d{1,18})|"([^"\\]{1,100})")')


class Flood:
    """Raises `Failure` when a server sends too much within a while."""

    def __init__(self) -> None:
        self._since = anyio.current_time()
        self._messages = self._bytes = 0

    def add(self, size: int) -> None:
        """One more message."""
        self._begin_anew()
        self._messages += 1
        self._bytes += size
        if self._messages > FLOOD_MESSAGES:
            raise ServerFailure(f"It sent {self._messages} lines in less than {FLOOD_SECONDS:g} s.")
        self._insist_on_size()

    def add_bytes(self, size: int) -> None:
        """More of what will be a message."""
        self._begin_anew()
        self._bytes += size
        self._insist_on_size()

    def _begin_anew(self) -> None:
        now = anyio.current_time()
        if now - self._since > FLOOD_SECONDS:
            self._since, self._messages, self._bytes = now, 0, 0

    def _insist_on_size(self) -> None:
        if self._bytes > FLOOD_BYTES:
            size = f"{FLOOD_BYTES // MIB} MiB"
            raise ServerFailure(f"It sent more than {size} in less than {FLOOD_SECONDS:g} s.")


class ConnectionEnd:
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


class ServerMessages:
    """What the SDK reads: the messages of a server, and its fate once there are no more."""

    def __init__(
        self,
        inbox: "ReadStream[SessionMessage | Exception]",
        fate: ConnectionEnd,
        server: ServerDefinition,
    ) -> None:
        self._inbox = inbox
        self._fate = fate
        self._server = server
        self._hide = Hiding(server.secrets)
        self._flood = Flood()
        self._unheard: deque[SessionMessage] = deque()
        self._trouble = CLOSED

    @property
    def last_context(self) -> Any:
        return getattr(self._inbox, "last_context", None)

    async def receive(self) -> "SessionMessage | Exception":
        if self._unheard:
            return self._unheard.popleft()
        try:
            item = await self._inbox.receive()
            self._flood.add(0)
        except anyio.EndOfStream:
            self._fate.seal(self._trouble)
            raise
        except ServerFailure as failure:
            self._fate.seal(str(failure))
            raise anyio.EndOfStream from failure
        if isinstance(item, Exception):
            self._trouble = in_words(item, self._server)
            self._unheard.extend(_answers_instead(item))
            return self._unheard.popleft() if self._unheard else item
        _tidy(item)
        self._hide_secrets(item)
        return item

    def _hide_secrets(self, item: "SessionMessage") -> None:
        if not self._server.secrets:
            return
        for part in ("result", "params", "error"):
            said = getattr(item.message, part, None)
            if isinstance(said, dict):
                setattr(item.message, part, _hidden(said, self._hide))
            elif said is not None:
                said.message = self._hide(said.message)
                said.data = _hidden(said.data, self._hide)

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


def _hidden(value: Any, hide: Hiding) -> Any:
    match value:
        case str():
            return hide(value)
        case dict():
            return {hide(str(key)): _hidden(each, hide) for key, each in value.items()}
        case list():
            return [_hidden(each, hide) for each in value]
        case _:
            return value


def _answers_instead(error: Exception) -> "Iterator[SessionMessage]":
    """What can be answered, in the place of a server, to whoever waits for what could not be
    understood. Of such a message the id is a guess, and a wrong one answers nobody."""
    from mcp.shared.message import SessionMessage
    from mcp_types import PARSE_ERROR, ErrorData, JSONRPCError
    from pydantic import ValidationError

    if not isinstance(error, ValidationError):
        return
    [first, *_] = error.errors(include_url=False, include_context=False)
    said = first["input"]
    text = said.decode("utf-8", "replace") if isinstance(said, bytes) else str(said)
    found = [*_ID.findall(text[:_ENDS]), *_ID.findall(text[-_ENDS:])]
    ids = dict.fromkeys(int(number) if number else word for number, word in found)
    told = ErrorData(code=PARSE_ERROR, message=NOT_UNDERSTOOD.format(first["msg"]))
    for each in list(ids)[:MOST_ANSWERED]:
        yield SessionMessage(JSONRPCError(jsonrpc="2.0", id=each, error=told))


def _understood(tools: list[Any]) -> Iterator[dict[str, Any]]:
    for tool in tools:
        if not isinstance(tool, dict) or not isinstance(tool.get("name"), str):
            continue
        schema = tool.get("inputSchema")
        if not isinstance(schema, dict) or schema.get("type", "object") != "object":
            continue
        if not _can_be_kept(schema):
            continue
        description = tool.get("description")
        yield {
            "name": tool["name"],
            "description": description if isinstance(description, str) else "",
            "inputSchema": {**schema, "type": "object"},
        }


def _can_be_kept(schema: dict[str, Any]) -> bool:
    """Not if a number in it is larger than any, or it is nested without end."""
    try:
        msgspec.json.encode(schema)
    except (ValueError, OverflowError, RecursionError, TypeError):
        return False
    return True
