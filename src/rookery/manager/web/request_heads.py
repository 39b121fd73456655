"""What is looked at of a request before anything of it is carried out or even read: which name
it was sent to, and which page sent it."""

import re
from http import HTTPStatus

from starlette.types import Scope

from rookery.manager.web.host_names import Door, Doors
from rookery.manager.web.web_limits import HEAD, HEADERS

_PLAIN_PATH = re.compile(rb"/[A-Za-z0-9._/-]*")
"""A path that means the same however often it is decoded."""
_VERSIONS = {"1.0", "1.1"}
_OUR_OWN = {b"same-origin", b"none"}
_FORWARDED = (b"forwarded", b"x-forwarded-for", b"x-forwarded-host", b"x-real-ip", b"via")
_AROUND_A_HEADER = 4
_SPELLED_OUT = "latin-1"


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
