"""A WebSocket on the loopback address, for pages and programs with the token.

A browser lets any page connect to this machine, and a DNS name may point here. So the origin and
the host name are checked first, and the token keeps out other users of the machine.
"""

import re
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from http import HTTPStatus
from typing import TYPE_CHECKING

import anyio
from anyio.abc import ByteStream
from msgspec import Struct

from rookery import NAME
from rookery.protocol.channels import LONGEST_MESSAGE, ChannelEnded
from rookery.protocol.server import same_token

if TYPE_CHECKING:
    from websockets.http11 import Request
    from websockets.server import ServerProtocol
    from websockets.typing import Subprotocol

LOOPBACK = "127.0.0.1"
SUBPROTOCOL = NAME
TOKEN_SUBPROTOCOL = f"{NAME}.token."
"""Prefix of the token for pages, which cannot send headers."""
SECONDS_TO_SHAKE_HANDS = 10.0
MOST_BEFORE_TOKEN = 2**16
"""Bytes accepted from a client before it has sent the token."""
_SECONDS_FOR_LAST_WORDS = 1.0
_OURSELVES = r"(?:localhost|127\.0\.0\.1|\[::1\])"
_ORIGIN = re.compile(rf"https?://{_OURSELVES}(?::\d+)?", re.IGNORECASE)
_GONE = (anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError)


class WebSocketChannel:
    """One message per WebSocket message. One that is too long ends the connection (1009)."""

    def __init__(self, stream: ByteStream, protocol: "ServerProtocol") -> None:
        self._stream = stream
        self._protocol = protocol
        self._begun: list[bytes] = []
        self._received: deque[bytes] = deque()
        self._unsent: list[bytes] = []
        self._writing = anyio.Lock()
        self._allowance: int | None = None
        """Bytes that may still be received; None for no limit."""

    def distrust(self) -> None:
        """Limit what a client may send before it is trusted; more ends the connection (1009)."""
        self._allowance = MOST_BEFORE_TOKEN

    def trust(self) -> None:
        self._allowance = None

    async def receive(self) -> bytes:
        from websockets.protocol import State

        while not self._received:
            if self._protocol.state in (State.CLOSING, State.CLOSED):
                raise ChannelEnded
            await self.receive_more()
            self._take_frames()
        return self._received.popleft()

    async def send(self, messages: Sequence[bytes]) -> None:
        from websockets.exceptions import InvalidState

        try:
            for message in messages:
                self._protocol.send_text(message)
        except InvalidState as error:
            raise ChannelEnded from error
        await self.flush()

    async def aclose(self) -> None:
        from websockets.exceptions import InvalidState

        with suppress(InvalidState, ChannelEnded), anyio.move_on_after(_SECONDS_FOR_LAST_WORDS):
            self._protocol.send_close()
            await self.flush()
        with suppress(OSError, *_GONE), anyio.move_on_after(_SECONDS_FOR_LAST_WORDS):
            # closing while something is unread would take back what was sent last
            await self._stream.send_eof()
            while True:
                await self._stream.receive()
        with suppress(OSError, *_GONE):
            await self._stream.aclose()

    async def receive_more(self) -> None:
        """Feed received bytes to the protocol, and send its own replies."""
        from websockets.frames import CloseCode

        try:
            data = await self._stream.receive()
        except _GONE as error:
            self._protocol.receive_eof()
            raise ChannelEnded from error
        if self._allowance is not None:
            self._allowance -= len(data)
        if self._allowance is not None and self._allowance < 0:
            self._protocol.fail(CloseCode.MESSAGE_TOO_BIG)
        else:
            self._protocol.receive_data(data)
        self._unsent += self._protocol.data_to_send()
        if self._unsent and not self._writing.locked():  # else the current writer sends it too
            await self.flush()

    async def flush(self) -> None:
        self._unsent += self._protocol.data_to_send()
        async with self._writing:
            while self._unsent:
                data, self._unsent = b"".join(self._unsent), []
                try:
                    await self._stream.send(data)
                except _GONE as error:
                    raise ChannelEnded from error

    def _take_frames(self) -> None:
        from websockets.frames import DATA_OPCODES, Frame

        for frame in self._protocol.events_received():
            if not isinstance(frame, Frame) or frame.opcode not in DATA_OPCODES:
                continue
            self._begun.append(bytes(frame.data))
            if frame.fin:
                self._received.append(b"".join(self._begun))
                self._begun.clear()


class WebCaller(Struct, frozen=True):
    """An accepted client; `known` if it has sent the token."""

    channel: WebSocketChannel
    known: bool


async def accept_web_socket(
    stream: ByteStream, *, port: int, token: str, longest: int = LONGEST_MESSAGE
) -> WebCaller | None:
    """Accept a connection to `port`, or refuse it with the reason."""
    from websockets.http11 import Request
    from websockets.server import ServerProtocol

    protocol = ServerProtocol(max_size=longest, select_subprotocol=_subprotocol)
    channel = WebSocketChannel(stream, protocol)
    with suppress(ChannelEnded), anyio.move_on_after(SECONDS_TO_SHAKE_HANDS):
        while protocol.handshake_exc is None:
            for request in protocol.events_received():
                assert isinstance(request, Request)
                given = _token_in(request)
                refusal = _refusal(request, port, token, given)
                response = (
                    protocol.reject(refusal[0], refusal[1] + "\n")
                    if refusal
                    else protocol.accept(request)
                )
                protocol.send_response(response)
                await channel.flush()
                if response.status_code == HTTPStatus.SWITCHING_PROTOCOLS:
                    if given is None:
                        channel.distrust()
                    return WebCaller(channel, given is not None)
                return None
            await channel.receive_more()
    return None


def _refusal(
    request: "Request", port: int, token: str, given: str | None
) -> tuple[HTTPStatus, str] | None:
    hosts, origins = request.headers.get_all("Host"), request.headers.get_all("Origin")
    if len(hosts) != 1 or not re.fullmatch(rf"{_OURSELVES}:{port}", hosts[0], re.IGNORECASE):
        return HTTPStatus.FORBIDDEN, f"Wrong Host header. Connect to {LOOPBACK}:{port}."
    if not all(map(_ORIGIN.fullmatch, origins)):
        return HTTPStatus.FORBIDDEN, "Connections from other origins are refused."
    if given is not None and not same_token(token, given):
        return HTTPStatus.UNAUTHORIZED, "The token is wrong."
    return None


def _token_in(request: "Request") -> str | None:
    """The token in a header; None to expect it in the first message."""
    for header in request.headers.get_all("Authorization"):
        scheme, _, given = header.partition(" ")
        return given.strip() if scheme.lower() == "bearer" else ""
    for header in request.headers.get_all("Sec-WebSocket-Protocol"):
        for offered in map(str.strip, header.split(",")):
            if offered.startswith(TOKEN_SUBPROTOCOL):
                return offered.removeprefix(TOKEN_SUBPROTOCOL)
    return None


def _subprotocol(_: object, offered: "Sequence[Subprotocol]") -> "Subprotocol | None":
    return next((one for one in offered if one == SUBPROTOCOL), None)
