"""As much of HTTP/1.1 as a client of a model provider uses."""

import json
from collections.abc import Mapping
from http import HTTPStatus
from io import BufferedReader
from typing import Any

from msgspec import Struct

LAST_CHUNK = b"0\r\n\r\n"


class Request(Struct, frozen=True):
    """A request as it came. Names of headers are in lower case."""

    method: str
    path: str
    headers: dict[str, str]
    raw: bytes

    @property
    def body(self) -> dict[str, Any]:
        """The JSON object that was sent, or nothing if it was none."""
        try:
            body = json.loads(self.raw)
        except ValueError:
            return {}
        return body if isinstance(body, dict) else {}


def read_request(source: BufferedReader) -> Request | None:
    """The next request, or None when the client has closed the connection."""
    line = source.readline().decode("latin-1").split()
    if len(line) != 3:
        return None
    headers: dict[str, str] = {}
    while line_of_header := source.readline().strip():
        name, _, text = line_of_header.decode("latin-1").partition(":")
        headers[name.strip().lower()] = text.strip()
    body = source.read(int(headers.get("content-length", "0")))
    return Request(line[0], line[1], headers, body)


def head(code: int, headers: Mapping[str, str]) -> bytes:
    lines = [f"HTTP/1.1 {code} {phrase(code)}", *(f"{name}: {headers[name]}" for name in headers)]
    return "\r\n".join([*lines, "", ""]).encode("latin-1")


def phrase(code: int) -> str:
    return {529: "Overloaded"}.get(code) or (
        HTTPStatus(code).phrase if code in HTTPStatus._value2member_map_ else "Unknown"
    )


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)
