"""Checks every request before its body is read or a route runs.

Only our own host names are answered, because of DNS rebinding, and only our own pages may send
requests. Every response gets security headers; every refusal has the same form, with nothing from
the request in it.
"""

import logging
import re
from collections.abc import Iterable, Iterator, Mapping
from http import HTTPStatus
from typing import Any, TypeAlias

from msgspec import Struct
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from rookery.manager.web.access import (
    CODE_BODY,
    HEAD,
    HEADERS,
    UPLOAD,
    WEBHOOK_BODY,
    Access,
    Visitor,
)

CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; "
    "font-src 'self'; connect-src 'self'; manifest-src 'self'; frame-ancestors 'none'; "
    "base-uri 'none'; form-action 'none'; require-trusted-types-for 'script'"
)
Headers: TypeAlias = list[tuple[bytes, bytes]]
SECURITY_HEADERS: Headers = [
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
"""Additional headers that HTTP requires."""
_USUAL_PORTS = {"http": 80, "https": 443}
_PLAIN_PATH = re.compile(rb"/[A-Za-z0-9._/-]*")
"""A path that no decoding changes."""
_PROJECT_PATH = re.compile(rb"/p/([0-9a-f]{16})(/[A-Za-z0-9._/-]*)")
_VERSIONS = {"1.0", "1.1"}
_OWN_SITES = {b"same-origin", b"none"}
_FORWARDED = (b"forwarded", b"x-forwarded-for", b"x-forwarded-host", b"x-real-ip", b"via")
_HEADER_OVERHEAD = 4
_ENCODING = "latin-1"
_debug = logging.getLogger(__name__)
_JSON = {"application/json", "application/json; charset=utf-8", "application/json;charset=utf-8"}
_ALWAYS = {name: (name, held) for name, held in SECURITY_HEADERS}
SOCKET = "/ws"
WORKERS = "/worker"
"""Where workers of a fleet connect, which authenticate in their first message too."""
API = "/api"
WEBHOOK = f"{API}/webhook"


class OwnHost(Struct, frozen=True):
    """A host name, as in the `Host` header, and the origin of the pages it serves."""

    host: str
    origin: str
    outside: bool = False
    """Clients using this name are on another machine and must be paired devices."""


class OwnHosts:
    """The host names of one listening socket."""

    def __init__(self, hosts: Iterable[OwnHost]) -> None:
        self._by_host = {served.host: served for served in hosts}

    def __iter__(self) -> Iterator[OwnHost]:
        return iter(self._by_host.values())

    def named(self, host: str) -> OwnHost | None:
        return self._by_host.get(host.lower())

    @property
    def outside(self) -> OwnHost | None:
        return next((served for served in self if served.outside), None)

    def with_origin(self, origin: str) -> OwnHost | None:
        """The one with this `Origin`."""
        return next((served for served in self if served.origin == origin), None)


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
        """Value of a header; None if it is missing or repeated."""
        found = self.all(name)
        return found[0].decode(_ENCODING) if len(found) == 1 else None

    @property
    def is_too_long(self) -> bool:
        size = sum(len(name) + len(held) + _HEADER_OVERHEAD for name, held in self._headers)
        return len(self.path) + len(self.query) + size > HEAD or len(self._headers) > HEADERS

    @property
    def was_forwarded(self) -> bool:
        return any(self.all(name) for name in _FORWARDED)


class Guard:
    def __init__(self, app: ASGIApp, hosts: OwnHosts, access: Access) -> None:
        self._app = app
        self._hosts = hosts
        self._access = access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        visitor: Visitor = scope["state"]["visitor"]
        with visitor.request():
            scope["state"]["project"] = _project_in(scope)
            match self._check(scope, visitor):
                case HTTPStatus() as status:
                    self._access.count_blocked()
                    await _refuse(scope, send, status)
                case served:
                    scope["state"]["served"] = served
                    await self._serve(scope, receive, _SecuredSend(send))

    def _check(self, scope: Scope, visitor: Visitor) -> OwnHost | HTTPStatus:
        head = Head(scope)
        served = host_used(head, self._hosts)
        if isinstance(served, HTTPStatus):
            return served
        path = head.path.decode("ascii")
        if head.is_web_socket:
            return served if path in (SOCKET, WORKERS) else HTTPStatus.NOT_FOUND
        wrong = _shape_error(head, path)
        if wrong or not _is_api(path):
            return wrong or served
        if not RULES.get(path, _DEFAULT_RULE).needs_token:
            return served
        identity = self._access.identity(bearer(head), scope, outside=served.outside)
        if isinstance(identity, HTTPStatus):
            return identity
        visitor.authenticate(identity)
        return served

    async def _serve(self, scope: Scope, receive: Receive, send: "_SecuredSend") -> None:
        try:
            await self._app(scope, receive, send)
        except Exception:
            # a bug must not leave the request unanswered
            _debug.exception("a request failed")
            if not send.started:
                await _refuse(scope, send.unsecured, HTTPStatus.INTERNAL_SERVER_ERROR)
            elif scope["type"] == "http":
                scope["state"]["visitor"].disconnect()


def bearer(head: Head) -> str | None:
    """The token that a request brings."""
    scheme, _, token = (head.one(b"authorization") or "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else None


class GuardRule(Struct, frozen=True):
    """Requirements for requests to one path."""

    method: str
    needs_token: bool = True
    longest: int = 0
    """Largest body in bytes."""


RULES: Mapping[str, GuardRule] = {
    f"{API}/launch": GuardRule("POST", needs_token=False, longest=CODE_BODY),
    f"{API}/pair": GuardRule("POST", needs_token=False, longest=CODE_BODY),
    f"{API}/prove": GuardRule("POST", needs_token=False, longest=CODE_BODY),
    WEBHOOK: GuardRule("POST", needs_token=False, longest=WEBHOOK_BODY),
    f"{API}/do": GuardRule("POST", longest=UPLOAD),
    f"{API}/health": GuardRule("GET"),
}
"""All paths besides page files and the WebSocket, which authenticates in its first message.
Paths without a token take a one-time code in the body, or prove that this is the server; a webhook
has a token of its own, which its route checks before it reads the body."""
_DEFAULT_RULE = GuardRule("GET")
"""Unknown paths need a token too: unauthenticated clients get 401, never 404."""


class _SecuredSend:
    """Adds the security headers to every response."""

    def __init__(self, send: Send) -> None:
        self.unsecured = send
        self.started = False

    async def __call__(self, message: Message) -> None:
        self.started = True
        if message["type"] in ("http.response.start", "websocket.accept"):
            message = {**message, "headers": _secured(message.get("headers", []))}
        await self.unsecured(message)


def refusal_headers(status: HTTPStatus) -> Headers:
    """Headers of a refusal, which has no body and nothing from the request."""
    return [
        *SECURITY_HEADERS,
        NOT_STORED,
        *_BY_STATUS.get(status, []),
        (b"content-length", b"0"),
        (b"connection", b"close"),
    ]


def refusal(status: HTTPStatus) -> bytes:
    """The refusal as bytes, for input that never becomes a request."""
    lines = [b"HTTP/1.1 %d %s" % (status, status.phrase.encode())]
    lines += [b"%s: %s" % header for header in refusal_headers(status)]
    return b"\r\n".join([*lines, b"", b""])


def hosts_at(
    scheme: str, names: Iterable[str], port: int, *, outside: bool = False
) -> list[OwnHost]:
    """Names of a socket at `port`. Browsers omit the default port of a scheme."""
    usual = port == _USUAL_PORTS[scheme]
    hosts = []
    for name in map(bracketed, names):
        host = f"{name}:{port}".lower()
        origin = f"{scheme}://{name.lower() if usual else host}"
        hosts.append(OwnHost(host, origin, outside))
        if usual:
            hosts.append(OwnHost(name.lower(), origin, outside))
    return hosts


def bracketed(name: str) -> str:
    """Put an IPv6 address in brackets, as in a URL."""
    return f"[{name}]" if ":" in name else name


def host_used(head: Head, hosts: OwnHosts) -> OwnHost | HTTPStatus:
    """The name a request used, or the status to refuse it with. The checks are in order of
    priority."""
    if head.version not in _VERSIONS:
        return HTTPStatus.HTTP_VERSION_NOT_SUPPORTED
    if head.is_too_long:
        return HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE
    served = hosts.named(head.one(b"host") or "")
    if not served:
        return HTTPStatus.MISDIRECTED_REQUEST
    if head.method == "OPTIONS":
        return HTTPStatus.FORBIDDEN
    origins = head.all(b"origin")
    if origins and not (served := _host_for_origin(served, head, hosts)):
        return HTTPStatus.FORBIDDEN
    if not set(head.all(b"sec-fetch-site")) <= _OWN_SITES:
        return HTTPStatus.FORBIDDEN
    if head.method not in ("GET", "HEAD", "POST"):
        return HTTPStatus.METHOD_NOT_ALLOWED
    if head.query:
        return HTTPStatus.BAD_REQUEST  # it could hold a secret, and URLs get logged
    if not _PLAIN_PATH.fullmatch(head.path):
        return HTTPStatus.NOT_FOUND
    if head.was_forwarded:
        return hosts.outside or HTTPStatus.FORBIDDEN  # only a tunnel forwards
    return served


def _host_for_origin(served: OwnHost, head: Head, hosts: OwnHosts) -> OwnHost | None:
    """The name that fits the `Origin` header. It may differ from `Host` only if a tunnel rewrote
    `Host` to a local name."""
    said = head.one(b"origin")
    if said == served.origin:
        return served
    other = hosts.with_origin(said or "")
    return other if other and other.outside and not served.outside else None


def _shape_error(head: Head, path: str) -> HTTPStatus | None:
    """Check method, content type and length. Exactly one length must be given: otherwise a proxy
    might see another end of the request."""
    rule = RULES.get(path, _DEFAULT_RULE)
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


def _project_in(scope: Scope) -> str:
    """Take the project off the path. Everything below it is the same for all projects."""
    found = _PROJECT_PATH.fullmatch(scope["raw_path"])
    if not found:
        return ""
    scope["raw_path"], scope["path"] = found[2], found[2].decode("ascii")
    return found[1].decode("ascii")


def _secured(headers: Headers) -> Headers:
    given = {name.lower(): (name, held) for name, held in headers}
    return [*({NOT_STORED[0]: NOT_STORED} | given | _ALWAYS).values()]


async def _refuse(scope: Scope, send: Send, status: HTTPStatus) -> None:
    prefix = "websocket.http.response" if scope["type"] == "websocket" else "http.response"
    start: dict[str, Any] = {
        "type": f"{prefix}.start",
        "status": status.value,
        "headers": refusal_headers(status),
    }
    await send(start)
    await send({"type": f"{prefix}.body", "body": b""})
