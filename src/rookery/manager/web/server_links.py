"""Finds the running server of a project and gets links from it.

A file, without secrets, records its port. Links are handed out over a socket that only its owner
can use, so no code is ever stored. A link can be shown as a QR code.
"""

import os
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path

import anyio
import msgspec
from anyio.abc import SocketListener, SocketStream
from msgspec import Struct

from rookery.errors import SettingsError, StorageError
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
SOCKET_FILE = "web.sock"
_SECONDS = 5.0
_LONGEST_MESSAGE = 1024
_INVALID = (ChannelEnded, TooLong, msgspec.MsgspecError, RecursionError)


class Links(Struct, frozen=True, kw_only=True):
    """Links to a running server. Their codes can be used once."""

    url: str
    launch_url: str
    pid: int
    pairing_url: str = ""
    """Empty if no device can be paired."""


class _LinkRequest(Struct, frozen=True, kw_only=True):
    pair: bool = False


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


@asynccontextmanager
async def serve_links(folder: Path, links: Callable[[bool], Links]) -> AsyncIterator[None]:
    """Hand out `links(pair)` to clients. Raises `SettingsError` if another process already does."""
    private_folder(folder)
    async with (
        unix_listener(folder / SOCKET_FILE) as listener,
        anyio.create_task_group() as group,
    ):
        group.start_soon(_serve_clients, listener, links)
        yield
        group.cancel_scope.cancel()


async def ask_for_links(folder: Path, *, pair: bool = False) -> Links | None:
    """Ask the running server for links; None if there is none for this folder."""
    with anyio.move_on_after(_SECONDS), suppress(SettingsError, ChannelEnded, TooLong):
        channel = await unix_channel(folder / SOCKET_FILE)
        try:
            await channel.send([msgspec.json.encode(_LinkRequest(pair=pair))])
            return msgspec.json.decode(await channel.receive(), type=Links)
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


async def _serve_clients(listener: SocketListener, links: Callable[[bool], Links]) -> None:
    """Answer clients one at a time, each within a few seconds."""
    while True:
        stream = await listener.accept()
        with anyio.move_on_after(_SECONDS), suppress(*_INVALID):
            async with stream:
                if is_same_user(stream):
                    await _answer(stream, links)


async def _answer(stream: SocketStream, links: Callable[[bool], Links]) -> None:
    channel = channel_on(stream, _LONGEST_MESSAGE)
    asked = msgspec.json.decode(await channel.receive(), type=_LinkRequest)
    await channel.send([msgspec.json.encode(links(asked.pair))])
