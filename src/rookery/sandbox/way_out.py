"""The proxy of one command's network namespace, and the hosts it blocked.

The launcher listens inside the namespace and passes its listening sockets to us over a Unix socket.
A socket stays in the namespace it was made in, so no process of ours runs beside the command. Only
the launcher knows the token, and only the first sender of it is accepted.
"""

import asyncio
import logging
import os
import secrets
import socket
from collections.abc import Callable, Collection, Coroutine, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, TypeAlias

import anyio
from anyio.abc import SocketListener, SocketStream

from rookery.core.hosts import Entry, HostPort, covered, entries, host
from rookery.platform.http_proxy import Dialled, OutOfReach, ProxyRequest, attend, connect, splice
from rookery.sandbox.bubblewrap import listening_ports
from rookery.sandbox.connections import (
    LOOK_SECONDS,
    CommandNetwork,
    PublishedPorts,
    ResolveHost,
    dial_through,
    refused_ports,
    resolve_host,
    upstream_for,
)

MOST_CONNECTIONS = 100
"""Of one command at the same time; further ones wait."""
MOST_BLOCKED = 20
MOST_FORWARDED = 20
LONGEST_GREETING = 1024
HERE = "127.0.0.1"

StartSoon: TypeAlias = Callable[[Callable[[], Coroutine[Any, Any, object]]], object]

_debug = logging.getLogger(__name__)


class Egress:
    """Creates a proxy for each command. `known` are the hosts that every command may reach."""

    def __init__(
        self,
        start_soon: StartSoon,
        known: Callable[[], Sequence[Entry]],
        *,
        environ: Mapping[str, str] = os.environ,
        find: ResolveHost = resolve_host,
    ) -> None:
        self.start_soon = start_soon
        self._known = known
        self._environ = environ
        self._resolve = find
        self.reported_ports: set[int] = set()
        """Ports of this machine that were already reported."""
        self._ways: list[CommandProxy] = []
        self._watching: tuple[asyncio.TimerHandle, anyio.CancelScope] | None = None

    def knows(self, wanted: HostPort) -> bool:
        return covered(wanted, self._known())

    def open(
        self, folder: str, allowed: Collection[str] = (), inside: CommandNetwork | None = None
    ) -> "CommandProxy":
        """Create the proxy of a command. The Unix socket is put in `folder`, which the launcher
        must see too. `inside` is the shared network of commands."""
        reach = CommandReach(self._known(), entries(allowed), self._environ, self._resolve)
        return CommandProxy(folder, reach, self, inside)

    def proxy_started(self, way: "CommandProxy", inside: CommandNetwork | None) -> None:
        if inside and not self._ways:
            scope, published = anyio.CancelScope(), PublishedPorts(inside, self._our_ports)
            watch = partial(published.watch, scope)
            later = asyncio.get_running_loop().call_later(LOOK_SECONDS, self.start_soon, watch)
            self._watching = later, scope
        self._ways.append(way)

    def proxy_ended(self, way: "CommandProxy") -> None:
        if way in self._ways:
            self._ways.remove(way)
        if not self._ways and self._watching:
            for each in self._watching:
                each.cancel()
            self._watching = None

    def _our_ports(self) -> set[int]:
        return {port for way in self._ways for port in way.listened_on}


class CommandReach:
    """Which hosts a command may reach, and which ones were blocked."""

    def __init__(
        self,
        known: Sequence[Entry],
        allowed: Sequence[Entry],
        environ: Mapping[str, str],
        find: ResolveHost,
    ) -> None:
        self._known = known
        self._allowed = allowed
        self._environ = environ
        self._resolve = find
        self.blocked: dict[HostPort, None] = {}

    @property
    def local_ports(self) -> list[int]:
        """Ports of this machine that the command may reach under its own `localhost`."""
        found = (port for each in (*self._known, *self._allowed) for port in _local_ports(each))
        return list(dict.fromkeys(found))[:MOST_FORWARDED]

    async def dial(self, request: ProxyRequest) -> Dialled:
        wanted = host(request.host, request.port)
        if wanted is None:
            raise OutOfReach(f"{request.host[:100]} is not a plain host name or address.")
        configured = covered(wanted, self._known)
        if not configured and not covered(wanted, self._allowed):
            self._block(wanted)
            raise OutOfReach(f"Blocked: {wanted} is not a known host.")
        upstream = None if wanted.is_private else upstream_for(request, self._environ)
        if upstream:
            return await dial_through(upstream, request)
        stream = await connect(await self._resolve(wanted, configured), wanted.port)
        return Dialled(stream, b"" if request.is_tunnel else request.head())

    def _block(self, wanted: HostPort) -> None:
        if len(self.blocked) < MOST_BLOCKED:
            self.blocked[wanted] = None


class CommandProxy:
    """Open from its creation, in any thread, until `close`."""

    def __init__(
        self, folder: str, reach: CommandReach, egress: Egress, inside: CommandNetwork | None = None
    ) -> None:
        self.name = f"way-{secrets.token_hex(8)}"
        self.token = secrets.token_hex(16)
        self.ports = reach.local_ports
        self._reach = reach
        self._egress = egress
        self._inside = inside
        self.listened_on: set[int] = set()
        self._path = os.path.join(folder, self.name)
        self._scope: anyio.CancelScope | None = None
        self._socket = _listen(folder, self.name)

    @property
    def blocked(self) -> tuple[str, ...]:
        """The blocked hosts, as `host:port`."""
        return tuple(map(str, self._reach.blocked))

    def unreached(self, command: str, said: str) -> tuple[int, ...]:
        """Ports of this machine that the command was refused, each reported once per session.
        `said` is the command's output."""
        wanted = set(refused_ports(command, said)) - set(self.ports) - self._egress.reported_ports
        if wanted and self._inside:
            wanted -= self._inside.listening_ports()
        found = tuple(sorted(wanted & listening_ports("self"))) if wanted else ()
        self._egress.reported_ports.update(found)
        return found

    def start(self) -> None:
        self._scope = anyio.CancelScope()
        self._egress.start_soon(partial(self._serve, self._scope))
        self._egress.proxy_started(self, self._inside)

    def close(self) -> None:
        self._egress.proxy_ended(self)
        if self._scope:
            self._scope.cancel()
        else:
            self._close_socket()

    async def _serve(self, scope: anyio.CancelScope) -> None:
        with scope:
            try:
                await self._serve_sockets(await self._receive_sockets())
            except Exception:
                _debug.exception("a command's network proxy failed")
            finally:
                self._close_socket()

    async def _receive_sockets(self) -> list[tuple[socket.socket, int]]:
        """Receive the launcher's sockets, each with the port it serves. The first one is the
        proxy's."""
        while True:
            await anyio.wait_readable(self._socket)
            with self._socket.accept()[0] as launcher:
                launcher.setblocking(False)
                with anyio.move_on_after(1):
                    await anyio.wait_readable(launcher)
                    if found := _read_sockets(launcher, self.token):
                        self.listened_on = {each.getsockname()[1] for each, _ in found}
                        self._close_socket()
                        return found

    async def _serve_sockets(self, handed: list[tuple[socket.socket, int]]) -> None:
        slots = anyio.Semaphore(MOST_CONNECTIONS)
        async with anyio.create_task_group() as group:

            async def accept(listener: SocketListener, port: int) -> None:
                async with listener:
                    while True:
                        await slots.acquire()
                        client = await _accept(listener)
                        group.start_soon(serve, client, port)

            async def serve(client: SocketStream, port: int) -> None:
                try:
                    await (forward(client, port) if port else attend(client, self._reach.dial))
                finally:
                    slots.release()

            for each, port in handed:
                group.start_soon(accept, await SocketListener.from_socket(each), port)

    def _close_socket(self) -> None:
        self._socket.close()
        with suppress(OSError):  # already closed
            os.unlink(self._path)


async def forward(client: SocketStream, port: int) -> None:
    """Connect the command to a server of this machine."""
    async with client:
        try:
            world = await connect([HERE, "::1"], port)
        except (OSError, TimeoutError):
            return
        async with world:
            await splice(client, world)


async def _accept(listener: SocketListener) -> SocketStream:
    """Accept a connection; retry while the process has no file descriptors left."""
    while True:
        try:
            return await listener.accept()
        except OSError:
            await anyio.sleep(0.1)


def _listen(folder: str, name: str) -> socket.socket:
    """Listen on a Unix socket, bound through /proc because its path must be short."""
    made = socket.socket(socket.AF_UNIX)
    at = os.open(folder, os.O_PATH | os.O_DIRECTORY)
    try:
        made.bind(f"/proc/self/fd/{at}/{name}")
        made.listen(1)
        made.setblocking(False)
    except BaseException:
        made.close()
        raise
    finally:
        os.close(at)
    return made


def _read_sockets(launcher: socket.socket, token: str) -> list[tuple[socket.socket, int]]:
    """The sockets, if the token is right and there is one per port; else none."""
    message, files, _, _ = socket.recv_fds(launcher, LONGEST_GREETING, MOST_FORWARDED + 1)
    sockets = [socket.socket(fileno=file) for file in files]
    first, *ports = message.decode("ascii", "replace").split() or [""]
    fits = secrets.compare_digest(first, token) and len(ports) == len(sockets)
    if fits and all(map(_listens_here, sockets)):
        return list(zip(sockets, map(int, ports), strict=True))
    for each in sockets:
        each.close()
    return []


def _listens_here(made: socket.socket) -> bool:
    listens = made.family is socket.AF_INET and made.getsockopt(
        socket.SOL_SOCKET, socket.SO_ACCEPTCONN
    )
    return bool(listens) and made.getsockname()[0] == HERE


def _local_ports(found: Entry) -> Iterable[int]:
    return found.ports if HostPort(found.name, found.ports[0]).is_loopback else ()
