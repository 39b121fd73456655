"""Every fact, command, query and answer survives the trip through JSON."""

import json
from typing import Any, get_args, get_type_hints

import msgspec
import pytest
from msgspec import NODEFAULT
from msgspec.structs import fields, replace

from rookery.core.blocks import Image, Text, Thinking, ToolCall, ToolResult
from rookery.core.commands import Command
from rookery.core.facts import (
    AssistantSpoke,
    Event,
    Fact,
    IntentSelected,
    Noted,
    TaskReopened,
    Todo,
    Unrecognised,
    Usage,
)
from rookery.core.folds.run_tallies import Totals
from rookery.core.modes import Level
from rookery.core.queries import (
    AskRehearsal,
    AskTasks,
    AskViewStart,
    KnownTask,
    Query,
    RestoreRehearsal,
    ViewStart,
    ViewState,
)
from rookery.errors import CommandRejected
from rookery.protocol.codec import (
    answer_from_json,
    answer_to_json,
    command_from_json,
    command_to_json,
    event_from_json,
    event_to_json,
    query_from_json,
    query_to_json,
)
from support.each_row import each_row

SAMPLES: dict[Any, Any] = {
    str: 'ä\n"x"\u2028',
    int: 7,
    float: 1.5,
    bool: True,
    str | None: None,
    bool | None: False,
}


FACTS_OF_OURS = [cls for cls in get_args(Fact) if cls is not Unrecognised]


def sample(cls: type[Any]) -> Any:
    hints = get_type_hints(cls)
    required = [
        f.name for f in fields(cls) if f.default is NODEFAULT and f.default_factory is NODEFAULT
    ]
    return cls(**{name: value_for(hints[name]) for name in required})


def value_for(hint: Any) -> Any:
    if hint in SAMPLES:
        return SAMPLES[hint]
    if getattr(hint, "__origin__", None) is tuple:
        return ()
    if hasattr(hint, "__members__"):
        return next(iter(hint))
    return get_args(hint)[0]


@pytest.mark.parametrize("cls", FACTS_OF_OURS, ids=lambda cls: cls.__name__)
def test_every_fact_survives_a_round_trip(cls: type[Any]):
    event = Event(3, 0, 1000, sample(cls))
    assert event_from_json(event_to_json(event)) == event


VIEW_START = ViewStart(
    seq=7,
    usage=Totals(tokens_in=3, cost=0.5),
    state=ViewState(
        intent=IntentSelected(intent_id="i", name="n"),
        level=Level.EDITS,
        todos=(Todo(id="1", content="x", status="pending"),),
    ),
)


@pytest.mark.parametrize("cls", get_args(Query), ids=lambda cls: cls.__name__)
def test_every_query_survives_a_round_trip(cls: type[Any]):
    query = sample(cls)
    assert query_from_json(json.loads(query_to_json(query))) == query


@pytest.mark.parametrize(
    ("query", "answer"),
    [
        (AskTasks(), (KnownTask(task_id="a", title="ä", cost=0.5), KnownTask(task_id="b"))),
        (AskRehearsal(task_id="a", to=3), RestoreRehearsal(written=("x",), kept=("y",))),
        (AskViewStart(task_id="a"), VIEW_START),
    ],
    ids=["AskTasks", "AskRehearsal", "AskViewStart"],
)
def test_an_answer_survives_a_round_trip(query: Any, answer: Any):
    assert answer_from_json(query, json.loads(answer_to_json(answer))) == answer


def test_an_answer_of_another_shape_is_refused():
    with pytest.raises(ValueError, match="ask_tasks is malformed"):
        answer_from_json(AskTasks(), [{"title": 3}])


def test_an_unknown_query_is_refused():
    with pytest.raises(CommandRejected, match="Unknown query: 'ask_gold'"):
        query_from_json({"kind": "ask_gold"})


@pytest.mark.parametrize("cls", get_args(Command), ids=lambda cls: cls.__name__)
def test_every_command_survives_a_round_trip(cls: type[Any]):
    command = sample(cls)
    assert command_from_json(msgspec.json.decode(command_to_json(command))) == command


def test_blocks_keep_their_kinds_and_order():
    blocks = (
        Thinking(text="hm", signature="s", source="anthropic"),
        Text(text="a"),
        ToolCall(id="c1", name="edit", arguments={"n": 1, "deep": {"list": [None, True]}}),
        Text(text="b"),
        ToolResult(call_id="c1", text="ok", images=(Image(media_type="image/png", data="AA=="),)),
    )
    fact = AssistantSpoke(request_id="r", blocks=blocks, usage=Usage(tokens_in=3, cost=0.25))
    event = Event(1, 0, 5, fact)
    assert event_from_json(event_to_json(event)) == event


@each_row(("text", "kept"), [("a\ud800b", "a\ufffdb"), ("\ud83d\ude00", "😀")])
def test_lone_surrogates_do_not_prevent_a_fact_from_being_written(text: str, kept: str):
    call = ToolCall(id="c1", name="edit", arguments={"s": [text]})
    facts = [
        (AssistantSpoke(request_id="r", blocks=(call,)), replace(call, arguments={"s": [kept]})),
        (Noted(text=text), kept),
    ]
    spoke, noted = [event_from_json(event_to_json(Event(1, 0, 1, f))).fact for f, _ in facts]
    assert spoke == AssistantSpoke(request_id="r", blocks=(facts[0][1],))
    assert noted == Noted(text=kept)


def test_an_unknown_fact_is_kept_verbatim():
    text = b'{"seq":4,"sub":0,"ts":9,"kind":"moon_rose","phase":{"x":[1,2]}}'
    event = event_from_json(text)
    assert event.fact == Unrecognised(
        name="moon_rose", raw='{"kind":"moon_rose","phase":{"x":[1,2]}}'
    )
    assert event_to_json(event) == text


def test_an_unknown_field_of_a_known_fact_is_ignored():
    event = event_from_json(b'{"seq":1,"sub":0,"ts":1,"kind":"task_reopened","by":"moonlight"}')
    assert event.fact == TaskReopened()


@each_row(
    "text",
    [
        b"",
        b"[]",
        b"3",
        b'{"seq":1}',
        b'{"seq":1,"sub":0,"ts":1,"kind":"asked"}',
        b'{"seq":1,"sub":0,"ts":9223372036854775808,"kind":"task_reopened"}',
        b'{"seq":1,"sub":-1,"ts":1,"kind":"task_reopened"}',
        b'{"seq":1.5,"sub":0,"ts":1,"kind":"task_reopened"}',
        b'{"seq":"1","sub":0,"ts":1,"kind":"task_reopened"}',
        pytest.param(
            b'{"seq":1,"sub":0,"ts":1,"kind":"x","y":' + b"[" * 5000 + b"]" * 5000 + b"}",
            id="nested",
        ),
    ],
)
def test_an_invalid_event_is_refused(text: bytes):
    with pytest.raises(ValueError, match="not an event"):
        event_from_json(text)


@each_row(
    "fields",
    [{}, {"kind": "dance"}, {"kind": "cancel"}, {"kind": "rewind", "task_id": "t", "to": "x"}],
)
def test_an_invalid_command_is_refused_with_the_reason(fields: dict[str, Any]):
    with pytest.raises(CommandRejected):
        command_from_json(fields)
