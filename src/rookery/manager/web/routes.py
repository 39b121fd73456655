"""What can be asked for. The guard has looked at all of it before it comes here."""

from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import Any, Protocol, TypeAlias

import anyio
import msgspec
from msgspec import Struct
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route, Router, WebSocketRoute
from starlette.websockets import WebSocket

from rookery import NAME, VERSION
from rookery.core.queries import Asking
from rookery.core.unknown_fields import repeated_field
from rookery.errors import CommandRejected, RookeryError
from rookery.manager.request_json import reply_to_json, request_from_json
from rookery.manager.web.access_watch import Watch
from rookery.manager.web.error_responses import headers_of_refusal
from rookery.manager.web.page_channel import TURNED_AWAY, PageChannel
from rookery.manager.web.page_files import PageFiles
from rookery.manager.web.peer_user import is_of_another_user
from rookery.manager.web.request_guard import API, SOCKET
from rookery.manager.web.web_limits import BODY, WHOLE_BODY
from rookery.manager.web.web_tokens import Guest
from rookery.protocol.channels import Channel, ChannelEnded
from rookery.protocol.codec import PROTOCOL, answer_to_json
from rookery.protocol.jsonrpc import error_of

Talk: TypeAlias = Callable[[Channel, str], Awaitable[None]]
"""Serves whoever is at the other end of a channel, and has this token."""
_decode = msgspec.json.Decoder(dict[str, Any]).decode
_UNREADABLE = (
    msgspec.MsgspecError,
    UnicodeError,
    RecursionError,
    ClientDisconnect,
    TimeoutError,
)


class AtTheDesk(Protocol):
    """The manager's desk."""

    async def do(self, request: Asking[Any]) -> Any: ...


class _Launch(Struct, frozen=True, kw_only=True):
    code: str


class _Pairing(Struct, frozen=True, kw_only=True):
    code: str
    name: str = ""


_read_launch = msgspec.json.Decoder(_Launch).decode
_read_pairing = msgspec.json.Decoder(_Pairing).decode


class Routes:
    def __init__(
        self,
        desk: AtTheDesk,
        talk: Talk,
        watch: Watch,
        page: PageFiles,
        paired: Callable[[str], None],
    ) -> None:
        self._desk = desk
        self._talk = talk
        self._watch = watch
        self._page = page
        self._paired = paired

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
        """From another machine a code is worth nothing: it is for whoever sits here."""
        try:
            given = _read_launch(await _body(request))
        except _UNREADABLE:
            return self._refusal(HTTPStatus.BAD_REQUEST)
        if request.state.door.outside or is_of_another_user(*_ends(request)):
            return self._refusal(HTTPStatus.FORBIDDEN)
        if not self._watch.keys.launch_codes.redeem(given.code):
            return self._wrong_code(request)
        return _json({"token": self._watch.keys.token})

    async def _pair(self, request: Request) -> Response:
        try:
            given = _read_pairing(await _body(request))
        except _UNREADABLE:
            return self._refusal(HTTPStatus.BAD_REQUEST)
        if not self._watch.keys.pairing_codes.redeem(given.code):
            return self._wrong_code(request)
        try:
            device_id, token = self._watch.keys.devices.pair(given.name)
        except RookeryError as error:
            return _json({"error": error_of(error)}, HTTPStatus.CONFLICT)
        self._paired(device_id)
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
            answer = await self._desk.do(request_from_json(fields))
        except RookeryError as error:
            return _json({"error": error_of(error)}, HTTPStatus.CONFLICT)
        return Response(reply_to_json(answer), media_type="application/json")

    async def _health(self, request: Request) -> Response:
        return _json({"protocol": PROTOCOL, "host": {"name": NAME, "version": VERSION}})

    async def _file(self, request: Request) -> Response:
        found = self._page.at(request.scope["raw_path"].decode("ascii"))
        if not found:
            return _bare(HTTPStatus.NOT_FOUND)
        return Response(
            found.content,
            headers={"content-type": found.content_type, "cache-control": found.cached},
        )

    async def _socket(self, socket: WebSocket) -> None:
        visitor, outside = socket.state.visitor, socket.state.door.outside
        await socket.accept()
        channel = PageChannel(socket, visitor)
        address = socket.client.host if socket.client else ""
        try:
            token = await channel.introduction()
        except ChannelEnded:
            return
        guest = self._watch.guest(token, outside=outside, address=address)
        if not isinstance(guest, Guest):
            self._watch.block()
            await channel.aclose(TURNED_AWAY)
            return
        visitor.introduce(guest)
        try:
            await self._talk(channel, guest.token)
        finally:
            with anyio.CancelScope(shield=True):
                await channel.aclose()

    def _wrong_code(self, request: Request) -> Response:
        return self._refusal(self._watch.wrong_code(request.client.host if request.client else ""))

    def _refusal(self, status: HTTPStatus) -> Response:
        self._watch.block()
        return _bare(status)


def _bare(status: HTTPStatus) -> Response:
    response = Response(status_code=status)
    response.raw_headers = headers_of_refusal(status)
    return response


def _json(answer: object, status: HTTPStatus = HTTPStatus.OK) -> Response:
    return Response(answer_to_json(answer), status, media_type="application/json")


async def _body(request: Request) -> bytes:
    with anyio.fail_after(WHOLE_BODY):
        return await request.body()


def _ends(request: Request) -> tuple[tuple[str, int], tuple[str, int]]:
    return request.scope["client"], request.scope["server"]
