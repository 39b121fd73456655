"""Strangers who come in crowds, say many small things, or what nobody expects; and devices that
want all the room."""

import json
import socket
import struct
import sys
from contextlib import AsyncExitStack, ExitStack
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest
from anyio.abc import ByteStream
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from rookery.manager.web.listeners import Address, ListenPlan
from rookery.manager.web.routes import is_of_another_user
from rookery.manager.web.server_links import NAME_OF_SOCKET, Links, ask_for_links, giving_links
from rookery.manager.web.web_limits import CONNECTIONS, CONNECTIONS_OF_A_DEVICE, STRANGERS_FRAMES
from support.web_server import (
    LOOPBACK,
    PATIENCE,
    UPGRADE,
    Served,
    call,
    introduction,
    request,
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


async def test_a_crowd_at_the_door_keeps_nobody_from_being_heard(tmp_path: Path):
    async with served(tmp_path) as server:
        with ExitStack() as stack:
            crowd(stack, LOOPBACK, server.port, CONNECTIONS)
            turns = 0
            with anyio.fail_after(PATIENCE):
                while len(server.watch.visitors) < CONNECTIONS:
                    await anyio.lowlevel.checkpoint()
                    turns += 1
        assert turns >= CONNECTIONS // 2, "others have their turn between two who come"


async def test_a_crowd_from_the_network_takes_no_room_on_this_machine(tmp_path: Path):
    plan = ListenPlan(address=Address(OUTSIDE, OUTSIDE))
    async with served(tmp_path, plan) as server:
        async with await anyio.connect_tcp(LOOPBACK, server.port) as near:
            with ExitStack() as stack:
                crowd(stack, OUTSIDE, server.port, 2 * CONNECTIONS)
                with anyio.fail_after(PATIENCE):
                    while len(server.watch.visitors) <= CONNECTIONS:  # noqa: ASYNC110
                        await anyio.sleep(0.01)
                page = await said_to(near, request("GET /", "Host: @HOST@"), server.host)
        assert page.status == 200


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


@pytest.mark.parametrize("small", SMALL.values(), ids=SMALL)
async def test_few_small_frames_are_heard_from_a_stranger(tmp_path: Path, small: bytes):
    async with served(tmp_path) as server:
        async with await shaken(server) as stream:
            begun = frame(TEXT, b"{", last=False) if small == SMALL["pieces of nothing"] else b""
            many = begun + small * (4 * STRANGERS_FRAMES // len(small))
            echoes = (await said_to(stream, many, server.host)).raw
        assert len(echoes) <= STRANGERS_FRAMES
        assert server.blocked == 1
        await server.is_left_alone()


async def test_whoever_is_known_may_send_as_many_as_they_like(tmp_path: Path):
    async with served(tmp_path) as server, server.socket() as page:
        assert "result" in await call(page, "initialize", protocol=1, token=server.token)
        page.transport.write(frame(PING) * STRANGERS_FRAMES)
        assert "result" in await call(page, "echo", said="x" * 100_000)


async def through_tunnel(server: Served, token: str) -> ClientConnection:
    origin = {"origin": TUNNEL}
    page = await connect(f"ws://{server.host}/ws", proxy=None, **origin)  # type: ignore[arg-type]
    assert "result" in await call(page, "initialize", protocol=1, token=token)
    return page


async def test_one_device_does_not_take_all_the_room(tmp_path: Path):
    async with served(tmp_path, ListenPlan(tunnel=TUNNEL)) as server, AsyncExitStack() as stack:
        _, token = server.watch.keys.devices.pair("A phone")
        pages = []
        for _ in range(CONNECTIONS_OF_A_DEVICE + 1):
            pages.append(await stack.enter_async_context(await through_tunnel(server, token)))
        with anyio.fail_after(PATIENCE), pytest.raises(ConnectionClosed):
            await pages[0].recv()
        for page in pages[1:]:
            assert "result" in await call(page, "echo")


SHAPES = {
    "with a body": ("Content-Length: 5", "hello"),
    "with pieces": ("Transfer-Encoding: chunked", "0\r\n\r\n"),
    "with a bell": ("Sec-WebSocket-Protocol: \x07", ""),
}


@pytest.mark.parametrize(("header", "body"), SHAPES.values(), ids=SHAPES)
async def test_a_handshake_that_cannot_be_read_is_refused_in_the_same_shape(
    tmp_path: Path, header: str, body: str
):
    async with served(tmp_path) as server:
        lines = ["Host: @HOST@", f"Origin: {server.origin}", *UPGRADE, header]
        answer = await server.say("\r\n".join(["GET /ws HTTP/1.1", *lines, "", body]))
        assert (answer.status, answer.body, server.blocked) == (400, b"", 1)
        assert "content-security-policy" in answer.headers


DEEP = {
    "deep": b'{"x":' + b"[" * 1000,
    "no text": b"\xff\xfe",
    "half a character": b'{"pair":"\\ud800"}',
}


@pytest.mark.parametrize("nonsense", DEEP.values(), ids=DEEP)
async def test_nothing_said_at_the_socket_ends_the_manager(tmp_path: Path, nonsense: bytes):
    links = Links(url="u", launch_url="l", pid=1)
    async with giving_links(tmp_path / "m", lambda _: links):
        async with await anyio.connect_unix(str(tmp_path / "m" / NAME_OF_SOCKET)) as stream:
            await stream.send(nonsense + b"\n")
            with anyio.fail_after(PATIENCE), pytest.raises(anyio.EndOfStream):
                await stream.receive()
        assert await ask_for_links(tmp_path / "m") == links


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells whose a connection is")
def test_nobody_burns_a_code_by_closing_before_it_is_seen_who_it_was():
    """Of an end that is closed the system says that it is root's."""
    with socket.create_server((LOOPBACK, 0)) as listener:
        far = socket.create_connection(listener.getsockname())
        near, client = listener.accept()
        with near:
            assert not is_of_another_user(client, listener.getsockname())
            far.close()
            assert is_of_another_user(client, listener.getsockname())


async def test_of_two_who_have_the_same_link_one_gets_in(tmp_path: Path):
    async with served(tmp_path) as server, server.client() as client:
        code = server.watch.keys.launch_codes.new()
        told: list[int] = []

        async def launch() -> None:
            told.append((await client.post("/api/launch", json={"code": code})).status_code)

        async with anyio.create_task_group() as group:
            for _ in range(8):
                group.start_soon(launch)
        assert sorted(told) == [200, *[401] * 7]


async def test_what_a_revoked_device_had_on_its_way_is_not_done(tmp_path: Path):
    async with served(tmp_path, ListenPlan(tunnel=TUNNEL)) as server:
        device_id, token = server.watch.keys.devices.pair("A phone")
        wish = json.dumps({"kind": "list_branches"})
        lines = ["POST /api/do HTTP/1.1", "Host: tunnel.example", f"Authorization: Bearer {token}"]
        lines += ["Content-Type: application/json", f"Content-Length: {len(wish)}", "", ""]
        async with await anyio.connect_tcp(LOOPBACK, server.port) as stream:
            await stream.send("\r\n".join(lines).encode())
            with anyio.fail_after(PATIENCE):
                while not any(each.guest for each in server.watch.visitors):  # noqa: ASYNC110
                    await anyio.sleep(0.01)
            server.watch.keys.devices.revoke(device_id)
            server.watch.visitors.send_away(device_id)
            assert (await said_to(stream, wish, server.host)).raw == b""
        async with server.socket(origin=TUNNEL) as page:
            await page.send(introduction(token))
            with anyio.fail_after(PATIENCE), pytest.raises(ConnectionClosed):
                await page.recv()
        assert server.requests.done == []
