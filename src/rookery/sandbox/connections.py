"""Network connections of commands: to other hosts, and to servers on `localhost`.

Names that resolve to private addresses are blocked. A proxy from the user's environment resolves
names itself, so for hosts reached through it only the name is checked.

Commands have their own network, so servers that they start are published on this machine's
`localhost`. Connections in the other direction cannot be observed: refused ports are found in the
command's output, and reported only if this machine listens on them.
"""

import base64
import logging
import re
import socket
from collections.abc import Awaitable, Callable, Collection, Mapping
from contextlib import suppress
from typing import Protocol, TypeAlias
from urllib.parse import unquote, urlsplit

import anyio
import anyio.to_thread
from anyio.abc import SocketListener, SocketStream, TaskGroup
from anyio.streams.buffered import BufferedByteReceiveStream
from msgspec import Struct

from rookery.core.hosts import HostPort, is_always_blocked, is_public
from rookery.first_use import lazy_pattern
from rookery.platform.http_proxy import (
    CONNECT_SECONDS,
    LONGEST_HEAD,
    Dialled,
    OutOfReach,
    ProxyRequest,
    resolve,
    splice,
)

LOOK_SECONDS = 0.5
MOST_PUBLISHED = 50
HERE = "127.0.0.1"

_debug = logging.getLogger(__name__)

_REFUSED = lazy_pattern(r"refused|couldn't connect|can't connect|cannot connect", re.IGNORECASE)
_HERE = r"(?:localhost|127\.0\.0\.1|\[?::1\]?)"
_PORT = lazy_pattern(
    rf"{_HERE}[\"'()|,\s]*(?:{_HERE}[\"'()|,\s]*)?(?::|,?\s*port\b[=\s]*)\s*(\d{{1,5}})\b",
    re.IGNORECASE,
)


class CommandNetwork(Protocol):
    def listening_ports(self) -> set[int]: ...
    def connect(self, port: int) -> socket.socket | None: ...


class PublishedPorts:
    """Publishes new servers while commands run, except on ports that are already in use here."""

    def __init__(self, inside: CommandNetwork, ours: Callable[[], Collection[int]]) -> None:
        """`ours` are the ports inside that we listen on ourselves."""
        self._inside = inside
        self._ours = ours
        self._published: dict[int, anyio.CancelScope] = {}
        self._taken: set[int] = set()

    async def watch(self, scope: anyio.CancelScope) -> None:
        with scope:
            try:
                async with anyio.create_task_group() as group:
                    while True:
                        self._update(self._inside.listening_ports() - set(self._ours()), group)
                        await anyio.sleep(LOOK_SECONDS)
            except Exception:
                _debug.exception("ports could not be published")
            finally:
                self._published.clear()

    def _update(self, ports: set[int], group: TaskGroup) -> None:
        self._taken &= ports
        for port in [each for each in self._published if each not in ports]:
            self._published.pop(port).cancel()
        for port in sorted(ports - set(self._published) - self._taken):
            if len(self._published) < MOST_PUBLISHED:
                self._publish(port, group)

    def _publish(self, port: int, group: TaskGroup) -> None:
        try:
            listening = socket.create_server((HERE, port))
        except OSError:
            self._taken.add(port)
            return
        listening.setblocking(False)
        scope = self._published[port] = anyio.CancelScope()
        group.start_soon(self._serve, listening, port, scope)

    async def _serve(self, listening: socket.socket, port: int, scope: anyio.CancelScope) -> None:
        async def attend(client: SocketStream) -> None:
            with suppress(OSError, anyio.BrokenResourceError, anyio.ClosedResourceError):
                async with client:
                    made = await anyio.to_thread.run_sync(self._inside.connect, port)
                    if made:
                        async with await SocketStream.from_socket(made) as world:
                            await splice(client, world)

        with scope:
            async with await SocketListener.from_socket(listening) as listener:
                await listener.serve(attend)


def refused_ports(command: str, output: str) -> list[int]:
    """Ports of `localhost` that the output or the command names, if a connection was refused."""
    if not _REFUSED.search(output):
        return []
    found = (int(port) for port in _PORT.findall(f"{output}\n{command}"))
    return [port for port in dict.fromkeys(found) if 0 < port < 65536]


USUAL_PORT = 80
ANSWER_SECONDS = 60.0

ResolveHost: TypeAlias = Callable[[HostPort, bool], Awaitable[list[str]]]
"""Resolves a host to addresses; the flag says whether private ones are allowed."""

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
    """The proxy that the environment sets. Raises `OutOfReach` if its kind is not supported."""
    kind = "https" if request.is_tunnel else "http"
    url = _variable(environ, f"{kind}_proxy") or _variable(environ, "all_proxy")
    if not url or _is_in_no_proxy(request.host, _variable(environ, "no_proxy")):
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
    """Open a tunnel; returns the bytes that followed the proxy's response."""
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


def _is_in_no_proxy(host: str, names: str) -> bool:
    for name in (each.strip().lower().lstrip("*").lstrip(".") for each in names.split(",")):
        if name and (host == name or host.endswith(f".{name}")):
            return True
    return "*" in names.split(",")


def _basic(user: str | None, password: str | None) -> str:
    if user is None:
        return ""
    both = f"{unquote(user)}:{unquote(password or '')}"
    return base64.b64encode(both.encode()).decode("ascii")


async def resolve_host(wanted: HostPort, private: bool) -> list[str]:
    """Resolve a host. Raises `OutOfReach` if an address is blocked, `OSError` if there is none."""
    if wanted.is_address:
        return [wanted.name]
    if wanted.is_loopback:
        return LOOPBACK_ADDRESSES[wanted.name]
    addresses = await resolve(wanted.name, wanted.port)
    check_addresses(wanted, addresses, private=private)
    return addresses


def check_addresses(wanted: HostPort, addresses: list[str], *, private: bool) -> None:
    """Refuse private addresses, unless `private`; loopback and link-local ones always."""
    for address in addresses:
        if is_public(address):
            continue
        if not private:
            raise OutOfReach(
                f"{wanted.name} resolves to a private address. If that is intended, add {wanted} "
                "to sandbox.hosts in your settings."
            )
        if is_always_blocked(address):
            raise OutOfReach(f"{wanted.name} resolves to {address}, which is always blocked.")
