"""The web server: from its sockets to its end. Whoever comes is given to uvicorn's connections,
which give what they say to the guard."""

import asyncio
import logging
import socket
import ssl
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from http import HTTPStatus
from typing import Any

import anyio
import anyio.lowlevel
import h11
from anyio.abc import TaskGroup
from starlette.types import ASGIApp
from uvicorn._types import ASGISendEvent
from uvicorn.config import Config
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from uvicorn.server import ServerState
from websockets.http11 import Request

from rookery.core.limits import KIB
from rookery.manager.web.listeners import LOOPBACK, LOOPBACK_6, ListenPlan, Sockets, sockets_at
from rookery.manager.web.page_files import PageFiles
from rookery.manager.web.request_guard import Door, Doors, Guard, bracketed, doors_at, refusal
from rookery.manager.web.routes import RequestRouter, Routes, Talk
from rookery.manager.web.visitors import Visitor, Watch
from rookery.manager.web.web_limits import (
    BETWEEN_REQUESTS,
    FIRST_FRAME,
    FRAME,
    GOODBYE,
    HEAD,
    HEADERS,
    INTRODUCTION,
    PING,
    STRANGERS_FRAMES,
)
from rookery.protocol.channels import NO_ROOM, SECONDS_UNTIL_ROOM

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


class WebServer:
    """Where it is reached."""

    def __init__(self, plan: ListenPlan, sockets: Sockets, watch: Watch) -> None:
        self._plan = plan
        self._watch = watch
        self.port = sockets.port
        self.addresses = tuple(str(each.getsockname()[0]) for each in sockets.inside)

    @property
    def url(self) -> str:
        return f"http://{LOOPBACK}:{self.port}/"

    @property
    def outside_url(self) -> str:
        """For devices; empty if none can reach it."""
        if self._plan.tunnel:
            return f"{self._plan.tunnel}/"
        if self._plan.address:
            return f"{self._plan.scheme}://{bracketed(self._plan.address.name)}:{self.port}/"
        return ""

    def launch_url(self) -> str:
        """What follows the hash is never sent to any server by a browser, nor kept in its logs."""
        return f"{self.url}#launch={self._watch.keys.launch_codes.new()}"

    def pairing_url(self) -> str:
        if not self.outside_url:
            return ""
        return f"{self.outside_url}#pair={self._watch.keys.pairing_codes.new()}"


class _Entrance:
    """Some listening sockets that are reached by the same names."""

    def __init__(
        self,
        app: ASGIApp,
        doors: Doors,
        watch: Watch,
        tls: ssl.SSLContext | None = None,
        *,
        outside: bool = False,
    ) -> None:
        self.state = ServerState()
        self._watch = watch
        self._tls = tls
        self._outside = outside
        self._config = _config(Guard(app, doors, watch))

    async def let_in(self, listener: socket.socket, group: TaskGroup) -> None:
        """Whoever comes. While there is no room for more, they wait at the door."""
        loop = asyncio.get_running_loop()
        while True:
            try:
                connection, _ = await loop.sock_accept(listener)
            except OSError as error:
                if error.errno not in NO_ROOM:
                    raise
                await anyio.sleep(SECONDS_UNTIL_ROOM)
            else:
                self._receive(connection, group)
                # to take one that waits already is no pause: who only comes and comes would
                # otherwise keep everybody else from being heard
                await anyio.lowlevel.checkpoint()

    def _receive(self, connection: socket.socket, group: TaskGroup) -> None:
        if visitor := self._watch.visitors.enter(outside=self._outside):
            group.start_soon(self._welcome, connection, visitor)
        else:
            connection.close()

    async def _welcome(self, connection: socket.socket, visitor: Visitor) -> None:
        arrived = False
        try:
            with visitor.shaking_hands:
                await asyncio.get_running_loop().connect_accepted_socket(
                    partial(HttpConnection, self._config, self.state, visitor, self._watch),
                    connection,
                    ssl=self._tls,
                    ssl_handshake_timeout=INTRODUCTION if self._tls else None,
                )
                arrived = True
        except OSError:
            pass  # they left, or did not manage to shake hands
        finally:
            if not arrived:
                visitor.left()


def _nobody(_: str) -> None:
    pass


@asynccontextmanager
async def web_server(
    plan: ListenPlan,
    watch: Watch,
    router: RequestRouter,
    talk: Talk,
    *,
    page: PageFiles,
    paired: Callable[[str], None] = _nobody,
) -> AsyncIterator["WebServer"]:
    """Serves the page and what it asks for. `paired` is told the id of every new device. Raises
    `SettingsError` if it cannot be where it is to be."""
    tls = plan.certificate.context() if plan.certificate else None
    app = Routes(router, talk, watch, page, paired).app()
    with sockets_at(plan.port, plan.address) as sockets:
        inside = _Entrance(app, Doors(_inside(plan, sockets.port)), watch)
        outside = _Entrance(app, Doors(_outside(plan, sockets.port)), watch, tls, outside=True)
        async with anyio.create_task_group() as group:
            for listener in sockets.inside:
                group.start_soon(inside.let_in, listener, group)
            if sockets.outside:
                group.start_soon(outside.let_in, sockets.outside, group)
            try:
                yield WebServer(plan, sockets, watch)
            finally:
                group.cancel_scope.cancel()
                with anyio.CancelScope(shield=True):
                    await _say_goodbye(watch, inside, outside)


def told_plainly(plan: ListenPlan, server: WebServer) -> list[str]:
    """What it means that other machines reach the server, if they do."""
    if plan.tunnel:
        return [
            f"Paired devices reach it at {server.outside_url}, through a tunnel that forwards to "
            f"{server.url}. The operator of the tunnel can read everything."
        ]
    if not plan.address:
        return []
    if not plan.certificate:
        return [
            f"Paired devices reach it at {server.outside_url}. WARNING: nothing is encrypted. "
            "Anyone in that network can read everything, and can then act as the device: run "
            "commands here as you."
        ]
    lines = [f"Paired devices reach it at {server.outside_url}, encrypted."]
    if plan.certificate.self_made:
        lines += [
            (
                "The certificate was made here, so a browser warns once. Continue only "
                "if it shows this SHA-256 fingerprint:"
            ),
            plan.certificate.fingerprint,
        ]
    return lines


def _inside(plan: ListenPlan, port: int) -> list[Door]:
    doors = doors_at("http", ("localhost", LOOPBACK, LOOPBACK_6), port)
    if plan.tunnel:
        doors.append(Door(plan.tunnel.partition("://")[2], plan.tunnel, outside=True))
    return doors


def _outside(plan: ListenPlan, port: int) -> list[Door]:
    names = plan.address.names if plan.address else ()
    return doors_at(plan.scheme, names, port, outside=True)


def _config(app: ASGIApp) -> Config:
    return Config(
        app,
        interface="asgi3",
        ws=WebSocketConnection,
        ws_max_size=FRAME,
        ws_ping_interval=PING,
        ws_ping_timeout=PING,
        ws_per_message_deflate=False,
        lifespan="off",
        # frames and addresses, and with them tokens, would be in it
        log_config=None,
        log_level=logging.CRITICAL,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        date_header=False,
        timeout_keep_alive=int(BETWEEN_REQUESTS),
        h11_max_incomplete_event_size=HEAD,
    )


async def _say_goodbye(watch: Watch, *entrances: _Entrance) -> None:
    """What was asked for is still answered, if that does not take long."""
    for entrance in entrances:
        for connection in [*entrance.state.connections]:
            connection.shutdown()
    tasks = [task for entrance in entrances for task in entrance.state.tasks]
    if tasks:
        _, late = await asyncio.wait(tasks, timeout=GOODBYE)
        for task in late:
            task.cancel()
        await asyncio.gather(*late, return_exceptions=True)
    for visitor in watch.visitors:
        visitor.send_away()
    await asyncio.sleep(0)  # the transports close their sockets
