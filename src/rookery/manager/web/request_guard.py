"""Stands before all routes: what a request must be before anything of it is read or carried out.

Only names of our own are answered, because a stranger's name may point to this machine, and only
our own pages may send requests. Every answer has the headers that keep browsers from being turned
against their user; every refusal has one shape, with nothing of the request in it.
"""

import logging
import re
from collections.abc import Iterable, Iterator, Mapping
from http import HTTPStatus
from typing import Any, TypeAlias

from msgspec import Struct
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from rookery.manager.web.devices import Guest
from rookery.manager.web.visitors import Visitor, Watch
from rookery.manager.web.web_limits import CODE_BODY, HEAD, HEADERS, UPLOAD

CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; "
    "font-src 'self'; connect-src 'self'; frame-ancestors 'none'; base-uri 'none'; "
    "form-action 'none'; require-trusted-types-for 'script'"
)
Headers: TypeAlias = list[tuple[bytes, bytes]]
ON_EVERY_ANSWER: Headers = [
    (b"content-security-policy", CONTENT_SECURITY_POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
]
NOT_STORED = (b"cache-control", b"no-store")
_BY_STATUS: dict[HTTPStatus, Headers] = {
    HTTPStatus.METHOD_NOT_ALLOWED: [(b"allow", b"GET, HEAD, POST")],
    HTTPStatus.UNAUTHORIZED: [(b"www-authenticate", b"Bearer")],
}
"""What the standard wants beside them."""
_USUAL_PORTS = {"http": 80, "https": 443}
_PLAIN_PATH = re.compile(rb"/[A-Za-z0-9._/-]*")
"""A path that means the same however often it is decoded."""
_VERSIONS = {"1.0", "1.1"}
_OUR_OWN = {b"same-origin", b"none"}
_FORWARDED = (b"forwarded", b"x-forwarded-for", b"x-forwarded-host", b"x-real-ip", b"via")
_AROUND_A_HEADER = 4
_SPELLED_OUT = "latin-1"
_debug = logging.getLogger(__name__)
_JSON = {"application/json", "application/json; charset=utf-8", "application/json;charset=utf-8"}
_ALWAYS = {name: (name, held) for name, held in ON_EVERY_ANSWER}
SOCKET = "/ws"
API = "/api"


class Door(Struct, frozen=True):
    """One name, as browsers put it into `Host`, and the origin of the pages it shows."""

    host: str
    origin: str
    outside: bool = False
    """Whoever comes through it is on another machine, and needs to be a paired device."""


class Doors:
    """Those of one listening socket."""

    def __init__(self, doors: Iterable[Door]) -> None:
        self._by_host = {door.host: door for door in doors}

    def __iter__(self) -> Iterator[Door]:
        return iter(self._by_host.values())

    def named(self, host: str) -> Door | None:
        return self._by_host.get(host.lower())

    @property
    def outside(self) -> Door | None:
        return next((door for door in self if door.outside), None)

    def of_page(self, origin: str) -> Door | None:
        """The one whose page says that it sends the request."""
        return next((door for door in self if door.origin == origin), None)


class Head:
    def __init__(self, scope: Scope) -> None:
        self.is_web_socket = scope["type"] == "websocket"
        self.method: str = "GET" if self.is_web_socket else scope["method"]
        self.version: str = scope["http_version"]
        self.path: bytes = scope["raw_path"]
        self.query: bytes = scope["query_string"]
        self._headers: list[tuple[bytes, bytes]] = scope["headers"]

    def all(self, name: bytes) -> list[bytes]:
        return [held for each, held in self._headers if each.lower() == name]

    def one(self, name: bytes) -> str | None:
        """None if there is none, or several that may contradict each other."""
        found = self.all(name)
        return found[0].decode(_SPELLED_OUT) if len(found) == 1 else None

    @property
    def is_too_long(self) -> bool:
        size = sum(len(name) + len(held) + _AROUND_A_HEADER for name, held in self._headers)
        return len(self.path) + len(self.query) + size > HEAD or len(self._headers) > HEADERS

    @property
    def was_forwarded(self) -> bool:
        return any(self.all(name) for name in _FORWARDED)


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


class GuardRule(Struct, frozen=True):
    """What a request to one path must be like."""

    method: str
    needs_token: bool = True
    longest: int = 0
    """Of its body; without a token a code in it is the authority."""


RULES: Mapping[str, GuardRule] = {
    f"{API}/launch": GuardRule("POST", needs_token=False, longest=CODE_BODY),
    f"{API}/pair": GuardRule("POST", needs_token=False, longest=CODE_BODY),
    f"{API}/do": GuardRule("POST", longest=UPLOAD),
    f"{API}/health": GuardRule("GET"),
}
"""All there is, beside the files of the page and the WebSocket, whose token is its first word."""
_OF_NO_USE = GuardRule("GET")
"""What is not there is not there only for those who may know."""


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


def headers_of_refusal(status: HTTPStatus) -> Headers:
    """Nothing in it comes from the request, and there is no body that could."""
    return [
        *ON_EVERY_ANSWER,
        NOT_STORED,
        *_BY_STATUS.get(status, []),
        (b"content-length", b"0"),
        (b"connection", b"close"),
    ]


def refusal(status: HTTPStatus) -> bytes:
    """The same, as it stands on the wire, for what never becomes a request."""
    lines = [b"HTTP/1.1 %d %s" % (status, status.phrase.encode())]
    lines += [b"%s: %s" % header for header in headers_of_refusal(status)]
    return b"\r\n".join([*lines, b"", b""])


def doors_at(scheme: str, names: Iterable[str], port: int, *, outside: bool = False) -> list[Door]:
    """Browsers leave out the usual port of a scheme."""
    usual = port == _USUAL_PORTS[scheme]
    doors = []
    for name in map(bracketed, names):
        host = f"{name}:{port}".lower()
        origin = f"{scheme}://{name.lower() if usual else host}"
        doors.append(Door(host, origin, outside))
        if usual:
            doors.append(Door(name.lower(), origin, outside))
    return doors


def bracketed(name: str) -> str:
    """An address as it stands in a URL."""
    return f"[{name}]" if ":" in name else name


def door_used(head: Head, doors: Doors) -> Door | HTTPStatus:
    """The door that a request came through, or why it does not come in. The order is that in
    which a request is refused."""
    if head.version not in _VERSIONS:
        return HTTPStatus.HTTP_VERSION_NOT_SUPPORTED
    if head.is_too_long:
        return HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE
    door = doors.named(head.one(b"host") or "")
    if not door:
        return HTTPStatus.MISDIRECTED_REQUEST
    if head.method == "OPTIONS":
        return HTTPStatus.FORBIDDEN
    origins = head.all(b"origin")
    if origins and not (door := _through(door, head, doors)):
        return HTTPStatus.FORBIDDEN
    if not set(head.all(b"sec-fetch-site")) <= _OUR_OWN:
        return HTTPStatus.FORBIDDEN
    if head.method not in ("GET", "HEAD", "POST"):
        return HTTPStatus.METHOD_NOT_ALLOWED
    if head.query:
        return HTTPStatus.BAD_REQUEST  # whatever is in one may be a secret, and is in some log
    if not _PLAIN_PATH.fullmatch(head.path):
        return HTTPStatus.NOT_FOUND
    if head.was_forwarded:
        return doors.outside or HTTPStatus.FORBIDDEN  # by whom, if there is no tunnel?
    return door


def _through(door: Door, head: Head, doors: Doors) -> Door | None:
    """A page's own origin fits the name that it used. Only a tunnel may have put our own name
    in place of its."""
    said = head.one(b"origin")
    if said == door.origin:
        return door
    other = doors.of_page(said or "")
    return other if other and other.outside and not door.outside else None


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
