"""The web server: sockets, uvicorn's connections and shutdown. Each connection passes its
requests to the guard."""

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
from rookery.manager.dependencies import FleetView
from rookery.manager.web.access import (
    ANONYMOUS_FRAMES,
    BETWEEN_REQUESTS,
    FIRST_FRAME,
    FRAME,
    HANDSHAKE,
    HEAD,
    HEADERS,
    PING,
    SHUTDOWN,
    Access,
    Visitor,
)
from rookery.manager.web.listeners import LOOPBACK, LOOPBACK_6, ListenPlan, Sockets, sockets_at
from rookery.manager.web.page_files import PageFiles
from rookery.manager.web.request_guard import Guard, OwnHost, OwnHosts, bracketed, hosts_at, refusal
from rookery.manager.web.routes import FindProject, FindWebhook, Routes, no_webhook
from rookery.protocol.channels import NO_ROOM, SECONDS_UNTIL_ROOM

_LONGEST_LINE = 8_000
"""Limit of websockets for a line of the handshake."""
_UNSENT_PONGS = 256 * KIB
"""Unsent answers to pings of a client that does not read them."""


class HttpConnection(H11Protocol):
    def __init__(
        self, config: Config, state: ServerState, visitor: Visitor, access: Access
    ) -> None:
        super().__init__(config, state, {"visitor": visitor, "access": access})
        self._visitor = visitor
        self._access = access

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._visitor.connected(transport)

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._visitor.closed()

    def shutdown(self) -> None:
        if not self.transport.is_closing():
            super().shutdown()

    def send_400_response(self, msg: str) -> None:
        error = sys.exc_info()[1]
        hint = error.error_status_hint if isinstance(error, h11.ProtocolError) else 400
        self._refuse(HTTPStatus(hint))

    def handle_websocket_upgrade(self, event: h11.Request) -> None:
        if event.method != b"GET":
            self._refuse(HTTPStatus.METHOD_NOT_ALLOWED)
        elif _is_too_long(event):
            self._refuse(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)
        else:
            super().handle_websocket_upgrade(event)

    def _refuse(self, status: HTTPStatus) -> None:
        self._access.count_blocked()
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
        self._access: Access = app_state["access"]
        self._received = 0

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._visitor.closed()

    def data_received(self, data: bytes) -> None:
        """Limit the bytes before authentication: handling a frame costs far more than reading
        it."""
        known = self._visitor.identity is not None
        self.conn.max_message_size = FRAME if known else FIRST_FRAME
        if self.handshake_initiated and not known:
            self._received += len(data)
            data = data[: max(0, ANONYMOUS_FRAMES - self._received + len(data))]
        super().data_received(data)
        if self.conn.handshake_exc and not self.handshake_complete:
            self._access.count_blocked()
            self._refuse(HTTPStatus.BAD_REQUEST)
        elif self._received > ANONYMOUS_FRAMES and self.conn.parser_exc is None:
            self._access.count_blocked()
            self._visitor.disconnect()

    def handle_connect(self, event: Request) -> None:
        # the default response would quote the request
        if self.conn.accept(event).status_code == HTTPStatus.SWITCHING_PROTOCOLS:
            super().handle_connect(event)
        else:
            self._access.count_blocked()
            self._refuse(HTTPStatus.BAD_REQUEST)

    async def send(self, message: ASGISendEvent) -> None:
        if message["type"] == "websocket.http.response.start":
            self._refuse(HTTPStatus(message["status"]))
        elif message["type"] != "websocket.http.response.body":
            await super().send(message)

    def handle_ping(self) -> None:
        super().handle_ping()
        if self.transport.get_write_buffer_size() > _UNSENT_PONGS:
            self._visitor.disconnect()

    def keepalive_timeout(self) -> None:
        # closing would wait until the client has read everything unsent
        self._visitor.disconnect()

    def _refuse(self, status: HTTPStatus) -> None:
        self.handshake_complete = self.close_sent = True
        self.transport.write(refusal(status))
        self.transport.close()


def _is_too_long(event: h11.Request) -> bool:
    """Checked before websockets parses the request again."""
    lines = [len(name) + len(held) for name, held in event.headers] + [len(event.target)]
    return len(lines) > HEADERS or sum(lines) > HEAD or max(lines) > _LONGEST_LINE


class WebServer:
    """Addresses of a running server."""

    def __init__(self, plan: ListenPlan, sockets: Sockets, access: Access) -> None:
        self._plan = plan
        self._access = access
        self.port = sockets.port

    @property
    def url(self) -> str:
        return f"http://{LOOPBACK}:{self.port}/"

    @property
    def fingerprint(self) -> str:
        """Of its certificate; empty if it has none."""
        return self._plan.certificate.fingerprint if self._plan.certificate else ""

    @property
    def outside_url(self) -> str:
        """URL for devices; empty if they cannot reach it."""
        if self._plan.tunnel:
            return f"{self._plan.tunnel}/"
        if self._plan.address:
            return f"{self._plan.scheme}://{bracketed(self._plan.address.name)}:{self.port}/"
        return ""

    def launch_url(self, project_id: str = "") -> str:
        """URL with a launch code, in the fragment, which browsers neither send nor log."""
        place = f"{self.url}p/{project_id}/" if project_id else self.url
        return f"{place}#launch={self._access.keys.launch_codes.new()}"

    def pairing_url(self) -> str:
        if not self.outside_url:
            return ""
        return f"{self.outside_url}#pair={self._access.keys.pairing_codes.new()}"


class _Listener:
    """Listening sockets that are reached by the same host names."""

    def __init__(
        self,
        app: ASGIApp,
        hosts: OwnHosts,
        access: Access,
        tls: ssl.SSLContext | None = None,
        *,
        outside: bool = False,
    ) -> None:
        self.state = ServerState()
        self._access = access
        self._tls = tls
        self._outside = outside
        self._config = _config(Guard(app, hosts, access))

    async def accept_connections(self, listener: socket.socket, group: TaskGroup) -> None:
        """Accept connections; without free file descriptors, clients wait in the backlog."""
        loop = asyncio.get_running_loop()
        while True:
            try:
                connection, _ = await loop.sock_accept(listener)
            except OSError as error:
                if error.errno not in NO_ROOM:
                    raise
                await anyio.sleep(SECONDS_UNTIL_ROOM)
            else:
                self._admit(connection, group)
                # accepting a waiting connection does not yield, so a flood of connections
                # would otherwise starve all other tasks
                await anyio.lowlevel.checkpoint()

    def _admit(self, connection: socket.socket, group: TaskGroup) -> None:
        if visitor := self._access.visitors.add(outside=self._outside):
            group.start_soon(self._accept, connection, visitor)
        else:
            connection.close()

    async def _accept(self, connection: socket.socket, visitor: Visitor) -> None:
        connected = False
        try:
            with visitor.handshake:
                await asyncio.get_running_loop().connect_accepted_socket(
                    partial(HttpConnection, self._config, self.state, visitor, self._access),
                    connection,
                    ssl=self._tls,
                    ssl_handshake_timeout=HANDSHAKE if self._tls else None,
                )
                connected = True
        except OSError:
            pass  # disconnected, or the TLS handshake failed
        finally:
            if not connected:
                visitor.closed()


def _ignore(_: str) -> None:
    pass


@asynccontextmanager
async def web_server(
    plan: ListenPlan,
    access: Access,
    find_project: FindProject,
    *,
    page: PageFiles,
    find_webhook: FindWebhook = no_webhook,
    on_paired: Callable[[str], None] = _ignore,
    fleet: FleetView | None = None,
) -> AsyncIterator["WebServer"]:
    """Serve the page and its requests. `on_paired` is called with the id of each new device. Raises
    `SettingsError` if an address cannot be used."""
    tls = plan.certificate.context() if plan.certificate else None
    app = Routes(find_project, access, page, find_webhook, on_paired, fleet).app()
    with sockets_at(plan) as sockets:
        inside = _Listener(app, OwnHosts(_local_hosts(plan, sockets.port)), access)
        outside = _Listener(
            app, OwnHosts(_remote_hosts(plan, sockets.port)), access, tls, outside=True
        )
        async with anyio.create_task_group() as group:
            for listener in sockets.inside:
                group.start_soon(inside.accept_connections, listener, group)
            if sockets.outside:
                group.start_soon(outside.accept_connections, sockets.outside, group)
            try:
                yield WebServer(plan, sockets, access)
            finally:
                group.cancel_scope.cancel()
                with anyio.CancelScope(shield=True):
                    await _close_all(access, inside, outside)


def access_notes(plan: ListenPlan, server: WebServer) -> list[str]:
    """Explain how other machines reach the server, if they do."""
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
    if plan.certificate.self_signed:
        lines += [
            (
                "The certificate was made here, so a browser warns once. Continue only "
                "if it shows this SHA-256 fingerprint:"
            ),
            plan.certificate.fingerprint,
        ]
    return lines


def _local_hosts(plan: ListenPlan, port: int) -> list[OwnHost]:
    hosts = hosts_at("http", ("localhost", LOOPBACK, LOOPBACK_6), port)
    if plan.tunnel:
        hosts.append(OwnHost(plan.tunnel.partition("://")[2], plan.tunnel, outside=True))
    return hosts


def _remote_hosts(plan: ListenPlan, port: int) -> list[OwnHost]:
    names = plan.address.names if plan.address else ()
    return hosts_at(plan.scheme, names, port, outside=True)


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
        # logs would contain frames and URLs, and with them tokens
        log_config=None,
        log_level=logging.CRITICAL,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        date_header=False,
        timeout_keep_alive=int(BETWEEN_REQUESTS),
        h11_max_incomplete_event_size=HEAD,
    )


async def _close_all(access: Access, *entrances: _Listener) -> None:
    """Finish pending requests within `SHUTDOWN` seconds, then close all connections."""
    for entrance in entrances:
        for connection in [*entrance.state.connections]:
            connection.shutdown()
    tasks = [task for entrance in entrances for task in entrance.state.tasks]
    if tasks:
        _, late = await asyncio.wait(tasks, timeout=SHUTDOWN)
        for task in late:
            task.cancel()
        await asyncio.gather(*late, return_exceptions=True)
    for visitor in access.visitors:
        visitor.disconnect()
    await asyncio.sleep(0)  # let the transports close their sockets
