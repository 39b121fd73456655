"""Finds the running server of the user and gets links from it.

A file, without secrets, records its port, another one the port of the user, so that links stay
valid. Links are handed out over a socket that only its owner can use, so no code is ever stored. A
link can be shown as a QR code.
"""

import os
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import TypeAlias

import anyio
import msgspec
from anyio.abc import SocketListener, SocketStream
from msgspec import Struct

from rookery.core.limits import MIB
from rookery.core.text.characters import is_utf8
from rookery.errors import SettingsError, StorageError
from rookery.first_use import prepared
from rookery.manager.sessions.session_process import start_ticks
from rookery.platform.disk import private_folder, put, reason
from rookery.protocol.channels import (
    ChannelEnded,
    TooLong,
    channel_on,
    is_same_user,
    unix_channel,
    unix_listener,
)

_BORDER = 4
"""White modules around the code, required by the standard."""
_BLACK_ON_WHITE = "\x1b[38;5;16;48;5;231m"
_RESET = "\x1b[0m"
_HALVES = {(0, 0): " ", (0, 1): "▄", (1, 0): "▀", (1, 1): "█"}
PORT_FILE = "server.json"
OWN_PORT_FILE = "port"
_OWN_PORTS = range(20_000, 30_000)
"""Where the user's own port is: no system picks these for connections, and few programs use them.
It is random, because browsers share what they store between all programs that ever use a port."""
_MOST_MOVES = 1_000
"""A port that is taken is replaced by the next one, in the course of time this often."""
SOCKET_FILE = "web.sock"
_SECONDS = 5.0
_LONGEST_MESSAGE = MIB
_INVALID = (ChannelEnded, TooLong, msgspec.MsgspecError, RecursionError)


class Links(Struct, frozen=True, kw_only=True):
    """Links to a running server. Their codes can be used once."""

    url: str
    launch_url: str
    pid: int
    pairing_url: str = ""
    """Empty if no device can be paired."""
    problem: str = ""
    """Why there is no link to the project."""


class LinkRequest(Struct, frozen=True, kw_only=True):
    pair: bool = False
    project: str = ""
    """The folder of a project; empty for the one that the server was started for."""
    environ: dict[str, str] = {}
    """For sessions of the project, if this opens it; empty for the server's own."""


GiveLinks: TypeAlias = Callable[[LinkRequest], Awaitable[Links]]


@contextmanager
def record_port(folder: Path, port: int) -> Iterator[None]:
    """Record the port for other programs, while the server runs that serves the links."""
    path = private_folder(folder) / PORT_FILE
    note = {"port": port, "pid": os.getpid(), "born": start_ticks(os.getpid())}
    try:
        put(path, [msgspec.json.encode(note)])
    except OSError as error:
        raise StorageError(f"{path} cannot be written ({reason(error)}).") from error
    try:
        yield
    finally:
        path.unlink(missing_ok=True)


def own_port(folder: Path) -> int:
    """The port of the user, or a new one if none was recorded."""
    with suppress(OSError, ValueError):
        recorded = int((folder / OWN_PORT_FILE).read_text(encoding="ascii")[:10])
        if _OWN_PORTS[0] <= recorded < _OWN_PORTS[-1] + _MOST_MOVES:
            return recorded
    return secrets.choice(_OWN_PORTS)


def record_own_port(folder: Path, port: int) -> None:
    with suppress(OSError):  # then the next server has another port
        put(private_folder(folder) / OWN_PORT_FILE, [b"%d\n" % port])


@asynccontextmanager
async def serve_links(folder: Path, links: GiveLinks) -> AsyncIterator[None]:
    """Hand out links to clients. Raises `SettingsError` if another process already does."""
    private_folder(folder)
    async with (
        unix_listener(folder / SOCKET_FILE) as listener,
        anyio.create_task_group() as group,
    ):
        group.start_soon(_serve_clients, listener, links)
        yield
        group.cancel_scope.cancel()


async def ask_for_links(
    folder: Path,
    *,
    pair: bool = False,
    project: Path | None = None,
    environ: Mapping[str, str] | None = None,
) -> Links | None:
    """Ask the running server for links; None if there is none."""
    texts = {name: value for name, value in (environ or {}).items() if is_utf8(name + value)}
    request = LinkRequest(pair=pair, project=str(project or ""), environ=texts)
    with anyio.move_on_after(_SECONDS), suppress(SettingsError, ChannelEnded, TooLong):
        channel = await unix_channel(folder / SOCKET_FILE)
        try:
            await channel.send([msgspec.json.encode(request)])
            return msgspec.json.decode(await channel.receive(), type=prepared(Links))
        finally:
            await channel.aclose()
    return None


def qr_code(link: str) -> str:
    """QR code with two rows per line and fixed colours, dark on light in any terminal."""
    import segno

    rows = [[*row] for row in segno.make_qr(link, error="l").matrix_iter(border=_BORDER)]
    if len(rows) % 2:
        rows.append([0] * len(rows[0]))
    lines = [
        "".join(_HALVES[bool(upper), bool(lower)] for upper, lower in zip(*pair, strict=True))
        for pair in zip(rows[::2], rows[1::2], strict=True)
    ]
    return "".join(f"{_BLACK_ON_WHITE}{line}{_RESET}\n" for line in lines)


async def _serve_clients(listener: SocketListener, links: GiveLinks) -> None:
    """Answer clients one at a time, each within a few seconds."""
    while True:
        stream = await listener.accept()
        with anyio.move_on_after(_SECONDS), suppress(*_INVALID):
            async with stream:
                if is_same_user(stream):
                    await _answer(stream, links)


async def _answer(stream: SocketStream, links: GiveLinks) -> None:
    channel = channel_on(stream, _LONGEST_MESSAGE)
    asked = msgspec.json.decode(await channel.receive(), type=prepared(LinkRequest))
    await channel.send([msgspec.json.encode(await links(asked))])
