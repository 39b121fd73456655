"""Requests of a client to the protocol server, and its answers."""

import gc
import json
import tracemalloc
from itertools import pairwise
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from rookery.core.asks import AskKind
from rookery.core.commands import Answer, OpenTask, ReopenTask
from rookery.core.facts import Asked, Event, Noted, TaskOpened, TextStreamed
from rookery.core.queries import AskAbout
from rookery.errors import CommandRejected, StorageError
from rookery.permissions.trust import FolderGone
from rookery.protocol import relay as following
from rookery.protocol.channels import LONGEST_MESSAGE, LineChannel, channel_on
from rookery.protocol.codec import event_to_json
from rookery.protocol.jsonrpc import NOT_STORED, OUTBOX, Disconnected, code_of
from rookery.protocol.remote import NoHost, remote_host
from rookery.protocol.server import AT_ONCE, VIEWS_AT_ONCE, serve
from support.each_row import each_row
from support.protocol_hosts import INITIALIZE, Logs, caller, connected, socket_pair, workplace

pytestmark = pytest.mark.anyio


async def test_a_client_must_initialize_first():
    async with caller(Logs("t")) as client:
        refusal = await client.call("follow", task_id="t")
        assert refusal["error"] == {"code": -32002, "message": "Send initialize first."}
        answer = await client.call("initialize", **INITIALIZE)
        assert answer["result"]["protocol"] == 1
        assert answer["result"]["host"]["name"] == "rookery"
        assert answer["result"]["capabilities"]["follow"] == ["events", "view"]
        assert "open_task" in answer["result"]["capabilities"]["send"]
        assert "result" in await client.call("follow", task_id="t")


@each_row("protocol", [0, 2, "1", None, True, 1.0])
async def test_another_protocol_version_is_refused_with_a_sentence(protocol: Any):
    async with caller(Logs()) as client:
        refusal = await client.call("initialize", protocol=protocol)
        assert "This host speaks protocol 1" in refusal["error"]["message"]
        assert "error" in await client.call("query", kind="ask_about")


@pytest.mark.parametrize(
    ("method", "params", "code", "words"),
    [
        ("follow", {"task_id": "u"}, -32001, "Session u is not open. Open it first."),
        ("follow", {}, -32602, "needs a task_id"),
        ("follow", {"task_id": "t", "as": "song"}, -32602, "as"),
        ("follow", {"task_id": "t", "after": -1}, -32602, "after"),
        ("follow", {"task_id": "t", "after": True}, -32602, "after"),
        ("follow", {"task_id": "t", "after": 2**70}, -32602, "after"),
        ("unfollow", {"follow_id": []}, -32602, "follow_id"),
        ("unfollow", {"follow_id": True}, -32602, "follow_id"),
        ("send", {"kind": "dance"}, -32001, "Unknown command: 'dance'."),
        ("send", {"kind": "open_task"}, -32001, "malformed"),
        (
            "send",
            {"kind": "answer", "task_id": "t", "ask_id": "a", "reply": "yes", "digset": "x"},
            -32001,
            "The command answer has no field 'digset'; did you mean 'digest'? Nothing was done.",
        ),
        ("query", {"kind": "ask_about", "all": True}, -32001, "has no field 'all'"),
        ("follow", {"task_id": "t", "aftr": 1}, -32602, "did you mean 'after'?"),
        ("unfollow", {"follow_id": 1, "task_id": "t"}, -32602, "no field 'task_id'"),
        ("query", {"kind": "ask_why"}, -32001, "Unknown query: 'ask_why'."),
        ("query", {"kind": "ask_about"}, -32001, "Nobody knows."),
        ("dance", {}, -32601, "No such method: 'dance'."),
    ],
    ids=str,
)
async def test_invalid_requests_are_refused(
    method: str, params: dict[str, Any], code: int, words: str
):
    async with caller(Logs("t")) as client:
        await client.initialize()
        refusal = await client.call(method, **params)
        assert refusal["error"]["code"] == code
        assert words in refusal["error"]["message"]


async def test_positional_parameters_are_refused():
    async with caller(Logs()) as client:
        await client.say(id=1, method="initialize", params=[1])
        assert (await client.receive())["error"]["code"] == -32602


async def test_a_follow_starts_with_its_id_and_ends_with_the_task():
    host = Logs("t")
    host.append("t", TaskOpened(text="Do it"))
    async with caller(host) as client:
        await client.initialize()
        await client.say(id=9, method="follow", params={"task_id": "t"})
        assert await client.receive() == {"jsonrpc": "2.0", "id": 9, "result": {"follow_id": 1}}
        event = (await client.receive())["params"]
        assert (event["follow_id"], event["event"]["kind"]) == (1, "task_opened")
        host.logs["t"].close()
        ended = {"jsonrpc": "2.0", "method": "ended", "params": {"follow_id": 1}}
        assert await client.receive() == ended


async def test_a_failure_of_a_task_reaches_its_followers():
    host = Logs("t")
    async with connected(host) as remote:
        host.logs["t"].close(StorageError("The disk is full."))
        with pytest.raises(StorageError, match="The disk is full"):
            [event async for event in remote.follow("t")]


async def test_after_unfollow_no_more_events_arrive():
    host = Logs("t")
    async with caller(host) as client:
        await client.initialize()
        await client.call("follow", task_id="t")
        host.append("t", Noted(text="one"))
        await client.receive()
        await client.say(id=7, method="unfollow", params={"follow_id": 1})
        host.append("t", Noted(text="two"))
        await client.until(lambda message: message.get("id") == 7)
        host.append("t", Noted(text="three"))
        assert (await client.call("unfollow", follow_id=1))["result"] is None
        assert "three" not in str(client.received)
        # as a notification
        await client.call("follow", task_id="t", after=3)
        await anyio.wait_all_tasks_blocked()
        await client.say(method="unfollow", params={"follow_id": 2})
        host.append("t", Noted(text="in the same moment"))
        assert "result" in await client.call("unfollow", follow_id=2)
        assert "moment" not in str(client.received)


async def test_the_number_of_follows_is_limited():
    async with caller(Logs("t")) as client:
        await client.initialize()
        for _ in range(AT_ONCE):
            assert "result" in await client.call("follow", task_id="t")
        refusal = await client.call("follow", task_id="t")
        assert "end some first" in refusal["error"]["message"]
        await client.call("unfollow", follow_id=3)
        assert "result" in await client.call("follow", task_id="t")


async def test_the_number_of_views_is_limited_further():
    async with caller(Logs("t")) as client:
        await client.initialize()
        for _ in range(VIEWS_AT_ONCE):
            assert "result" in await client.call("follow", **{"task_id": "t", "as": "view"})
        refusal = await client.call("follow", **{"task_id": "t", "as": "view"})
        assert (
            refusal["error"]["message"]
            == f"That is more than {VIEWS_AT_ONCE} views; end some first."
        )
        assert "result" in await client.call("follow", task_id="t")
        await client.call("unfollow", follow_id=3)
        assert "result" in await client.call("follow", **{"task_id": "t", "as": "view"})


@each_row("manner", ["events", "view"])
async def test_many_unread_follows_use_no_more_memory_than_one(manner: str):
    """With long rows, each follow could hold a pending message."""
    host = Logs("t")
    for number in range(10):
        host.append("t", Noted(text=str(number) + "x" * OUTBOX))
    async with socket_pair() as (here, there), anyio.create_task_group() as group:
        group.start_soon(serve, host, channel_on(there))
        slow = channel_on(here)
        await slow.send([_message(1, "initialize", INITIALIZE)])
        follow = {"task_id": "t", "as": manner}
        tracemalloc.start()
        await slow.send([_message(number, "follow", follow) for number in range(VIEWS_AT_ONCE)])
        with anyio.fail_after(60):
            await anyio.wait_all_tasks_blocked()
        gc.collect()
        held, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert held < 6 * OUTBOX
        group.cancel_scope.cancel()


async def test_nothing_is_encoded_for_a_disconnected_client(monkeypatch: pytest.MonkeyPatch):
    host = Logs("t")
    for number in range(40):
        host.append("t", Noted(text=str(number) + "x" * (OUTBOX // 2)))
    encoded = 0

    def count(event: Event) -> bytes:
        nonlocal encoded
        encoded += 1
        return event_to_json(event)

    monkeypatch.setattr(following, "event_to_json", count)
    async with socket_pair() as (here, there), anyio.create_task_group() as group:
        group.start_soon(serve, host, channel_on(there))
        slow = channel_on(here)
        await slow.send([_message(1, "initialize", INITIALIZE)])
        await slow.send([_message(2, "follow", {"task_id": "t"})])
        await anyio.wait_all_tasks_blocked()
        before = encoded
        await here.aclose()
        await anyio.wait_all_tasks_blocked()
        assert (0 < before < 10, encoded) == (True, before)
        group.cancel_scope.cancel()


async def test_a_subclass_of_an_error_has_the_code_of_its_base():
    assert code_of(FolderGone(2, "No such file or directory", "/x")) == NOT_STORED


async def test_a_peer_that_does_not_answer_raises_no_host(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("rookery.protocol.remote.SECONDS_TO_ANSWER", 0.05)
    async with socket_pair() as (here, there):
        with pytest.raises(BaseExceptionGroup) as caught:
            async with remote_host(channel_on(here)):
                pass
        assert caught.group_contains(NoHost, match="did not answer within")
        await there.aclose()


async def test_a_peer_that_closes_the_connection_raises_no_host():
    async with socket_pair() as (here, there):
        await there.aclose()
        with pytest.raises(BaseExceptionGroup) as caught:
            async with remote_host(channel_on(here)):
                pass
        assert caught.group_contains(NoHost, match="closed the connection")


async def test_a_remote_host_refuses_like_a_local_one():
    async with connected(Logs("t")) as remote:
        with pytest.raises(CommandRejected, match="Nobody knows"):
            await remote.query(AskAbout())
        with pytest.raises(CommandRejected, match="Session u is not open"):
            [event async for event in remote.follow("u")]


async def test_an_unknown_task_cannot_be_reopened_remotely(tmp_path: Path):
    async with workplace(tmp_path, "[]") as host, connected(host) as remote:
        with pytest.raises(StorageError, match="No such session"):
            await remote.send(ReopenTask(task_id="0b7d3c1e-0000-4000-8000-000000000000"))


async def test_an_overlong_message_is_refused_before_it_is_sent():
    async with connected(Logs()) as remote:
        with pytest.raises(CommandRejected, match="larger than 16 MiB"):
            await remote.send(OpenTask(task_id="t", text="x" * LONGEST_MESSAGE))


async def test_a_lost_host_is_reported_to_every_waiting_call():
    host = Logs("t")
    host.append("t", TaskOpened(text="Do it"))
    async with socket_pair() as (one, two), anyio.create_task_group() as group:
        group.start_soon(serve, host, channel_on(two))
        async with remote_host(channel_on(one)) as remote:
            events = remote.follow("t")
            await anext(events)
            await two.aclose()
            with pytest.raises(Disconnected):
                await anext(events)
            with pytest.raises(Disconnected):
                await remote.send(OpenTask(task_id="u", text="x"))
        group.cancel_scope.cancel()


SCRIPT = """\
- calls:
  - {tool: write_to_file, arguments: {path: made.txt, content: "one\\n"}}
- calls:
  - {tool: attempt_completion, arguments: {result: "Done."}}
"""


async def test_a_question_is_shown_to_all_clients_and_answered_once(tmp_path: Path):
    """The slower client gets a refusal in a sentence."""
    async with (
        workplace(tmp_path, SCRIPT) as host,
        connected(host) as one,
        connected(host) as two,
    ):
        await one.send(OpenTask(task_id="t", text="Do it"))
        shown: list[Asked] = []
        outcomes: list[str] = []

        async def answer(client: Any) -> None:
            async for event in client.follow("t"):
                if isinstance(event.fact, Asked):
                    shown.append(event.fact)
                    break
            asked = shown[-1]
            both_asked.set() if len(shown) == 2 else await both_asked.wait()
            try:
                await client.send(
                    Answer(task_id="t", ask_id=asked.ask_id, reply="yes", digest=asked.digest)
                )
                outcomes.append("taken")
            except CommandRejected as refusal:
                outcomes.append(str(refusal))

        both_asked = anyio.Event()
        with anyio.fail_after(60):
            async with anyio.create_task_group() as group:
                group.start_soon(answer, one)
                group.start_soon(answer, two)
            assert shown[0] == shown[1]
            async for event in host.follow("t"):
                if isinstance(event.fact, Asked) and event.fact.ask is AskKind.COMPLETION_RESULT:
                    break
        (refusal,) = [words for words in outcomes if words != "taken"]
        assert refusal.endswith(".")
        events = [event async for event in _facts_until_completion(host)]
        answered = [fact for fact in events if type(fact).__name__ == "Answered"]
        assert len(answered) == 1


async def _facts_until_completion(host: Any) -> Any:
    async for event in host.follow("t"):
        yield event.fact
        if isinstance(event.fact, Asked) and event.fact.ask is AskKind.COMPLETION_RESULT:
            return


CHUNKS = 20_000


async def test_a_slow_reader_lags_alone_and_catches_up_completely():
    """It stops reading while text streams; memory stays bounded and no durable event is lost."""
    host = Logs("t")
    host.append("t", TaskOpened(text="Do it"))
    async with socket_pair() as (here, there), anyio.create_task_group() as group:
        group.start_soon(serve, host, channel_on(there))
        slow = channel_on(here)
        await slow.send([_message(1, "initialize", INITIALIZE)])
        await slow.send([_message(2, "follow", {"task_id": "t"})])
        for _ in range(3):
            await slow.receive()
        tracemalloc.start()
        for number in range(CHUNKS):
            host.append("t", TextStreamed(request_id="r", text=f"word {number} " + "x" * 100))
            if number % 100 == 0:
                host.append("t", Noted(text=str(number)))
                await anyio.lowlevel.checkpoint()
        host.append("t", TextStreamed(request_id="r", text="waited"))
        with anyio.fail_after(60):
            await anyio.wait_all_tasks_blocked()
        gc.collect()
        held, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert held < 4 * OUTBOX
        received = [await _event(slow)]
        while received[-1]["seq"] < CHUNKS // 100 + 1:
            received.append(await _event(slow))
        durable = [event["seq"] for event in received if not event["sub"]]
        assert durable == list(range(2, CHUNKS // 100 + 2))
        assert _in_order(received)
        assert any(event["sub"] for event in received)
        host.append("t", TextStreamed(request_id="r", text="behind what waited"))
        host.append("t", Noted(text="next"))
        while received[-1].get("text") != "next":
            received.append(await _event(slow))
        assert _in_order(received)
        assert [event["text"] for event in received[-3:-1]] == ["waited", "behind what waited"]
        group.cancel_scope.cancel()


def _in_order(events: list[Any]) -> bool:
    """Streamed pieces come only directly after the event they continue."""
    return all(
        (b["seq"], b["sub"]) in ((a["seq"] + 1, 0), (a["seq"], a["sub"] + 1))
        for a, b in pairwise(events)
    )


async def _event(channel: LineChannel) -> Any:
    with anyio.fail_after(60):
        return json.loads(await channel.receive())["params"]["event"]


def _message(number: int, method: str, params: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params}).encode()
