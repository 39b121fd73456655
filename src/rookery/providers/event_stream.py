"""Amazon's binary event stream: the framing of Bedrock's answers.

A frame is a prelude (its length, the length of its headers, their checksum), the headers, a payload
of JSON and a checksum of it all. The event's name is in the headers. It becomes the only key of an
object around the payload, which is how Amazon's documentation writes these events.
"""

from collections.abc import Iterable, Iterator
from struct import Struct, error
from typing import ClassVar
from zlib import crc32

import msgspec

from rookery.providers.wire_format import DamagedEvent, OversizedEvent

_PRELUDE = Struct(">III")
_CHECKSUM = Struct(">I")
_LENGTH = Struct(">H")
_TEXT, _BYTES = 7, 6
_SIZES = {0: 0, 1: 0, 2: 1, 3: 2, 4: 4, 5: 8, 8: 8, 9: 16}
"""Bytes of a header's value, by its type: booleans, numbers, a time, a UUID."""


class FrameReader:
    """Collects pieces and returns each complete event as `{"name": payload}`."""

    media_type: ClassVar[str] = "application/vnd.amazon.eventstream"

    def __init__(self, longest: int) -> None:
        self._longest = longest
        self._unread = bytearray()

    def feed(self, piece: bytes) -> Iterator[bytes]:
        """Events before a damaged one are returned first."""
        unread = self._unread
        unread += piece
        at = 0
        while len(unread) - at >= _PRELUDE.size:
            length, headers = self._lengths(at)
            if len(unread) - at < length:
                break
            yield _event(bytes(unread[at : at + length]), headers)
            at += length
        del unread[:at]

    def end(self) -> Iterable[bytes]:
        return ()

    def _lengths(self, at: int) -> tuple[int, int]:
        """The length of the frame that begins here, and of its headers."""
        length, headers, checksum = _PRELUDE.unpack_from(self._unread, at)
        if crc32(self._unread[at : at + 8]) != checksum:
            raise DamagedEvent("wrong checksum of a frame's beginning")
        if length > self._longest:
            raise OversizedEvent
        if length < _PRELUDE.size + headers + _CHECKSUM.size:
            raise DamagedEvent("a frame shorter than its headers")
        return length, headers


def _event(frame: bytes, headers_length: int) -> bytes:
    content, checksum = frame[: -_CHECKSUM.size], frame[-_CHECKSUM.size :]
    if _CHECKSUM.pack(crc32(content)) != checksum:
        raise DamagedEvent("wrong checksum of a frame")
    body = _PRELUDE.size + headers_length
    headers = _headers(content[_PRELUDE.size : body])
    payload = content[body:] or b"{}"
    match headers.get(":message-type"):
        case "exception":
            name = headers.get(":exception-type", "")
        case "error":
            name, payload = "error", _error(headers)
        case _:
            name = headers.get(":event-type", "")
    return b"{%b:%b}" % (msgspec.json.encode(name), payload)


def _error(headers: dict[str, str]) -> bytes:
    """An error of the framing itself has no payload."""
    code, message = headers.get(":error-code", ""), headers.get(":error-message", "")
    return msgspec.json.encode({"code": code, "message": message})


def _headers(data: bytes) -> dict[str, str]:
    """The headers that are text, by name."""
    found: dict[str, str] = {}
    at = 0
    try:
        while at < len(data):
            name_end = at + 1 + data[at]
            name, kind = data[at + 1 : name_end], data[name_end]
            at = name_end + 1
            if kind in (_TEXT, _BYTES):
                (size,) = _LENGTH.unpack_from(data, at)
                at += _LENGTH.size
            else:
                size = _SIZES[kind]
            if at + size > len(data):
                raise IndexError
            if kind == _TEXT:
                value = data[at : at + size]
                found[name.decode("utf-8", "replace")] = value.decode("utf-8", "replace")
            at += size
    except (IndexError, KeyError, error):
        raise DamagedEvent("a frame with unreadable headers") from None
    return found
