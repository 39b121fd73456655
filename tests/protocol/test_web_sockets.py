"""Access to the local WebSocket, and handling of misbehaving clients."""

import json
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any

import anyio
import pytest
from anyio.abc import SocketAttribute, SocketStream
from msgspec import Struct
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.typing import Subprotocol

from rookery.protocol.server import serve
from rookery.protocol.web_sockets import LOOPBACK, MOST_BEFORE_TOKEN, WebCaller, accept_web_socket
from support.each_row import each_row
from support.protocol_hosts import INITIALIZE, Caller, Logs
from support.web_channel import TOKEN, WebChannel, bearer

pytestmark = pytest.mark.anyio

LONGEST = 100_000


class Served(Struct):
    port: int
    one_ended: anyio.Event

    @property
    def url(self) -> str:
        return f"ws://{LOOPBACK}:{self.port}"


def trust(caller: WebCaller) -> bool:
    caller.channel.trust()
    return True


@asynccontextmanager
async def served(host: Logs) -> AsyncIterator[Served]:
    async def welcome(stream: SocketStream) -> None:
        async with stream:
            caller = await accept_web_socket(stream, port=here.port, token=TOKEN, longest=LONGEST)
            if caller:
                token = None if caller.known else TOKEN
                await serve(host, caller.channel, token=token, admit=partial(trust, caller))
                await caller.channel.aclose()
        here.one_ended.set()

    async with (
        await anyio.create_tcp_listener(local_host=LOOPBACK) as listener,
        anyio.create_task_group() as group,
    ):
        here = Served(listener.extra(SocketAttribute.local_port), anyio.Event())
        group.start_soon(partial(listener.serve, welcome))
        yield here
        group.cancel_scope.cancel()


async def test_the_token_may_come_in_a_header():
    async with served(Logs()) as server, connect(server.url, additional_headers=bearer()) as socket:
        await Caller(WebChannel(socket)).initialize()


async def test_the_token_may_come_as_a_subprotocol():
    offered = [Subprotocol("rookery"), Subprotocol(f"rookery.token.{TOKEN}")]
    async with (
        served(Logs()) as server,
        connect(server.url, subprotocols=offered, origin="http://localhost:5173") as socket,
    ):
        assert socket.subprotocol == "rookery"
        await Caller(WebChannel(socket)).initialize()


async def test_the_token_may_come_in_the_first_message():
    async with served(Logs()) as server, connect(server.url) as socket:
        client = Caller(WebChannel(socket))
        answer = await client.call("initialize", **INITIALIZE, token=TOKEN)
        assert "result" in answer


@each_row("token", [None, "", "4" * 64, TOKEN[:-1], TOKEN + "5", 5, "é" * 64])
async def test_without_the_token_nothing_is_sent_and_the_connection_ends(token: Any):
    given = {} if token is None else {"token": token}
    async with served(Logs("t")) as server, connect(server.url) as socket:
        client = Caller(WebChannel(socket))
        answer = await client.call("initialize", **INITIALIZE, **given)
        assert answer["error"]["code"] == -32003
        await client.is_disconnected()


async def test_requests_before_the_token_get_no_answer():
    async with served(Logs("t")) as server, connect(server.url) as socket:
        client = Caller(WebChannel(socket))
        for method, params in [("follow", {"task_id": "t"}), ("query", {"kind": "ask_about"})]:
            assert (await client.call(method, **params))["error"]["code"] == -32002


@pytest.mark.parametrize(
    ("headers", "origin", "status"),
    [
        (bearer("4" * 64), None, 401),
        (bearer(""), None, 401),
        ({"Authorization": f"Basic {TOKEN}"}, None, 401),
        (bearer(), "https://evil.example", 403),
        (bearer(), "http://localhost.evil.example", 403),
        (bearer(), "http://127.0.0.1.evil.example:80", 403),
        (bearer(), "null", 403),
        (bearer(), "file://", 403),
        ({**bearer(), "Host": "evil.example"}, None, 403),
        ({**bearer(), "Host": "127.0.0.1"}, None, 403),
        ({**bearer(), "Host": "127.0.0.1:1"}, None, 403),
    ],
    ids=str,
)
async def test_bad_tokens_origins_and_hosts_are_refused_at_the_handshake(
    headers: dict[str, str], origin: str | None, status: int
):
    async with served(Logs()) as server:
        with pytest.raises(InvalidStatus) as caught:
            async with connect(
                server.url,
                additional_headers=headers,
                origin=origin,  # type: ignore[arg-type]
            ):
                pass
        assert caught.value.response.status_code == status


@pytest.mark.parametrize(
    "request_text",
    [
        "GET / HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n",
        "nonsense\r\n\r\n",
        "GET /" + "x" * 100_000,
        "",
    ],
    ids=["no-upgrade", "post", "nonsense", "long", "nothing"],
)
async def test_an_invalid_handshake_affects_no_other_connection(request_text: str):
    async with served(Logs()) as server:
        async with await anyio.connect_tcp(LOOPBACK, server.port) as stream:
            await stream.send(request_text.replace("{port}", str(server.port)).encode() or b"\r\n")
            await stream.send_eof()
            with anyio.fail_after(60), suppress(anyio.EndOfStream, anyio.BrokenResourceError):
                while True:
                    assert b"101" not in await stream.receive()
        async with connect(server.url, additional_headers=bearer()) as socket:
            await Caller(WebChannel(socket)).initialize()


async def test_an_overlong_message_ends_only_its_own_connection():
    async with (
        served(Logs()) as server,
        connect(server.url, additional_headers=bearer()) as good,
        connect(server.url, additional_headers=bearer()) as bad,
    ):
        await Caller(WebChannel(good)).initialize()
        await bad.send("x" * (LONGEST + 1))
        with anyio.fail_after(60), pytest.raises(ConnectionClosed) as caught:
            await bad.recv()
        assert caught.value.rcvd is not None
        assert caught.value.rcvd.code == 1009
        await bad.wait_closed()
        await Caller(WebChannel(good)).initialize()


async def test_frames_before_the_token_must_be_small():
    async with served(Logs()) as server, connect(server.url) as socket:
        await socket.send(" " * (MOST_BEFORE_TOKEN + 1))
        with anyio.fail_after(60), pytest.raises(ConnectionClosed) as caught:
            await socket.recv()
        assert caught.value.rcvd is not None
        assert caught.value.rcvd.code == 1009


async def test_frames_after_the_token_may_be_large():
    async with served(Logs()) as server, connect(server.url) as socket:
        client = Caller(WebChannel(socket))
        assert "result" in await client.call("initialize", **INITIALIZE, token=TOKEN)
        answer = await client.call("query", kind="x" * (LONGEST - 1_000))
        assert "Unknown query" in answer["error"]["message"]


async def test_a_connection_cut_within_a_frame_affects_no_other():
    async with served(Logs()) as server:
        async with connect(server.url, additional_headers=bearer()) as socket:
            await Caller(WebChannel(socket)).initialize()
            message = b'{"jsonrpc":"2.0","id":1,"method":"send"'
            head = struct.pack("!BBH4s", 0x81, 0xFE, 1_000, b"\0\0\0\0")
            socket.transport.write(head + message)
            socket.transport.abort()
        with anyio.fail_after(60):
            await server.one_ended.wait()
        async with connect(server.url, additional_headers=bearer()) as socket:
            await Caller(WebChannel(socket)).initialize()


async def test_fragments_are_joined_and_pings_answered():
    async with served(Logs()) as server, connect(server.url, additional_headers=bearer()) as socket:
        message = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": INITIALIZE}
        text = json.dumps(message)
        await socket.send([text[:20], text[20:50], text[50:]])
        assert json.loads(await socket.recv())["id"] == 1
        await (await socket.ping())


async def test_malformed_messages_get_an_error():
    async with served(Logs()) as server, connect(server.url, additional_headers=bearer()) as socket:
        client = Caller(WebChannel(socket))
        await client.raw(b"[" * 50_000)
        assert (await client.receive())["error"]["code"] == -32700
        await client.initialize()
