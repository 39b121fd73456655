"""Finds the running server of a project and gets links from it.

A file, without secrets, records its port. Links are handed out over a socket that only its owner
can use, so no code is ever stored. A link can be shown as a QR code.
"""

import json
import os
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path

import anyio
import msgspec
from anyio.abc import SocketListener, SocketStream
from msgspec import Struct

from rookery.errors import SettingsError, StorageError
from rookery.manager.sessions.session_process import start_ticks
from rookery.platform.disk import PRIVATE_FILE, private_folder, reason
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
_LONGEST_NOTE = 4096
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
    """Record the port while the server runs. Replaces only the file of an exited process."""
    path = private_folder(folder) / PORT_FILE
    note = {"port": port, "pid": os.getpid(), "born": start_ticks(os.getpid())}
    if running_port(folder) is None:
        path.unlink(missing_ok=True)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        with open(os.open(path, flags, PRIVATE_FILE), "w", encoding="ascii") as file:
            json.dump(note, file)
    except OSError as error:
        raise StorageError(f"{path} cannot be written ({reason(error)}).") from error
    try:
        yield
    finally:
        path.unlink(missing_ok=True)


def running_port(folder: Path) -> int | None:
    """Port of a running server; its start time is compared too, because a pid may be reused."""
    with suppress(OSError, ValueError):
        descriptor = os.open(folder / PORT_FILE, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        with open(descriptor, encoding="ascii") as file:
            record = json.loads(file.read(_LONGEST_NOTE))
        match record:
            case {"port": int(port), "pid": int(pid), "born": int(began)}:
                return port if began == start_ticks(pid) and _exists(pid) else None
    return None


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
    """QR code with two rows per line and fixed colours, dark on light in any terminal; empty if
    segno is not installed."""
    if find_spec("segno") is None:
        return ""
    import segno

    rows = [[*row] for row in segno.make_qr(link, error="l").matrix_iter(border=_BORDER)]
    if len(rows) % 2:
        rows.append([0] * len(rows[0]))
    lines = [
        "".join(_HALVES[bool(upper), bool(lower)] for upper, lower in zip(*pair, strict=True))
        for pair in zip(rows[::2], rows[1::2], strict=True)
    ]
    return "".join(f"{_BLACK_ON_WHITE}{line}{_RESET}\n" for line in lines)


def _exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except (OSError, OverflowError):
        return False
    return True


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
