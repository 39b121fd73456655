"""Servers behind a url that misbehave: nothing leaks to others, and nothing hangs."""

import gzip
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from rookery.core.limits import KIB, MIB
from rookery.errors import ToolError
from rookery.mcp import received
from rookery.mcp.connection import load_sdk
from rookery.mcp.server import State
from support.mcp_workspace import AMPLE, START_SECONDS, Bench

pytestmark = pytest.mark.anyio
SOON = 60.0
"""Seconds: enough on a busy machine, and less than the wait that the test rules out."""
SECRET = "s3cr3t-of-the-header"
TOKEN = "t0ken-of-the-query"
FLOOD, PIECE = 1_500_000_000, 65_536


class Misbehaving(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, way: str, elsewhere: str) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.way = way
        self.elsewhere = elsewhere
        self.seen: list[dict[str, str]] = []
        self.sent = 0
        self.over = threading.Event()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/mcp"


class Handler(BaseHTTPRequestHandler):
    server: Misbehaving

    def log_message(self, *_: object) -> None:
        pass

    def do_GET(self) -> None:
        self.do_POST()

    def do_POST(self) -> None:
        self.server.seen.append(dict(self.headers))
        asked = json.loads(self.rfile.read(int(self.headers.get("content-length", 0))) or b"{}")
        answer = {"jsonrpc": "2.0", "id": asked.get("id"), "result": {"x": "y" * 100}}
        match self.server.way:
            case "redirects":
                self._say(307, b"", location=self.server.elsewhere)
            case "refuses":
                self._say(401, b"who are you")
            case "sends too much":
                answer["result"] = {"x": "y" * 20_000_000}
                self._say(200, json.dumps(answer).encode())
            case "compresses":
                data = gzip.compress(json.dumps(answer).encode())
                self._say(200, data, content_encoding="gzip")
            case "hangs":
                self.server.over.wait(60)
            case "says nothing sensible":
                self._say(200, b"<html>")
            case "redirects with a flood":
                self._flood(307, location="/mcp")
            case "answers posts with a flood" if self.command == "GET":
                self._begin(200)
                self.wfile.write(b"event: endpoint\ndata: /post\n\n")
                self.server.over.wait(60)
            case "answers posts with a flood":
                self._flood(200)
            case "fails with a flood":
                self._flood(404)
            case "progress without end" | "notes without end" | "cannot be understood":
                self._answer(asked)
            case "endless events":
                self.send_response(200)
                self.send_header("content-type", "text/event-stream")
                self.end_headers()
                while not self.server.over.is_set():
                    self.wfile.write(b"data: " + b"z" * 65536)

    def _begin(self, status: int, **headers: str) -> None:
        self.send_response(status)
        for name, text in {"content-type": "text/event-stream", **headers}.items():
            self.send_header(name, text)
        self.end_headers()

    def _flood(self, status: int, **headers: str) -> None:
        """At most so much, which would be noticed, without an end of a line in it."""
        self._begin(status, **headers)
        for _ in range(FLOOD // PIECE):
            if self.server.over.is_set():
                return
            self.wfile.write(b"z" * PIECE)
            self.server.sent += PIECE

    def _answer(self, asked: dict[str, Any]) -> None:
        """Well, until a tool is called."""
        if "id" not in asked:
            self._say(202, b"")
            return
        tools = [{"name": "greet", "inputSchema": {"type": "object"}}]
        results = {
            "initialize": {
                "protocolVersion": "2025-06-18",
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "far", "version": "1"},
            },
            "tools/list": {"tools": tools},
        }
        if asked["method"] in results:
            answer = {"jsonrpc": "2.0", "id": asked["id"], "result": results[asked["method"]]}
            self._say(200, json.dumps(answer).encode())
            return
        if self.server.way == "cannot be understood":
            deep = '{"a":' * 5000 + "1" + "}" * 5000
            self._say(200, f'{{"jsonrpc":"2.0","id":{asked["id"]},"result":{deep}}}'.encode())
            return
        self._begin(200)
        token = asked["params"]["_meta"]["progressToken"]
        reported = {"progressToken": token, "progress": 1, "message": "x" * 500}
        method = "progress" if self.server.way == "progress without end" else "message"
        params = reported if method == "progress" else {"level": "info", "data": "x" * 100}
        note = {"jsonrpc": "2.0", "method": f"notifications/{method}", "params": params}
        while not self.server.over.is_set():
            self.wfile.write(b"data: " + json.dumps(note).encode() + b"\n\n")

    def _say(self, status: int, data: bytes, **headers: str) -> None:
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        for name, text in headers.items():
            self.send_header(name.replace("_", "-"), text)
        self.end_headers()
        self.wfile.write(data)

    def handle(self) -> None:
        with suppress(ConnectionError):  # the client has disconnected
            super().handle()


@contextmanager
def serving(way: str, elsewhere: str = "") -> Iterator[Misbehaving]:
    with Misbehaving(way, elsewhere) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield server
        finally:
            server.over.set()
            server.shutdown()
            thread.join()


@pytest.mark.parametrize("kind", ["streamable-http", "sse"])
@pytest.mark.parametrize(
    ("way", "reason"),
    [
        pytest.param("refuses", "answered with status 401", id="refuses"),
        pytest.param("sends too much", "more than 16 MiB|no event stream", id="sends-too-much"),
        pytest.param("compresses", "was compressed", id="compresses"),
        pytest.param("hangs", "did not answer within", id="hangs"),
        pytest.param(
            "says nothing sensible",
            "not an MCP message|no event stream",
            id="invalid-response",
        ),
        pytest.param("endless events", "exceeded the|no event stream", id="endless-events"),
    ],
)
async def test_a_misbehaving_server_fails_without_leaking_secrets(
    bench: Bench, way: str, reason: str, kind: str
):
    with serving(way) as server:
        bench.configure(
            far={
                "type": kind,
                "url": f"{server.url}?key={TOKEN}",
                "headers": {"Authorization": SECRET},
            }
        )
        async with bench.hub(start=START_SECONDS if way == "hangs" else AMPLE) as hub:
            began = time.monotonic()
            with pytest.raises(ToolError, match=reason) as reported:
                await hub.server("far").tools()
            assert time.monotonic() - began < START_SECONDS + SOON
            [health] = hub.health()
        assert health.state is State.FAILED
        assert health.error
        memory = (bench.folder / "cache" / "mcp.json").read_text(encoding="utf-8")
        for text in (str(reported.value), health.error, memory, repr(hub.server("far").definition)):
            assert SECRET not in text
            assert TOKEN not in text
        assert server.seen[0]["Authorization"] == SECRET


@pytest.mark.parametrize(
    ("way", "kind", "reason"),
    [
        ("redirects with a flood", "streamable-http", "more than 16 MiB"),
        ("redirects with a flood", "sse", "more than 16 MiB"),
        ("answers posts with a flood", "streamable-http", "exceeded the|more than 64 MiB"),
        ("answers posts with a flood", "sse", "more than 16 MiB"),
        ("fails with a flood", "streamable-http", "Not Found"),
    ],
)
async def test_a_flood_of_data_does_not_fill_memory(bench: Bench, way: str, kind: str, reason: str):
    with serving(way) as server:
        bench.configure(far={"type": kind, "url": server.url})
        async with bench.hub(start=20) as hub:
            await load_sdk()
            before = resident()
            with pytest.raises(ToolError, match=reason):
                await hub.server("far").tools()
        assert resident() - before < 200 * MIB
        assert server.sent < FLOOD / 4


@pytest.mark.parametrize("way", ["progress without end", "notes without end"])
async def test_endless_messages_close_the_connection(
    bench: Bench, way: str, monkeypatch: pytest.MonkeyPatch
):
    # as many as a busy machine sends in time
    monkeypatch.setattr(received, "FLOOD_MESSAGES", 1_000)
    with serving(way) as server:
        bench.configure(far={"type": "streamable-http", "url": server.url, "timeout": 60})
        async with bench.hub() as hub:
            await hub.server("far").tools()
            began = time.monotonic()
            with pytest.raises(ToolError, match="was lost: It sent 1001 lines"):
                await bench.use(hub, server="far", tool="greet")
            assert time.monotonic() - began < SOON


async def test_an_unreachable_server_is_reported(bench: Bench):
    with serving("refuses") as server:
        bench.configure(far={"type": "streamable-http", "url": server.url})
    async with bench.hub() as hub:
        with pytest.raises(ToolError, match=r"http://127.0.0.1:\d+/mcp cannot be reached"):
            await bench.use(hub, server="far", tool="greet")
        assert hub.health()[0].state is State.FAILED


async def test_an_unparsable_answer_ends_the_call_at_once(bench: Bench):
    with serving("cannot be understood") as server:
        bench.configure(far={"type": "streamable-http", "url": server.url, "timeout": 60})
        async with bench.hub(start=20) as hub:
            began = time.monotonic()
            with pytest.raises(ToolError, match="recursion limit exceeded"):
                await bench.use(hub, server="far", tool="greet")
            assert time.monotonic() - began < SOON


def resident() -> int:
    status = Path("/proc/self/status").read_text(encoding="utf-8").split()
    return int(status[status.index("VmHWM:") + 1]) * KIB


@pytest.mark.parametrize("kind", ["streamable-http", "sse"])
async def test_a_redirect_to_another_origin_is_not_followed(bench: Bench, kind: str):
    with serving("refuses") as other, serving("redirects", other.url) as server:
        bench.configure(far={"type": kind, "url": server.url, "headers": {"Authorization": SECRET}})
        async with bench.hub() as hub:
            with pytest.raises(ToolError):
                await hub.server("far").tools()
        assert server.seen
        assert not other.seen


async def test_the_proxy_from_the_environment_is_not_used(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
):
    with serving("refuses") as proxy, serving("refuses") as server:
        for name in ("NO_PROXY", "no_proxy"):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setenv("HTTP_PROXY", proxy.url)
        monkeypatch.setenv("ALL_PROXY", proxy.url)
        bench.configure(far={"type": "sse", "url": server.url})
        async with bench.hub() as hub:
            with pytest.raises(ToolError):
                await hub.server("far").tools()
        assert server.seen
        assert not proxy.seen
