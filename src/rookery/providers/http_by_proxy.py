"""HTTP through a proxy, by `httpx2`, which takes a while to import."""

import os
import ssl
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from typing import Any
from urllib.parse import urlsplit

import httpx2
from anyio.streams.memory import MemoryObjectSendStream

from rookery.errors import SettingsError
from rookery.providers.http_client import HttpFailure, HttpResponse, Item
from rookery.providers.http_response import HttpAnswer

_PROXIES = "http_proxy", "https_proxy", "all_proxy"


class ProxyClient:
    """Connections through the proxy in the environment, except to hosts in `NO_PROXY`."""

    def __init__(self, tls: ssl.SSLContext | None, *, connect_seconds: float) -> None:
        self._http = client_of_environment(
            verify=tls or False,
            timeout=httpx2.Timeout(None, connect=connect_seconds),
            follow_redirects=False,
        )

    @asynccontextmanager
    async def post(
        self, url: str, body: bytes, headers: Mapping[str, str]
    ) -> AsyncIterator[HttpResponse]:
        with _failures():
            async with self._http.stream("POST", url, content=body, headers=headers) as response:
                yield _Response(response)

    async def aclose(self) -> None:
        await self._http.aclose()


class _Response:
    def __init__(self, response: httpx2.Response) -> None:
        self.head = HttpAnswer(response.status_code, response.headers)
        self._response = response

    async def pass_to(self, listener: MemoryObjectSendStream[Item]) -> None:
        encoded = "content-encoding" in self._response.headers
        read = self._response.aiter_bytes if encoded else self._response.aiter_raw
        async for piece in read():
            await listener.send(piece)


def client_of_environment(**options: Any) -> httpx2.AsyncClient:
    """Raises `SettingsError` for a proxy that cannot be used."""
    named = {name: value for name, value in os.environ.items() if name.lower() in _PROXIES}
    try:
        if all(map(_has_a_port, named.values())):
            return httpx2.AsyncClient(**options)
    except (ImportError, ValueError, httpx2.InvalidURL):
        pass
    # not the error's text: a proxy's address may have a password
    wrong = [
        name
        for name, value in named.items()
        if not (value.startswith(("http://", "https://")) and _has_a_port(value))
    ]
    raise SettingsError(
        f"The proxy in {' and '.join(wrong) or 'the environment'} cannot be used. Give one "
        "that begins with http:// or https://, with a port up to 65535. A proxy that begins "
        "with socks5:// needs the package socksio."
    )


def _has_a_port(proxy: str) -> bool:
    try:
        return urlsplit(proxy if "://" in proxy else f"//{proxy}").port != 0
    except ValueError:
        return False


@contextmanager
def _failures() -> Iterator[None]:
    try:
        yield
    except (httpx2.RequestError, httpx2.InvalidURL) as error:
        reason = str(error) or type(error).__name__
        match error:
            case httpx2.ConnectError() | httpx2.ConnectTimeout():
                raise HttpFailure("offline", reason) from error
            case httpx2.ProxyError():
                raise HttpFailure("proxy", reason) from error
            case httpx2.RemoteProtocolError() if not (
                "disconnected" in reason or "closed" in reason
            ):
                raise HttpFailure("not HTTP", reason) from error
            case httpx2.NetworkError() | httpx2.RemoteProtocolError() | httpx2.DecodingError():
                raise HttpFailure("dropped", reason) from error
            case _:
                raise HttpFailure("not sent", reason) from error
