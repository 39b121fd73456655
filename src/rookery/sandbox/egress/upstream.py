"""How a connection leaves this machine: by an address that a name leads to, or by a proxy.

A name may lead to private addresses, which no command is led to. The proxy that the user's own
environment names resolves names itself, so of a host reached that way only the name was judged.
"""

import base64
import socket
from collections.abc import Awaitable, Callable, Mapping
from ipaddress import ip_address
from typing import TypeAlias
from urllib.parse import unquote, urlsplit

import anyio
from anyio.streams.buffered import BufferedByteReceiveStream
from msgspec import Struct

from rookery.core.hosts import HostPort, is_public
from rookery.platform.http_proxy import (
    CONNECT_SECONDS,
    LONGEST_HEAD,
    Dialled,
    OutOfReach,
    ProxyRequest,
)

USUAL_PORT = 80
ANSWER_SECONDS = 60.0

Find: TypeAlias = Callable[[HostPort, bool], Awaitable[list[str]]]
"""From a host, and whether it may lie in a private network, to the addresses to connect to."""

LOOPBACK_ADDRESSES = {"localhost": ["127.0.0.1", "::1"]}


class Upstream(Struct, frozen=True):
    host: str
    port: int
    authorization: str = ""

    @property
    def fields(self) -> tuple[bytes, ...]:
        name = b"Proxy-Authorization: Basic "
        return (name + self.authorization.encode("ascii"),) if self.authorization else ()


def upstream_for(request: ProxyRequest, environ: Mapping[str, str]) -> Upstream | None:
    """Raises `OutOfReach` if the proxy is of a kind that ours cannot go through."""
    kind = "https" if request.is_tunnel else "http"
    url = _variable(environ, f"{kind}_proxy") or _variable(environ, "all_proxy")
    if not url or _is_excepted(request.host, _variable(environ, "no_proxy")):
        return None
    parts = urlsplit(url if "://" in url else f"http://{url}")
    if parts.scheme != "http" or not parts.hostname:
        raise OutOfReach(
            f"Your environment sets a {parts.scheme} proxy. Only http:// proxies are supported."
        )
    return Upstream(
        parts.hostname, parts.port or USUAL_PORT, _basic(parts.username, parts.password)
    )


async def dial_through(upstream: Upstream, request: ProxyRequest) -> Dialled:
    with anyio.fail_after(CONNECT_SECONDS):
        stream = await anyio.connect_tcp(upstream.host, upstream.port)
    name = f"[{request.host}]" if ":" in request.host else request.host
    if not request.is_tunnel:
        target = f"http://{name}:{request.port}{request.path}"
        return Dialled(stream, request.head(target=target, fields=upstream.fields))
    try:
        return Dialled(stream, said=await _tunnel(stream, f"{name}:{request.port}", upstream))
    except BaseException:
        await anyio.aclose_forcefully(stream)
        raise


async def _tunnel(stream: anyio.abc.SocketStream, target: str, upstream: Upstream) -> bytes:
    """What came behind the proxy's yes."""
    first = f"CONNECT {target} HTTP/1.1\r\nHost: {target}".encode("ascii")
    await stream.send(b"\r\n".join([first, *upstream.fields]) + b"\r\n\r\n")
    buffered = BufferedByteReceiveStream(stream)
    with anyio.fail_after(ANSWER_SECONDS):
        head = await buffered.receive_until(b"\r\n\r\n", LONGEST_HEAD)
    _, _, status = head.partition(b"\r\n")[0].partition(b" ")
    if not status.startswith(b"200"):
        raise OSError(f"the proxy set in your environment refused it: {status.decode('latin-1')}")
    return buffered.buffer


def _variable(environ: Mapping[str, str], name: str) -> str:
    return environ.get(name) or environ.get(name.upper()) or ""


def _is_excepted(host: str, names: str) -> bool:
    for name in (each.strip().lower().lstrip("*").lstrip(".") for each in names.split(",")):
        if name and (host == name or host.endswith(f".{name}")):
            return True
    return "*" in names.split(",")


def _basic(user: str | None, password: str | None) -> str:
    if user is None:
        return ""
    both = f"{unquote(user)}:{unquote(password or '')}"
    return base64.b64encode(both.encode()).decode("ascii")


async def find_addresses(wanted: HostPort, private: bool) -> list[str]:
    """Raises `OutOfReach` if a name leads where it should not, `OSError` if it leads nowhere."""
    if wanted.is_address:
        return [wanted.name]
    if wanted.is_loopback:
        return LOOPBACK_ADDRESSES[wanted.name]
    found = await anyio.getaddrinfo(wanted.name, wanted.port, type=socket.SOCK_STREAM)
    addresses = [str(where[0]).partition("%")[0] for *_, where in found]
    check_addresses(wanted, addresses, private=private)
    return addresses


def check_addresses(wanted: HostPort, addresses: list[str], *, private: bool) -> None:
    """A name that is in your own configuration may lead to your own network, and no name to this
    machine."""
    for address in addresses:
        if is_public(address):
            continue
        if not private:
            raise OutOfReach(
                f"{wanted.name} resolves to a private address. If that is intended, add {wanted} "
                "to sandbox.hosts in your settings."
            )
        if _never_by_name(address):
            raise OutOfReach(f"{wanted.name} resolves to {address}, which is always blocked.")


def _never_by_name(address: str) -> bool:
    found = ip_address(address)
    mapped = getattr(found, "ipv4_mapped", None) or found
    return bool(
        mapped.is_loopback or mapped.is_link_local or mapped.is_unspecified or mapped.is_multicast
    )
