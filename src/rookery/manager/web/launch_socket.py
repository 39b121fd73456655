"""Where the command that finds a server running asks it for a link: a socket that only its owner
can use, so that nothing secret is ever written down."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import anyio
import msgspec
from anyio.abc import SocketListener, SocketStream
from msgspec import Struct

from rookery.errors import SettingsError
from rookery.platform.disk import private_folder
from rookery.protocol.channels import ChannelEnded, TooLong
from rookery.protocol.unix_sockets import channel_on, is_of_our_own, unix_channel, unix_listener

NAME_OF_SOCKET = "web.sock"
_SECONDS = 5.0
_LONGEST = 1024
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


async def _give(listener: SocketListener, links: Callable[[bool], Links]) -> None:
    """One after the other: each has a few seconds."""
    while True:
        stream = await listener.accept()
        with anyio.move_on_after(_SECONDS), suppress(*_NONSENSE):
            async with stream:
                if is_of_our_own(stream):
                    await _answer(stream, links)


async def _answer(stream: SocketStream, links: Callable[[bool], Links]) -> None:
    channel = channel_on(stream, _LONGEST)
    asked = msgspec.json.decode(await channel.receive(), type=_Question)
    await channel.send([msgspec.json.encode(links(asked.pair))])
