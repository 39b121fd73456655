"""Connections of the HTTP client: what is left on them, and what a server may do to them."""

import asyncio
import socket
import ssl
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import Future
from contextlib import asynccontextmanager
from typing import Any, TypeAlias

import anyio
import pytest

from rookery.core.limits import MIB
from rookery.providers.http_client import DirectClient, HttpFailure, HttpResponse, Item, Tls
from support.each_row import each_row

pytestmark = pytest.mark.anyio

OK = b"HTTP/1.1 200 OK\r\n"
HI = OK + b"content-length: 2\r\n\r\nhi"

Write: TypeAlias = Callable[[bytes], Awaitable[None]]
Serve: TypeAlias = Callable[[Write], Awaitable[None]]


@asynccontextmanager
async def serving(*answers: bytes | Serve) -> AsyncIterator[tuple[DirectClient, str, list[str]]]:
    """A client that keeps its connections, its URL, and the heads that its server received."""
    left = list(answers)
    heads: list[str] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async def write(data: bytes) -> None:
            writer.write(data)
            await writer.drain()

        try:
            while left:
                heads.append((await reader.readuntil(b"\r\n\r\n")).decode())
                await reader.readexactly(len(b"{}"))
                answer = left.pop(0)
                await (write(answer) if isinstance(answer, bytes) else answer(write))
        except (OSError, asyncio.IncompleteReadError):
            return
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
    client = DirectClient(url, None, keeps=True, connect_seconds=60)
    yield client, url, heads
    await client.aclose()
    server.close()


def made(context: ssl.SSLContext) -> Tls:
    ready: Tls = Future()
    ready.set_result(context)
    return ready


async def body_of(response: HttpResponse) -> bytes:
    send, receive = anyio.create_memory_object_stream[Item](64)
    with send, receive:
        await response.pass_to(send)
        pieces = [receive.receive_nowait() for _ in range(send.statistics().current_buffer_used)]
    return b"".join(piece for piece in pieces if isinstance(piece, bytes))


async def answer_of(client: DirectClient, url: str) -> bytes:
    with anyio.fail_after(60):
        async with client.post(url, b"{}", {}) as response:
            return await body_of(response)


async def test_the_body_of_a_redirect_is_not_part_of_the_next_answer():
    moved = b"HTTP/1.1 307 Moved\r\ncontent-length: 5\r\n\r\nmoved"
    async with serving(moved, HI) as (client, url, _):
        async with client.post(url, b"{}", {}) as response:
            assert response.head.status == 307
        assert await answer_of(client, url) == b"hi"


@each_row("cancelled", [False, True])
async def test_a_connection_can_be_used_again_after_a_slow_listener(cancelled: bool):
    go = anyio.Event()

    async def in_two_parts(write: Write) -> None:
        await write(OK + b"content-length: 3\r\n\r\n")
        await go.wait()
        await write(b"old")

    async with serving(in_two_parts, HI) as (client, url, _):
        send, receive = anyio.create_memory_object_stream[Item](0)
        with send, receive:
            async with client.post(url, b"{}", {}) as response, anyio.create_task_group() as group:
                group.start_soon(response.pass_to, send)
                await anyio.wait_all_tasks_blocked()
                go.set()
                while not send.statistics().tasks_waiting_send:
                    await anyio.wait_all_tasks_blocked()
                if cancelled:
                    group.cancel_scope.cancel()
                else:
                    assert await receive.receive() == b"old"
        assert await answer_of(client, url) == b"hi"


async def test_a_server_waits_for_a_listener_that_does_not_listen():
    sent = 0
    stuck = anyio.Event()

    async def endless(write: Write) -> None:
        nonlocal sent
        await write(OK + b"\r\n")
        for _ in range(256):
            with anyio.move_on_after(1) as scope:
                await write(bytes(MIB))
            if scope.cancelled_caught:
                break
            sent += MIB
        stuck.set()

    async with serving(endless) as (client, url, _):
        send, receive = anyio.create_memory_object_stream[Item](8)
        with send, receive:
            async with client.post(url, b"{}", {}) as response, anyio.create_task_group() as group:
                group.start_soon(response.pass_to, send)
                await stuck.wait()
                group.cancel_scope.cancel()
    assert sent < 128 * MIB


async def test_the_status_is_known_even_if_the_body_is_broken():
    refused = b"HTTP/1.1 401 No\r\ncontent-encoding: gzip\r\ncontent-length: 5\r\n\r\nplain"
    async with serving(refused) as (client, url, _), client.post(url, b"{}", {}) as response:
        assert response.head.status == 401
        with pytest.raises(HttpFailure):
            await body_of(response)


@pytest.mark.parametrize("encrypted", [False, True])
async def test_a_connection_that_was_closed_while_the_program_was_busy_is_not_used(
    encrypted: bool, unvouched: ssl.SSLContext
):
    trusting = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    trusting.check_hostname = False
    trusting.verify_mode = ssl.CERT_NONE
    close, closed = threading.Event(), threading.Event()

    def serve() -> None:
        for _ in range(2):
            peer, _address = listener.accept()
            if encrypted:
                peer = unvouched.wrap_socket(peer, server_side=True)
            with peer:
                while not peer.recv(65536).endswith(b"{}"):
                    pass
                peer.sendall(HI)
                close.wait()
            closed.set()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        tls = made(trusting) if encrypted else None
        client = DirectClient(url, tls, keeps=True, connect_seconds=60)
        assert await answer_of(client, url) == b"hi"
        close.set()
        closed.wait()
        assert await answer_of(client, url) == b"hi"
        await client.aclose()
        thread.join()


@pytest.mark.parametrize(
    ("name", "sent"),
    [
        ("Model.EXAMPLE", "model.example"),
        ("stra\N{LATIN SMALL LETTER SHARP S}e.example", "xn--strae-oqa.example"),
    ],
)
async def test_the_server_is_asked_by_the_name_that_was_looked_up(
    name: str, sent: str, monkeypatch: pytest.MonkeyPatch
):
    looked_up: list[str] = []
    look_up = socket.getaddrinfo

    def here(host: str, port: int, *args: Any, **kwargs: Any) -> Any:
        looked_up.append(host)
        return look_up("127.0.0.1", port, *args, **kwargs)

    async with serving(HI) as (_, url, heads):
        monkeypatch.setattr(socket, "getaddrinfo", here)
        named = url.replace("127.0.0.1", name)
        port = url.rpartition(":")[2].removesuffix("/v1")
        client = DirectClient(named, None, keeps=False, connect_seconds=60)
        assert await answer_of(client, named) == b"hi"
    assert looked_up == [sent]
    assert f"host: {sent}:{port}\r\n" in heads[0]


async def test_another_address_is_tried_if_the_first_refuses(monkeypatch: pytest.MonkeyPatch):
    look_up = socket.getaddrinfo

    def two(host: str, port: int, *args: Any, **kwargs: Any) -> Any:
        dead = look_up("127.0.0.9", 1, *args, **kwargs)
        return [*dead, *look_up("127.0.0.1", port, *args, **kwargs)]

    async with serving(HI) as (_, url, _heads):
        monkeypatch.setattr(socket, "getaddrinfo", two)
        named = url.replace("127.0.0.1", "model.example")
        client = DirectClient(named, None, keeps=False, connect_seconds=60)
        assert await answer_of(client, named) == b"hi"


async def test_a_server_that_closes_during_the_handshake_is_the_reason():
    server = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0)
    url = f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    tls = made(ssl.create_default_context())
    client = DirectClient(url, tls, keeps=True, connect_seconds=60)
    with pytest.raises(HttpFailure, match="the server closed the connection"):
        await answer_of(client, url)
    await client.aclose()
    server.close()


async def test_a_cancelled_request_leaves_the_certificates_to_the_next_one():
    peers: list[asyncio.StreamWriter] = []
    server = await asyncio.start_server(lambda _, writer: peers.append(writer), "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    tls: Tls = Future()
    client = DirectClient(f"https://127.0.0.1:{port}", tls, keeps=True, connect_seconds=60)
    with anyio.move_on_after(0) as cancelled:
        await answer_of(client, "https://127.0.0.1/v1")
    assert cancelled.cancelled_caught
    tls.set_exception(OSError("the certificates cannot be read"))
    with pytest.raises(HttpFailure, match="the certificates cannot be read"):
        await answer_of(client, "https://127.0.0.1/v1")
    assert not peers
    server.close()
