"""Messages put together for reading, and what they say was used."""

import json
from typing import Any

import pytest

from rookery.compat.json_io.consolidation import (
    USUAL_WINDOW,
    Metrics,
    consolidated,
    context_window,
    metrics,
)
from rookery.compat.json_io.message_rows import Wire


def says(kind: str, text: Any = None, **more: Any) -> Wire:
    return _row("say", kind, text, **more)


def asks(kind: str, text: Any = None, **more: Any) -> Wire:
    return _row("ask", kind, text, **more)


def _row(type: str, kind: str, text: Any, **more: Any) -> Wire:
    spelled = text if isinstance(text, str | None) else json.dumps(text)
    return {
        "ts": 1,
        "type": type,
        type: kind,
        **({} if text is None else {"text": spelled}),
        **more,
    }


TASK = says("text", "do it")


def told(messages: list[Wire]) -> list[Any]:
    return [message.get("text") for message in messages]


@pytest.mark.parametrize(
    ("messages", "expected"),
    [
        pytest.param(
            [
                says("api_req_started", {"request": "r", "cost": 1}),
                says("api_req_finished", {"cost": 2}),
            ],
            ['{"request": "r", "cost": 2}'],
            id="the end is right",
        ),
        pytest.param(
            [
                says("api_req_started", {"a": 1}),
                says("api_req_started", {"b": 1}),
                says("api_req_finished", {"c": 1}),
                says("api_req_finished", {"d": 1}),
            ],
            ['{"a": 1, "d": 1}', '{"b": 1, "c": 1}'],
            id="the newest that has none",
        ),
        pytest.param([says("api_req_finished", {"c": 1})], ['{"c": 1}'], id="an end of nothing"),
        pytest.param(
            [says("api_req_started", "x"), says("api_req_finished", "y")], ["{}"], id="no JSON"
        ),
        pytest.param(
            [
                asks("command", "ls"),
                says("command_output", "a"),
                says("text", "t"),
                says("command_output", "b"),
            ],
            ["ls\nOutput:\na\nb", "t"],
            id="a command with its output",
        ),
        pytest.param(
            [
                asks("command", "ls"),
                asks("command_output", "a"),
                says("command_output", "a"),
                says("command_output", "a"),
            ],
            ["ls\nOutput:\na\na"],
            id="a pair counts once",
        ),
        pytest.param(
            [asks("command", "ls"), asks("command_output", ""), says("command_output", "a")],
            ["ls\nOutput:\na"],
            id="an empty offer",
        ),
        pytest.param(
            [asks("command", "ls"), asks("command", "pwd"), says("command_output", "/")],
            ["ls", "pwd\nOutput:\n/"],
            id="up to the next command",
        ),
        pytest.param([says("command_output", "a")], ["a"], id="output of nothing"),
        pytest.param(
            [asks("command", "x\nOutput:\ny"), says("command_output", "a")],
            ["x\nOutput:\ny\nOutput:\na"],
            id="a command that looks like output",
        ),
        pytest.param(
            [
                asks("use_mcp_server", {"serverName": "s"}),
                says("mcp_server_response", "a"),
                says("mcp_server_response", "b"),
            ],
            ['{"serverName": "s", "response": "a\\nb"}'],
            id="a server with its response",
        ),
    ],
)
def test_CL_10_what_belongs_together_is_one_message(messages: list[Wire], expected: list[Any]):
    before = json.dumps(messages)
    assert told(consolidated(messages)) == expected
    assert json.dumps(messages) == before


@pytest.mark.parametrize(
    ("messages", "expected"),
    [
        pytest.param([], Metrics(), id="nothing"),
        pytest.param(
            [says("api_req_started", {"tokensIn": 5, "cost": 1})],
            Metrics(),
            id="the first is the task",
        ),
        pytest.param(
            [
                TASK,
                says("api_req_started", {"tokensIn": 5, "tokensOut": 2, "cost": 0.5}),
                says("api_req_started", {"tokensIn": 7, "tokensOut": 1, "cost": 0.25}),
            ],
            Metrics(tokens_in=12, tokens_out=3, cost=0.75, context_tokens=8),
            id="sums, and the newest size",
        ),
        pytest.param(
            [
                TASK,
                says("api_req_started", {"tokensIn": 5, "cacheReads": 0}),
                says("api_req_started", {}),
            ],
            Metrics(tokens_in=5, cache_reads=0, context_tokens=5),
            id="a cache once it is seen",
        ),
        pytest.param(
            [
                TASK,
                says("api_req_started", {"tokensIn": 5}),
                says("condense_context", contextCondense={"cost": 0.5, "newContextTokens": 3}),
            ],
            Metrics(tokens_in=5, cost=0.5, context_tokens=3),
            id="a condensation",
        ),
        pytest.param(
            [TASK, says("condense_context", contextCondense={"cost": 0.5}, partial=True)],
            Metrics(),
            id="one that is not finished",
        ),
        pytest.param(
            [
                TASK,
                says("api_req_started", {"tokensIn": "5", "cost": None}),
                says("api_req_started", "x"),
            ],
            Metrics(),
            id="odd values",
        ),
    ],
)
def test_CL_10_metrics(messages: list[Wire], expected: Metrics):
    assert metrics(messages) == expected


def test_CL_10_a_window_that_nobody_knows_is_the_usual_one():
    tables = {"p": {"m": {"contextWindow": 1000}, "n": {}}}
    assert context_window(tables, "p", "m") == 1000
    for provider, model in (("p", "n"), ("p", "o"), ("q", "m"), (None, None)):
        assert context_window(tables, provider, model) == USUAL_WINDOW
