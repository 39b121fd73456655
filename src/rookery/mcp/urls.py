"""The ways to a server elsewhere: over HTTP, as one stream or as two."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from rookery.core.limits import MIB
from rookery.mcp.config import ServerDefinition, Transport
from rookery.mcp.heard import Fate, Heard
from rookery.mcp.process import Failure

if TYPE_CHECKING:
    import httpx2
    from mcp.client._transport import TransportStreams
    from mcp.shared._httpx_utils import McpHttpClientFactory

LARGEST_MESSAGE = 16 * MIB
CONNECT_SECONDS = 10.0


@asynccontextmanager
async def to_url(server: ServerDefinition, fate: Fate) -> AsyncGenerator["TransportStreams"]:
    """To a server elsewhere: only to its own origin, and with nothing of ours but its headers."""
    from mcp.client.sse import sse_client
    from mcp.client.streamable_http import streamable_http_client

    if server.transport is Transport.SSE:
        async with sse_client(server.url, httpx_client_factory=_made_for(server)) as (
            inbox,
            outbox,
        ):
            yield Heard(inbox, fate, server), outbox
        return
    async with (
        _http_client(server) as http,
        streamable_http_client(
            server.url, http_client=http, max_sse_event_size=LARGEST_MESSAGE
        ) as (inbox, outbox),
    ):
        yield Heard(inbox, fate, server), outbox


def _made_for(server: ServerDefinition) -> "McpHttpClientFactory":
    """What the SDK calls for a client, heeding nothing but the definition."""

    def make(
        headers: dict[str, str] | None = None,
        timeout: "httpx2.Timeout | None" = None,
        auth: "httpx2.Auth | None" = None,
    ) -> "httpx2.AsyncClient":
        return _http_client(server)

    return make


def _http_client(server: ServerDefinition) -> "httpx2.AsyncClient":
    import httpx2

    class Capped(httpx2.AsyncHTTPTransport):
        """Refuses answers that are compressed, for they may be larger than they look, and cuts
        off those that are too large. A stream of events has its own bound. What the SDK would
        only call an error is told by its number."""

        async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
            response = await super().handle_async_request(request)
            status = response.status_code
            if status in (401, 403) or status >= 500:
                await response.aclose()
                raise httpx2.HTTPStatusError("", request=request, response=response)
            if response.headers.get("content-encoding", "identity") != "identity":
                await response.aclose()
                raise Failure("It answered compressed, which was not asked for.")
            if "text/event-stream" not in response.headers.get("content-type", ""):
                assert isinstance(response.stream, httpx2.AsyncByteStream)
                response.stream = _CappedStream(response.stream)
            return response

    class _CappedStream(httpx2.AsyncByteStream):
        def __init__(self, stream: httpx2.AsyncByteStream) -> None:
            self._stream = stream

        async def __aiter__(self) -> AsyncGenerator[bytes]:
            size = 0
            async for piece in self._stream:
                size += len(piece)
                if size > LARGEST_MESSAGE:
                    raise Failure(f"It answered with more than {LARGEST_MESSAGE // MIB} MiB.")
                yield piece

        async def aclose(self) -> None:
            await self._stream.aclose()

    return httpx2.AsyncClient(
        headers={**dict(server.headers), "accept-encoding": "identity"},
        timeout=httpx2.Timeout(CONNECT_SECONDS, read=None),
        transport=Capped(trust_env=False),
        trust_env=False,
    )
