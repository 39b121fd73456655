"""Servers on `localhost`: those of commands, and those of this machine that they cannot reach.

Commands have a network of their own. A person who opens the page of a server that the agent has
started expects it under the same address as anybody else, so it is published here. Nothing of
ours sees a command connect to this machine's servers: that is read from what it says, and only
ports on which this machine really listens count.
"""

import logging
import re
import socket
from collections.abc import Callable, Collection
from contextlib import suppress
from typing import Protocol

import anyio
import anyio.to_thread
from anyio.abc import SocketListener, SocketStream, TaskGroup

from rookery.platform.http_proxy import splice

LOOK_SECONDS = 0.5
MOST_PUBLISHED = 50
HERE = "127.0.0.1"

_debug = logging.getLogger(__name__)

_REFUSED = re.compile(r"refused|couldn't connect|can't connect|cannot connect", re.IGNORECASE)
_HERE = r"(?:localhost|127\.0\.0\.1|\[?::1\]?)"
_PORT = re.compile(
    rf"{_HERE}[\"'()|,\s]*(?:{_HERE}[\"'()|,\s]*)?(?::|,?\s*port\b[=\s]*)\s*(\d{{1,5}})\b",
    re.IGNORECASE,
)
_LISTENING = "0A"
_TABLES = ("/proc/self/net/tcp", "/proc/self/net/tcp6")


class Inside(Protocol):
    """The network that commands are in."""

    def listening_ports(self) -> set[int]: ...
    def connect(self, port: int) -> socket.socket | None: ...


class PublishedPorts:
    """Looks for new servers while commands run. What is taken here already stays as it is."""

    def __init__(self, inside: Inside, ours: Callable[[], Collection[int]]) -> None:
        """`ours` are ports inside that we listen on ourselves."""
        self._inside = inside
        self._ours = ours
        self._published: dict[int, anyio.CancelScope] = {}
        self._taken: set[int] = set()

    async def watch(self, scope: anyio.CancelScope) -> None:
        with scope:
            try:
                async with anyio.create_task_group() as group:
                    while True:
                        await anyio.sleep(LOOK_SECONDS)
                        self._update(self._inside.listening_ports() - set(self._ours()), group)
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


def refused_ports(command: str, said: str) -> list[int]:
    """Ports of `localhost` that are named where a connection was refused."""
    if not _REFUSED.search(said):
        return []
    found = (int(port) for port in _PORT.findall(f"{said}\n{command}"))
    return [port for port in dict.fromkeys(found) if 0 < port < 65536]


def listening_here() -> set[int]:
    """The ports that something on this machine listens on, outside of any sandbox."""
    found: set[int] = set()
    for table in _TABLES:
        with suppress(OSError), open(table) as file:
            found.update(port for line in file if (port := _listened_on(line)))
    return found


def _listened_on(line: str) -> int:
    fields = line.split()
    if len(fields) < 4 or fields[3] != _LISTENING:
        return 0
    return int(fields[1].rpartition(":")[2], 16)
