"""Requests of a sign-in, with bounds for what untrusted metadata can cause.

Only https addresses are used, and this machine only if the MCP server is on it. The name of another
host is resolved here, every address must be public, and the connection goes to an address that was
checked. Answers and time are limited, redirects are not followed.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import anyio

from rookery.core.hosts import (
    WebAddress,
    is_private_literal,
    is_public,
    is_withheld_name,
    web_address,
)
from rookery.core.limits import KIB
from rookery.platform.http_proxy import resolve

if TYPE_CHECKING:
    import httpx2

LARGEST_ANSWER = 256 * KIB
SECONDS = 30.0


class OAuthProblem(Exception):
    """Why a sign-in or a refresh failed, as a sentence."""


class OAuthRequests:
    """Requests on behalf of the MCP server at this URL."""

    def __init__(self, server_url: str) -> None:
        try:
            self.own = web_address(server_url)
        except ValueError as error:
            raise OAuthProblem(f"The server's url cannot be used for a sign-in. {error}") from error

    def check(self, url: str) -> WebAddress:
        """An address that may be used. Raises `OAuthProblem`."""
        try:
            address = web_address(url)
        except ValueError as error:
            raise OAuthProblem(f"The sign-in uses an invalid address. {error}") from error
        if address.is_loopback:
            if self.own.is_loopback:
                return address
            raise OAuthProblem("The sign-in leads to this machine, so it was stopped.")
        if address.scheme != "https":
            raise OAuthProblem(f"The sign-in leads to {address.origin}, which is not https.")
        private = is_private_literal(address.host) or is_withheld_name(address.host)
        if private and address.host != self.own.host:
            raise OAuthProblem(_private(address))
        return address

    async def send(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str] | None = None,
        *,
        form: Mapping[str, str] | None = None,
        json: Mapping[str, Any] | None = None,
    ) -> tuple[int, str, bytes]:
        """The status, the challenge and the body of an answer. Raises `OAuthProblem`."""
        import httpx2

        address, target = self.check(url), httpx2.URL(url)
        fields = {
            **(headers or {}),
            "accept": "application/json",
            "accept-encoding": "identity",
            "host": target.netloc.decode("ascii"),
        }
        try:
            with anyio.fail_after(SECONDS):
                place = await self._place(address)
                async with (
                    httpx2.AsyncClient(trust_env=False, timeout=SECONDS) as http,
                    http.stream(
                        method,
                        target.copy_with(host=place),
                        headers=fields,
                        data=form,
                        json=json,
                        extensions={"sni_hostname": address.host},
                    ) as response,
                ):
                    return await _read(response)
        except (httpx2.HTTPError, httpx2.InvalidURL, OSError) as error:
            raise OAuthProblem(f"{address.origin} cannot be reached.") from error

    async def _place(self, address: WebAddress) -> str:
        """Where to connect to: the server's own host, or a public address."""
        if address.host == self.own.host or address.is_loopback:
            return address.host
        places = await resolve(address.host, address.port)
        if not all(map(is_public, places)):
            raise OAuthProblem(_private(address))
        return places[0]


async def _read(response: "httpx2.Response") -> tuple[int, str, bytes]:
    challenge = response.headers.get("www-authenticate", "")
    if response.headers.get("content-type", "").startswith("text/event-stream"):
        return response.status_code, challenge, b""  # it would not end
    data = bytearray()
    async for piece in response.aiter_raw():
        data += piece
        if len(data) > LARGEST_ANSWER:
            raise OAuthProblem(f"{response.url.host} sent more than {LARGEST_ANSWER // KIB} KiB.")
    return response.status_code, challenge, bytes(data)


def _private(address: WebAddress) -> str:
    return f"The sign-in leads to {address.host}, which is a private address."
