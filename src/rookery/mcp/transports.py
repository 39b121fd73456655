"""Transports to a server: the pipes of a program, streamable HTTP or SSE.

Everything that a server sends is bounded. The SDK's own stdio transport is not used: it reads lines
of any length, and does not report why a program ended. The SDK and its HTTP client are imported
when needed.
"""

import os
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import anyio

from rookery.core.limits import MIB
from rookery.core.text.terminal_text import Hiding
from rookery.mcp.config import ServerDefinition, Transport
from rookery.mcp.received import ConnectionEnd, Flood, ServerMessages
from rookery.mcp.results import ServerFailure, visible_line
from rookery.mcp.server_programs import ServerProcess
from rookery.mcp.server_sign_in import Credentials

if TYPE_CHECKING:
    import httpx2
    from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
    from mcp.client._transport import TransportStreams
    from mcp.shared.message import SessionMessage

LARGEST_MESSAGE = 16 * MIB
CONNECT_SECONDS = 10.0
LONGEST_LINE = 4 * MIB
LAST_WORDS = 0.5
"""Seconds to wait for the exit status after the output has ended, and the other way round."""
WAITING_MESSAGES = 100
"""Messages that may wait to be written before the sender has to wait."""
TAIL_SHOWN = 500
MARK = b'"jsonrpc"'
"""Part of every message, and rare elsewhere."""


@asynccontextmanager
async def to_program(
    start: Callable[[], ServerProcess], ending: ConnectionEnd
) -> AsyncGenerator["TransportStreams"]:
    """Connect to a program. Leaving the context ends it."""
    from mcp.shared.message import SessionMessage

    process = start()
    received, inbox = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    outbox, outgoing = anyio.create_memory_object_stream[SessionMessage](WAITING_MESSAGES)
    output_ended, ended = anyio.Event(), anyio.Event()

    async def listen() -> None:
        try:
            await _read_messages(process, received)
        except ServerFailure as failure:
            ending.finish(str(failure))
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            pass  # the session has ended
        output_ended.set()
        with anyio.move_on_after(LAST_WORDS):
            await ended.wait()
            return  # `watch` reports the exit status
        ending.finish(f"It closed its output.{last_words(process)}")
        received.close()

    async def watch() -> None:
        await process.watch()
        ended.set()
        with anyio.move_on_after(LAST_WORDS):
            await output_ended.wait()
        ending.finish(f"{_how_it_ended(process.ended)}{last_words(process)}")
        received.close()

    try:
        async with anyio.create_task_group() as group:
            group.start_soon(listen)
            group.start_soon(process.drain)
            group.start_soon(_write_messages, process, outgoing)
            group.start_soon(watch)
            yield ServerMessages(inbox, ending, process.server), outbox
            group.cancel_scope.cancel()
    finally:
        for stream in (received, inbox, outbox, outgoing):
            stream.close()
        with anyio.CancelScope(shield=True):
            await process.end()
        process.close()


def last_words(process: ServerProcess) -> str:
    """The last lines of standard error as a sentence; empty if there are none."""
    hide = Hiding(process.server.secrets)
    lines = hide(process.tail.decode("utf-8", "replace")).split("\n")
    text = " / ".join(" ".join(line.split()) for line in lines[-8:] if line.strip())
    return f" It last wrote: {visible_line(text[-TAIL_SHOWN:], TAIL_SHOWN)}" if text else ""


@asynccontextmanager
async def to_url(
    server: ServerDefinition, ending: ConnectionEnd, credentials: Credentials
) -> AsyncGenerator["TransportStreams"]:
    """Connect to a URL: requests go to its own origin only, with no headers but the configured
    ones and the token of a sign-in."""
    from mcp.client.sse import sse_client
    from mcp.client.streamable_http import streamable_http_client

    if server.transport is Transport.SSE:

        def client(*_: object, **__: object) -> "httpx2.AsyncClient":
            return _http_client(server, ending, credentials)

        async with sse_client(server.url, httpx_client_factory=client) as (inbox, outbox):
            yield ServerMessages(inbox, ending, server, credentials), outbox
        return
    async with (
        _http_client(server, ending, credentials) as http,
        streamable_http_client(
            server.url, http_client=http, max_sse_event_size=LARGEST_MESSAGE
        ) as (inbox, outbox),
    ):
        yield ServerMessages(inbox, ending, server, credentials), outbox


def _http_client(
    server: ServerDefinition, ending: ConnectionEnd, credentials: Credentials
) -> "httpx2.AsyncClient":
    import httpx2

    flood = Flood()

    class Bounded(httpx2.AsyncHTTPTransport):
        """Rejects compressed responses, whose size is unknown, and cuts off large ones. An event
        stream has no total limit, but a rate limit: the SDK bounds its events. Status codes that
        the SDK would hide are raised. A token that the server rejects is refreshed once."""

        async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
            token = await self._authorize(request)
            response = await super().handle_async_request(request)
            if response.status_code == 401 and server.signs_in:
                await response.aclose()
                if not (token and await credentials.renewed(token)):
                    raise credentials.failure()
                await self._authorize(request)
                response = await super().handle_async_request(request)
                if response.status_code == 401:
                    await response.aclose()
                    raise credentials.failure()
            status = response.status_code
            if status in (401, 403) or status >= 500:
                await response.aclose()
                raise httpx2.HTTPStatusError("", request=request, response=response)
            if response.headers.get("content-encoding", "identity") != "identity":
                await response.aclose()
                raise ServerFailure("Its answer was compressed without being requested.")
            assert isinstance(response.stream, httpx2.AsyncByteStream)
            most = None if is_read_as_events(request, response) else LARGEST_MESSAGE
            response.stream = BoundedStream(response.stream, most)
            return response

        async def _authorize(self, request: httpx2.Request) -> str:
            if token := await credentials.token():
                request.headers["authorization"] = f"Bearer {token}"
            return token

    class BoundedStream(httpx2.AsyncByteStream):
        def __init__(self, stream: httpx2.AsyncByteStream, most: int | None) -> None:
            self._stream = stream
            self._most = most

        async def __aiter__(self) -> AsyncGenerator[bytes]:
            size = 0
            try:
                async for piece in self._stream:
                    size += len(piece)
                    if self._most is not None and size > self._most:
                        raise ServerFailure(f"It answered with more than {self._most // MIB} MiB.")
                    flood.add(len(piece), messages=0)
                    yield piece
            except ServerFailure as failure:
                ending.finish(str(failure))  # the SDK hides the reason
                raise

        async def aclose(self) -> None:
            await self._stream.aclose()

    def is_read_as_events(request: httpx2.Request, response: httpx2.Response) -> bool:
        """Whether the SDK reads the response as an event stream; it loads all others into
        memory."""
        kind = response.headers.get("content-type", "").lower()
        listens = request.method == "GET" or (
            request.method == "POST" and server.transport is Transport.HTTP
        )
        return response.status_code == 200 and kind.startswith("text/event-stream") and listens

    return httpx2.AsyncClient(
        headers={**dict(server.headers), "accept-encoding": "identity"},
        timeout=httpx2.Timeout(CONNECT_SECONDS, read=None),
        transport=Bounded(trust_env=False),
        trust_env=False,
    )


async def _read_messages(
    process: ServerProcess, received: "MemoryObjectSendStream[SessionMessage | Exception]"
) -> None:
    """Forward messages, and the errors of those that cannot be parsed. Other lines are dropped;
    too much output raises `ServerFailure`."""
    from mcp.shared.message import SessionMessage
    from mcp_types import jsonrpc_message_adapter

    flood = Flood()
    unfinished = bytearray()
    while data := await process.read():
        unfinished += data
        *lines, rest = unfinished.split(b"\n") if b"\n" in data else (unfinished,)
        unfinished = rest
        if len(unfinished) > LONGEST_LINE:
            raise ServerFailure(f"It sent a line of more than {LONGEST_LINE // MIB} MiB.")
        for line in lines:
            flood.add(len(line))
            try:
                message = jsonrpc_message_adapter.validate_json(bytes(line), by_name=False)
            except ValueError as error:
                if MARK in line:
                    await received.send(error)
                continue
            await received.send(SessionMessage(message))


async def _write_messages(
    process: ServerProcess, outgoing: "MemoryObjectReceiveStream[SessionMessage]"
) -> None:
    async for message in outgoing:
        text = message.message.model_dump_json(by_alias=True, exclude_unset=True)
        try:
            await process.write(text.encode() + b"\n")
        except OSError:
            return  # it no longer reads; `watch` reports why


def _how_it_ended(status: int | None) -> str:
    if status is None:
        return "It was killed."
    code = os.waitstatus_to_exitcode(status)
    return f"It ended with exit code {code}." if code >= 0 else f"Signal {-code} ended it."
