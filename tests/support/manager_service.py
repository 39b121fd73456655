"""A manager behind a real Unix socket, and a client that assembles its updates."""

import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from itertools import count
from typing import Any

import anyio
import anyio.abc
import anyio.lowlevel

from rookery.manager.handlers.router import Router
from rookery.manager.handlers.session_handler import SessionHandler, overview_of
from rookery.manager.service import serve_manager
from rookery.manager.sessions.supervisor import Supervisor
from rookery.manager.shown_rows import Overview
from rookery.protocol.channels import Channel, channel_on, unix_channel, unix_listener
from support.manager_project import PATIENCE, Project, Watched


class Served:
    """A minimal manager."""

    def __init__(self, supervisor: Supervisor) -> None:
        self.supervisor = supervisor
        self.router = Router([SessionHandler(supervisor)])
        self.look_for_projects = anyio.lowlevel.checkpoint

    def overview(self) -> Overview:
        return overview_of(self.supervisor)


@asynccontextmanager
async def serving(project: Project, watched: Watched) -> AsyncIterator[Callable[[], Any]]:
    """Serve it, and return a function that connects to it."""
    manager, path = Served(watched.supervisor), project.folder / "manager.sock"

    async def welcome(stream: anyio.abc.SocketStream) -> None:
        async with stream:
            await serve_manager(manager, channel_on(stream))

    async with unix_listener(path) as listener, anyio.create_task_group() as group:
        group.start_soon(listener.serve, welcome)

        @asynccontextmanager
        async def connect() -> AsyncIterator["Client"]:
            async with talking(await unix_channel(path)) as client:
                await client.call("initialize", protocol=1)
                yield client

        yield connect
        group.cancel_scope.cancel()


@asynccontextmanager
async def talking(channel: Channel) -> AsyncIterator["Client"]:
    client = Client(channel)
    try:
        async with anyio.create_task_group() as group:
            group.start_soon(client.listen)
            yield client
            group.cancel_scope.cancel()
    finally:
        await channel.aclose()


class Refused(Exception):
    pass


class Client:
    """A client that reads all the time, like a page."""

    def __init__(self, channel: Channel) -> None:
        self.channel = channel
        self.received: list[dict[str, Any]] = []
        self.bytes = 0
        self.reading = anyio.Event()
        self.reading.set()
        self._numbers = count(1)
        self._answers: dict[int, dict[str, Any]] = {}
        self._changed = anyio.Event()

    async def listen(self) -> None:
        while True:
            await self.reading.wait()
            data = await self.channel.receive()
            self.bytes += len(data)
            message = json.loads(data)
            if "id" in message:
                self._answers[message["id"]] = message
            else:
                self.received.append(message)
            self._changed.set()
            self._changed = anyio.Event()

    async def until(self, holds: Callable[[], Any]) -> Any:
        with anyio.fail_after(PATIENCE):
            while not (found := holds()):
                await self._changed.wait()
        return found

    async def call(self, method: str, **params: Any) -> Any:
        number = next(self._numbers)
        asked = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
        await self.channel.send([json.dumps(asked).encode()])
        answer = await self.until(lambda: self._answers.pop(number, None))
        if "error" in answer:
            raise Refused(answer["error"]["message"])
        return answer["result"]

    async def do(self, kind: str, **fields: Any) -> Any:
        return await self.call("do", kind=kind, **fields)

    def reported(self, method: str, follow_id: int) -> list[dict[str, Any]]:
        of_method = (each["params"] for each in self.received if each["method"] == method)
        return [each for each in of_method if each["follow_id"] == follow_id]

    async def follow(self, session_id: str, **more: Any) -> "Page":
        answer = await self.call("follow_session", session_id=session_id, **more)
        return Page(self, answer["follow_id"])

    async def list(self) -> "List":
        answer = await self.call("follow_list")
        return List(self, answer["follow_id"])


class Page:
    """Applies the changes of a view, as a page does."""

    def __init__(self, client: Client, follow_id: int) -> None:
        self.client = client
        self.follow_id = follow_id

    @property
    def news(self) -> list[dict[str, Any]]:
        return self.client.reported("view", self.follow_id)

    @property
    def earlier(self) -> int:
        return int(self.news[-1]["earlier"])

    def rows(self) -> list[dict[str, Any]]:
        rows: dict[int, dict[str, Any]] = {}
        for reported in self.news:
            _apply(rows, reported["change"])
        return [rows[ts] for ts in sorted(rows)]

    def parts(self) -> dict[str, Any]:
        known: dict[str, Any] = {}
        for reported in self.news:
            known |= reported["change"].get("parts", {})
        return known

    async def until(self, holds: Callable[[list[dict[str, Any]]], Any]) -> Any:
        return await self.client.until(lambda: holds(self.rows()))


def _apply(rows: dict[int, dict[str, Any]], change: dict[str, Any]) -> None:
    for ts in change.get("removed", ()):
        rows.pop(ts, None)
    for row in change.get("added", ()):
        assert row["ts"] not in rows, "a row came twice"
        rows[row["ts"]] = row
    for new in change.get("changed", ()):
        row = rows[new["ts"]]
        text = new.get("text", row.get("text"))
        if "append" in new:
            kept = len(text) - new.get("drop", 0)
            text = text[:kept] + new["append"]
        blocks = [*new.get("html", row.get("html", [])), *new.get("html_add", [])]
        rows[new["ts"]] = {
            **row,
            **{name: new[name] for name in new if name not in ("append", "drop", "html_add")},
            **({"text": text} if text is not None else {}),
            **({"html": blocks} if blocks else {}),
        }


class List:
    def __init__(self, client: Client, follow_id: int) -> None:
        self.client = client
        self.follow_id = follow_id

    @property
    def news(self) -> list[dict[str, Any]]:
        return self.client.reported("list", self.follow_id)

    def rows(self) -> dict[str, dict[str, Any]]:
        rows: dict[str, dict[str, Any]] = {}
        for reported in self.news:
            for row in reported.get("rows", ()):
                rows[row["session_id"]] = row
            for session_id in reported.get("removed", ()):
                del rows[session_id]
        return rows

    def row(self, session_id: str) -> dict[str, Any]:
        return self.rows().get(session_id, {})

    def last(self, name: str) -> Any:
        return next((reported[name] for reported in reversed(self.news) if name in reported), None)
