"""How a command finds the server that is running, and gets links from it.

A file notes where the server is; there is no secret in it. Links are given through a socket that
only its owner can use, so that no code is ever written down. A link can be shown as a QR code.
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
from rookery.manager.sessions.session_process import born
from rookery.platform.disk import PRIVATE_FILE, private_folder, reason
from rookery.protocol.channels import ChannelEnded, TooLong
from rookery.protocol.unix_sockets import channel_on, is_of_our_own, unix_channel, unix_listener

_BORDER = 4
"""Modules of white around it, as the standard wants."""
_BLACK_ON_WHITE = "\x1b[38;5;16;48;5;231m"
_AS_BEFORE = "\x1b[0m"
_HALVES = {(0, 0): " ", (0, 1): "▄", (1, 0): "▀", (1, 1): "█"}
NAME_OF_FILE = "server.json"
_LONGEST_NOTE = 4096
NAME_OF_SOCKET = "web.sock"
_SECONDS = 5.0
_LONGEST_MESSAGE = 1024
_NONSENSE = (ChannelEnded, TooLong, msgspec.MsgspecError, RecursionError)


class Links(Struct, frozen=True, kw_only=True):
    """What whoever asks is told. Each is good once."""

    url: str
    launch_url: str
    pid: int
    pairing_url: str = ""
    """None if no device can be paired."""


class _Question(Struct, frozen=True, kw_only=True):
    pair: bool = False


@contextmanager
def noted(folder: Path, port: int) -> Iterator[None]:
    """One that a process left that is not there any more is replaced, and only such a one."""
    path = private_folder(folder) / NAME_OF_FILE
    note = {"port": port, "pid": os.getpid(), "born": born(os.getpid())}
    if running_at(folder) is None:
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


def running_at(folder: Path) -> int | None:
    """The port of a server that is there: its number may be another process's by now, so the
    moment counts at which it began."""
    with suppress(OSError, ValueError):
        descriptor = os.open(folder / NAME_OF_FILE, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        with open(descriptor, encoding="ascii") as file:
            said = json.loads(file.read(_LONGEST_NOTE))
        match said:
            case {"port": int(port), "pid": int(pid), "born": int(began)}:
                return port if began == born(pid) and _exists(pid) else None
    return None


@asynccontextmanager
async def giving_links(folder: Path, links: Callable[[bool], Links]) -> AsyncIterator[None]:
    """While it goes on, `links` is asked, with whether a device is to be paired. Raises
    `SettingsError` if somebody else does so for this folder."""
    private_folder(folder)
    async with (
        unix_listener(folder / NAME_OF_SOCKET) as listener,
        anyio.create_task_group() as group,
    ):
        group.start_soon(_give, listener, links)
        yield
        group.cancel_scope.cancel()


async def ask_for_links(folder: Path, *, pair: bool = False) -> Links | None:
    """None if no server runs for this folder."""
    with anyio.move_on_after(_SECONDS), suppress(SettingsError, ChannelEnded, TooLong):
        channel = await unix_channel(folder / NAME_OF_SOCKET)
        try:
            await channel.send([msgspec.json.encode(_Question(pair=pair))])
            return msgspec.json.decode(await channel.receive(), type=Links)
        finally:
            await channel.aclose()
    return None


def qr_code(link: str) -> str:
    """Two rows of it per line. Its colours are given, so that it is dark on light in any
    terminal; nothing if there is nobody to draw it."""
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
    return "".join(f"{_BLACK_ON_WHITE}{line}{_AS_BEFORE}\n" for line in lines)


def _exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except (OSError, OverflowError):
        return False
    return True


async def _give(listener: SocketListener, links: Callable[[bool], Links]) -> None:
    """One after the other: each has a few seconds."""
    while True:
        stream = await listener.accept()
        with anyio.move_on_after(_SECONDS), suppress(*_NONSENSE):
            async with stream:
                if is_of_our_own(stream):
                    await _answer(stream, links)


async def _answer(stream: SocketStream, links: Callable[[bool], Links]) -> None:
    channel = channel_on(stream, _LONGEST_MESSAGE)
    asked = msgspec.json.decode(await channel.receive(), type=_Question)
    await channel.send([msgspec.json.encode(links(asked.pair))])
