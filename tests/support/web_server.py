"""A web server on real sockets, with a small manager behind it."""

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import anyio
import httpx2
from anyio.abc import ByteStream
from msgspec import Struct, field
from websockets.asyncio.client import ClientConnection, connect

from rookery.core.queries import KnownMode
from rookery.errors import CommandRejected
from rookery.manager.handlers.router import Handlers, Router
from rookery.manager.requests import (
    ListBranches,
    ListModels,
    ListModes,
    RenameSession,
    SendWords,
)
from rookery.manager.schedules.schedule_file import CallWebhook
from rookery.manager.shown_rows import Done, Started
from rookery.manager.web.access import Access, Keys, Visitors
from rookery.manager.web.devices import DeviceHandler, Devices
from rookery.manager.web.listeners import ListenPlan
from rookery.manager.web.page_files import PageFiles
from rookery.manager.web.routes import HostedProject
from rookery.manager.web.web_server import WebServer, web_server
from rookery.protocol.channels import Channel
from rookery.protocol.jsonrpc import METHOD_NOT_FOUND, Disconnected, Params, Peer, RpcError

LOOPBACK = "127.0.0.1"
PATIENCE = 60
PONDERING = 1.0
"""Seconds that listing modes takes."""
PROJECT = "0123456789abcdef"
SESSION = "5b0c4b7e-6f6e-4d2c-9a55-0a4ef0e9a001"
WEBHOOK_TOKEN = "77" * 32
SCHEDULE = "12345678"
BUSY = "It is busy."
PIECE = "x" * 100_000
BUG = "Zq7bug"
UPGRADE = (
    "Upgrade: websocket",
    "Connection: Upgrade",
    "Sec-WebSocket-Version: 13",
    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
)
INDEX = b"<!doctype html><title>page</title>"


class FewRequests:
    """Handlers that record their requests."""

    def __init__(self) -> None:
        self.done: list[object] = []
        self.handlers: Handlers = {
            ListBranches: self._branches,
            RenameSession: self._rename,
            SendWords: self._send,
            ListModels: self._break,
            ListModes: self._ponder,
            CallWebhook: self._start,
        }

    async def _start(self, request: CallWebhook) -> Started:
        if request in self.done:
            return Started(session_ids=())
        if request.text == BUSY:
            raise CommandRejected(BUSY)
        self.done.append(request)
        return Started(session_ids=(SESSION,))

    async def _branches(self, request: ListBranches) -> tuple[str, ...]:
        self.done.append(request)
        return ("main",)

    async def _rename(self, request: RenameSession) -> Done:
        if request.session_id != SESSION:
            raise CommandRejected("There is no such session here.")
        self.done.append(request)
        return Done()

    async def _ponder(self, request: ListModes) -> tuple[KnownMode, ...]:
        await anyio.sleep(PONDERING)
        return ()

    async def _break(self, request: ListModels) -> Done:
        raise ValueError(BUG)

    async def _send(self, request: SendWords) -> Done:
        self.done.append(request)
        return Done()


class Talk:
    """Replaces the manager's service: it introduces itself, echoes and floods."""

    def __init__(self) -> None:
        self.tokens: list[str] = []
        self.flooded = 0
        self.over = anyio.Event()

    async def __call__(self, channel: Channel, token: str) -> None:
        self.tokens.append(token)
        conversation = _Conversation(self, channel)
        try:
            await conversation.peer.run()
        finally:
            self.over.set()


class _Conversation:
    def __init__(self, talk: Talk, channel: Channel) -> None:
        self._talk = talk
        self.peer = Peer(channel, self)

    async def answer(self, method: str, params: Params) -> object:
        match method:
            case "initialize":
                return {"protocol": 1}
            case "echo":
                return params
            case "flood":
                await self._flood()
                return None
            case _:
                raise RpcError(METHOD_NOT_FOUND, "There is no such method.")

    async def on_notification(self, method: str, params: Params) -> None:
        await self.answer(method, params)

    async def _flood(self) -> None:
        with suppress(Disconnected):
            while True:
                await self.peer.room()
                self.peer.notify("view", PIECE)
                self._talk.flooded += 1


class Served(Struct):
    server: WebServer
    access: Access
    talk: Talk
    requests: FewRequests
    token: str
    """Of a browser on this machine."""
    paired: list[str] = field(default_factory=list)

    @property
    def port(self) -> int:
        return self.server.port

    @property
    def host(self) -> str:
        return f"{LOOPBACK}:{self.port}"

    @property
    def origin(self) -> str:
        return f"http://{self.host}"

    @property
    def blocked(self) -> int:
        return self.access.blocked_requests

    @property
    def bearer(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.token}"}

    def client(self, **given: Any) -> httpx2.AsyncClient:
        return httpx2.AsyncClient(base_url=self.origin, timeout=PATIENCE, trust_env=False, **given)

    def socket(self, **given: Any) -> connect:
        given.setdefault("origin", self.origin)
        return connect(f"ws://{self.host}/ws", proxy=None, **given)

    @asynccontextmanager
    async def page(self) -> AsyncIterator[ClientConnection]:
        """An authenticated WebSocket."""
        async with self.socket() as page:
            assert "result" in await call(page, "initialize", protocol=1, token=self.token)
            yield page

    @property
    def handshake(self) -> bytes:
        lines = ["GET /ws HTTP/1.1", f"Host: {self.host}", f"Origin: {self.origin}", *UPGRADE]
        return "\r\n".join([*lines, "", ""]).encode()

    async def is_left_alone(self) -> None:
        with anyio.fail_after(PATIENCE):
            while len(self.access.visitors):  # noqa: ASYNC110 (a system tells the server)
                await anyio.sleep(0.01)

    async def say(self, text: str | bytes) -> "Answer":
        """Send raw data, and return the answer up to the end of the connection."""
        async with await anyio.connect_tcp(LOOPBACK, self.port) as stream:
            return await said_to(stream, text, self.host)


class Answer(Struct):
    raw: bytes

    @property
    def status(self) -> int:
        return int(self.raw.split(b" ", 2)[1]) if self.raw else 0

    @property
    def headers(self) -> dict[str, str]:
        head = self.raw.partition(b"\r\n\r\n")[0].decode("latin-1")
        pairs = [line.split(": ", 1) for line in head.split("\r\n")[1:]]
        return {name.lower(): held for name, held in pairs}

    @property
    def body(self) -> bytes:
        return self.raw.partition(b"\r\n\r\n")[2]


async def said_to(stream: ByteStream, text: str | bytes, host: str) -> Answer:
    said = text if isinstance(text, bytes) else text.replace("@HOST@", host).encode("latin-1")
    received = b""
    with anyio.fail_after(PATIENCE), suppress(anyio.EndOfStream, anyio.BrokenResourceError):
        await stream.send(said)
        while True:
            received += await stream.receive()
    return Answer(received)


def request(line: str, *headers: str, body: str = "") -> str:
    """A request that closes its connection."""
    lines = [f"{line} HTTP/1.1", "Connection: close", *headers]
    return "\r\n".join([*lines, "", body])


def page_in(folder: Path) -> Path:
    """Write the files of a built page."""
    assets = folder / "assets"
    assets.mkdir(parents=True)
    (folder / "index.html").write_bytes(INDEX)
    (folder / "icon.svg").write_bytes(b"<svg/>")
    (assets / "index-D4f_a-9Z.js").write_bytes(b"export {};")
    (assets / "index-0123abcd.css").write_bytes(b"a{}")
    (assets / "notes.md").write_bytes(b"# not of the page")
    return folder


@asynccontextmanager
async def served(
    folder: Path, plan: ListenPlan | None = None, *, page: PageFiles | None = None
) -> AsyncIterator[Served]:
    devices, visitors = Devices(folder / "state" / "devices.json"), Visitors()
    reported: list[int] = []
    access = Access(Keys(devices), visitors, reported.append)
    talk, requests = Talk(), FewRequests()
    handler = Router([requests, DeviceHandler(devices, visitors.disconnect)])
    paired: list[str] = []
    _, token = devices.admit_browser("Test")

    async def find_project(project_id: str) -> HostedProject:
        if project_id not in ("", PROJECT):
            raise CommandRejected("No such project.")
        return HostedProject(handler, talk)

    async def find_webhook(project_id: str, given: str) -> str:
        return SCHEDULE if (project_id, given) == (PROJECT, WEBHOOK_TOKEN) else ""

    async with web_server(
        plan or ListenPlan(),
        access,
        find_project,
        page=page or PageFiles(page_in(folder / "page")),
        find_webhook=find_webhook,
        on_paired=paired.append,
    ) as server:
        yield Served(server, access, talk, requests, token, paired)
    assert reported == list(range(1, access.blocked_requests + 1))


async def call(socket: ClientConnection, method: str, **params: Any) -> Mapping[str, Any]:
    message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    await socket.send(json.dumps(message))
    with anyio.fail_after(PATIENCE):
        answer: Mapping[str, Any] = json.loads(await socket.recv())
    return answer


def introduction(token: object, **more: object) -> str:
    params = {"protocol": 1, "token": token}
    return json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params, **more})
