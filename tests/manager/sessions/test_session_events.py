"""From the rows of an agent to the events of its session."""

from typing import Any

import pytest
from msgspec.structs import replace

from rookery.core.facts import ChildBegan, Event, TaskOpened, ToolFinished
from rookery.core.message import Message
from rookery.manager.sessions.machine import advance
from rookery.manager.sessions.session_events import (
    ActivityEvent,
    AgentAsked,
    AgentMessage,
    ApiReqStarted,
    AskAnswered,
    SayCheckpointSaved,
    SayCompletionResult,
)
from rookery.manager.sessions.session_states import SessionState
from rookery.manager.sessions.session_task import FollowedTask, ProcessReport, read_row
from support.session_samples import ASK_TS, GENERATION, standing

AT: dict[str, Any] = {"generation": 1, "ts": 5}


def new_report(**more: Any) -> ProcessReport:
    return ProcessReport(generation=1, **more)


def says(kind: str, text: str | None = None, **more: Any) -> Message:
    return Message(ts=5, type="say", say=kind, content=text, **more)


def asks(kind: str | None, text: str | None = None, **more: Any) -> Message:
    return Message(ts=5, type="ask", ask=kind, content=text, **more)


@pytest.mark.parametrize(
    ("message", "event"),
    [
        (says("api_req_started"), ApiReqStarted(**AT)),
        (says("api_req_started", '{"model": "m"}'), ApiReqStarted(**AT)),
        (says("api_req_started", "no json"), ApiReqStarted(**AT)),
        (says("api_req_started", "[" * 100_000), ApiReqStarted(**AT)),
        (says("api_req_started", '{"tokensIn": 1}'), None),
        (says("api_req_started", '{"tokensOut": 1}'), None),
        (says("api_req_started", '{"cost": 0}'), None),
        (says("text", "hello"), ActivityEvent(**AT)),
        (says("text", "hel", partial=True), ActivityEvent(**AT)),
        (says("text", partial=True), None),
        (says("text", "", partial=True), None),
        (says("moonrise", "x"), ActivityEvent(**AT)),
        (says("completion_result", "done"), SayCompletionResult(**AT, text="done")),
        (says("completion_result", "do", partial=True), ActivityEvent(**AT)),
        (says("checkpoint_saved", "abc"), SayCheckpointSaved(**AT)),
        (asks("tool", "{", partial=True), ActivityEvent(**AT)),
        (asks("followup", partial=True), None),
        (asks("tool", "{}"), AgentAsked(**AT, ask="tool", text="{}")),
        (asks("command_output", "x"), AgentAsked(**AT, ask="command_output", text="x")),
        (asks("moonrise"), AgentAsked(**AT, ask="moonrise")),
        (asks(None), ActivityEvent(**AT)),
        (asks("tool", "{}", answered=True), AskAnswered(**AT)),
    ],
)
def test_each_row_gives_its_event(message: Message, event: AgentMessage | None):
    assert read_row(new_report(), message) == event


@pytest.mark.parametrize(
    "message", [says("api_req_started"), asks("tool", "{}"), says("completion_result", "done")]
)
def test_a_repeated_row_gives_no_second_event(message: Message):
    report = new_report()
    assert read_row(report, message) is not None
    assert read_row(report, message) is None


def test_an_ask_gives_one_event_when_it_is_complete():
    report = new_report()
    read_row(report, asks("tool", "{", partial=True))
    assert read_row(report, asks("tool", "{}")) == AgentAsked(**AT, ask="tool", text="{}")
    assert read_row(report, asks("tool", "{", partial=True)) is None


def test_the_prompt_of_a_new_task_gives_no_event():
    report = new_report(new_task=True)
    assert read_row(report, says("text", "do it")) is None
    read_row(report, says("api_req_started"))
    later = replace(says("text", "hello"), ts=6)
    assert read_row(report, later) == ActivityEvent(generation=1, ts=6)


@pytest.mark.parametrize(
    "message", [asks("tool", "{}"), says("text", "x"), says("api_req_started")]
)
def test_rows_repeated_by_a_resumed_process_give_no_event(message: Message):
    assert read_row(new_report(stored_ts=5), message) is None
    assert read_row(new_report(stored_ts=4), message) is not None


def test_an_ask_answered_elsewhere_continues_the_session():
    row = Message(ts=ASK_TS, type="ask", ask="tool", content="{}", answered=True)
    event = read_row(ProcessReport(generation=GENERATION), row)
    assert isinstance(event, AskAnswered)
    assert advance(standing(SessionState.WAITING_APPROVAL), event).state is SessionState.STREAMING


def test_all_agents_of_a_call_are_followed_until_the_call_ends():
    task = FollowedTask("t")
    facts = [
        TaskOpened(text="x"),
        ChildBegan(call_id="c", task_id="a", name="scout"),
        ChildBegan(call_id="c", task_id="b", name="fixer"),
    ]
    task.load_events(Event(at, 0, at, fact) for at, fact in enumerate(facts, 1))
    assert list(task.children) == ["a", "b"]
    assert task.subtasks == {"c": {"a": "scout", "b": "fixer"}}
    task.load_events([Event(4, 0, 4, ToolFinished(call_id="c", text="done"))])
    assert not task.children
