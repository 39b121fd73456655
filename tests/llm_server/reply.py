"""Putting one answer on one connection, byte by byte where the script wants it."""

import json
import socket
import struct
import threading
from collections.abc import Callable, Iterable
from functools import partial
from typing import TypeAlias

from msgspec.structs import replace

from llm_server import http
from llm_server.composed import Composed
from llm_server.parts import (
    Drop,
    EndEarly,
    Failed,
    Framing,
    Gate,
    Keepalives,
    Problem,
    Raw,
    Reset,
    SseEvent,
    Stall,
    Status,
)
from llm_server.wire import Frame, Json, Wire, frames

Step: TypeAlias = bytes | Gate | Stall | Keepalives | Reset | Drop | EndEarly

PACKET = 64 * 1024
JSON = "application/json"
BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class Closed(Exception):
    """The script, or the server's end, closed the connection."""


class Reply:
    """The status line goes out with the first byte of the body, and not before."""

    def __init__(
        self, peer: socket.socket, wire: Wire, request: Json, closing: threading.Event
    ) -> None:
        self._peer = peer
        self._wire = wire
        self._request = request
        self._closing = closing

    def answer(self, answer: Composed, position: int) -> None:
        reported = frames(self._wire.stream(self._request, position), answer)
        self._play(_rendered(reported, answer.framing, self._wire), answer)

    def status(self, status: Status) -> None:
        body, media_type = self._body_of(status)
        headers = {
            "content-type": media_type,
            "content-length": str(len(body)),
            self._wire.request_id: "req_scripted",
            **{name.lower(): text for name, text in status.headers.items()},
        }
        self._peer.sendall(http.head(status.code, headers) + body)

    def _body_of(self, status: Status) -> tuple[bytes, str]:
        match status.body:
            case bytes() as data:
                return data, "application/octet-stream"
            case str() as text:
                return text.encode(), "text/plain; charset=utf-8"
            case None:
                problem = Problem(http.phrase(status.code))
                return self._body_of(replace(status, body=problem))
            case Problem() as problem:
                return json.dumps(self._wire.error(status.code, problem)).encode(), JSON
            case mapping:
                return json.dumps(mapping).encode(), JSON

    def _play(self, steps: Iterable[Step], answer: Composed) -> None:
        headers = {
            "content-type": answer.content_type or self._wire.media_type,
            "transfer-encoding": "chunked",
            "cache-control": "no-cache",
            self._wire.request_id: "req_scripted",
        }
        send = self._sender(each_byte=answer.each_byte)
        pending = http.head(200, headers)
        for step in steps:
            match step:
                case bytes() as data:
                    send(pending + (http.chunk(data) if data else b""))
                    pending = b""
                case Keepalives():
                    send(pending)
                    pending = b""
                    self._keep_alive(step)
                case EndEarly():
                    break
                case _:
                    self._suffer(step)
        send(pending + http.LAST_CHUNK + answer.trailing)

    def _sender(self, *, each_byte: bool) -> Callable[[bytes], None]:
        if not each_byte:
            return self._peer.sendall

        def byte_by_byte(data: bytes) -> None:
            for byte in data:
                self._peer.sendall(bytes((byte,)))

        return byte_by_byte

    def _keep_alive(self, alive: Keepalives) -> None:
        sent = 0
        while alive.count is None or sent < alive.count:
            self._peer.sendall(http.chunk(self._wire.keepalive))
            sent += 1
            if self._closing.wait(alive.every):
                raise Closed

    def _suffer(self, step: Gate | Stall | Reset | Drop) -> None:
        match step:
            case Gate():
                step.pass_through()
                if self._closing.is_set():
                    raise Closed
            case Stall():
                while self._peer.recv(PACKET):
                    pass
                raise ConnectionAbortedError
            case Reset():
                # A linger of zero seconds makes close() send RST instead of FIN.
                self._peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                raise Closed
            case Drop():
                raise Closed


def _rendered(reported: Iterable[Frame], framing: Framing, wire: Wire) -> list[Step]:
    """The whole stream ahead of time, so that sending it costs nothing but writes."""
    if wire.framed:
        return [_step(frame, wire.framed) for frame in reported]
    steps = [_step(frame, partial(_framed, framing=framing)) for frame in reported]
    written = [at for at, step in enumerate(steps) if isinstance(step, bytes)]
    if framing.byte_order_mark and written:
        steps[written[0]] = BYTE_ORDER_MARK + _bytes(steps[written[0]])
    if not framing.last_blank_line and written:
        steps[written[-1]] = _bytes(steps[written[-1]]).removesuffix(framing.newline.encode())
    return steps


def _step(frame: Frame, framed: Callable[[SseEvent], bytes]) -> Step:
    match frame:
        case SseEvent():
            return framed(frame)
        case Raw(data=data):
            return data
        case Problem() | Failed():
            raise AssertionError("Problems became events before.")
        case _:
            return frame


def _framed(event: SseEvent, framing: Framing) -> bytes:
    data = event.data
    if framing.several_data_lines and data.startswith("{"):
        data = json.dumps(json.loads(data), ensure_ascii=False, indent=0)
    lines = [f"event: {event.name}"] if event.name else []
    lines += [f"data: {line}" for line in data.split("\n")]
    text = framing.newline.join([*lines, "", ""])
    return text.encode("utf-8", "surrogateescape")


def _bytes(step: Step) -> bytes:
    assert isinstance(step, bytes)
    return step
