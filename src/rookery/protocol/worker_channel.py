"""The connection from a worker of a fleet to a manager that shows one of its sessions.

The worker connects and introduces itself; then the manager is the client, and the worker the host.
"""

import hashlib
import ssl
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct

from rookery.protocol.channels import Channel, ChannelEnded

if TYPE_CHECKING:
    from websockets.asyncio.client import ClientConnection

PATH = "/worker"
_SECONDS = 10.0


class WorkerGreeting(Struct, frozen=True, kw_only=True):
    """The first message: which slot this is, and what proves it."""

    executor: str
    secret: str
    session_id: str


read_greeting = msgspec.json.Decoder(WorkerGreeting).decode


@asynccontextmanager
async def dial_manager(
    url: str, fingerprint: str, greeting: WorkerGreeting
) -> AsyncIterator[Channel]:
    """Connect to the manager at a URL. Raises `OSError` if it cannot be reached, or is another
    one."""
    from websockets.asyncio.client import connect
    from websockets.exceptions import WebSocketException

    parts = urlsplit(url)
    if parts.scheme not in ("http", "https"):
        raise OSError(f"{url} is not the address of a manager.")
    context = _context(fingerprint) if parts.scheme == "https" else None
    address = f"{'wss' if context else 'ws'}://{parts.netloc}{PATH}"
    try:
        connection = await connect(
            address, ssl=context, compression=None, proxy=None, open_timeout=_SECONDS
        )
    except WebSocketException as error:
        raise OSError(f"The manager at {url} refused the connection ({error}).") from error
    try:
        if context and fingerprint:
            _check_certificate(connection, fingerprint)
        channel = _ManagerChannel(connection)
        await channel.send([msgspec.json.encode(greeting)])
        yield channel
    except ChannelEnded as error:
        raise OSError(f"The manager at {url} ended the connection.") from error
    finally:
        await connection.close()


def _context(fingerprint: str) -> ssl.SSLContext:
    context = ssl.create_default_context()
    if fingerprint:  # which is checked instead, before anything is sent
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def _check_certificate(connection: "ClientConnection", fingerprint: str) -> None:
    found = connection.transport.get_extra_info("ssl_object").getpeercert(binary_form=True)
    if hashlib.sha256(found or b"").hexdigest() != fingerprint.replace(":", "").lower():
        raise OSError("The manager's certificate does not match its fingerprint.")


class _ManagerChannel:
    def __init__(self, connection: "ClientConnection") -> None:
        self._connection = connection

    async def receive(self) -> bytes:
        from websockets.exceptions import ConnectionClosed

        try:
            return await self._connection.recv(decode=False)
        except ConnectionClosed as error:
            raise ChannelEnded from error

    async def send(self, messages: Sequence[bytes]) -> None:
        from websockets.exceptions import ConnectionClosed

        try:
            for message in messages:
                await self._connection.send(message, text=True)
        except ConnectionClosed as error:
            raise ChannelEnded from error

    async def aclose(self) -> None:
        await self._connection.close()
