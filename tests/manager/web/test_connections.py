"""Clients that send nothing, little, slowly or too much, and clients in crowds."""

import json
import os
import resource
import socket
import struct
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import anyio
import anyio.lowlevel
import anyio.to_thread
import httpx2
import pytest
from anyio.abc import ByteStream
from websockets.exceptions import ConnectionClosed

from rookery.manager.web import access
from rookery.manager.web.access import ANONYMOUS_FRAMES, CONNECTIONS, is_of_another_user
from rookery.manager.web.listeners import ListenPlan
from rookery.manager.web.page_files import PageFiles
from support import web_server
from support.web_server import (
    LOOPBACK,
    PATIENCE,
    Served,
    call,
    introduction,
    page_in,
    request,
    said_to,
    served,
)

pytestmark = pytest.mark.anyio

TUNNEL = "https://tunnel.example"
TEXT, CONTINUED, PING, PONG = 1, 0, 9, 10
CROWD = 5 * CONNECTIONS


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same timeouts, shorter."""
    monkeypatch.setattr(access, "HANDSHAKE", 0.3)
    monkeypatch.setattr(access, "ANONYMOUS_REQUEST", 0.3)
    monkeypatch.setattr(access, "BETWEEN_REQUESTS", 0.3)
    monkeypatch.setattr(access, "STALLED", 0.3)


@contextmanager
def connections(server: Served, number: int) -> Iterator[list[socket.socket]]:
    with ExitStack() as stack:
        made = []
        for _ in range(number):
            far = stack.enter_context(socket.create_connection((LOOPBACK, server.port)))
            far.settimeout(PATIENCE)
            made.append(far)
        yield made


SLOW = {
    "nothing": b"",
    "half a line": b"GET / HT",
    "half a head": b"GET / HTTP/1.1\r\nHost: x\r\nX-A: b\r\n",
    "half a body": b"POST /api/launch HTTP/1.1\r\nHost: @HOST@\r\n"
    b"Content-Type: application/json\r\nContent-Length: 500\r\n\r\n{",
}


@pytest.mark.usefixtures("impatient")
async def test_a_client_that_sends_no_request_in_time_is_disconnected(tmp_path: Path):
    async with served(tmp_path) as server:
        for begin in SLOW.values():
            async with await anyio.connect_tcp(LOOPBACK, server.port) as stream:
                await said_to(stream, begin.replace(b"@HOST@", server.host.encode()), server.host)
            await server.is_left_alone()
        assert server.requests.done == []


async def drip(stream: ByteStream) -> None:
    """Send until the server disconnects."""
    with anyio.fail_after(PATIENCE), suppress(anyio.BrokenResourceError):
        while True:
            await stream.send(b"G")
            await anyio.sleep(0.05)


@pytest.mark.usefixtures("impatient")
async def test_a_client_that_sends_byte_by_byte_is_disconnected(tmp_path: Path):
    """Single bytes do not extend the deadline, nor does an earlier request."""
    async with served(tmp_path) as server:
        async with await anyio.connect_tcp(LOOPBACK, server.port) as stream:
            await drip(stream)
        await server.is_left_alone()
        async with await anyio.connect_tcp(LOOPBACK, server.port) as stream:
            await stream.send(f"GET / HTTP/1.1\r\nHost: {server.host}\r\n\r\n".encode())
            assert b" 200 " in await stream.receive()
            await drip(stream)
        await server.is_left_alone()


@pytest.mark.usefixtures("impatient")
async def test_a_client_that_does_not_read_its_file_is_disconnected(tmp_path: Path):
    folder = page_in(tmp_path / "page")
    (folder / "large.txt").write_bytes(b"x" * 8_000_000)
    async with served(tmp_path / "server", page=PageFiles(folder)) as server:
        with connections(server, 1) as (far,):
            far.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            far.sendall(request("GET /large.txt", f"Host: {server.host}").encode())
            await server.is_left_alone()


async def test_a_slow_download_completes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """On a busy machine a reader may stall; then try again with more time."""
    folder = page_in(tmp_path / "page")
    (folder / "large.txt").write_bytes(b"x" * 8_000_000)
    for slower in (1, 5):
        monkeypatch.setattr(access, "STALLED", 1.0 * slower)
        async with served(tmp_path / str(slower), page=PageFiles(folder)) as server:
            with connections(server, 1) as (far,):
                far.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65_536)
                far.sendall(request("GET /large.txt", f"Host: {server.host}").encode())
                received = await anyio.to_thread.run_sync(taken_slowly, far, 4 * slower)
        if received > 8_000_000:
            return
    raise AssertionError("Whoever was slow did not get all of it.")


def taken_slowly(far: socket.socket, seconds: float) -> int:
    """For several times the timeout of a client that reads nothing."""
    received, until = 0, time.monotonic() + seconds
    with suppress(ConnectionResetError):
        while piece := far.recv(100_000):
            received += len(piece)
            if time.monotonic() < until:
                time.sleep(seconds / 200)
    return received


async def test_authenticated_clients_have_no_request_timeout(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """On a busy machine the handshake is slow; then try again with more time."""
    for slower in (1, 5, 25):
        monkeypatch.setattr(access, "HANDSHAKE", 2.0 * slower)
        monkeypatch.setattr(access, "ANONYMOUS_REQUEST", 0.3 * slower)
        monkeypatch.setattr(access, "BETWEEN_REQUESTS", 0.3 * slower)
        monkeypatch.setattr(web_server, "PONDERING", 1.0 * slower)
        async with served(tmp_path / str(slower)) as server:
            with suppress(ConnectionClosed, httpx2.TransportError):
                await read_slowly(server, 2.5 * slower)
                return
    raise AssertionError("Whoever was known was sent away.")


async def read_slowly(server: Served, seconds: float) -> None:
    async with server.socket() as page, server.client() as client:
        assert "result" in await call(page, "initialize", protocol=1, token=server.token)
        introduced = time.monotonic()
        while time.monotonic() - introduced < seconds:
            slow = await client.post("/api/do", headers=server.bearer, json={"kind": "list_modes"})
            assert (slow.status_code, slow.json()) == (200, [])
        assert "result" in await call(page, "echo")


async def test_many_connections_do_not_block_authenticated_or_new_clients(tmp_path: Path):
    """Authenticated pages stay, new clients are served, and the oldest others are closed."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 8 * CROWD), hard))
    try:
        async with served(tmp_path) as server, server.page() as page:
            descriptors = len(os.listdir("/dev/fd"))
            crowd = connections(server, CROWD)
            there = await anyio.to_thread.run_sync(crowd.__enter__)
            try:
                assert "result" in await call(page, "echo")
                async with server.client() as client:
                    assert (await client.get("/")).status_code == 200
                    health = await client.get("/api/health", headers=server.bearer)
                    assert health.status_code == 200
                assert len(server.access.visitors) <= CONNECTIONS
                ours = len(os.listdir("/dev/fd")) - descriptors - len(there)
                assert ours <= CONNECTIONS + 5
                assert "result" in await call(page, "echo")
            finally:
                crowd.__exit__(None, None, None)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


async def test_pipelined_requests_are_answered_until_one_is_malformed(tmp_path: Path):
    async with served(tmp_path) as server, server.client() as client:
        one = f"GET / HTTP/1.1\r\nHost: {server.host}\r\n\r\n"
        answer = await server.say(one * 20 + request("GET /", f"Host: {server.host}"))
        assert answer.raw.count(b"HTTP/1.1 200 OK") == 21
        for sent in (b"\x00" * 1000, b"GET /\r\n\r\n", b"\r\n" * 10_000 + b"x\r\n\r\n"):
            await server.say(sent)
            assert (await client.get("/")).status_code == 200, "other connections stay open"


async def test_small_responses_are_sent_without_delay(tmp_path: Path):
    """A system that delays small packets does so for 40 ms or more."""
    async with served(tmp_path) as server, server.client() as client:
        took = []
        for _ in range(20):
            began = time.perf_counter()
            assert (await client.get("/api/health", headers=server.bearer)).status_code == 200
            took.append(time.perf_counter() - began)
        assert sorted(took)[10] < 0.03


def frame(opcode: int, said: bytes = b"", *, last: bool = True) -> bytes:
    """A small frame as a client sends it."""
    return struct.pack("!BB4s", opcode | 0x80 * last, 0x80 | len(said), b"\0" * 4) + said


def crowd(stack: ExitStack, address: str, port: int, number: int) -> None:
    """All connections wait before the server accepts the first."""
    for _ in range(number):
        far = stack.enter_context(socket.socket())
        far.setblocking(False)
        far.connect_ex((address, port))


async def test_a_flood_of_connections_does_not_block_other_tasks(tmp_path: Path):
    async with served(tmp_path) as server:
        with ExitStack() as stack:
            crowd(stack, LOOPBACK, server.port, CONNECTIONS)
            turns = 0
            with anyio.fail_after(PATIENCE):
                while len(server.access.visitors) < CONNECTIONS:
                    await anyio.lowlevel.checkpoint()
                    turns += 1
        assert turns >= CONNECTIONS // 2, "other tasks run between two connections"


async def shaken(server: Served) -> ByteStream:
    stream = await anyio.connect_tcp(LOOPBACK, server.port)
    await stream.send(server.handshake)
    head = b""
    while b"\r\n\r\n" not in head:
        head += await stream.receive()
    assert head.startswith(b"HTTP/1.1 101 ")
    return stream


SMALL = {
    "pings": frame(PING),
    "pongs": frame(PONG),
    "pieces of nothing": frame(CONTINUED, last=False),
}


async def test_only_authenticated_clients_may_send_many_small_frames(
    tmp_path: Path,
):
    async with served(tmp_path) as server:
        for number, (name, small) in enumerate(SMALL.items(), 1):
            async with await shaken(server) as stream:
                begun = frame(TEXT, b"{", last=False) if name == "pieces of nothing" else b""
                many = begun + small * (4 * ANONYMOUS_FRAMES // len(small))
                echoes = (await said_to(stream, many, server.host)).raw
            assert len(echoes) <= ANONYMOUS_FRAMES, name
            assert server.blocked == number, name
            await server.is_left_alone()
        async with server.page() as page:
            page.transport.write(frame(PING) * ANONYMOUS_FRAMES)
            assert "result" in await call(page, "echo", said="x" * 100_000)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells whose a connection is")
def test_a_connection_closed_early_counts_as_another_users():
    """The system reports a closed socket as root's."""
    with socket.create_server((LOOPBACK, 0)) as listener:
        far = socket.create_connection(listener.getsockname())
        near, client = listener.accept()
        with near:
            assert not is_of_another_user(client, listener.getsockname())
            far.close()
            assert is_of_another_user(client, listener.getsockname())


async def test_concurrent_uses_of_one_launch_link_let_in_one_client(tmp_path: Path):
    async with served(tmp_path) as server, server.client() as client:
        address, code = server.server.launch_url().split("#launch=")
        assert address == f"http://{LOOPBACK}:{server.port}/"
        reported: list[int] = []

        async def launch() -> None:
            answer = await client.post("/api/launch", json={"code": code})
            reported.append(answer.status_code)
            assert answer.headers["cache-control"] == "no-store"
            assert "set-cookie" not in answer.headers
            assert ("token" in answer.text) is (answer.status_code == 200)

        async with anyio.create_task_group() as group:
            for _ in range(8):
                group.start_soon(launch)
        assert sorted(reported) == [200, *[401] * 7]


async def test_a_revoked_device_is_disconnected_and_its_request_in_flight_dropped(tmp_path: Path):
    async with served(tmp_path, ListenPlan(tunnel=TUNNEL)) as server:
        device_id, token = server.access.keys.devices.pair("A phone")
        request = json.dumps({"kind": "list_branches"})
        lines = ["POST /api/do HTTP/1.1", "Host: tunnel.example", f"Authorization: Bearer {token}"]
        lines += ["Content-Type: application/json", f"Content-Length: {len(request)}", "", ""]
        async with await anyio.connect_tcp(LOOPBACK, server.port) as stream:
            await stream.send("\r\n".join(lines).encode())
            with anyio.fail_after(PATIENCE):
                while not any(each.identity for each in server.access.visitors):  # noqa: ASYNC110
                    await anyio.sleep(0.01)
            revoke = {"kind": "revoke_device", "id": device_id}
            async with server.client() as near:
                done = await near.post("/api/do", headers=server.bearer, json=revoke)
                assert done.json() == {"notes": ["A phone was revoked."]}
            assert (await said_to(stream, request, server.host)).raw == b""
        async with server.socket(origin=TUNNEL) as page:
            await page.send(introduction(token))
            with anyio.fail_after(PATIENCE), pytest.raises(ConnectionClosed):
                await page.recv()
        assert server.requests.done == []
