"""The ways to a server: a program's pipes, or HTTP as one stream or as two.

Everything that a server may send is bounded. The SDK's own transport reads lines of any length, and
does not know why a program has ended. The SDK and its HTTP client are imported when needed.
"""

import os
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import anyio

from rookery.core.limits import MIB
from rookery.core.text.output_preview import Hiding
from rookery.mcp.config import ServerDefinition, Transport
from rookery.mcp.received import ConnectionEnd, Flood, ServerMessages
from rookery.mcp.results import ServerFailure, visible_line
from rookery.mcp.server_process import ServerProcess

if TYPE_CHECKING:
    import httpx2
    from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
    from mcp.client._transport import TransportStreams
    from mcp.shared._httpx_utils import McpHttpClientFactory
    from mcp.shared.message import SessionMessage

LARGEST_MESSAGE = 16 * MIB
CONNECT_SECONDS = 10.0
LONGEST_LINE = 4 * MIB
LAST_WORDS = 0.5
"""Seconds in which a server that has ended may still be heard, and the other way round."""
WAITING_MESSAGES = 100
"""Messages that wait for a server to read them before whoever sends one waits too."""
TAIL_SHOWN = 500
MARK = b'"jsonrpc"'
"""Stands in every message, and in little else."""


@asynccontextmanager
async def to_program(
    start: Callable[[], ServerProcess], fate: ConnectionEnd
) -> AsyncGenerator["TransportStreams"]:
    """To a server that is a program. Leaving the context ends it."""
    from mcp.shared.message import SessionMessage

    process = start()
    heard, inbox = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    outbox, said = anyio.create_memory_object_stream[SessionMessage](WAITING_MESSAGES)
    silent, ended = anyio.Event(), anyio.Event()

    async def listen() -> None:
        try:
            await _listen(process, heard)
        except ServerFailure as failure:
            fate.seal(str(failure))
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            pass  # the session is over, and with it this connection
        silent.set()
        with anyio.move_on_after(LAST_WORDS):
            await ended.wait()
            return  # whoever watches says how it ended
        _give_up(fate, heard, f"It closed its output.{last_words(process)}")

    async def watch() -> None:
        await process.watch()
        ended.set()
        with anyio.move_on_after(LAST_WORDS):
            await silent.wait()
        _give_up(fate, heard, f"{_how_it_ended(process.ended)}{last_words(process)}")

    try:
        async with anyio.create_task_group() as group:
            group.start_soon(listen)
            group.start_soon(process.drain)
            group.start_soon(_speak, process, said)
            group.start_soon(watch)
            yield ServerMessages(inbox, fate, process.server), outbox
            group.cancel_scope.cancel()
    finally:
        for stream in (heard, inbox, outbox, said):
            stream.close()
        with anyio.CancelScope(shield=True):
            await process.end()
        process.close()


def last_words(process: ServerProcess) -> str:
    """The last lines of standard error, if there are any."""
    hide = Hiding(process.server.secrets)
    lines = hide(process.tail.decode("utf-8", "replace")).split("\n")
    said = " / ".join(" ".join(line.split()) for line in lines[-8:] if line.strip())
    return f" It last wrote: {visible_line(said[-TAIL_SHOWN:], TAIL_SHOWN)}" if said else ""


@asynccontextmanager
async def to_url(
    server: ServerDefinition, fate: ConnectionEnd
) -> AsyncGenerator["TransportStreams"]:
    """To a server elsewhere: only to its own origin, and with nothing of ours but its headers."""
    from mcp.client.sse import sse_client
    from mcp.client.streamable_http import streamable_http_client

    if server.transport is Transport.SSE:
        async with sse_client(server.url, httpx_client_factory=_made_for(server, fate)) as (
            inbox,
            outbox,
        ):
            yield ServerMessages(inbox, fate, server), outbox
        return
    async with (
        _http_client(server, fate) as http,
        streamable_http_client(
            server.url, http_client=http, max_sse_event_size=LARGEST_MESSAGE
        ) as (inbox, outbox),
    ):
        yield ServerMessages(inbox, fate, server), outbox


def _made_for(server: ServerDefinition, fate: ConnectionEnd) -> "McpHttpClientFactory":
    """What the SDK calls for a client, heeding nothing but the definition."""

    def make(
        headers: dict[str, str] | None = None,
        timeout: "httpx2.Timeout | None" = None,
        auth: "httpx2.Auth | None" = None,
    ) -> "httpx2.AsyncClient":
        return _http_client(server, fate)

    return make


def _http_client(server: ServerDefinition, fate: ConnectionEnd) -> "httpx2.AsyncClient":
    import httpx2

    flood = Flood()

    class Bounded(httpx2.AsyncHTTPTransport):
        """Refuses answers that are compressed, for they may be larger than they look, and cuts
        off those that are too large. A stream that is read event by event, each of which the SDK
        bounds, may go on for ever, but not too fast. What the SDK would only call an error is
        told by its number."""

        async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
            response = await super().handle_async_request(request)
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
                    flood.add_bytes(len(piece))
                    yield piece
            except ServerFailure as failure:
                fate.seal(str(failure))  # the SDK keeps to itself why a stream has ended
                raise

        async def aclose(self) -> None:
            await self._stream.aclose()

    def is_read_as_events(request: httpx2.Request, response: httpx2.Response) -> bool:
        """Whatever an answer is called, the SDK reads all of any other at once."""
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


def _give_up(
    fate: ConnectionEnd, heard: "MemoryObjectSendStream[SessionMessage | Exception]", reason: str
) -> None:
    fate.seal(reason)
    heard.close()


async def _listen(
    process: ServerProcess, heard: "MemoryObjectSendStream[SessionMessage | Exception]"
) -> None:
    """Pass every message on, and what is wrong with one that cannot be understood. Other lines
    are left out; too much of anything is the end."""
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
                    await heard.send(error)
                continue
            await heard.send(SessionMessage(message))


async def _speak(process: ServerProcess, said: "MemoryObjectReceiveStream[SessionMessage]") -> None:
    async for message in said:
        text = message.message.model_dump_json(by_alias=True, exclude_unset=True)
        try:
            await process.write(text.encode() + b"\n")
        except OSError:
            return  # it no longer reads; whoever watches it will see why


def _how_it_ended(status: int | None) -> str:
    if status is None:
        return "It was killed."
    code = os.waitstatus_to_exitcode(status)
    return f"It ended with exit code {code}." if code >= 0 else f"Signal {-code} ended it."
