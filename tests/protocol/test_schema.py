"""The protocol's schema matches real traffic and the documentation."""

import json
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from rookery.core.blocks import Text, ToolCall
from rookery.core.facts import (
    AssistantSpoke,
    Noted,
    RequestStarted,
    StopReason,
    TaskOpened,
    TextStreamed,
    Usage,
)
from rookery.core.folds.view import PARTS
from rookery.core.modes import Level
from rookery.protocol.codec import COMMANDS, FACTS, queries
from rookery.protocol.jsonrpc import (
    FAILED,
    NOT_INITIALIZED,
    NOT_STORED,
    REFUSED,
    UNAUTHORIZED,
    WRONG_SETTING,
)
from rookery.protocol.schema import schema
from support.protocol_hosts import Logs, caller, workplace

DOCUMENT = Path(__file__).parents[2] / "docs" / "schemas" / "protocol.schema.json"
CHECK = Draft202012Validator(schema())
ABOUT = {
    "ask_rehearsal": {"task_id": "t", "to": 1},
    "ask_differences": {"task_id": "t"},
    "ask_view_start": {"task_id": "t"},
}
SCRIPT = """\
- say: I will write it.
  calls:
  - {tool: write_to_file, arguments: {path: made.txt, content: "one\\n"}}
- calls:
  - {tool: attempt_completion, arguments: {result: "Done."}}
"""


def test_the_document_is_up_to_date():
    """If not: `python -m rookery.protocol.schema > docs/schemas/protocol.schema.json`."""
    assert json.loads(DOCUMENT.read_text(encoding="utf-8")) == schema()
    Draft202012Validator.check_schema(schema())


def test_every_kind_is_in_the_schema():
    assert {*FACTS, *COMMANDS, *queries()} <= set(schema()["$defs"])


def test_the_page_names_every_method_error_and_part():
    page = DOCUMENT.parents[1].joinpath("protocol.md").read_text(encoding="utf-8")
    methods = [
        described["properties"]["method"]["const"]
        for name, described in schema()["$defs"].items()
        if name.endswith("_message") and "method" in described["properties"]
    ]
    codes = [FAILED, REFUSED, NOT_INITIALIZED, UNAUTHORIZED, NOT_STORED, WRONG_SETTING]
    named = [*(f"| `{each}` |" for each in methods), *(f"| {each} |" for each in codes)]
    assert [each for each in [*named, *(f"`{part}`" for part in PARTS)] if each not in page] == []


def valid(messages: list[dict[str, Any]]) -> None:
    for message in messages:
        error = next(CHECK.iter_errors(message), None)
        assert error is None, (message, error)


@pytest.mark.anyio
async def test_recorded_traffic_is_valid(tmp_path: Path):
    async with workplace(tmp_path, SCRIPT, level=Level.AUTO) as host, caller(host) as client:
        await client.initialize()
        await client.call("send", kind="open_task", task_id="t", text="Do it")
        await client.call("follow", task_id="t", after=0)
        await client.call("follow", **{"task_id": "t", "as": "view"})
        await client.until(
            lambda message: message.get("params", {}).get("event", {}).get("kind") == "asked"
        )
        for kind in queries():
            answer = await client.call("query", kind=kind, **ABOUT.get(kind, {}))
            expected = {**schema(), "anyOf": [{"$ref": f"#/$defs/answer_to_{kind}"}]}
            Draft202012Validator(expected).validate(answer["result"])
        await client.call("send", kind="dance")
        await client.call("unfollow", follow_id=2)
        asked = next(
            message["params"]["event"]
            for message in client.received
            if message.get("params", {}).get("event", {}).get("kind") == "asked"
        )
        said = {"ask_id": asked["ask_id"], "digest": asked["digest"], "reply": "yes"}
        await client.call("send", kind="answer", task_id="t", **said)
        await client.until(lambda message: message.get("method") == "ended")
        valid([message for message in client.said if message["params"].get("kind") != "dance"])
        valid(client.received)
        methods = {message.get("method") for message in client.received}
        assert methods == {None, "event", "view", "ended"}


@pytest.mark.parametrize(
    "message",
    [
        {"jsonrpc": "2.0", "id": 1, "method": "send", "params": {"kind": "dance"}},
        {"jsonrpc": "2.0", "id": 1, "method": "send", "params": {"kind": "open_task"}},
        {"jsonrpc": "1.0", "id": 1, "method": "unfollow", "params": {"follow_id": 1}},
        {"jsonrpc": "2.0", "method": "event", "params": {"follow_id": 1, "event": {"seq": 1}}},
        {"jsonrpc": "2.0", "id": 1, "error": {"message": "x"}},
    ],
    ids=str,
)
def test_unknown_messages_are_not_valid(message: dict[str, Any]):
    assert not CHECK.is_valid(message)


@pytest.mark.anyio
async def test_events_of_every_shape_are_valid():
    host = Logs("t")
    host.append("t", TaskOpened(text="Do it"))
    host.append("t", RequestStarted(request_id="r", model="m"))
    host.append("t", TextStreamed(request_id="r", text="Hi"))
    blocks = (Text(text="Hi"), ToolCall(id="c", name="x", arguments={"a": [1, None]}))
    host.append(
        "t", AssistantSpoke(request_id="r", blocks=blocks, stop=StopReason.CALLS, usage=Usage())
    )
    host.append("t", Noted(text="The end."))
    async with caller(host) as client:
        await client.initialize()
        await client.call("follow", task_id="t")
        while len(client.received) < 6:
            await client.receive()
        valid(client.received)
