"""The page's WebSocket: authentication, and handling of misuse."""

import json
import resource
import socket
import struct
from contextlib import suppress
from pathlib import Path
from typing import Any

import anyio
import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed

from rookery.manager.web import routes
from rookery.manager.web.access import FIRST_FRAME, FRAME
from rookery.protocol.jsonrpc import OUTBOX
from support.web_server import (
    INDEX,
    LOOPBACK,
    PATIENCE,
    PIECE,
    PROJECT,
    Served,
    call,
    introduction,
    request,
    served,
)

pytestmark = pytest.mark.anyio

MARK = "Zq7reflected"


async def closed_with(connection: Any) -> int:
    """Nothing was sent before the close."""
    with anyio.fail_after(PATIENCE), pytest.raises(ConnectionClosed) as caught:
        await connection.recv()
    return caught.value.rcvd.code if caught.value.rcvd else 1006


async def test_a_valid_token_in_the_first_frame_opens_the_connection(tmp_path: Path):
    """Programs send no origin and are accepted too."""
    async with served(tmp_path) as server:
        for origin in (server.origin, None):
            async with server.socket(origin=origin) as page:
                answer = await call(page, "initialize", protocol=1, token=server.token)
                assert answer["result"] == {"protocol": 1}
                assert (await call(page, "echo", said="é"))["result"] == {"said": "é"}
        assert (server.talk.tokens, server.blocked) == ([server.token] * 2, 0)


async def test_a_path_names_the_project_of_a_connection(tmp_path: Path):
    async with served(tmp_path) as server, server.client() as client:
        asked = {"kind": "list_branches"}
        for project, code, status in ((PROJECT, 1000, 200), ("f" * 16, 4404, 409)):
            async with connect(f"ws://{server.host}/p/{project}/ws", proxy=None) as page:
                await page.send(introduction(server.token))
                if status == 200:
                    assert "result" in json.loads(await page.recv())
                else:
                    assert await closed_with(page) == code
                    assert page.close_reason == "No such project."
            answer = await client.post(f"/p/{project}/api/do", json=asked, headers=server.bearer)
            assert answer.status_code == status
            assert (await client.get(f"/p/{project}/")).content == INDEX
            refused = await client.post(f"/p/{project}/api/do", json=asked)
            assert refused.status_code == 401
        for path in ("/p/", "/p/0123/", "/p/0123456789ABCDEF/", f"/p/{PROJECT}", "/p/../api/do"):
            assert (await server.say(request(f"GET {path}", f"Host: {server.host}"))).status == 404


FIRST_FRAMES: dict[str, str] = {
    "no token": json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {}}),
    "wrong token": introduction(MARK),
    "empty token": introduction(""),
    "token of another kind": introduction(5),
    "tokens in a list": introduction([MARK]),
    "another method": introduction("TOKEN", method="do"),
    "no method": json.dumps({"token": "TOKEN"}),
    "a list": json.dumps([{"token": "TOKEN"}]),
    "only the token": "TOKEN",
    "no JSON": f"{{{MARK}",
    "nested": "[" * 3000,
    "nothing": "",
}


async def test_any_other_first_frame_closes_the_connection(tmp_path: Path):
    async with served(tmp_path) as server:
        for number, (name, frame) in enumerate(FIRST_FRAMES.items(), 1):
            async with server.socket() as page:
                await page.send(frame.replace("TOKEN", server.token))
                with suppress(ConnectionClosed):
                    await page.send(introduction(server.token))  # too late
                assert await closed_with(page) == 1008, name
            assert (server.talk.tokens, server.blocked) == ([], number), name


async def test_a_silent_client_is_disconnected_after_the_timeout(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    assert routes.HANDSHAKE == 5.0
    monkeypatch.setattr(routes, "HANDSHAKE", 0.2)
    async with served(tmp_path) as server, server.socket() as page:
        assert await closed_with(page) == 1013
        assert server.blocked == 1
        async with server.socket():
            pass  # a client that disconnects itself is not counted
        await server.is_left_alone()
        assert server.blocked == 1


async def test_frames_before_authentication_are_limited_in_size(tmp_path: Path):
    async with served(tmp_path) as server:
        for size in (FIRST_FRAME + 1, FRAME + 1, 100 * FIRST_FRAME):
            async with server.socket() as page:
                await page.send(" " * size)
                assert await closed_with(page) == 1009, size
        assert server.talk.tokens == []


async def test_a_message_of_the_largest_size_is_read_and_a_larger_one_closes_its_connection(
    tmp_path: Path,
):
    async with served(tmp_path) as server, server.page() as good:
        message = {"jsonrpc": "2.0", "id": 1, "method": "echo", "params": {"said": ""}}
        room = FRAME - len(json.dumps(message))
        assert "result" in await call(good, "echo", said="x" * room)
        for sent in (" " * (FRAME + 1), " " * 4 * FRAME, ["x" * 1000] * (FRAME // 1000 + 2)):
            async with server.page() as page:
                with suppress(ConnectionClosed):
                    await page.send(sent)
                assert await closed_with(page) == 1009
        assert "result" in await call(good, "echo")


async def test_invalid_text_closes_the_connection_and_invalid_json_gets_an_error(
    tmp_path: Path,
):
    no_text = struct.pack("!BB4s", 0x81, 0x82, b"\0\0\0\0") + b"\xff\xfe"
    binary = struct.pack("!BB4s", 0x82, 0x82, b"\0\0\0\0") + b"\x00\x01"
    async with served(tmp_path) as server:
        for sent, code in ((no_text, 1007), (binary, 1003)):
            async with server.page() as page:
                page.transport.write(sent)
                assert await closed_with(page) == code
        async with server.page() as page:
            await page.send("[" * 50_000)
            assert json.loads(await page.recv())["error"]["code"] == -32700
            assert "result" in await call(page, "echo")


async def test_a_page_leaving_mid_frame_does_not_affect_others(tmp_path: Path):
    async with served(tmp_path) as server:
        async with server.page() as page:
            page.transport.write(struct.pack("!BBH4s", 0x81, 0xFE, 1_000, b"\0\0\0\0") + b"{")
            page.transport.abort()
        with anyio.fail_after(PATIENCE):
            await server.talk.over.wait()
        await server.is_left_alone()
        async with server.page() as page:
            assert "result" in await call(page, "echo")


async def test_a_slow_reader_uses_little_memory_and_is_disconnected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Pending data is bounded: the outbox, one message and the system's buffers."""
    monkeypatch.setattr(routes, "STALLED", 0.5)
    async with served(tmp_path) as server:
        with socket.create_connection((LOOPBACK, server.port)) as far:
            far.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            far.settimeout(PATIENCE)
            before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            await anyio.to_thread.run_sync(begin_to_flood, far, server)
            with anyio.fail_after(PATIENCE):
                await server.talk.over.wait()
            grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
        in_flight = server.talk.flooded * len(PIECE)
        assert OUTBOX < in_flight < OUTBOX + 8 * 2**20
        assert grown < 40_000  # KiB
        await server.is_left_alone()
        async with server.client() as client:
            assert (await client.get("/")).status_code == 200


def begin_to_flood(far: socket.socket, server: Served) -> None:
    far.sendall(server.handshake)
    assert b" 101 " in far.recv(4096)
    flood = {"jsonrpc": "2.0", "id": 2, "method": "flood"}
    for text in (introduction(server.token), json.dumps(flood)):
        far.sendall(struct.pack("!BBH4s", 0x81, 0xFE, len(text), b"\0\0\0\0") + text.encode())


async def test_a_client_that_never_reads_its_pongs_is_disconnected(tmp_path: Path):
    async with served(tmp_path) as server:
        with socket.create_connection((LOOPBACK, server.port)) as far:
            far.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            far.settimeout(PATIENCE)
            sent = await anyio.to_thread.run_sync(ping_for_ever, far, server)
        assert sent < 64 * 2**20
        await server.is_left_alone()


def ping_for_ever(far: socket.socket, server: Served) -> int:
    far.sendall(server.handshake)
    assert b" 101 " in far.recv(4096)
    ping = struct.pack("!BB4s", 0x89, 0x80 | 125, b"\0\0\0\0") + b"x" * 125
    sent = 0
    try:
        while sent < 256 * 2**20:
            far.sendall(ping * 500)
            sent += 500 * len(ping)
    except ConnectionError:
        pass
    return sent


async def test_a_server_shutdown_closes_its_pages_with_1012(tmp_path: Path):
    async with served(tmp_path) as server:
        page = await server.socket()
        assert "result" in await call(page, "initialize", protocol=1, token=server.token)
    assert await closed_with(page) == 1012
    assert len(server.access.visitors) == 0
