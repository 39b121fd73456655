"""Strangers who come in crowds, say many small things, or what nobody expects; and devices that
want all the room."""

import json
import socket
import struct
import sys
from contextlib import ExitStack
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest
from anyio.abc import ByteStream
from websockets.exceptions import ConnectionClosed

from rookery.manager.web.access import ANONYMOUS_FRAMES, CONNECTIONS
from rookery.manager.web.listeners import ListenPlan
from rookery.manager.web.routes import is_of_another_user
from support.web_server import (
    LOOPBACK,
    PATIENCE,
    Served,
    call,
    introduction,
    said_to,
    served,
)

pytestmark = pytest.mark.anyio

TUNNEL = "https://tunnel.example"
OUTSIDE = "127.0.0.2"
TEXT, CONTINUED, PING, PONG = 1, 0, 9, 10


def frame(opcode: int, said: bytes = b"", *, last: bool = True) -> bytes:
    """A small one, as a client sends it."""
    return struct.pack("!BB4s", opcode | 0x80 * last, 0x80 | len(said), b"\0" * 4) + said


def crowd(stack: ExitStack, address: str, port: int, number: int) -> None:
    """They are at the door before the server has looked."""
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
        assert turns >= CONNECTIONS // 2, "others have their turn between two who come"


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
        async with server.socket() as page:
            assert "result" in await call(page, "initialize", protocol=1, token=server.token)
            page.transport.write(frame(PING) * ANONYMOUS_FRAMES)
            assert "result" in await call(page, "echo", said="x" * 100_000)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells whose a connection is")
def test_a_connection_closed_early_counts_as_another_users():
    """Of an end that is closed the system says that it is root's."""
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
        told: list[int] = []

        async def launch() -> None:
            answer = await client.post("/api/launch", json={"code": code})
            told.append(answer.status_code)
            assert answer.headers["cache-control"] == "no-store"
            assert "set-cookie" not in answer.headers
            assert (server.token in answer.text) is (answer.status_code == 200)

        async with anyio.create_task_group() as group:
            for _ in range(8):
                group.start_soon(launch)
        assert sorted(told) == [200, *[401] * 7]


async def test_a_revoked_device_is_disconnected_and_its_request_in_flight_dropped(tmp_path: Path):
    async with served(tmp_path, ListenPlan(tunnel=TUNNEL)) as server:
        device_id, token = server.access.keys.devices.pair("A phone")
        wish = json.dumps({"kind": "list_branches"})
        lines = ["POST /api/do HTTP/1.1", "Host: tunnel.example", f"Authorization: Bearer {token}"]
        lines += ["Content-Type: application/json", f"Content-Length: {len(wish)}", "", ""]
        async with await anyio.connect_tcp(LOOPBACK, server.port) as stream:
            await stream.send("\r\n".join(lines).encode())
            with anyio.fail_after(PATIENCE):
                while not any(each.identity for each in server.access.visitors):  # noqa: ASYNC110
                    await anyio.sleep(0.01)
            revoke = {"kind": "revoke_device", "id": device_id}
            async with server.client() as near:
                done = await near.post("/api/do", headers=server.bearer, json=revoke)
                assert done.json() == {"notes": ["A phone was revoked."]}
            assert (await said_to(stream, wish, server.host)).raw == b""
        async with server.socket(origin=TUNNEL) as page:
            await page.send(introduction(token))
            with anyio.fail_after(PATIENCE), pytest.raises(ConnectionClosed):
                await page.recv()
        assert server.requests.done == []
