"""Server-sent events: bytes as the network cuts them, to the data of whole events.

It works on bytes throughout, so a character that is split between two pieces needs no care:
a line is only looked at once it is complete. Comments, names, ids and unknown fields are
skipped; both wire families repeat an event's name in its data.
"""

import json
from collections.abc import Mapping
from typing import Any

import msgspec

from rookery.core.text.characters import whole_values

_BOM = b"\xef\xbb\xbf"
_decode = msgspec.json.Decoder().decode


class OversizedEvent(ValueError):
    """An event, or a line without an end, is longer than allowed."""


class EventReader:
    """Collects pieces and gives back the data of every event they complete."""

    def __init__(self, longest: int) -> None:
        self._longest = longest
        self._pieces: list[bytes] = []
        self._unread = 0
        self._data: list[bytes] = []
        self._collected = 0
        self._at_start = True

    def feed(self, piece: bytes) -> list[bytes]:
        self._unread += len(piece)
        self._pieces.append(piece)
        if b"\n" not in piece and b"\r" not in piece and not self._ends_in_return():
            return self._within_bounds([])
        text = b"".join(self._pieces)
        # a return at the very end may be the first half of a line end
        held = b"\r" if text.endswith(b"\r") else b""
        if b"\r" in text:
            text = text[: len(text) - len(held)]
            text = text.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        *lines, rest = text.split(b"\n")
        self._pieces = [rest + held]
        self._unread = len(rest) + len(held)
        return self._within_bounds(self._read(lines))

    def end(self) -> list[bytes]:
        """The event that the end of the stream completes, if its blank line is missing."""
        rest = b"".join(self._pieces).rstrip(b"\r")
        self._pieces = []
        return self._read([rest, b""])

    def _ends_in_return(self) -> bool:
        return len(self._pieces) > 1 and self._pieces[-2].endswith(b"\r")

    def _read(self, lines: list[bytes]) -> list[bytes]:
        if self._at_start and lines:
            lines[0] = lines[0].removeprefix(_BOM)
            self._at_start = False
        events: list[bytes] = []
        data = self._data
        for line in lines:
            if line.startswith(b"data:"):
                data.append(line[6:] if line[5:6] == b" " else line[5:])
                self._collected += len(line)
            elif not line and data:
                events.append(data[0] if len(data) == 1 else b"\n".join(data))
                data.clear()
                self._collected = 0
        return events

    def _within_bounds(self, events: list[bytes]) -> list[bytes]:
        if self._unread + self._collected > self._longest:
            raise OversizedEvent
        if max(map(len, events), default=0) > self._longest:
            raise OversizedEvent
        return events


def decode_event(data: bytes) -> Any:
    """The JSON of an event. Bytes and escapes that are no characters become U+FFFD.

    Raises `ValueError` for what is no JSON.
    """
    try:
        return _decode(data)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error
    except ValueError:
        return whole_values(_decode_leniently(data))


def _decode_leniently(data: bytes) -> Any:
    try:
        return json.loads(data.decode("utf-8", "replace"))
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


def encode_body(body: Mapping[str, Any]) -> bytes:
    """An object as JSON; halves of characters, which no provider accepts, are replaced."""
    try:
        return msgspec.json.encode(body)
    except UnicodeEncodeError:
        return msgspec.json.encode(whole_values(body))
