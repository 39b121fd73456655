"""JSON-RPC peers: calls both ways, malformed input, slow and closed channels."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rookery.protocol.channels import MemoryChannel, memory_channels
from rookery.protocol.jsonrpc import (
    OUTBOX,
    REFUSED,
    REQUESTS_AT_ONCE,
    Disconnected,
    Params,
    Peer,
    RpcError,
)
from support.each_row import each_row
from support.protocol_hosts import Caller

pytestmark = pytest.mark.anyio


class Echo:
    """Echoes requests and records notifications."""

    def __init__(self) -> None:
        self.reported: list[Any] = []
        self.begun = 0
        self.release = anyio.Event()

    async def answer(self, method: str, params: Params) -> object:
        self.begun += 1
        match method:
            case "echo":
                return params
            case "wait":
                await self.release.wait()
                return "waited"
            case "release":
                self.release.set()
                return "released"
            case "break":
                raise ValueError("It is broken.")
            case _:
                raise RpcError(-32601, f"No such method: {method!r}.")

    async def on_notification(self, method: str, params: Params) -> None:
        if method == "break":
            raise ValueError("It is broken.")
        self.reported.append((method, params))


@asynccontextmanager
async def echo_server(service: Echo, room: float = 1_000) -> AsyncIterator[MemoryChannel]:
    with memory_channels(room) as (near, far):
        async with anyio.create_task_group() as group:
            group.start_soon(Peer(far, service).run)
            yield near
            group.cancel_scope.cancel()


@pytest.mark.parametrize(
    ("sent", "code", "number"),
    [
        (b"{", -32700, None),
        (b"nonsense", -32700, None),
        (b'{"jsonrpc":"2.0","id":1,"method":"echo"', -32700, None),
        (b'"\xff"', -32700, None),
        (b'{"jsonrpc":"2.0","id":1,"method":"\xff"}', -32700, None),
        (b'{"jsonrpc":"2.0","id":NaN,"method":"echo"}', -32700, None),
        (b'{"jsonrpc":"2.0","id":1,"method":"echo","params":{"a":1,"a":2}}', -32600, 1),
        (b"[" * 200_000, -32700, None),
        (b"[" * 200_000 + b"]" * 200_000, -32700, None),
        (b'{"a":' * 100_000 + b"1" + b"}" * 100_000, -32700, None),
        (b"null", -32600, None),
        (b"7", -32600, None),
        (b"[]", -32600, None),
        (b'[{"jsonrpc":"2.0","id":1,"method":"echo"}]', -32600, None),
        (b"{}", -32600, None),
        (b'{"jsonrpc":"1.0","id":4,"method":"echo"}', -32600, 4),
        (b'{"id":"x","method":"echo"}', -32600, "x"),
        (b'{"jsonrpc":"2.0","id":5,"method":7}', -32600, 5),
        (b'{"jsonrpc":"2.0","id":6}', -32600, 6),
        (b'{"jsonrpc":"2.0","id":[1],"method":"echo"}', -32600, None),
        (b'{"jsonrpc":"2.0","id":true,"method":"echo"}', -32600, True),
        (b'{"jsonrpc":"2.0","id":7,"method":"echo","params":"x"}', -32600, 7),
        (b'{"jsonrpc":"2.0","id":8,"method":"nowhere"}', -32601, 8),
        (b'{"jsonrpc":"2.0","id":9,"method":"break"}', -32603, 9),
        (b'{"jsonrpc":"2.0","id":null,"method":"nowhere"}', -32601, None),
    ],
    ids=lambda sent: sent[:40].decode("latin-1") if isinstance(sent, bytes) else "",
)
async def test_malformed_input_gets_an_error_and_the_connection_stays(
    sent: bytes, code: int, number: Any
):
    async with echo_server(Echo()) as channel:
        client = Caller(channel)
        await client.raw(sent)
        complaint = await client.receive()
        assert (complaint["error"]["code"], complaint["id"]) == (code, number)
        assert complaint["error"]["message"]
        assert (await client.call("echo", a=1))["result"] == {"a": 1}


@pytest.mark.parametrize(
    "sent",
    [
        b'{"jsonrpc":"2.0","method":"nowhere"}',
        b'{"jsonrpc":"2.0","method":"break"}',
        b'{"jsonrpc":"2.0","id":77,"result":1}',
        b'{"jsonrpc":"2.0","id":null,"error":{"code":1,"message":"x"}}',
        b'{"jsonrpc":"2.0","id":"77","error":{}}',
    ],
    ids=bytes.decode,
)
async def test_notifications_and_stray_responses_get_no_answer(sent: bytes):
    async with echo_server(Echo()) as channel:
        client = Caller(channel)
        await client.raw(sent)
        assert (await client.call("echo"))["result"] == {}
        assert len(client.received) == 1


@given(st.binary(max_size=200))
def test_random_bytes_do_not_end_a_peer(data: bytes):
    async def send() -> None:
        async with echo_server(Echo()) as channel:
            client = Caller(channel)
            await client.raw(data)
            assert (await client.call("echo", a=1))["result"] == {"a": 1}

    anyio.run(send)


async def test_both_sides_call_each_other():
    one, two = Echo(), Echo()
    with memory_channels() as (near, far):
        here, there = Peer(near, one), Peer(far, two)
        async with anyio.create_task_group() as group:
            group.start_soon(here.run)
            group.start_soon(there.run)
            assert await here.call("echo", {"x": "\ud800"}) == {"x": "�"}
            assert await there.call("echo", [1, 2]) == [1, 2]
            assert await here.call("echo") is None
            with pytest.raises(RpcError, match="No such method: 'x'") as caught:
                await there.call("x")
            assert caught.value.code == -32601
            here.notify("first", {"n": 1})
            here.notify("second")
            await here.call("echo")
            assert two.reported == [("first", {"n": 1}), ("second", None)]
            group.cancel_scope.cancel()


@each_row("first", [{"result": "no"}, {"error": {"code": 1, "message": "no"}}])
async def test_the_first_response_to_a_call_counts(first: dict[str, Any]):
    answers = [{"id": True, "result": "yes"}, {"id": 1, **first}, {"id": 1, "result": "yes"}]
    heard: list[str] = []
    with memory_channels() as (near, far):
        asker = Peer(far, Echo())

        async def ask() -> None:
            try:
                heard.append(await asker.call("ask"))
            except RpcError as error:
                heard.append(str(error))
            await near.aclose()

        async with anyio.create_task_group() as group:
            group.start_soon(asker.run)
            group.start_soon(ask)
            await near.receive()
            await near.send([json.dumps({"jsonrpc": "2.0", **each}).encode() for each in answers])
    assert heard == ["no"]


async def test_requests_run_concurrently():
    service = Echo()
    async with echo_server(service) as channel:
        client = Caller(channel)
        await client.say(id="a", method="wait")
        assert (await client.call("release"))["result"] == "released"
        assert await client.receive() == {"jsonrpc": "2.0", "id": "a", "result": "waited"}


async def test_a_call_fails_when_the_other_side_disconnects():
    with memory_channels() as (near, far):
        peer = Peer(near, Echo())
        failures = []

        async def ask() -> None:
            try:
                await peer.call("echo")
            except Disconnected as error:
                failures.append(error)

        async with anyio.create_task_group() as group:
            group.start_soon(peer.run)
            group.start_soon(ask)
            await far.receive()
            await far.aclose()
        assert len(failures) == 1
        with pytest.raises(Disconnected):
            await peer.call("echo")
        with pytest.raises(Disconnected):
            peer.notify("echo")


async def test_a_result_is_handled_before_the_notification_after_it():
    with memory_channels() as (near, far):
        order: list[object] = []

        class OrderRecorder(Echo):
            async def on_notification(self, method: str, params: Params) -> None:
                order.append(method)

        peer = Peer(near, OrderRecorder())
        async with anyio.create_task_group() as group:
            group.start_soon(peer.run)
            group.start_soon(partial(peer.call, "begin", at_once=order.append))
            await far.receive()
            await far.send(
                [
                    b'{"jsonrpc":"2.0","id":1,"result":"begun"}',
                    b'{"jsonrpc":"2.0","method":"news"}',
                ]
            )
            await anyio.wait_all_tasks_blocked()
            assert order == ["begun", "news"]
            group.cancel_scope.cancel()


async def test_a_client_that_never_reads_is_cut_off():
    service = Echo()
    big = "x" * 10_000
    async with echo_server(service, room=1) as channel:
        sent = 0
        with anyio.move_on_after(0.5):
            while True:
                message = {"jsonrpc": "2.0", "id": sent, "method": "echo", "params": [big]}
                await channel.send([json.dumps(message).encode()])
                sent += 1
        assert sent == pytest.approx(OUTBOX // len(big) + REQUESTS_AT_ONCE, rel=0.2)
        received = [json.loads(await channel.receive())["id"] for _ in range(sent)]
        assert received == list(range(sent))


async def test_a_peer_that_refuses_requests_goes_on_reading():
    with memory_channels() as (near, far):
        peer = Peer(far, Echo(), refuse_above=2)
        async with anyio.create_task_group() as group:
            group.start_soon(peer.run)
            client = Caller(near)
            for number in (1, 2, 3):
                await client.say(id=number, method="wait")
            refused = await client.receive()
            assert (refused["id"], refused["error"]["code"]) == (3, REFUSED)
            group.start_soon(peer.call, "ask")
            asked = await client.receive()
            await near.send([b'{"jsonrpc":"2.0","id":%d,"result":1}' % asked["id"]])
            group.cancel_scope.cancel()


async def test_requests_sent_before_the_end_are_still_answered():
    """The client sends all requests, closes its side, then reads."""
    service = Echo()
    to_peer, from_us = anyio.create_memory_object_stream[bytes](10)
    to_us, from_peer = anyio.create_memory_object_stream[bytes](10)
    peer = Peer(MemoryChannel(from_us, to_us), service)
    for number in range(3):
        request = {"jsonrpc": "2.0", "id": number, "method": "echo"}
        await to_peer.send(json.dumps(request).encode())
    to_peer.close()
    await peer.run()
    to_us.close()
    assert [json.loads(line)["id"] async for line in from_peer] == [0, 1, 2]
    from_us.close()
    from_peer.close()
