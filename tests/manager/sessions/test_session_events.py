"""From the rows of an agent to the events of its session."""

from typing import Any

import pytest
from msgspec.structs import replace

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
from rookery.manager.sessions.session_task import ProcessReport, told
from support.session_samples import ASK_TS, GENERATION, standing

HEARD = ProcessReport(generation=1)
AT: dict[str, Any] = {"generation": 1, "ts": 5}


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
def test_each_row_is_its_event(message: Message, event: AgentMessage | None):
    assert told(HEARD, message).event == event


@pytest.mark.parametrize(
    "message", [says("api_req_started"), asks("tool", "{}"), says("completion_result", "done")]
)
def test_an_event_comes_once(message: Message):
    first = told(HEARD, message)
    assert first.event is not None
    assert told(first.heard, message).event is None


def test_an_ask_is_an_event_when_it_is_complete_and_not_again_when_it_is_told_in_part():
    growing = told(HEARD, asks("tool", "{", partial=True))
    complete = told(growing.heard, asks("tool", "{}"))
    assert complete.event == AgentAsked(**AT, ask="tool", text="{}")
    assert told(complete.heard, asks("tool", "{", partial=True)).event is None


def test_the_prompt_of_a_new_task_is_no_news():
    heard = replace(HEARD, new_task=True)
    assert told(heard, says("text", "do it")).event is None
    begun = told(heard, says("api_req_started")).heard
    assert told(begun, replace(says("text", "hello"), ts=6)).event == ActivityEvent(
        generation=1, ts=6
    )


@pytest.mark.parametrize(
    "message", [asks("tool", "{}"), says("text", "x"), says("api_req_started")]
)
def test_the_past_a_resumed_process_repeats_is_no_news(message: Message):
    assert told(replace(HEARD, stored_ts=5), message).event is None
    assert told(replace(HEARD, stored_ts=4), message).event is not None


def test_an_ask_answered_elsewhere_lets_the_session_go_on():
    row = Message(ts=ASK_TS, type="ask", ask="tool", content="{}", answered=True)
    event = told(ProcessReport(generation=GENERATION), row).event
    assert isinstance(event, AskAnswered)
    assert advance(standing(SessionState.WAITING_APPROVAL), event).state is SessionState.STREAMING
