"""What pages may connect to.

Names are resolved here and nowhere else, and the address that was judged is the one that is
connected to: a name cannot lead somewhere else a moment later.
"""

import socket

import anyio

from rookery.core.web_addresses import (
    LOOPBACK,
    is_plain_host,
    is_private_literal,
    is_public,
    is_withheld_name,
    web_address,
)

_OWN_ADDRESSES = {
    "localhost": ("127.0.0.1", "::1"),
    "127.0.0.1": ("127.0.0.1",),
    "::1": ("::1",),
}


_ERRANDS = frozenset(
    (
        "accounts.google.com",
        "android.clients.google.com",
        "clients2.google.com",
        "clients2.googleusercontent.com",
        "clientservices.googleapis.com",
        "content-autofill.googleapis.com",
        "edgedl.me.gvt1.com",
        "mtalk.google.com",
        "optimizationguide-pa.googleapis.com",
        "redirector.gvt1.com",
        "safebrowsing.googleapis.com",
        "update.googleapis.com",
    )
)
"""Where the browser goes by itself, whatever it is told. Such pages must be opened as pages."""


class OutOfReach(Exception):
    """Nothing may connect there; the text says why."""


class Errand(OutOfReach):
    """It was not a page that wanted to, so nobody need be told."""


class Reach:
    """Without `network` only this machine is reached. Pages from elsewhere never reach it:
    `home` is the origin of the page that is open, or about to be."""

    def __init__(self, *, network: bool) -> None:
        self.home = ""
        self._network = network

    def refusal(self, host: str) -> str:
        """Why the open page may not connect to a host, as far as its name tells; nothing if it
        may."""
        if host in LOOPBACK and self._home_host not in LOOPBACK:
            return "Pages from elsewhere do not reach this machine."
        return self.never(host)

    def never(self, host: str) -> str:
        """Why no page may, whichever is open."""
        if host in LOOPBACK:
            return ""
        if not self._network:
            return "The network is switched off, so only localhost is reached."
        if not is_plain_host(host) or is_withheld_name(host) or is_private_literal(host):
            return f"{host} is a private address, or no usual one."
        return ""

    async def addresses(self, host: str, port: int) -> list[str]:
        """Where to connect to. Raises `OutOfReach`, and `OSError` if the name leads nowhere."""
        if host in _ERRANDS and self._home_host != host:
            raise Errand("The browser does not go there by itself.")
        if reason := self.refusal(host):
            raise OutOfReach(reason)
        if host in LOOPBACK:
            return list(_OWN_ADDRESSES[host])
        found = await anyio.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        addresses = [str(where[0]) for *_, where in found]
        if not addresses or not all(map(_is_public, addresses)):
            raise OutOfReach(f"{host} leads to a private address.")
        return addresses

    @property
    def _home_host(self) -> str:
        return web_address(self.home).host if self.home else ""


def _is_public(address: str) -> bool:
    return is_public(address.partition("%")[0])
