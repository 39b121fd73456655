"""The one way from the browser to the world: a proxy of ours, on this machine only.

Redirects, sockets and workers all come through here, whichever part of the browser they are of.
Each connection carries requests to one host, judged when it is made.
"""

import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from urllib.parse import urlsplit

import anyio
from anyio.abc import SocketAttribute, SocketStream
from anyio.streams.buffered import BufferedByteReceiveStream

from rookery.browser.reach import Errand, OutOfReach, Reach
from rookery.core.limits import KIB
from rookery.core.values import record

LONGEST_HEAD = 256 * KIB
CONNECT_SECONDS = 10.0
HEAD_SECONDS = 30.0

_debug = logging.getLogger(__name__)

_DROPPED = (b"connection:", b"keep-alive:", b"proxy-authorization:", b"proxy-connection:")
_GONE = (anyio.BrokenResourceError, anyio.ClosedResourceError, anyio.EndOfStream)


@asynccontextmanager
async def proxy(reach: Reach, tell: Callable[[str], None]) -> AsyncIterator[str]:
    """The address of a proxy that is there until the context is left. `tell` hears in a sentence
    what was refused."""
    listener = await anyio.create_tcp_listener(local_host="127.0.0.1", local_port=0)
    port = listener.extra(SocketAttribute.local_port)

    async def attend(browser: SocketStream) -> None:
        async with browser:
            try:
                await _attend(browser, reach, tell)
            except _GONE:
                pass
            except Exception:
                # one connection must not end the others, and the task with them
                _debug.exception("a connection of the browser broke down")

    failure: Exception | None = None
    async with listener, anyio.create_task_group() as group:
        group.start_soon(listener.serve, attend)
        try:
            yield f"http://127.0.0.1:{port}"
        except Exception as error:
            failure = error  # a task group would make a group of it
        finally:
            group.cancel_scope.cancel()
    if failure:
        raise failure


@record
class _Request:
    """What a connection begins with. A tunnel has no path and no fields."""

    method: str
    host: str
    port: int
    path: str
    fields: list[bytes]


async def _attend(browser: SocketStream, reach: Reach, tell: Callable[[str], None]) -> None:
    buffered = BufferedByteReceiveStream(browser)
    try:
        with anyio.fail_after(HEAD_SECONDS):
            request = _read(await buffered.receive_until(b"\r\n\r\n", LONGEST_HEAD))
        where = f"{request.host}:{request.port}"
        world = await _connect(await reach.addresses(request.host, request.port), request.port)
    except OutOfReach as reason:
        if not isinstance(reason, Errand):
            tell(f"A request to {where} was refused. {reason}")
        await _refuse(browser, 403, str(reason))
    except (ValueError, anyio.DelimiterNotFound, anyio.IncompleteRead):
        await _refuse(browser, 400, "This is no request.")
    except (OSError, TimeoutError):
        await _refuse(browser, 502, "It cannot be reached.")
    else:
        async with world:
            if request.method == "CONNECT":
                await browser.send(b"HTTP/1.1 200 Connected\r\n\r\n")
            else:
                await world.send(_as_sent_on(request))
            await world.send(buffered.buffer)
            await _splice(browser, world)


def _read(head: bytes) -> _Request:
    """Raises `ValueError` if it is no request."""
    first, *fields = head.split(b"\r\n")
    method, target, _ = first.decode("ascii").split(" ")
    parts = urlsplit(f"//{target}" if method == "CONNECT" else target)
    query = f"?{parts.query}" if parts.query else ""
    path = f"{parts.path or '/'}{query}"
    return _Request(method, parts.hostname or "", parts.port or 80, path, fields)


async def _connect(addresses: list[str], port: int) -> SocketStream:
    failure: OSError | None = None
    with anyio.fail_after(CONNECT_SECONDS):
        for address in addresses:
            try:
                return await anyio.connect_tcp(address, port)
            except OSError as error:
                failure = error
    raise failure or OSError("there is no address")


def _as_sent_on(request: _Request) -> bytes:
    """The request as a server expects it, which is to close the connection after it."""
    kept = [field for field in request.fields if not field.lower().startswith(_DROPPED)]
    first = f"{request.method} {request.path} HTTP/1.1".encode("ascii")
    return b"\r\n".join([first, *kept, b"Connection: close"]) + b"\r\n\r\n"


async def _refuse(browser: SocketStream, status: int, reason: str) -> None:
    body = reason.encode()
    head = f"HTTP/1.1 {status} Refused\r\nContent-Type: text/plain\r\nConnection: close\r\n"
    await browser.send(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)


async def _splice(browser: SocketStream, world: SocketStream) -> None:
    """Until one of the two has ended: browsers do not close halves of connections."""
    async with anyio.create_task_group() as group:

        async def copy(source: SocketStream, sink: SocketStream) -> None:
            with suppress(*_GONE):
                async for data in source:
                    await sink.send(data)
            group.cancel_scope.cancel()

        group.start_soon(copy, browser, world)
        group.start_soon(copy, world, browser)
