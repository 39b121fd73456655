"""uvicorn's connections, with what they lack: an end to waiting, and refusals in our own shape for
what never becomes a request."""

import asyncio
import sys
from http import HTTPStatus
from typing import Any

import h11
from uvicorn._types import ASGISendEvent
from uvicorn.config import Config
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from uvicorn.server import ServerState
from websockets.http11 import Request

from rookery.core.limits import KIB
from rookery.manager.web.request_guard import refusal
from rookery.manager.web.visitors import Visitor, Watch
from rookery.manager.web.web_limits import FIRST_FRAME, FRAME, HEAD, HEADERS, STRANGERS_FRAMES

_LONGEST_LINE = 8_000
"""Of the head of a handshake: more is not taken by who takes it over."""
_UNSENT_ECHOES = 256 * KIB
"""Of pings that somebody sends and does not hear the answers of."""


class HttpConnection(H11Protocol):
    def __init__(self, config: Config, state: ServerState, visitor: Visitor, watch: Watch) -> None:
        super().__init__(config, state, {"visitor": visitor, "watch": watch})
        self._visitor = visitor
        self._watch = watch

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._visitor.arrived(transport)

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._visitor.left()

    def shutdown(self) -> None:
        if not self.transport.is_closing():
            super().shutdown()

    def send_400_response(self, msg: str) -> None:
        error = sys.exc_info()[1]
        hint = error.error_status_hint if isinstance(error, h11.ProtocolError) else 400
        self._turn_away(HTTPStatus(hint))

    def handle_websocket_upgrade(self, event: h11.Request) -> None:
        if event.method != b"GET":
            self._turn_away(HTTPStatus.METHOD_NOT_ALLOWED)
        elif _is_too_long(event):
            self._turn_away(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)
        else:
            super().handle_websocket_upgrade(event)

    def _turn_away(self, status: HTTPStatus) -> None:
        self._watch.block()
        busy = self.cycle is not None and not self.cycle.response_complete
        if not (busy and self.cycle.response_started):
            self.transport.write(refusal(status))
        if busy:
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        self.transport.close()


class WebSocketConnection(WebSocketsSansIOProtocol):
    def __init__(self, *, app_state: dict[str, Any], **given: Any) -> None:
        super().__init__(app_state=app_state, **given)
        self._visitor: Visitor = app_state["visitor"]
        self._watch: Watch = app_state["watch"]
        self._heard = 0

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._visitor.left()

    def data_received(self, data: bytes) -> None:
        """Frames cost far more than their bytes, so a stranger may send only a few."""
        known = self._visitor.guest is not None
        self.conn.max_message_size = FRAME if known else FIRST_FRAME
        if self.handshake_initiated and not known:
            self._heard += len(data)
            data = data[: max(0, STRANGERS_FRAMES - self._heard + len(data))]
        super().data_received(data)
        if self.conn.handshake_exc and not self.handshake_complete:
            self._watch.block()
            self._turn_away(HTTPStatus.BAD_REQUEST)
        elif self._heard > STRANGERS_FRAMES and self.conn.parser_exc is None:
            self._watch.block()
            self._visitor.send_away()

    def handle_connect(self, event: Request) -> None:
        # what is wrong with it would be told in words of the request
        if self.conn.accept(event).status_code == HTTPStatus.SWITCHING_PROTOCOLS:
            super().handle_connect(event)
        else:
            self._watch.block()
            self._turn_away(HTTPStatus.BAD_REQUEST)

    async def send(self, message: ASGISendEvent) -> None:
        if message["type"] == "websocket.http.response.start":
            self._turn_away(HTTPStatus(message["status"]))
        elif message["type"] != "websocket.http.response.body":
            await super().send(message)

    def handle_ping(self) -> None:
        super().handle_ping()
        if self.transport.get_write_buffer_size() > _UNSENT_ECHOES:
            self._visitor.send_away()

    def keepalive_timeout(self) -> None:
        # to close would mean to wait until they have taken what is unsent
        self._visitor.send_away()

    def _turn_away(self, status: HTTPStatus) -> None:
        self.handshake_complete = self.close_sent = True
        self.transport.write(refusal(status))
        self.transport.close()


def _is_too_long(event: h11.Request) -> bool:
    """Looked at before it is parsed once more."""
    lines = [len(name) + len(held) for name, held in event.headers] + [len(event.target)]
    return len(lines) > HEADERS or sum(lines) > HEAD or max(lines) > _LONGEST_LINE
