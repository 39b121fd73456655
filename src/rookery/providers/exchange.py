"""One HTTP request to a provider and its event stream.

A provider says what to send and passes a `Reading` that turns events into chunks. A separate task
reads the network, because the listener must report silence without giving up the connection.
"""

import os
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, ClassVar, TypeAlias
from urllib.parse import urljoin, urlsplit

import anyio
from anyio.streams.memory import MemoryObjectSendStream
from msgspec import Struct
from msgspec.structs import replace

from rookery import NAME, VERSION
from rookery.core.limits import Effort, FailureKind, Limits
from rookery.engine.ports.model import Chunk, ModelInfo, ModelRequest
from rookery.errors import ProviderError
from rookery.providers.http_client import (
    DirectClient,
    HttpClient,
    HttpFailure,
    Item,
    has_proxy,
    start_tls_context,
)
from rookery.providers.http_response import HttpAnswer
from rookery.providers.listener import Addressee, Listener, Reading
from rookery.providers.registry import LOCAL, is_encrypted, is_loopback
from rookery.providers.wire_format import EventReader, Framing, encode_body

PIECES_AHEAD = 64
Sign: TypeAlias = Callable[[str, bytes], Awaitable[Mapping[str, str]]]
"""Headers that prove who sends this body to this URL."""

_HEADERS = {
    "content-type": "application/json",
    # compressing a stream holds its events back
    "accept-encoding": "identity",
    "user-agent": f"{NAME}/{VERSION}",
}


class Endpoint:
    """A provider's address and connections. It never retries, and drops its connections after a
    failure: the next request opens a new one."""

    def __init__(
        self, base_url: str, *, to: Addressee, headers: dict[str, str], limits: Limits, local: bool
    ) -> None:
        self.to = to
        self.limits = limits
        self._local = local
        self._base_url = base_url.rstrip("/")
        self._headers = {**headers, **_HEADERS}
        self._on_this_machine = is_loopback(base_url)
        # setting up TLS costs time at the start, and plain HTTP has no use for it
        self._tls = start_tls_context() if is_encrypted(base_url) else None
        self._http = self._fresh_client()
        self._stale: list[HttpClient] = []
        self._exchanges = 0

    @asynccontextmanager
    async def ask(
        self, path: str, body: dict[str, Any], reading: Reading, framing: type[Framing], sign: Sign
    ) -> AsyncGenerator[AsyncIterator[Chunk]]:
        """One request and its answer. Leaving the context closes the connection."""
        send, receive = anyio.create_memory_object_stream[Item](PIECES_AHEAD)
        listener = Listener(receive, framing, reading, self.to, self.limits, local=self._local)
        chunks = listener.chunks()
        post = Post(self._base_url + path, encode_body(body), framing.media_type, sign)
        self._exchanges += 1
        group = anyio.create_task_group()
        await group.__aenter__()
        group.start_soon(self._fetch, post, send)
        try:
            yield chunks
        finally:
            group.cancel_scope.cancel()
            try:
                # passed to the group, the reader's own error would come back wrapped in another
                await group.__aexit__(None, None, None)
            finally:
                send.close()
                receive.close()
                await chunks.aclose()
                await self._leave(failed=listener.failed)

    async def _fetch(self, post: "Post", send: MemoryObjectSendStream[Item]) -> None:
        with send:
            try:
                await self._follow(post, send, moves=1)
            except ProviderError as error:
                await send.send(error)
            except HttpFailure as error:
                await send.send(_network_failure(error, self.to))

    async def _follow(
        self, post: "Post", send: MemoryObjectSendStream[Item], *, moves: int
    ) -> None:
        signed = await post.sign(post.url, post.body)
        headers = {**self._headers, **signed, "accept": post.accept}
        async with self._http.post(post.url, post.body, headers) as response:
            if not 300 <= response.head.status < 400:
                await send.send(response.head)
                await response.pass_to(send)
                return
            target = _moved_to(post.url, response.head, self.to, moves)
        await self._follow(replace(post, url=target), send, moves=moves - 1)

    async def _leave(self, *, failed: bool) -> None:
        self._exchanges -= 1
        if failed:
            self._stale.append(self._http)
            self._http = self._fresh_client()
        while self._stale and not self._exchanges:
            await self._stale.pop().aclose()

    async def aclose(self) -> None:
        for http in (self._http, *self._stale):
            await http.aclose()

    def _fresh_client(self) -> HttpClient:
        seconds = self.limits.connect_seconds
        if self._on_this_machine or not has_proxy():
            # llama.cpp closes a connection after its answer, perhaps right under the next request
            keeps = not self._on_this_machine
            return DirectClient(self._base_url, self._tls, keeps=keeps, connect_seconds=seconds)
        from rookery.providers.http_by_proxy import ProxyClient

        tls = self._tls.result() if self._tls else None
        return ProxyClient(tls, connect_seconds=seconds)


class Post(Struct, frozen=True):
    """A request. It is signed for each place it is sent to, if a redirect is followed."""

    url: str
    body: bytes
    accept: str
    sign: Sign


Question: TypeAlias = tuple[str, dict[str, Any], Reading]
"""Where to send a request, its body, and what reads the answer."""


async def unsigned(url: str, body: bytes) -> Mapping[str, str]:
    return {}


class WireProvider:
    """A model at an endpoint. A wire format overrides `ask`."""

    framing: ClassVar[type[Framing]] = EventReader

    def __init__(self, endpoint: Endpoint, model: ModelInfo, effort: Effort) -> None:
        self.model = model
        self.effort: Effort = effort
        self.sign: Sign = unsigned
        self._endpoint = endpoint

    def ask(self, request: ModelRequest) -> Question:
        raise NotImplementedError

    @asynccontextmanager
    async def stream(self, request: ModelRequest) -> AsyncGenerator[AsyncIterator[Chunk]]:
        if self.model.calls in ("text", "schema"):
            from rookery.providers.text_calls import SchemaReading, in_words

            path, body, reading = self.ask(in_words(request, self.model.calls))
            if self.model.calls == "schema" and request.tools:
                reading = SchemaReading(reading)
        else:
            path, body, reading = self.ask(request)
        try:
            async with self._endpoint.ask(path, body, reading, self.framing, self.sign) as chunks:
                yield chunks
        except ProviderError as error:
            if not request.tools or self.model.calls not in ("", "native"):
                raise
            from rookery.providers.text_calls import without_tools

            self.model = without_tools(self.model, error)
            raise ProviderError(
                f"{self.model.id} does not support tool calls. Describing the tools in the prompt "
                "instead.",
                kind=FailureKind.DROPPED,
                status=error.status,
            ) from error

    async def aclose(self) -> None:
        await self._endpoint.aclose()


def _moved_to(url: str, response: HttpAnswer, to: Addressee, moves: int) -> str:
    """The target of a redirect, if it may be followed: once, and on the same host."""
    target = urljoin(url, response.headers.get("location", ""))
    if moves and target != url and _origin(target) == _origin(url):
        return target
    from rookery.providers.provider_errors import plain

    place = plain("{}://{}".format(*_origin(target)[:2]), 200)
    raise ProviderError(
        (
            f"The endpoint of {to.provider} has moved to {place}. If you trust the new "
            "address, set the base URL to it. The key was not sent there."
        ),
        kind=FailureKind.REJECTED,
        status=response.status,
    )


def _origin(url: str) -> tuple[str, str, int | None]:
    parts = urlsplit(url)
    default = {"http": 80, "https": 443}.get(parts.scheme)
    return parts.scheme, parts.hostname or "", parts.port or default


def _network_failure(error: HttpFailure, to: Addressee) -> ProviderError:
    from rookery.providers.provider_errors import plain, redacted

    reason = plain(redacted(str(error), to.secret), 300) or "no reason was given"
    kind = FailureKind.REJECTED
    match error.kind:
        case "offline" if tls := _tls_error(error):
            why = getattr(tls, "verify_message", "") or tls.reason or reason
            said = (
                f"No secure connection to {to.host}: its certificate or its answer was not "
                f"accepted ({why})."
            )
        case "offline":
            said = f"{to.host} cannot be reached. {_likely_cause(to, reason)}"
            kind = FailureKind.OFFLINE
        case "proxy":
            said = f"The proxy {_proxy()} refused the request: {reason}."
            kind = kind if "407" in reason else FailureKind.OFFLINE
        case "not HTTP":
            said = f"The server at {to.host} is not a provider: {reason}."
            kind = FailureKind.MISPLACED
        case "dropped":
            said = f"The connection to {to.host} broke before the answer was complete ({reason})."
            kind = FailureKind.DROPPED
        case "not sent":
            said = f"The request to {to.host} could not be sent: {reason}."
    return ProviderError(said, kind=kind)


def _likely_cause(to: Addressee, reason: str) -> str:
    if to.provider in LOCAL:
        return f"Is {to.provider} running?"
    if is_loopback(f"//{to.host}"):
        return "Is the server running?"
    return f"Are you offline? ({reason})"


def _tls_error(error: BaseException | None) -> ssl.SSLError | None:
    while error is not None and not isinstance(error, ssl.SSLError):
        error = error.__cause__ or error.__context__
    return error


def _proxy() -> str:
    names = ("HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy")
    named = next((os.environ[name] for name in names if os.environ.get(name)), "")
    return urlsplit(named).hostname or "in use"
