"""HTTP routes and the page's WebSocket, behind the guard.

All but the files of the page belong to a project: to the one that the path names, or to the one
that the server was started for.

Before a page sent its token on the WebSocket, nothing is sent to it and nothing else is read.
Launch codes are refused to other users of this machine, who can see a browser's command line.
"""

import re
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from http import HTTPStatus
from typing import Any, Literal, TypeAlias, TypeVar

import anyio
import msgspec
from msgspec import Struct
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route, WebSocketRoute
from starlette.routing import Router as PathRouter
from starlette.websockets import WebSocket, WebSocketDisconnect, WebSocketDisconnected

from rookery import NAME, VERSION
from rookery.core.commands import repeated_field
from rookery.errors import CommandRejected, RookeryError, StorageError
from rookery.manager.dependencies import FleetView
from rookery.manager.handlers.router import Router, reply_to_json, request_from_json
from rookery.manager.schedules.schedule_file import CallWebhook
from rookery.manager.web.access import (
    BODY,
    FIRST_FRAME,
    HANDSHAKE,
    STALLED,
    WHOLE_BODY,
    Access,
    Identity,
    Visitor,
    address_in,
)
from rookery.manager.web.page_files import PageFiles
from rookery.manager.web.request_guard import (
    API,
    SOCKET,
    WEBHOOK,
    WORKERS,
    Head,
    bearer,
    refusal_headers,
)
from rookery.protocol.channels import Channel, ChannelEnded
from rookery.protocol.codec import PROTOCOL, answer_to_json
from rookery.protocol.jsonrpc import error_of
from rookery.protocol.worker_channel import read_greeting

T = TypeVar("T")
POLICY_VIOLATION = 1008
TRY_AGAIN = 1013
NOT_TEXT = 1003
TOO_LONG = 1009
NO_PROJECT = 4404
_ACCEPTS_GZIP = re.compile(r"\bgzip\b(?!\s*;\s*q=0(\.0*)?\s*(,|$))")
_LONGEST_REASON = 120
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

    async def receive_first(self, read: Callable[[bytes], T]) -> T | None:
        """Read the first message, which `receive` then returns again. None if it does not arrive
        in time or is something else. Raises `ChannelEnded`."""
        first = b""
        with anyio.move_on_after(HANDSHAKE) as waiting:
            first = await self.receive()
        if waiting.cancelled_caught:
            await self.aclose(TRY_AGAIN)
        elif len(first) > FIRST_FRAME:
            await self.aclose(TOO_LONG)
        else:
            with suppress(msgspec.MsgspecError, UnicodeError, RecursionError):
                value = read(first)
                self._received.append(first)
                return value
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

    async def aclose(self, code: int = 1000, reason: str = "") -> None:
        with suppress(ChannelEnded), anyio.move_on_after(HANDSHAKE):
            await self._send({"type": "websocket.close", "code": code, "reason": reason})

    async def _send(self, message: dict[str, object]) -> None:
        try:
            await self._socket.send(message)
        except _GONE as error:
            raise ChannelEnded from error


class HostedProject(Struct, frozen=True):
    """What answers the requests of one project."""

    router: Router
    talk: Talk


FindProject: TypeAlias = Callable[[str], Awaitable[HostedProject]]
"""Finds a project by its id. Raises `RookeryError` if there is none, or it cannot be opened."""


FindWebhook: TypeAlias = Callable[[str, str], Awaitable[str]]
"""Returns the id of the schedule in a project whose webhook has this token, or an empty text."""


async def no_webhook(project_id: str, token: str) -> str:
    return ""


class Routes:
    def __init__(
        self,
        find_project: FindProject,
        access: Access,
        page: PageFiles,
        find_webhook: FindWebhook,
        on_paired: Callable[[str], None],
        fleet: FleetView | None = None,
    ) -> None:
        self._find_webhook = find_webhook
        self._find_project = find_project
        self._access = access
        self._page = page
        self._on_paired = on_paired
        self._fleet = fleet

    def app(self) -> PathRouter:
        return PathRouter(
            [
                Route(f"{API}/launch", self._launch, methods=["POST"]),
                Route(f"{API}/pair", self._pair, methods=["POST"]),
                Route(f"{API}/prove", self._prove, methods=["POST"]),
                Route(WEBHOOK, self._webhook, methods=["POST"]),
                Route(f"{API}/do", self._do, methods=["POST"]),
                Route(f"{API}/health", self._health, methods=["GET"]),
                WebSocketRoute(SOCKET, self._socket),
                WebSocketRoute(WORKERS, self._worker),
                Route("/{path:path}", self._file, methods=["GET"]),
            ],
            redirect_slashes=False,
        )

    async def _launch(self, request: Request) -> Response:
        """Exchange a launch code for a token. Only from this machine, for whose user the code
        is."""
        try:
            given = _read_launch(await _body(request))
        except _UNREADABLE:
            return self._refusal(HTTPStatus.BAD_REQUEST)
        visitor: Visitor = request.state.visitor
        if request.state.served.outside or not visitor.is_same_user(request.scope):
            return self._refusal(HTTPStatus.FORBIDDEN)
        if not self._access.keys.launch_codes.redeem(given.code):
            return self._wrong_code(request)
        devices = self._access.keys.devices
        device_id, token = devices.admit_browser(given.name, replaced=given.device_id)
        return _json({"token": token, "device_id": device_id})

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

    async def _prove(self, request: Request) -> Response:
        """Prove that this is the server that the device knows. The origin is part of the
        challenge, so that it cannot be passed on to a server at another port."""
        try:
            given = _read_challenge(await _body(request))
        except _UNREADABLE:
            return self._refusal(HTTPStatus.BAD_REQUEST)
        challenge = f"{request.state.served.origin} {given.nonce}"
        proof = self._access.keys.devices.proof(given.device_id, challenge)
        return _json({"proof": proof}) if proof else self._wrong_code(request)

    async def _webhook(self, request: Request) -> Response:
        """Start a session of a schedule. Its token is good for nothing else, also from other
        machines, and is checked before the body is read or the project is opened."""
        token, project_id = bearer(Head(request.scope)), request.state.project
        try:
            found = await self._find_webhook(project_id, token) if token else ""
            if not found:
                return self._wrong_code(request)
            given = _read_webhook(await _body(request))
        except _UNREADABLE:
            return self._refusal(HTTPStatus.BAD_REQUEST)
        except RookeryError:
            return self._refusal(HTTPStatus.SERVICE_UNAVAILABLE)
        asked = CallWebhook(schedule_id=found, text=given.text, request_id=given.id)
        try:
            project = await self._find_project(project_id)
            started = await project.router.do(asked)
        except RookeryError as error:
            return _json({"error": error_of(error)}, HTTPStatus.CONFLICT)
        status = HTTPStatus.ACCEPTED if started.session_ids else HTTPStatus.OK
        return _json({"session_ids": started.session_ids}, status)

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
            project = await self._find_project(request.state.project)
            answer = await project.router.do(request_from_json(fields))
        except RookeryError as error:
            return _json({"error": error_of(error)}, HTTPStatus.CONFLICT)
        return Response(reply_to_json(answer), media_type="application/json")

    async def _health(self, request: Request) -> Response:
        return _json({"protocol": PROTOCOL, "host": {"name": NAME, "version": VERSION}})

    async def _file(self, request: Request) -> Response:
        found = self._page.at(request.scope["raw_path"].decode("ascii"))
        if not found:
            return _empty_response(HTTPStatus.NOT_FOUND)
        headers = {
            "content-type": found.content_type,
            "cache-control": found.cached,
            "vary": "accept-encoding",
        }
        if not found.compressed or not _ACCEPTS_GZIP.search(
            request.headers.get("accept-encoding", "")
        ):
            return Response(found.content, headers=headers)
        return Response(found.compressed, headers={**headers, "content-encoding": "gzip"})

    async def _socket(self, socket: WebSocket) -> None:
        visitor, outside = socket.state.visitor, socket.state.served.outside
        await socket.accept()
        channel = PageChannel(socket, visitor)
        try:
            first = await channel.receive_first(_read_introduction)
        except ChannelEnded:
            return
        token = first.params.token if first else None
        identity = self._access.identity(token, socket.scope, outside=outside)
        if not isinstance(identity, Identity):
            self._access.count_blocked()
            await channel.aclose(POLICY_VIOLATION)
            return
        visitor.authenticate(identity)
        try:
            project = await self._find_project(socket.state.project)
        except RookeryError as error:
            await channel.aclose(NO_PROJECT, str(error)[:_LONGEST_REASON])
            return
        try:
            await project.talk(channel, identity.token)
        finally:
            with anyio.CancelScope(shield=True):
                await channel.aclose()

    async def _worker(self, socket: WebSocket) -> None:
        """Show what a worker of the fleet sends of its session."""
        await socket.accept()
        channel = PageChannel(socket, socket.state.visitor)
        try:
            greeting = await channel.receive_first(read_greeting)
            if not greeting or not self._fleet or not await self._fleet.admits(greeting):
                self._access.wrong_tokens.note(address_in(socket.scope))
                self._access.count_blocked()
                await channel.aclose(POLICY_VIOLATION)
                return
            await channel.receive()
        except (ChannelEnded, StorageError):
            return
        socket.state.visitor.authenticate(Identity("", f"worker {greeting.executor}"))
        try:
            await self._fleet.show(greeting, channel)
        finally:
            with anyio.CancelScope(shield=True):
                await channel.aclose()

    def _wrong_code(self, request: Request) -> Response:
        return self._refusal(self._access.wrong_codes.note(address_in(request.scope)))

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
    name: str = ""
    device_id: str = ""
    """What the browser was before."""


class _Pairing(Struct, frozen=True, kw_only=True):
    code: str
    name: str = ""


class _Webhook(Struct, frozen=True, kw_only=True):
    text: str = ""
    id: str = ""
    """The same id twice starts only one session."""


class _Challenge(Struct, frozen=True, kw_only=True):
    device_id: str
    nonce: str


_read_webhook = msgspec.json.Decoder(_Webhook).decode
_read_challenge = msgspec.json.Decoder(_Challenge).decode
_read_launch = msgspec.json.Decoder(_Launch).decode
_read_pairing = msgspec.json.Decoder(_Pairing).decode


def _empty_response(status: HTTPStatus) -> Response:
    response = Response(status_code=status)
    response.raw_headers = refusal_headers(status)
    return response


def _json(answer: object, status: HTTPStatus = HTTPStatus.OK) -> Response:
    return Response(answer_to_json(answer), status, media_type="application/json")


async def _body(request: Request) -> bytes:
    with anyio.fail_after(WHOLE_BODY):
        return await request.body()
