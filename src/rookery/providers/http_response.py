"""Reads an HTTP/1.1 response from the bytes of a connection, however the network cuts them."""

import zlib
from collections.abc import Mapping
from typing import Literal

from msgspec import Struct

from rookery.core.limits import KIB, MIB
from rookery.first_use import lazy_pattern

LARGEST_HEAD = 100 * KIB
"""With the interim responses before it."""
LONGEST_LINE = 16 * KIB
LARGEST_UNPACKED = 64 * MIB
"""How much a compressed body may hold."""
_LONGEST_NUMBER = 18

_END_OF_HEAD = lazy_pattern(rb"\r?\n\r?\n")
_LONGEST_END = 4
_BEGINNING = b"HTTP/1."
_STATUS_LINE = lazy_pattern(rb"HTTP/1\.([01]) (\d{3})(?: .*)?")
_FIELD_NAME = lazy_pattern(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_CHUNK = lazy_pattern(rb"([0-9A-Fa-f]{1,15})[ \t]*(?:;[^\n]*)?\r?\n")
_WBITS = {"gzip": 47, "x-gzip": 47, "deflate": 47}
"""Recognises gzip and zlib by their beginning."""


class HttpAnswer(Struct, frozen=True):
    """Status and headers of an HTTP response."""

    status: int
    headers: Mapping[str, str]


class ResponseReader:
    """Divides what a server sends into a head and a body. Raises `ValueError` if it is not HTTP."""

    def __init__(self) -> None:
        self.head: HttpAnswer | None = None
        self.complete = False
        self.reusable = False
        """Whether the connection can be used again after this response."""
        self._unread = b""
        self._interim = 0
        """Bytes of interim responses."""
        self._read_body = self._read_rest
        self._left = 0
        """Bytes that are left of the body, or of a chunk of it."""
        self._place: Literal["size", "end of chunk", "trailers"] = "size"
        self._unpack: zlib._Decompress | None = None
        self._room = LARGEST_UNPACKED + 1

    def feed(self, data: bytes) -> bytes:
        """Return the part of the body that is in `data`, decoded."""
        if self.complete:
            self.reusable = self.reusable and not data
            return b""
        known = len(self._unread)
        if known:
            data, self._unread = self._unread + data, b""
        if self.head is None:
            data = self._read_head(data, max(0, known - _LONGEST_END + 1))
            if self.head is None:
                return b""
        body = self._read_body(data)
        return self._unpacked(body, self._unpack) if self._unpack else body

    def _unpacked(self, data: bytes, unpack: "zlib._Decompress") -> bytes:
        if unpack.eof:
            return b""  # the decompressor would collect what follows
        body = unpack.decompress(data, self._room)
        self._room -= len(body)
        if not self._room:
            raise ValueError("the compressed body is too large")
        return body

    def end(self) -> bool:
        """Whether the response is complete, now that the connection has ended."""
        to_the_end = self._read_body == self._read_rest
        self.complete = self.complete or (self.head is not None and to_the_end)
        return self.complete

    def _read_head(self, data: bytes, at: int) -> bytes:
        """Returns what follows the head. It does not end before `at`."""
        while end := _END_OF_HEAD.search(data, at):
            first, *lines = data[: end.start()].replace(b"\r\n", b"\n").split(b"\n")
            data = data[end.end() :]
            status = _STATUS_LINE.fullmatch(first)
            if status is None:
                raise ValueError("illegal status line")
            if not status[2].startswith(b"1"):
                self._begin(int(status[2]), _fields(lines), kept=status[1] == b"1")
                return data
            self._interim += end.end()
            at = 0
        if self._interim + len(data) > LARGEST_HEAD:
            raise ValueError("the head is too long")
        beginning = data[: len(_BEGINNING)]
        if not (_STATUS_LINE.match(data) if b"\n" in data else _BEGINNING.startswith(beginning)):
            raise ValueError("illegal status line")
        self._unread = data
        return b""

    def _begin(self, status: int, headers: dict[str, str], *, kept: bool) -> None:
        self.head = HttpAnswer(status, headers)
        self.reusable = kept and "close" not in headers.get("connection", "").lower()
        coding = headers.get("transfer-encoding", "").lower()
        lengths = {each.strip() for each in headers.get("content-length", "").split(",")}
        if status in (204, 304):
            self._read_body, self._left = self._read_counted, 0
        elif coding and coding != "chunked":
            raise ValueError("unknown transfer encoding")
        elif coding:
            self._read_body = self._read_chunks
        elif lengths != {""}:
            (length,) = lengths if len(lengths) == 1 else ("",)
            if not (length.isascii() and length.isdigit() and len(length) <= _LONGEST_NUMBER):
                raise ValueError("bad content length")
            self._read_body, self._left = self._read_counted, int(length)
        else:
            self.reusable = False
        if wbits := _WBITS.get(headers.get("content-encoding", "").strip().lower()):
            self._unpack = zlib.decompressobj(wbits)

    def _read_rest(self, data: bytes) -> bytes:
        return data

    def _read_counted(self, data: bytes) -> bytes:
        body = data[: self._left]
        self._left -= len(body)
        if not self._left:
            self._finish(more=len(body) < len(data))
        return body

    def _finish(self, *, more: bool) -> None:
        """`more`: the server sent more than belongs to the response."""
        self.complete = True
        self.reusable = self.reusable and not more

    def _read_chunks(self, data: bytes) -> bytes:
        pieces: list[bytes] = []
        at = 0
        while not self.complete:
            if self._left:
                piece = data[at : at + self._left]
                pieces.append(piece)
                at += len(piece)
                self._left -= len(piece)
                if self._left:
                    break
                self._place = "end of chunk"
            if (beyond := self._pass_framing(data, at)) < 0:
                self._unread = data[at:]
                if len(self._unread) > LONGEST_LINE:
                    raise ValueError("illegal chunk")
                break
            at = beyond
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def _pass_framing(self, data: bytes, at: int) -> int:
        """Pass the next chunk size, end of a chunk, or trailer. Return the position after it; -1 if
        it is incomplete."""
        if self._place == "size" and (size := _CHUNK.match(data, at)):
            self._left = int(size[1], 16)
            self._place = "size" if self._left else "trailers"
            return size.end()
        end = data.find(b"\n", at) + 1
        if not end:
            return -1
        line = data[at:end].rstrip(b"\r\n")
        if self._place == "size" or (line and self._place == "end of chunk"):
            raise ValueError("illegal chunk")
        if self._place == "end of chunk":
            self._place = "size"
        elif not line:
            self._finish(more=end < len(data))
        return end


def _fields(lines: list[bytes]) -> dict[str, str]:
    fields: dict[str, str] = {}
    name = ""
    for line in lines:
        if line[:1] in (b" ", b"\t") and name:  # a folded line
            fields[name] += " " + line.strip().decode("latin-1")
            continue
        before, colon, after = line.partition(b":")
        if not (colon and _FIELD_NAME.fullmatch(before)):
            raise ValueError("illegal header line")
        name, text = before.decode().lower(), after.strip(b" \t").decode("latin-1")
        fields[name] = f"{fields[name]}, {text}" if name in fields else text
    return fields
