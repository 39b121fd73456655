"""A page's WebSocket as a channel. Before it has said a token nothing is sent to it, and nothing
but the token is heard."""

from collections.abc import Sequence
from contextlib import suppress
from typing import Literal

import anyio
import msgspec
from msgspec import Struct
from starlette.websockets import WebSocket, WebSocketDisconnect, WebSocketDisconnected

from rookery.manager.web.visitors import Visitor
from rookery.manager.web.web_limits import FIRST_FRAME, INTRODUCTION, STALLED
from rookery.protocol.channels import ChannelEnded

TURNED_AWAY = 1008
TRY_AGAIN = 1013
NOT_TEXT = 1003
TOO_LONG = 1009
_GONE = (WebSocketDisconnect, WebSocketDisconnected, OSError)


class _Params(Struct, frozen=True, kw_only=True):
    token: str


class _Introduction(Struct, frozen=True, kw_only=True):
    method: Literal["initialize"]
    params: _Params


_read_introduction = msgspec.json.Decoder(_Introduction).decode


class PageChannel:
    def __init__(self, socket: WebSocket, visitor: Visitor) -> None:
        self._socket = socket
        self._visitor = visitor
        self._heard: list[bytes] = []

    async def introduction(self) -> str | None:
        """The token in the first words, which are heard once more afterwards. None if they do
        not come in time, or are others. Raises `ChannelEnded`."""
        first = b""
        with anyio.move_on_after(INTRODUCTION) as waiting:
            first = await self.receive()
        if waiting.cancelled_caught:
            await self.aclose(TRY_AGAIN)
        elif len(first) > FIRST_FRAME:
            await self.aclose(TOO_LONG)
        else:
            with suppress(msgspec.MsgspecError, UnicodeError, RecursionError):
                token = _read_introduction(first).params.token
                self._heard.append(first)
                return token
        return None

    async def receive(self) -> bytes:
        if self._heard:
            return self._heard.pop()
        try:
            message = await self._socket.receive()
        except _GONE as error:
            raise ChannelEnded from error
        if message["type"] == "websocket.disconnect":
            raise ChannelEnded
        text = message.get("text")
        if text is None:
            await self.aclose(NOT_TEXT)
            raise ChannelEnded
        return str(text).encode()

    async def send(self, messages: Sequence[bytes]) -> None:
        """Whoever does not take what is sent to them for long is let go. They come again, and
        are told what there is by then."""
        for message in messages:
            with anyio.move_on_after(STALLED) as waiting:
                await self._send({"type": "websocket.send", "text": message.decode()})
            if waiting.cancelled_caught:
                self._visitor.send_away()
                raise ChannelEnded

    async def aclose(self, code: int = 1000) -> None:
        with suppress(ChannelEnded), anyio.move_on_after(INTRODUCTION):
            await self._send({"type": "websocket.close", "code": code})

    async def _send(self, message: dict[str, object]) -> None:
        try:
            await self._socket.send(message)
        except _GONE as error:
            raise ChannelEnded from error
