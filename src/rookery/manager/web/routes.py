"""HTTP routes and the page's WebSocket, behind the guard.

Before a page sent its token on the WebSocket, nothing is sent to it and nothing else is read.
Launch codes are refused to other users of this machine, who can see a browser's command line.
"""

import os
import socket
import struct
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from http import HTTPStatus
from pathlib import Path
from typing import Any, Literal, Protocol, TypeAlias

import anyio
import msgspec
from msgspec import Struct
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route, Router, WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect, WebSocketDisconnected

from rookery import NAME, VERSION
from rookery.core.commands import repeated_field
from rookery.core.queries import Asking
from rookery.errors import CommandRejected, RookeryError
from rookery.manager.handlers.router import reply_to_json, request_from_json
from rookery.manager.web.access import (
    BODY,
    FIRST_FRAME,
    HANDSHAKE,
    STALLED,
    WHOLE_BODY,
    Access,
    Identity,
    Visitor,
)
from rookery.manager.web.page_files import PageFiles
from rookery.manager.web.request_guard import API, SOCKET, refusal_headers
from rookery.protocol.channels import Channel, ChannelEnded
from rookery.protocol.codec import PROTOCOL, answer_to_json
from rookery.protocol.jsonrpc import error_of

_TABLES = {socket.AF_INET: Path("/proc/net/tcp"), socket.AF_INET6: Path("/proc/net/tcp6")}
_ROOT = 0
_NO_FILE = "0"
POLICY_VIOLATION = 1008
TRY_AGAIN = 1013
NOT_TEXT = 1003
TOO_LONG = 1009
_GONE = (WebSocketDisconnect, WebSocketDisconnected, OSError)
_decode = msgspec.json.Decoder(dict[str, Any]).decode
_UNREADABLE = (
    msgspec.MsgspecError,
    UnicodeError,
    RecursionError,
    ClientDisconnect,
    TimeoutError,
)
Talk: TypeAlias = Callable[[Channel, str], Awaitable[None]]
"""Serves the client of a channel, which authenticated with this token."""


class PageChannel:
    def __init__(self, socket: WebSocket, visitor: Visitor) -> None:
        self._socket = socket
        self._visitor = visitor
        self._received: list[bytes] = []

    async def receive_token(self) -> str | None:
        """Read the token from the first message, which `receive` then returns again. None if it
        does not arrive in time or is something else. Raises `ChannelEnded`."""
        first = b""
        with anyio.move_on_after(HANDSHAKE) as waiting:
            first = await self.receive()
        if waiting.cancelled_caught:
            await self.aclose(TRY_AGAIN)
        elif len(first) > FIRST_FRAME:
            await self.aclose(TOO_LONG)
        else:
            with suppress(msgspec.MsgspecError, UnicodeError, RecursionError):
                token = _read_introduction(first).params.token
                self._received.append(first)
                return token
        return None

    async def receive(self) -> bytes:
        if self._received:
            return self._received.pop()
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
        """Send messages. A client that stops reading is disconnected, and may reconnect."""
        for message in messages:
            with anyio.move_on_after(STALLED) as waiting:
                await self._send({"type": "websocket.send", "text": message.decode()})
            if waiting.cancelled_caught:
                self._visitor.disconnect()
                raise ChannelEnded

    async def aclose(self, code: int = 1000) -> None:
        with suppress(ChannelEnded), anyio.move_on_after(HANDSHAKE):
            await self._send({"type": "websocket.close", "code": code})

    async def _send(self, message: dict[str, object]) -> None:
        try:
            await self._socket.send(message)
        except _GONE as error:
            raise ChannelEnded from error


class RequestRouter(Protocol):
    """Answers requests."""

    async def do(self, request: Asking[Any]) -> Any: ...


class Routes:
    def __init__(
        self,
        router: RequestRouter,
        talk: Talk,
        access: Access,
        page: PageFiles,
        on_paired: Callable[[str], None],
    ) -> None:
        self._router = router
        self._talk = talk
        self._access = access
        self._page = page
        self._on_paired = on_paired

    def app(self) -> Router:
        return Router(
            [
                Route(f"{API}/launch", self._launch, methods=["POST"]),
                Route(f"{API}/pair", self._pair, methods=["POST"]),
                Route(f"{API}/do", self._do, methods=["POST"]),
                Route(f"{API}/health", self._health, methods=["GET"]),
                WebSocketRoute(SOCKET, self._socket),
                Route("/{path:path}", self._file, methods=["GET"]),
            ],
            redirect_slashes=False,
        )

    async def _launch(self, request: Request) -> Response:
        """Exchange a launch code for the token. Only from this machine, for whose user the code
        is."""
        try:
            given = _read_launch(await _body(request))
        except _UNREADABLE:
            return self._refusal(HTTPStatus.BAD_REQUEST)
        if request.state.served.outside or is_of_another_user(
            request.scope["client"], request.scope["server"]
        ):
            return self._refusal(HTTPStatus.FORBIDDEN)
        if not self._access.keys.launch_codes.redeem(given.code):
            return self._wrong_code(request)
        return _json({"token": self._access.keys.token})

    async def _pair(self, request: Request) -> Response:
        try:
            given = _read_pairing(await _body(request))
        except _UNREADABLE:
            return self._refusal(HTTPStatus.BAD_REQUEST)
        if not self._access.keys.pairing_codes.redeem(given.code):
            return self._wrong_code(request)
        try:
            device_id, token = self._access.keys.devices.pair(given.name)
        except RookeryError as error:
            return _json({"error": error_of(error)}, HTTPStatus.CONFLICT)
        self._on_paired(device_id)
        return _json({"token": token, "device_id": device_id})

    async def _do(self, request: Request) -> Response:
        try:
            body = await _body(request)
            fields = _decode(body)
        except _UNREADABLE:
            return self._refusal(HTTPStatus.BAD_REQUEST)
        if len(body) > BODY and not fields.get("images"):
            return self._refusal(HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
        try:
            if clause := repeated_field(body):
                raise CommandRejected(f"The request {clause} Nothing was done.")
            answer = await self._router.do(request_from_json(fields))
        except RookeryError as error:
            return _json({"error": error_of(error)}, HTTPStatus.CONFLICT)
        return Response(reply_to_json(answer), media_type="application/json")

    async def _health(self, request: Request) -> Response:
        return _json({"protocol": PROTOCOL, "host": {"name": NAME, "version": VERSION}})

    async def _file(self, request: Request) -> Response:
        found = self._page.at(request.scope["raw_path"].decode("ascii"))
        if not found:
            return _empty_response(HTTPStatus.NOT_FOUND)
        return Response(
            found.content,
            headers={"content-type": found.content_type, "cache-control": found.cached},
        )

    async def _socket(self, socket: WebSocket) -> None:
        visitor, outside = socket.state.visitor, socket.state.served.outside
        await socket.accept()
        channel = PageChannel(socket, visitor)
        address = socket.client.host if socket.client else ""
        try:
            token = await channel.receive_token()
        except ChannelEnded:
            return
        identity = self._access.identity(token, outside=outside, address=address)
        if not isinstance(identity, Identity):
            self._access.count_blocked()
            await channel.aclose(POLICY_VIOLATION)
            return
        visitor.authenticate(identity)
        try:
            await self._talk(channel, identity.token)
        finally:
            with anyio.CancelScope(shield=True):
                await channel.aclose()

    def _wrong_code(self, request: Request) -> Response:
        return self._refusal(
            self._access.wrong_codes.note(request.client.host if request.client else "")
        )

    def _refusal(self, status: HTTPStatus) -> Response:
        self._access.count_blocked()
        return _empty_response(status)


class _Params(Struct, frozen=True, kw_only=True):
    token: str


class _Introduction(Struct, frozen=True, kw_only=True):
    method: Literal["initialize"]
    params: _Params


_read_introduction = msgspec.json.Decoder(_Introduction).decode


class _Launch(Struct, frozen=True, kw_only=True):
    code: str


class _Pairing(Struct, frozen=True, kw_only=True):
    code: str
    name: str = ""


_read_launch = msgspec.json.Decoder(_Launch).decode
_read_pairing = msgspec.json.Decoder(_Pairing).decode


def is_of_another_user(client: tuple[str, int], server: tuple[str, int]) -> bool:
    """Whether the system's connection table names another user; without a table the code must
    do. The owner of a closed connection is unknown, so it counts as another user's."""
    family = socket.AF_INET6 if ":" in client[0] else socket.AF_INET
    wanted = f"{_table_entry(family, client)} {_table_entry(family, server)}"
    try:
        lines = _TABLES[family].read_text(encoding="ascii").splitlines()
    except OSError:
        return False
    found = [line.split() for line in lines if " ".join(line.split()[1:3]) == wanted]
    closed = any(words[9] == _NO_FILE for words in found)
    return closed or bool({int(words[7]) for words in found} - {os.geteuid(), _ROOT})


def _table_entry(family: socket.AddressFamily, end: tuple[str, int]) -> str:
    """An address as in that table: 32-bit words in native byte order."""
    packed = socket.inet_pton(family, end[0])
    words = struct.unpack(f"={len(packed) // 4}I", packed)
    return "".join(f"{word:08X}" for word in words) + f":{end[1]:04X}"


def _empty_response(status: HTTPStatus) -> Response:
    response = Response(status_code=status)
    response.raw_headers = refusal_headers(status)
    return response


def _json(answer: object, status: HTTPStatus = HTTPStatus.OK) -> Response:
    return Response(answer_to_json(answer), status, media_type="application/json")


async def _body(request: Request) -> bytes:
    with anyio.fail_after(WHOLE_BODY):
        return await request.body()
