"""Downloads a page.

A name is resolved here, every address is checked, and the connection goes to an address that was
checked: a second answer of the name server has no effect. Redirects to another site are reported,
not followed. Time, size and the size after decompression are limited.

If the environment sets a proxy, that resolves the names, so only the name is checked.
"""

import ssl
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import cached_property
from http import HTTPStatus
from typing import TypeAlias
from urllib.parse import quote, urldefrag, urljoin
from urllib.request import getproxies, proxy_bypass

import anyio
import httpx2
from msgspec import Struct

from rookery import NAME, VERSION
from rookery.core.hosts import (
    HostPort,
    WebAddress,
    covered,
    entries,
    is_always_blocked,
    is_private_literal,
    is_public,
    is_withheld_name,
    web_address,
)
from rookery.core.limits import Limits
from rookery.errors import BadArguments, ToolError
from rookery.platform.http_proxy import resolve

MOST_REDIRECTS = 5
NETWORK_OFF = "The network is turned off (sandbox.network)."
_LOOPBACK = {"localhost": ("127.0.0.1", "::1")}
_HEADERS = {
    "user-agent": f"{NAME}/{VERSION}",
    "accept": "text/markdown, text/html;q=0.9, text/plain;q=0.9, */*;q=0.5",
    "accept-encoding": "gzip, deflate",
}
_ASCII = "".join(map(chr, range(0x21, 0x7F)))

Find: TypeAlias = Callable[[str, int], Awaitable[Sequence[str]]]
"""Resolves a host name and port to addresses."""


class Download(Struct, frozen=True, kw_only=True):
    """What an address answered."""

    url: str
    """The address after redirects."""
    headers: Mapping[str, str]
    data: bytes
    complete: bool = True
    """False if the page is larger than the limit, so that `data` is its beginning."""
    moved_to: str = ""
    """The page is at another site: the redirect was not followed."""


def parsed_address(text: str) -> WebAddress:
    """Parse an address; characters beyond ASCII in it are encoded. Raises `BadArguments`."""
    try:
        return web_address(urldefrag(quote(text.strip(), safe=_ASCII)).url)
    except ValueError as error:
        raise BadArguments(str(error)) from error


class PageFetcher:
    """`listed` are the hosts in the user's settings, which alone may be private. Without
    `network` only this machine is reached. `find` resolves names."""

    def __init__(
        self,
        limits: Limits,
        *,
        listed: Sequence[str] = (),
        network: bool = True,
        find: Find | None = None,
    ) -> None:
        self._limits = limits
        self._listed = entries(listed)
        self._network = network
        self._find = find or resolve

    def is_listed(self, address: WebAddress) -> bool:
        return covered(HostPort(address.host, address.port), self._listed)

    def refusal(self, address: WebAddress) -> str:
        """Why a page is not fetched, judged by its address alone; empty if it may be."""
        if address.is_loopback:
            return ""
        if not self._network:
            return NETWORK_OFF
        if is_withheld_name(address.host):
            return f"{address.host} is the metadata service of a data centre."
        if is_private_literal(address.host) and not self.is_listed(address):
            return _private(address, address.host)
        return ""

    async def fetch(self, address: WebAddress) -> Download:
        """Raises `ToolError` with a sentence."""
        seconds = self._limits.page_seconds
        try:
            with anyio.fail_after(seconds):
                return await self._follow(address)
        except TimeoutError as error:
            raise ToolError(
                f"{address.origin} did not send the page within {seconds:g} seconds."
            ) from error
        except (httpx2.HTTPError, httpx2.InvalidURL, zlib.error) as error:
            reason = str(error) or type(error).__name__
            raise ToolError(f"{address.origin} could not be read: {reason[:200]}.") from error

    async def _follow(self, address: WebAddress) -> Download:
        for _ in range(MOST_REDIRECTS + 1):
            if reason := self.refusal(address):
                raise ToolError(f"{address.origin} was not fetched. {reason}")
            async with self._get(address) as response:
                if not response.has_redirect_location:
                    return await self._download(address, response)
                target = _target(address, response.headers["location"])
            if not _is_same_site(address, target):
                return Download(url=address.url, headers={}, data=b"", moved_to=target.url)
            address = target
        raise ToolError(f"{address.origin} redirects more than {MOST_REDIRECTS} times.")

    @asynccontextmanager
    async def _get(self, address: WebAddress) -> AsyncIterator[httpx2.Response]:
        """Send the request: through a proxy of the environment, or to an address that was
        checked."""
        proxy = _proxy_for(address)
        addresses = [address.host] if proxy else await self._checked_addresses(address)
        async with self._client(address, proxy) as client:
            response = await self._sent(client, address, addresses)
            try:
                yield response
            finally:
                await response.aclose()

    async def _sent(
        self, client: httpx2.AsyncClient, address: WebAddress, addresses: Sequence[str]
    ) -> httpx2.Response:
        url = httpx2.URL(address.url)
        host = url.netloc.decode("ascii")
        failure: Exception = AssertionError("no address")
        for each in addresses:
            request = client.build_request(
                "GET",
                url.copy_with(host=each),
                headers={"host": host},
                extensions={"sni_hostname": address.host},
            )
            try:
                return await client.send(request, stream=True)
            except (httpx2.ConnectError, httpx2.ConnectTimeout) as error:
                failure = error
        raise failure

    def _client(self, address: WebAddress, proxy: str) -> httpx2.AsyncClient:
        return httpx2.AsyncClient(
            verify=self._tls if address.scheme == "https" else False,
            trust_env=False,
            proxy=proxy or None,
            headers=_HEADERS,
            timeout=httpx2.Timeout(None, connect=self._limits.connect_seconds),
            follow_redirects=False,
        )

    @cached_property
    def _tls(self) -> ssl.SSLContext:
        return httpx2.create_ssl_context()

    async def _checked_addresses(self, address: WebAddress) -> Sequence[str]:
        if address.is_loopback:
            return _LOOPBACK.get(address.host, (address.host,))
        if HostPort(address.host, address.port).is_address:
            return (address.host,)  # `refusal` has checked it
        try:
            found = await self._find(address.host, address.port)
        except OSError as error:
            raise ToolError(f"{address.host} could not be resolved. Are you offline?") from error
        for each in found:
            if is_public(each):
                continue
            if not self.is_listed(address) or is_always_blocked(each):
                raise ToolError(f"{address.origin} was not fetched. {_private(address, each)}")
        return found

    async def _download(self, address: WebAddress, response: httpx2.Response) -> Download:
        if response.status_code >= 400:
            raise ToolError(f"{address.url} answered: {_status(response.status_code)}.")
        data, complete = await self._read(response)
        return Download(
            url=address.url, headers=dict(response.headers), data=data, complete=complete
        )

    async def _read(self, response: httpx2.Response) -> tuple[bytes, bool]:
        """The body up to the limit, decompressed, and whether it is complete."""
        most, data = self._limits.page_bytes, bytearray()
        unpack = _unpacking(response.headers.get("content-encoding", ""))
        async for piece in response.aiter_raw():
            data += unpack(piece, most + 1 - len(data))
            if len(data) > most:
                return bytes(data[:most]), False
        return bytes(data), True


def _status(code: int) -> str:
    """The status in the standard's words: the model must not read those of a server as ours."""
    phrases = {status.value: status.phrase for status in HTTPStatus}
    return f"{code} {phrases.get(code, '')}".strip()


def _private(address: WebAddress, found: str) -> str:
    """Why the host's address `found` is blocked. It never suggests allowing an address of this
    machine or of a metadata service."""
    reason = f"{address.host} is a private address."
    if is_always_blocked(found):
        return reason
    where = HostPort(address.host, address.port)
    return f'{reason} The user can allow it in the settings: web.hosts = ["{where}"].'


def _target(address: WebAddress, location: str) -> WebAddress:
    try:
        return parsed_address(urljoin(address.url, location))
    except (BadArguments, ValueError) as error:
        raise ToolError(f"{address.url} redirects to an address that cannot be opened.") from error


def _is_same_site(address: WebAddress, target: WebAddress) -> bool:
    """Whether both have one origin, or the target is the same host with encryption."""
    upgraded = address.port == 80 and (target.scheme, target.port) == ("https", 443)
    return address.origin == target.origin or (address.host == target.host and upgraded)


def _proxy_for(address: WebAddress) -> str:
    if address.is_loopback or is_private_literal(address.host):
        return ""
    proxies = getproxies()
    found = proxies.get(address.scheme) or proxies.get("all") or ""
    if not found or proxy_bypass(f"{address.host}:{address.port}"):
        return ""
    proxy = found if "://" in found else f"http://{found}"
    if not proxy.startswith(("http://", "https://")):
        raise ToolError("Your environment sets a proxy. Only http:// proxies are supported.")
    return proxy


Unpack: TypeAlias = Callable[[bytes, int], bytes]
"""Decompresses a piece to at most this many bytes. The caller notices if there were more."""


def _unpacking(encoding: str) -> Unpack:
    match encoding.strip().lower():
        case "" | "identity":
            return lambda piece, most: piece[:most]
        case "gzip" | "x-gzip":
            return zlib.decompressobj(16 + zlib.MAX_WBITS).decompress
        case "deflate":
            return zlib.decompressobj().decompress
        case other:
            raise ToolError(f"The page is compressed with {other[:40]!r}, which cannot be read.")
