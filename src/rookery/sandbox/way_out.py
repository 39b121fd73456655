"""The way out of one command's network namespace, and what it was kept from.

The command's launcher listens inside the namespace and hands its listening sockets to us over a
Unix socket: a socket belongs to the namespace it was made in, whoever accepts on it. So nothing of
ours runs beside the command. Only the launcher knows the token, and only the first that says it is
heard.
"""

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
from rookery.sandbox.connections import (
    Find,
    Inside,
    PublishedPorts,
    dial_through,
    find_addresses,
    listening_here,
    refused_ports,
    upstream_for,
)

MOST_CONNECTIONS = 100
"""At the same time, of one command; more wait."""
MOST_BLOCKED = 20
MOST_FORWARDED = 20
LONGEST_GREETING = 1024
HERE = "127.0.0.1"

StartSoon: TypeAlias = Callable[[Callable[[], Coroutine[Any, Any, object]]], object]

_debug = logging.getLogger(__name__)


class Egress:
    """Makes a way out for each command. `known` are the hosts that every command may reach."""

    def __init__(
        self,
        start_soon: StartSoon,
        known: Callable[[], Sequence[Entry]],
        *,
        environ: Mapping[str, str] = os.environ,
        find: Find = find_addresses,
    ) -> None:
        self._start_soon = start_soon
        self._known = known
        self._environ = environ
        self._find = find
        self.told_of: set[int] = set()
        """Ports of this machine that somebody was told of."""
        self._ways: list[CommandProxy] = []
        self._watching: anyio.CancelScope | None = None

    def knows(self, wanted: HostPort) -> bool:
        return covered(wanted, self._known())

    def open(
        self, folder: str, allowed: Collection[str] = (), inside: Inside | None = None
    ) -> "CommandProxy":
        """`folder` is where the Unix socket is put. Its other end must see it too. `inside` is the
        network that commands share."""
        reach = CommandReach(self._known(), entries(allowed), self._environ, self._find)
        return CommandProxy(folder, reach, self, inside)

    def began(self, way: "CommandProxy", inside: Inside | None) -> None:
        if inside and not self._ways:
            self._watching = anyio.CancelScope()
            published = PublishedPorts(inside, self._our_ports)
            self._start_soon(partial(published.watch, self._watching))
        self._ways.append(way)

    def ended(self, way: "CommandProxy") -> None:
        if way in self._ways:
            self._ways.remove(way)
        if not self._ways and self._watching:
            self._watching.cancel()
            self._watching = None

    def start_soon(self, work: Callable[[], Coroutine[Any, Any, object]]) -> None:
        self._start_soon(work)

    def _our_ports(self) -> set[int]:
        return {port for way in self._ways for port in way.listened_on}


class CommandReach:
    """What one command reaches, and what it was kept from."""

    def __init__(
        self,
        known: Sequence[Entry],
        allowed: Sequence[Entry],
        environ: Mapping[str, str],
        find: Find,
    ) -> None:
        self._known = known
        self._allowed = allowed
        self._environ = environ
        self._find = find
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
        stream = await connect(await self._find(wanted, configured), wanted.port)
        return Dialled(stream, b"" if request.is_tunnel else request.head())

    def _block(self, wanted: HostPort) -> None:
        if len(self.blocked) < MOST_BLOCKED:
            self.blocked[wanted] = None


class CommandProxy:
    """Open from its making, in whichever thread, until `close`."""

    def __init__(
        self, folder: str, reach: CommandReach, egress: Egress, inside: Inside | None = None
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
        self._socket = _listening(folder, self.name)

    @property
    def blocked(self) -> tuple[str, ...]:
        """What the command was kept from, as `host:port`."""
        return tuple(map(str, self._reach.blocked))

    def unreached(self, command: str, said: str) -> tuple[int, ...]:
        """Ports of this machine that the command was refused, each told once in a session. `said`
        is what it wrote."""
        wanted = set(refused_ports(command, said)) - set(self.ports) - self._egress.told_of
        if wanted and self._inside:
            wanted -= self._inside.listening_ports()
        found = tuple(sorted(wanted & listening_here())) if wanted else ()
        self._egress.told_of.update(found)
        return found

    def start(self) -> None:
        self._scope = anyio.CancelScope()
        self._egress.start_soon(partial(self._serve, self._scope))
        self._egress.began(self, self._inside)

    def close(self) -> None:
        self._egress.ended(self)
        if self._scope:
            self._scope.cancel()
        else:
            self._shut_door()

    async def _serve(self, scope: anyio.CancelScope) -> None:
        with scope:
            try:
                await self._serve_handed(await self._handed())
            except Exception:
                _debug.exception("a command's network proxy failed")
            finally:
                self._shut_door()

    async def _handed(self) -> list[tuple[socket.socket, int]]:
        """The sockets that the launcher listens on, each with the port it stands for. The first
        is the proxy's."""
        while True:
            await anyio.wait_readable(self._socket)
            with self._socket.accept()[0] as launcher:
                launcher.setblocking(False)
                with anyio.move_on_after(1):
                    await anyio.wait_readable(launcher)
                    if found := _received(launcher, self.token):
                        self.listened_on = {each.getsockname()[1] for each, _ in found}
                        self._shut_door()
                        return found

    async def _serve_handed(self, handed: list[tuple[socket.socket, int]]) -> None:
        slots = anyio.Semaphore(MOST_CONNECTIONS)
        async with anyio.create_task_group() as group:

            async def accept(listener: SocketListener, port: int) -> None:
                async with listener:
                    while True:
                        await slots.acquire()
                        client = await _accepted(listener)
                        group.start_soon(serve, client, port)

            async def serve(client: SocketStream, port: int) -> None:
                try:
                    await (forward(client, port) if port else attend(client, self._reach.dial))
                finally:
                    slots.release()

            for each, port in handed:
                group.start_soon(accept, await SocketListener.from_socket(each), port)

    def _shut_door(self) -> None:
        self._socket.close()
        with suppress(OSError):  # it was shut before
            os.unlink(self._path)


async def forward(client: SocketStream, port: int) -> None:
    """Between the command and a server of this machine."""
    async with client:
        try:
            world = await connect([HERE, "::1"], port)
        except (OSError, TimeoutError):
            return
        async with world:
            await splice(client, world)


async def _accepted(listener: SocketListener) -> SocketStream:
    """A machine that is short of descriptors has some again later."""
    while True:
        try:
            return await listener.accept()
        except OSError:
            await anyio.sleep(0.1)


def _listening(folder: str, name: str) -> socket.socket:
    """The path of such a socket may not be long, and that of the folder may be."""
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


def _received(launcher: socket.socket, token: str) -> list[tuple[socket.socket, int]]:
    """Nothing unless it says the token and hands over as many sockets as it names ports."""
    said, files, _, _ = socket.recv_fds(launcher, LONGEST_GREETING, MOST_FORWARDED + 1)
    sockets = [socket.socket(fileno=file) for file in files]
    first, *ports = said.decode("ascii", "replace").split() or [""]
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
