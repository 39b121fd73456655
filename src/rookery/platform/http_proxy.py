"""Serves one client connection of an HTTP proxy.

A connection carries requests to one host. The `dial` function decides and connects, so that the
address that was checked is the one that is used.
"""

import logging
import socket
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TypeAlias
from urllib.parse import urlsplit

import anyio
from anyio.abc import SocketStream
from anyio.streams.buffered import BufferedByteReceiveStream
from msgspec import Struct

LONGEST_HEAD = 256 * 1024
CONNECT_SECONDS = 10.0
HEAD_SECONDS = 30.0

_debug = logging.getLogger(__name__)

_DROPPED = (b"connection:", b"keep-alive:", b"proxy-authorization:", b"proxy-connection:")
_CLOSED = (anyio.BrokenResourceError, anyio.ClosedResourceError, anyio.EndOfStream)


class OutOfReach(Exception):
    """Connecting is not allowed; the text says why."""


class ProxyRequest(Struct, frozen=True):
    """The first request of a connection. A tunnel has no path and no fields."""

    method: str
    host: str
    port: int
    path: str
    fields: list[bytes]

    @property
    def is_tunnel(self) -> bool:
        return self.method == "CONNECT"

    def head(self, *, target: str = "", fields: tuple[bytes, ...] = ()) -> bytes:
        """The request to send to the server, asking it to close the connection afterwards."""
        kept = [field for field in self.fields if not field.lower().startswith(_DROPPED)]
        first = f"{self.method} {target or self.path} HTTP/1.1".encode("ascii")
        return b"\r\n".join([first, *fields, *kept, b"Connection: close"]) + b"\r\n\r\n"


class Dialled(Struct, frozen=True):
    """A connection to a host, the bytes to send first, and the bytes already received."""

    stream: SocketStream
    first: bytes = b""
    said: bytes = b""


Dial: TypeAlias = Callable[[ProxyRequest], Awaitable[Dialled]]
"""Raises `OutOfReach` if the host is not allowed, `OSError` or `TimeoutError` if connecting
fails."""


async def attend(client: SocketStream, dial: Dial) -> None:
    """Serve one connection to its end. Errors do not affect other connections."""
    async with client:
        try:
            await _serve(client, dial)
        except _CLOSED:
            pass
        except Exception:
            # must not end the other connections and the task
            _debug.exception("a connection to the proxy failed")


async def _serve(client: SocketStream, dial: Dial) -> None:
    buffered = BufferedByteReceiveStream(client)
    try:
        with anyio.fail_after(HEAD_SECONDS):
            request = _read(await buffered.receive_until(b"\r\n\r\n", LONGEST_HEAD))
        dialled = await dial(request)
    except OutOfReach as reason:
        await _refuse(client, 403, str(reason))
    except (ValueError, anyio.DelimiterNotFound, anyio.IncompleteRead):
        await _refuse(client, 400, "This is not a valid HTTP request.")
    except (OSError, TimeoutError):
        await _refuse(client, 502, "The host cannot be reached.")
    else:
        async with dialled.stream as world:
            if request.is_tunnel:
                await client.send(b"HTTP/1.1 200 Connected\r\n\r\n" + dialled.said)
            await world.send(dialled.first + buffered.buffer)
            await splice(client, world)


def _read(head: bytes) -> ProxyRequest:
    """Parse a request. Raises `ValueError` if it is invalid."""
    first, *fields = head.split(b"\r\n")
    method, target, _ = first.decode("ascii").split(" ")
    tunnel = method == "CONNECT"
    parts = urlsplit(f"//{target}" if tunnel else target)
    query = f"?{parts.query}" if parts.query else ""
    path = f"{parts.path or '/'}{query}"
    port = parts.port or (443 if tunnel else 80)
    return ProxyRequest(method, parts.hostname or "", port, path, [] if tunnel else fields)


async def resolve(host: str, port: int) -> list[str]:
    """The addresses of a host, without their zones. Raises `OSError` if there are none."""
    found = await anyio.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(where[0]).partition("%")[0] for *_, where in found))


async def connect(addresses: list[str], port: int) -> SocketStream:
    """Connect to the first address that answers."""
    failure: OSError | None = None
    with anyio.fail_after(CONNECT_SECONDS):
        for address in addresses:
            try:
                return await anyio.connect_tcp(address, port)
            except OSError as error:
                failure = error
    raise failure or OSError("the host has no address")


async def _refuse(client: SocketStream, status: int, reason: str) -> None:
    body = f"{reason}\n".encode()
    head = f"HTTP/1.1 {status} Refused\r\nContent-Type: text/plain\r\nConnection: close\r\n"
    await client.send(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)


async def splice(client: SocketStream, world: SocketStream) -> None:
    """Copy in both directions until the host closes; the client may close its direction earlier."""
    async with anyio.create_task_group() as group:

        async def send_out() -> None:
            try:
                async for data in client:
                    await world.send(data)
                await world.send_eof()
            except (*_CLOSED, OSError):
                group.cancel_scope.cancel()

        async def bring_in() -> None:
            with suppress(*_CLOSED, OSError):
                async for data in world:
                    await client.send(data)
            group.cancel_scope.cancel()

        group.start_soon(send_out)
        group.start_soon(bring_in)
