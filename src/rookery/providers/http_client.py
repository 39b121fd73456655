"""HTTP/1.1 without a proxy: one POST at a time on a connection, and its answer in pieces.

It reads in callbacks of the event loop, so bytes that arrive together are passed on together.
`http_by_proxy` does the same through a proxy.
"""

import asyncio
import os
import ssl
import sys
import zlib
from base64 import b64encode
from collections.abc import AsyncIterator, Mapping
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from threading import Thread
from typing import Literal, Protocol, TypeAlias
from urllib.parse import quote, unquote, urlsplit

import anyio
from anyio.streams.memory import MemoryObjectSendStream

from rookery.errors import ProviderError, SettingsError
from rookery.first_use import lazy_pattern
from rookery.providers.http_response import HttpAnswer, ResponseReader
from rookery.providers.registry import is_loopback

IDLE_SECONDS = 5.0
"""How long a connection is kept for the next request. The server may close it at any time."""
_NEXT_ADDRESS_SECONDS = 0.25
_ROUNDS_TO_CLOSE = 5
"""Rounds of the event loop until a connection that the server has closed, with TLS, is closed."""
_CLOSED = "the server closed the connection"
_CERTIFICATE = lazy_pattern(r"[0-9a-fA-F]{8}\.\d")


Item: TypeAlias = HttpAnswer | bytes | ProviderError
Tls: TypeAlias = Future[ssl.SSLContext]


class HttpFailure(Exception):
    """The request failed, or its answer is incomplete. The text is for users; the cause may be an
    `SSLError`."""

    def __init__(
        self, kind: Literal["offline", "proxy", "not HTTP", "dropped", "not sent"], reason: str
    ) -> None:
        super().__init__(reason)
        self.kind = kind


class HttpResponse(Protocol):
    """An answer whose body is still to come."""

    @property
    def head(self) -> HttpAnswer: ...

    async def pass_to(self, listener: MemoryObjectSendStream[Item]) -> None:
        """Pass on the body, decoded, until it is complete. Raises `HttpFailure`."""
        ...


class HttpClient(Protocol):
    """The connections to one server."""

    def post(
        self, url: str, body: bytes, headers: Mapping[str, str]
    ) -> AbstractAsyncContextManager[HttpResponse]:
        """Raises `HttpFailure`. Leaving the context early closes the connection."""
        ...

    async def aclose(self) -> None: ...


class _ServerConnection(asyncio.Protocol):
    """A connection to the server, for one request at a time."""

    head: HttpAnswer

    def __init__(self) -> None:
        self.gone = asyncio.get_running_loop().create_future()
        self.idle_since = 0.0
        self._reader: ResponseReader | None = None
        self._pieces: list[bytes] = []
        self._listener: MemoryObjectSendStream[Item] | None = None
        self._failure: HttpFailure | None = None
        self._news = asyncio.Event()

    @property
    def usable(self) -> bool:
        """Whether it can take a request."""
        return not self.gone.done() and not self._transport.is_closing()

    @property
    def finished(self) -> bool:
        return self._reader is not None and self._reader.complete and self._reader.reusable

    async def ask(self, request: bytes) -> None:
        """Send a request, and wait for the head of the response."""
        self._reader = ResponseReader()
        self._transport.write(request)
        while self._reader.head is None:
            await self._next()
        self.head = self._reader.head

    async def pass_to(self, listener: MemoryObjectSendStream[Item]) -> None:
        assert self._reader
        while True:
            while self._pieces:
                await listener.send(self._pieces.pop(0))
            if self._reader.complete and not self._failure:
                return
            self._listener = listener  # from here on, the callbacks pass on
            self._transport.resume_reading()
            await self._next()

    async def _next(self) -> None:
        if self._failure:
            raise self._failure
        await self._news.wait()
        self._news.clear()

    def rest(self) -> None:
        """Wait for the next request, and drop what is left of this response."""
        self._reader = self._listener = None
        self._pieces.clear()
        self._news.clear()
        self._transport.resume_reading()
        self.idle_since = asyncio.get_running_loop().time()

    def close(self) -> None:
        self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        if self._reader is None or self._reader.complete:
            self.close()  # no request is waiting for this
            return
        begun = self._reader.head is not None
        try:
            piece = self._reader.feed(data)
        except ValueError as error:
            self._fail(HttpFailure("not HTTP", str(error)))
        except zlib.error as error:
            self._fail(HttpFailure("dropped", str(error)))
        else:
            if piece and not self._passed_on(piece):
                self._pieces.append(piece)
                self._transport.pause_reading()
            if self._pieces or self._reader.complete or not begun:
                self._news.set()

    def _passed_on(self, piece: bytes) -> bool:
        if self._listener is None or self._pieces:
            return False
        try:
            self._listener.send_nowait(piece)
        except (anyio.WouldBlock, anyio.BrokenResourceError, anyio.ClosedResourceError):
            self._listener = None
            return False
        return True

    def eof_received(self) -> None:
        if self._reader and self._reader.end():
            self._news.set()

    def connection_lost(self, error: Exception | None) -> None:
        if not self.gone.done():
            self.gone.set_result(None)
        if self._reader and not self._reader.complete:
            self._fail(HttpFailure("dropped", str(error or _CLOSED)))

    def _fail(self, failure: HttpFailure) -> None:
        self._failure = self._failure or failure
        self.close()
        self._news.set()


class DirectClient:
    """Connections to the server of a URL. With `keeps`, they are reused."""

    def __init__(self, url: str, tls: Tls | None, *, keeps: bool, connect_seconds: float) -> None:
        parts = urlsplit(url)
        self._host = _ascii_host(url)
        self._port = parts.port or (443 if tls else 80)
        self._tls = tls
        self._signed = {}
        if parts.username or parts.password:
            pair = f"{unquote(parts.username or '')}:{unquote(parts.password or '')}"
            self._signed = {"authorization": f"Basic {b64encode(pair.encode()).decode()}"}
        self._keeps = keeps
        at_once = tls is None and is_loopback(url)  # this machine answers at once
        self._next_address_seconds = None if at_once else _NEXT_ADDRESS_SECONDS
        self._connect_seconds = connect_seconds
        self._idle: list[_ServerConnection] = []
        self._open: set[_ServerConnection] = set()

    @asynccontextmanager
    async def post(
        self, url: str, body: bytes, headers: Mapping[str, str]
    ) -> AsyncIterator[HttpResponse]:
        connection = await self._take_idle() or await self._connect()
        try:
            await connection.ask(self._request(url, body, headers))
            yield connection
        finally:
            if self._keeps and connection.finished and connection.usable:
                connection.rest()
                self._idle.append(connection)
            else:
                connection.close()

    def _request(self, url: str, body: bytes, headers: Mapping[str, str]) -> bytes:
        parts = urlsplit(url)
        target = quote(parts.path or "/", safe=_IN_TARGET)
        if parts.query:
            target += "?" + quote(parts.query, safe=_IN_TARGET)
        host = f"[{self._host}]" if ":" in self._host else self._host
        usual = self._port == (443 if self._tls else 80)
        fields = {
            "host": host if usual else f"{host}:{self._port}",
            **headers,
            **self._signed,
            "content-length": str(len(body)),
            "connection": "keep-alive",
        }
        lines = [f"POST {target} HTTP/1.1", *(f"{name}: {text}" for name, text in fields.items())]
        if not all(line.isprintable() and line.isascii() for line in lines):
            raise HttpFailure("not sent", "a header contains characters that are not allowed")
        return "\r\n".join([*lines, "", ""]).encode() + body

    async def aclose(self) -> None:
        for connection in self._open:
            connection.close()
        with anyio.CancelScope(shield=True):
            for connection in list(self._open):
                await connection.gone

    async def _take_idle(self) -> _ServerConnection | None:
        for _ in range(_ROUNDS_TO_CLOSE if self._idle else 0):
            await asyncio.sleep(0)
        now = asyncio.get_running_loop().time()
        while self._idle:
            connection = self._idle.pop()
            if connection.usable and now - connection.idle_since < IDLE_SECONDS:
                return connection
            connection.close()
        return None

    async def _connect(self) -> _ServerConnection:
        loop = asyncio.get_running_loop()
        try:
            tls = None
            if self._tls:  # shielded: other connections may wait for it too
                tls = await asyncio.shield(asyncio.wrap_future(self._tls))
            with anyio.fail_after(self._connect_seconds):
                _, connection = await loop.create_connection(
                    _ServerConnection,
                    self._host,
                    self._port,
                    ssl=tls,
                    happy_eyeballs_delay=self._next_address_seconds,
                )
        except TimeoutError as error:
            reason = str(error) or f"no connection within {self._connect_seconds:g} seconds"
            raise HttpFailure("offline", reason) from error
        except ConnectionError as error:
            raise HttpFailure("offline", str(error) or _CLOSED) from error
        except (OSError, UnicodeError) as error:
            raise HttpFailure("offline", str(error)) from error
        self._open.add(connection)
        connection.gone.add_done_callback(lambda _: self._open.discard(connection))
        return connection


def _ascii_host(url: str) -> str:
    host = urlsplit(url).hostname or ""
    if host.isascii():
        return host
    import httpx2  # the codec of Python has older rules, which lead to other hosts

    try:
        return httpx2.URL(url).raw_host.decode()
    except httpx2.InvalidURL:
        return host


_IN_TARGET = "%/:@!$&'()*+,;=?[]"


def start_tls_context() -> Tls:
    """Make `tls_context` in a thread while the rest loads: reading all certificates of the system
    takes as long. Raises `SettingsError`."""
    made: Tls = Future()
    if os.environ.get("SSL_CERT_FILE") or os.environ.get("SSL_CERT_DIR"):
        made.set_result(tls_context())
        return made

    def make() -> None:
        try:
            made.set_result(tls_context())
        except BaseException as error:  # it is raised where the context is needed
            made.set_exception(error)

    Thread(target=make, name="certificates", daemon=True).start()
    return made


def tls_context() -> ssl.SSLContext:
    """Trust the system's certificate authorities, or those in `SSL_CERT_FILE` or `SSL_CERT_DIR`.

    Raises `SettingsError` if the file has none."""
    file, folder = os.environ.get("SSL_CERT_FILE"), os.environ.get("SSL_CERT_DIR")
    if file:
        try:
            return ssl.create_default_context(cafile=file)
        except OSError as error:
            raise SettingsError(
                f"SSL_CERT_FILE names {file!r}, which has no usable certificates: {error}."
            ) from error
    if folder:
        return ssl.create_default_context(capath=folder)
    if sys.platform == "linux":
        known = ssl.get_default_verify_paths()
        names = os.listdir(known.capath) if known.capath and not known.cafile else []
        if known.cafile or any(map(_CERTIFICATE.fullmatch, names)):
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            context.load_verify_locations(known.cafile, known.capath)
            return context
    import httpx2  # it knows where other systems keep their authorities

    return httpx2.create_ssl_context()


def has_proxy() -> bool:
    """Whether the environment names a proxy, for any host."""
    if sys.platform == "linux":
        names = (name.lower() for name, value in os.environ.items() if value)
        return any(name in ("http_proxy", "https_proxy", "all_proxy") for name in names)
    from urllib.request import getproxies

    return bool(getproxies())
