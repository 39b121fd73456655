"""What pages may connect to, and the proxy through which all of it goes.

Names are resolved here and nowhere else, and the address that was judged is the one that is
connected to: a name cannot lead somewhere else a moment later. Redirects, sockets and workers
use the proxy too, whichever part of the browser they belong to.
"""

import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from contextlib import asynccontextmanager
from functools import partial
from typing import TypeAlias

import anyio
from anyio.abc import SocketAttribute

from rookery.core.hosts import (
    LOOPBACK,
    HostPort,
    is_plain_host,
    is_private_literal,
    is_public,
    is_withheld_name,
    web_address,
)
from rookery.platform.http_proxy import Dialled, OutOfReach, ProxyRequest, attend, connect

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

Find: TypeAlias = Callable[[str, int], Awaitable[list[str]]]
"""From the name of a host and a port to the addresses to connect to."""


class Errand(OutOfReach):
    """It was not a page that wanted to, so nobody need be told."""


class BrowserReach:
    """What one browser reaches, from its start to its end. Without `network` that is only this
    machine. It shows pages of this machine if it is `local`, and pages from elsewhere if not:
    these never reach it, not even with a request that they began before they were left.
    `opened` are the origins of pages that somebody allowed; `find` tells where names lead. Pages of
    this machine may be the model's own work, so of other hosts they reach only those that
    `knows` tells of, if it is given."""

    def __init__(
        self,
        *,
        network: bool,
        local: bool,
        opened: Collection[str] = (),
        find: Find | None = None,
        knows: Callable[[HostPort], bool] | None = None,
    ) -> None:
        self.local = local
        self._knows = knows
        self._network = network
        self._opened = opened
        self._find = find or public_addresses

    def refusal(self, host: str) -> str:
        """Why pages may not connect to a host, as far as its name tells; nothing if they may."""
        if host in LOOPBACK:
            return "" if self.local else "Pages from elsewhere cannot reach this machine."
        if not self._network:
            return "The network is turned off: only localhost can be reached."
        if not is_plain_host(host) or is_withheld_name(host) or is_private_literal(host):
            return f"{host} is a private or unusual address."
        return ""

    def misplaced(self, host: str) -> str:
        """Why a document of a host is not shown here; nothing if it may be. One from elsewhere
        that stood in a page of this machine would reach what that page does."""
        if self.local and host not in LOOPBACK:
            return "Pages of this machine cannot include pages from elsewhere."
        return self.refusal(host)

    async def addresses(self, host: str, port: int) -> list[str]:
        """Where to connect to. Raises `OutOfReach`, and `OSError` if the name leads nowhere."""
        if host in _ERRANDS and host not in {web_address(each).host for each in self._opened}:
            raise Errand("The browser does not open this address automatically.")
        if reason := self.refusal(host):
            raise OutOfReach(reason)
        if host in LOOPBACK:
            return list(_OWN_ADDRESSES[host])
        if self.local and self._knows and not self._knows(HostPort(host, port)):
            raise OutOfReach(f"{host} is not a known host. The user can add it to sandbox.hosts.")
        return await self._find(host, port)


@asynccontextmanager
async def proxy(reach: BrowserReach, tell: Callable[[str], None]) -> AsyncIterator[str]:
    """The address of a proxy that is there until the context is left. `tell` hears in a sentence
    what was refused."""
    listener = await anyio.create_tcp_listener(local_host="127.0.0.1", local_port=0)
    port = listener.extra(SocketAttribute.local_port)

    async def dial(request: ProxyRequest) -> Dialled:
        try:
            addresses = await reach.addresses(request.host, request.port)
        except Errand:
            raise
        except OutOfReach as reason:
            tell(f"A request to {request.host}:{request.port} was refused. {reason}")
            raise
        world = await connect(addresses, request.port)
        return Dialled(world, b"" if request.is_tunnel else request.head())

    failure: Exception | None = None
    async with listener, anyio.create_task_group() as group:
        group.start_soon(listener.serve, partial(attend, dial=dial))
        try:
            yield f"http://127.0.0.1:{port}"
        except Exception as error:
            failure = error  # a task group would make a group of it
        finally:
            group.cancel_scope.cancel()
    if failure:
        raise failure


async def public_addresses(host: str, port: int) -> list[str]:
    """Where a name leads. Raises `OutOfReach` if that is not the internet, and `OSError` if it is
    nowhere."""
    found = await anyio.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    addresses = [str(where[0]) for *_, where in found]
    if not addresses or not all(map(_is_public, addresses)):
        raise OutOfReach(f"{host} leads to a private address.")
    return addresses


def _is_public(address: str) -> bool:
    return is_public(address.partition("%")[0])
