"""The ways to a server elsewhere: over HTTP, as one stream or as two."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from rookery.core.limits import MIB
from rookery.mcp.config import ServerDefinition, Transport
from rookery.mcp.failure import Failure
from rookery.mcp.flood_limit import Flood
from rookery.mcp.received import Fate, Heard

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
        async with sse_client(server.url, httpx_client_factory=_made_for(server, fate)) as (
            inbox,
            outbox,
        ):
            yield Heard(inbox, fate, server), outbox
        return
    async with (
        _http_client(server, fate) as http,
        streamable_http_client(
            server.url, http_client=http, max_sse_event_size=LARGEST_MESSAGE
        ) as (inbox, outbox),
    ):
        yield Heard(inbox, fate, server), outbox


def _made_for(server: ServerDefinition, fate: Fate) -> "McpHttpClientFactory":
    """What the SDK calls for a client, heeding nothing but the definition."""

    def make(
        headers: dict[str, str] | None = None,
        timeout: "httpx2.Timeout | None" = None,
        auth: "httpx2.Auth | None" = None,
    ) -> "httpx2.AsyncClient":
        return _http_client(server, fate)

    return make


def _http_client(server: ServerDefinition, fate: Fate) -> "httpx2.AsyncClient":
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
                raise Failure("It answered compressed, which was not asked for.")
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
                        raise Failure(f"It answered with more than {self._most // MIB} MiB.")
                    flood.add_bytes(len(piece))
                    yield piece
            except Failure as failure:
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
