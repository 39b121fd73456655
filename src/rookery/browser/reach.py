"""What pages may connect to, and the proxy that all their traffic goes through.

Names are resolved only here, and the connection uses the address that was checked, so DNS rebinding
has no effect. Redirects, sockets and workers use the proxy too.
"""

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
from rookery.platform.http_proxy import Dialled, OutOfReach, ProxyRequest, attend, connect, resolve

_OWN_ADDRESSES = {
    "localhost": ("127.0.0.1", "::1"),
    "127.0.0.1": ("127.0.0.1",),
    "::1": ("::1",),
}

_OWN_HOSTS = frozenset(
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
"""Hosts the browser contacts on its own. Reached only if a page of the host was opened."""

Find: TypeAlias = Callable[[str, int], Awaitable[list[str]]]
"""Resolves a host name and port to addresses."""


class BackgroundRequest(OutOfReach):
    """A request by the browser itself, not by a page; it is refused without a note."""


class BrowserReach:
    """The hosts one browser may reach, fixed at its start.

    Without `network` only this machine. A `local` browser shows pages of this machine, any other
    only remote pages, which never reach this machine, even with a request sent before the page was
    left. `opened` are the origins the user allowed; `find` resolves names. The model may have
    written the local pages, so they reach only those remote hosts that `knows` accepts, if it is
    given.
    """

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
        """Why pages may not connect to a host, judged by its name; empty if they may."""
        if host in LOOPBACK:
            return "" if self.local else "Pages from elsewhere cannot reach this machine."
        if not self._network:
            return "The network is turned off: only localhost can be reached."
        if not is_plain_host(host) or is_withheld_name(host) or is_private_literal(host):
            return f"{host} is a private or unusual address."
        return ""

    def document_refusal(self, host: str) -> str:
        """Why a document of this host is not shown; empty if it may be. A remote document framed
        by a local page could reach what the local page can."""
        if self.local and host not in LOOPBACK:
            return "Pages of this machine cannot include pages from elsewhere."
        return self.refusal(host)

    async def addresses(self, host: str, port: int) -> list[str]:
        """Resolve a host. Raises `OutOfReach`, or `OSError` if the name does not resolve."""
        if host in _OWN_HOSTS and host not in {web_address(each).host for each in self._opened}:
            raise BackgroundRequest("The browser does not open this address automatically.")
        if reason := self.refusal(host):
            raise OutOfReach(reason)
        if host in LOOPBACK:
            return list(_OWN_ADDRESSES[host])
        if self.local and self._knows and not self._knows(HostPort(host, port)):
            raise OutOfReach(f"{host} is not a known host. The user can add it to sandbox.hosts.")
        return await self._find(host, port)


@asynccontextmanager
async def proxy(reach: BrowserReach, notify: Callable[[str], None]) -> AsyncIterator[str]:
    """Run a proxy and yield its address. `notify` gets a sentence about each refused request."""
    listener = await anyio.create_tcp_listener(local_host="127.0.0.1", local_port=0)
    port = listener.extra(SocketAttribute.local_port)

    async def dial(request: ProxyRequest) -> Dialled:
        try:
            addresses = await reach.addresses(request.host, request.port)
        except BackgroundRequest:
            raise
        except OutOfReach as reason:
            notify(f"A request to {request.host}:{request.port} was refused. {reason}")
            raise
        world = await connect(addresses, request.port)
        return Dialled(world, b"" if request.is_tunnel else request.head())

    failure: Exception | None = None
    async with listener, anyio.create_task_group() as group:
        group.start_soon(listener.serve, partial(attend, dial=dial))
        try:
            yield f"http://127.0.0.1:{port}"
        except Exception as error:
            failure = error  # the task group would wrap it in an ExceptionGroup
        finally:
            group.cancel_scope.cancel()
    if failure:
        raise failure


async def public_addresses(host: str, port: int) -> list[str]:
    """Resolve a name. Raises `OutOfReach` for a private address, `OSError` if there is none."""
    addresses = await resolve(host, port)
    if not addresses or not all(map(is_public, addresses)):
        raise OutOfReach(f"{host} leads to a private address.")
    return addresses
