"""Bounds and cleans the messages that the SDK receives from servers.

Invalid tool descriptions are dropped here, because for one of them the SDK would reject the whole
list. A message that cannot be parsed is turned into an error response. The secrets that a server
was given are removed from its messages. `Flood` disconnects a server that sends too much.
"""

import re
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import anyio
import msgspec
from anyio.abc import ObjectReceiveStream

from rookery import NAME
from rookery.core.limits import MIB
from rookery.core.text.terminal_text import Hiding
from rookery.mcp.config import ServerDefinition
from rookery.mcp.results import CLOSED, ServerFailure, error_text
from rookery.mcp.server_sign_in import Credentials

if TYPE_CHECKING:
    from mcp.shared._stream_protocols import ReadStream
    from mcp.shared.message import SessionMessage

FLOOD_SECONDS = 10.0
FLOOD_MESSAGES = 10_000
FLOOD_BYTES = 64 * MIB

NOT_PARSED = "Its answer cannot be parsed: {}"
MOST_ANSWERED = 4
LONGEST_ID = 500
TASK = f"{NAME}/task"
"""Where a result names the task that will have the real one."""
TASK_STATUS = "notifications/tasks/status"
_ENDS = 300
"""Characters at both ends of a message that are searched for its id."""
_ID = re.compile(r'"id"\s*:\s*(?:(\d{1,18})|"([^"\\]{1,100})")')


class Flood:
    """Raises `ServerFailure` if a server sends too much in a short time."""

    def __init__(self) -> None:
        self._since = anyio.current_time()
        self._messages = self._bytes = 0

    def add(self, size: int, *, messages: int = 1) -> None:
        """Count messages, or bytes of one that is not complete yet."""
        now = anyio.current_time()
        if now - self._since > FLOOD_SECONDS:
            self._since, self._messages, self._bytes = now, 0, 0
        self._messages += messages
        self._bytes += size
        if self._messages > FLOOD_MESSAGES:
            raise ServerFailure(f"It sent {self._messages} lines in less than {FLOOD_SECONDS:g} s.")
        if self._bytes > FLOOD_BYTES:
            most = f"{FLOOD_BYTES // MIB} MiB"
            raise ServerFailure(f"It sent more than {most} in less than {FLOOD_SECONDS:g} s.")


class ConnectionEnd:
    """Why a connection ended. The first reason counts, and is passed to `report` before cleanup
    starts."""

    def __init__(self, report: Callable[[str], None]) -> None:
        self.reason = ""
        self._report = report
        self._over = anyio.Event()

    def finish(self, reason: str) -> None:
        if not self.finished:
            self.reason = reason
            self._over.set()
            self._report(reason)

    @property
    def finished(self) -> bool:
        return self._over.is_set()

    async def wait(self) -> None:
        await self._over.wait()


class ServerMessages(ObjectReceiveStream["SessionMessage | Exception"]):
    """The stream that the SDK reads; its end is recorded in `ending`."""

    def __init__(
        self,
        inbox: "ReadStream[SessionMessage | Exception]",
        ending: ConnectionEnd,
        server: ServerDefinition,
        credentials: Credentials | None = None,
    ) -> None:
        self._inbox = inbox
        self._ending = ending
        self._server = server
        self._credentials = credentials
        self._secrets: tuple[str, ...] = ()
        self._hide = Hiding()
        self._flood = Flood()
        self._pending: deque[SessionMessage] = deque()
        self._problem = CLOSED
        self.watchers: Mapping[str, Callable[[str], None]] = {}
        """By task, what is called with its status."""

    @property
    def last_context(self) -> Any:
        return getattr(self._inbox, "last_context", None)

    async def receive(self) -> "SessionMessage | Exception":
        if self._pending:
            return self._pending.popleft()
        try:
            item = await self._inbox.receive()
            self._flood.add(0)
        except anyio.EndOfStream:
            self._ending.finish(self._problem)
            raise
        except ServerFailure as failure:
            self._ending.finish(str(failure))
            raise anyio.EndOfStream from failure
        if isinstance(item, Exception):
            self._problem = error_text(item, self._server)
            self._pending.extend(_error_responses(item))
            return self._pending.popleft() if self._pending else item
        _drop_invalid_tools(item)
        self._hide_secrets(item)
        _name_task(item)
        self._report_status(item)
        return item

    def _report_status(self, item: "SessionMessage") -> None:
        """Pass on the status of a task, which the SDK drops."""
        message = item.message
        if getattr(message, "method", "") != TASK_STATUS:
            return
        params = getattr(message, "params", None) or {}
        watcher = self.watchers.get(str(params.get("taskId")))
        if watcher:
            watcher(_status_of(params))

    def _hide_secrets(self, item: "SessionMessage") -> None:
        tokens = self._credentials.secrets if self._credentials else ()
        if (secrets := (*self._server.secrets, *tokens)) != self._secrets:
            self._secrets, self._hide = secrets, Hiding(secrets)
        if not secrets:
            return
        for part in ("result", "params", "error"):
            payload = getattr(item.message, part, None)
            if isinstance(payload, dict):
                setattr(item.message, part, _hide_in(payload, self._hide))
            elif payload is not None:
                payload.message = self._hide(payload.message)
                payload.data = _hide_in(payload.data, self._hide)

    async def aclose(self) -> None:
        await self._inbox.aclose()


def _drop_invalid_tools(item: "SessionMessage") -> None:
    """Drop invalid tools from a list of tools, and their output schemas: validating against
    those would mean to match regular expressions that the server has chosen."""
    from mcp_types import JSONRPCResponse

    message = item.message
    if isinstance(message, JSONRPCResponse) and isinstance(message.result.get("tools"), list):
        message.result["tools"] = list(_valid_tools(message.result["tools"]))


def _name_task(item: "SessionMessage") -> None:
    """Turn the creation of a task into an empty result that names it: the SDK knows no tasks."""
    from mcp_types import JSONRPCResponse

    message = item.message
    if not isinstance(message, JSONRPCResponse):
        return
    task = message.result.get("task")
    if "content" in message.result or not isinstance(task, dict):
        return
    if isinstance(task_id := task.get("taskId"), str) and 0 < len(task_id) <= LONGEST_ID:
        named = {"taskId": task_id, "statusMessage": _status_of(task)}
        message.result = {"content": [], "_meta": {TASK: named}}


def _status_of(task: Mapping[str, Any]) -> str:
    said = task.get("statusMessage")
    return said if isinstance(said, str) else str(task.get("status") or "")


def _hide_in(value: Any, hide: Hiding) -> Any:
    match value:
        case str():
            return hide(value)
        case dict():
            return {hide(str(key)): _hide_in(each, hide) for key, each in value.items()}
        case list():
            return [_hide_in(each, hide) for each in value]
        case _:
            return value


def _error_responses(error: Exception) -> "Iterator[SessionMessage]":
    """Error responses to a message that could not be parsed, so that the caller stops waiting. The
    ids are guesses; a response with a wrong id is ignored."""
    from mcp.shared.message import SessionMessage
    from mcp_types import PARSE_ERROR, ErrorData, JSONRPCError
    from pydantic import ValidationError

    if not isinstance(error, ValidationError):
        return
    [first, *_] = error.errors(include_url=False, include_context=False)
    payload = first["input"]
    text = payload.decode("utf-8", "replace") if isinstance(payload, bytes) else str(payload)
    found = [*_ID.findall(text[:_ENDS]), *_ID.findall(text[-_ENDS:])]
    ids = dict.fromkeys(int(number) if number else word for number, word in found)
    data = ErrorData(code=PARSE_ERROR, message=NOT_PARSED.format(first["msg"]))
    for each in list(ids)[:MOST_ANSWERED]:
        yield SessionMessage(JSONRPCError(jsonrpc="2.0", id=each, error=data))


def _valid_tools(tools: list[Any]) -> Iterator[dict[str, Any]]:
    for tool in tools:
        if not isinstance(tool, dict) or not isinstance(tool.get("name"), str):
            continue
        schema = tool.get("inputSchema")
        if not isinstance(schema, dict) or schema.get("type", "object") != "object":
            continue
        if not _is_encodable(schema):
            continue
        description = tool.get("description")
        yield {
            "name": tool["name"],
            "description": description if isinstance(description, str) else "",
            "inputSchema": {**schema, "type": "object"},
            **_execution(tool.get("execution")),
        }


def _execution(said: Any) -> dict[str, Any]:
    """Whether a tool runs as a task; other words about it are dropped."""
    support = said.get("taskSupport") if isinstance(said, dict) else None
    return {"execution": {"taskSupport": support}} if support in ("optional", "required") else {}


def _is_encodable(schema: dict[str, Any]) -> bool:
    """Whether the schema can be encoded: not with infinite numbers or endless nesting."""
    try:
        msgspec.json.encode(schema)
    except (ValueError, OverflowError, RecursionError, TypeError):
        return False
    return True
