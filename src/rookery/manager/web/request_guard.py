"""Stands before all routes: nothing that a stranger sends is carried out or read, and nothing is
sent to anybody without the headers that keep browsers from being turned against their user."""

import logging
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from msgspec import Struct
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from rookery.manager.web.access_watch import Watch
from rookery.manager.web.error_responses import (
    NOT_STORED,
    ON_EVERY_ANSWER,
    Headers,
    headers_of_refusal,
)
from rookery.manager.web.host_names import Door, Doors
from rookery.manager.web.request_heads import Head, door_used
from rookery.manager.web.visitors import Visitor
from rookery.manager.web.web_limits import CODE_BODY, UPLOAD
from rookery.manager.web.web_tokens import Guest

_debug = logging.getLogger(__name__)
_JSON = {"application/json", "application/json; charset=utf-8", "application/json;charset=utf-8"}
_ALWAYS = {name: (name, held) for name, held in ON_EVERY_ANSWER}
SOCKET = "/ws"
API = "/api"


class Rule(Struct, frozen=True):
    """What a request to one path must be like."""

    method: str
    needs_token: bool = True
    longest: int = 0
    """Of its body; without a token a code in it is the authority."""


RULES: Mapping[str, Rule] = {
    f"{API}/launch": Rule("POST", needs_token=False, longest=CODE_BODY),
    f"{API}/pair": Rule("POST", needs_token=False, longest=CODE_BODY),
    f"{API}/do": Rule("POST", longest=UPLOAD),
    f"{API}/health": Rule("GET"),
}
"""All there is, beside the files of the page and the WebSocket, whose token is its first word."""
_OF_NO_USE = Rule("GET")
"""What is not there is not there only for those who may know."""


class Guard:
    def __init__(self, app: ASGIApp, doors: Doors, watch: Watch) -> None:
        self._app = app
        self._doors = doors
        self._watch = watch

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        visitor: Visitor = scope["state"]["visitor"]
        with visitor.request():
            match self._look_at(Head(scope), visitor, _address(scope)):
                case HTTPStatus() as status:
                    self._watch.block()
                    await _refuse(scope, send, status)
                case door:
                    scope["state"]["door"] = door
                    await self._let_in(scope, receive, _Dressing(send))

    def _look_at(self, head: Head, visitor: Visitor, address: str) -> Door | HTTPStatus:
        door = door_used(head, self._doors)
        if isinstance(door, HTTPStatus):
            return door
        path = head.path.decode("ascii")
        if head.is_web_socket:
            return door if path == SOCKET else HTTPStatus.NOT_FOUND
        wrong = _wrong_shape(head, path)
        if wrong or not _is_api(path):
            return wrong or door
        if not RULES.get(path, _OF_NO_USE).needs_token:
            return door
        guest = self._guest(head, door, address)
        if isinstance(guest, HTTPStatus):
            return guest
        visitor.introduce(guest)
        return door

    def _guest(self, head: Head, door: Door, address: str) -> Guest | HTTPStatus:
        scheme, _, token = (head.one(b"authorization") or "").partition(" ")
        given = token.strip() if scheme.lower() == "bearer" else None
        return self._watch.guest(given, outside=door.outside, address=address)

    async def _let_in(self, scope: Scope, receive: Receive, send: "_Dressing") -> None:
        try:
            await self._app(scope, receive, send)
        except Exception:
            # a bug that one request ran into is no reason to leave it unanswered
            _debug.exception("a request failed")
            if not send.begun:
                await _refuse(scope, send.undressed, HTTPStatus.INTERNAL_SERVER_ERROR)
            elif scope["type"] == "http":
                scope["state"]["visitor"].send_away()


def _wrong_shape(head: Head, path: str) -> HTTPStatus | None:
    """Where several lengths are given, or none, another server might see another end of the
    request; so there is exactly one, and it is known before anything is read."""
    rule = RULES.get(path, _OF_NO_USE)
    method = "GET" if head.method == "HEAD" and not _is_api(path) else head.method
    if method != rule.method:
        return HTTPStatus.METHOD_NOT_ALLOWED
    lengths = head.all(b"content-length")
    if head.all(b"transfer-encoding"):
        return HTTPStatus.LENGTH_REQUIRED
    if method == "GET":
        return HTTPStatus.BAD_REQUEST if lengths not in ([], [b"0"]) else None
    if (head.one(b"content-type") or "").lower() not in _JSON:
        return HTTPStatus.UNSUPPORTED_MEDIA_TYPE
    if len(lengths) != 1 or not lengths[0].isdigit():
        return HTTPStatus.LENGTH_REQUIRED
    return HTTPStatus.REQUEST_ENTITY_TOO_LARGE if int(lengths[0]) > rule.longest else None


def _is_api(path: str) -> bool:
    return path == API or path.startswith(f"{API}/")


def _address(scope: Scope) -> str:
    return scope["client"][0] if scope.get("client") else ""


class _Dressing:
    """Puts the headers on every answer, and takes off what would tell what we are made of."""

    def __init__(self, send: Send) -> None:
        self.undressed = send
        self.begun = False

    async def __call__(self, message: Message) -> None:
        self.begun = True
        if message["type"] in ("http.response.start", "websocket.accept"):
            message = {**message, "headers": _dressed(message.get("headers", []))}
        await self.undressed(message)


def _dressed(headers: Headers) -> Headers:
    given = {name.lower(): (name, held) for name, held in headers}
    return [*({NOT_STORED[0]: NOT_STORED} | given | _ALWAYS).values()]


async def _refuse(scope: Scope, send: Send, status: HTTPStatus) -> None:
    prefix = "websocket.http.response" if scope["type"] == "websocket" else "http.response"
    start: dict[str, Any] = {
        "type": f"{prefix}.start",
        "status": status.value,
        "headers": headers_of_refusal(status),
    }
    await send(start)
    await send({"type": f"{prefix}.body", "body": b""})
