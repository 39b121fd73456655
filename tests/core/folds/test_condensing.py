"""What may be left out of a conversation, and what must not be."""

from rookery.core.asks import AskKind
from rookery.core.blocks import Text, ToolCall, ToolResult
from rookery.core.facts import (
    Answered,
    Asked,
    AssistantSpoke,
    Condensed,
    Event,
    Fact,
    RequestStarted,
    TaskOpened,
    ToolFinished,
    next_event,
)
from rookery.core.folds.history import history
from rookery.core.folds.task_record import fold
from rookery.engine.context import cut_points, fitting_cut
from support.each_row import each_row
from support.sample_logs import log

ANSWER = "Only the staging database."


def call(number: int) -> list[Fact]:
    return [
        RequestStarted(request_id=f"r{number}", model="m"),
        AssistantSpoke(
            request_id=f"r{number}",
            blocks=(Text(text="word " * 200), ToolCall(id=f"c{number}", name="any")),
        ),
    ]


def done(number: int) -> list[Fact]:
    return [*call(number), ToolFinished(call_id=f"c{number}", text="result " * 200)]


def at_a_question(steps: int) -> list[Event]:
    """A task that has made some steps and now asks."""
    before = [fact for number in range(steps) for fact in done(number)]
    asked = Asked(ask_id="q", ask=AskKind.FOLLOWUP, text="Which database may I drop?")
    return log(TaskOpened(text="go"), *before, *call(99), asked)


def going_on(events: list[Event], *facts: Fact) -> list[Event]:
    for fact in facts:
        events = [*events, next_event(events[-1], fact, events[-1].ts)]
    return events


@each_row("times", [1, 2])
@each_row("steps", [0, 2, 6])
@each_row("most", [0, 500, 100_000])
def test_the_answer_to_an_open_question_survives_condensing(steps: int, times: int, most: int):
    events = at_a_question(steps)
    for _ in range(times):
        events = going_on(events, fitting_cut(events, most, fold(events)))
    events = going_on(
        events,
        Answered(ask_id="q", ask=AskKind.FOLLOWUP, reply="message", text=ANSWER),
        ToolFinished(call_id="c99", text=ANSWER),
    )
    results = [b for turn in history(events) for b in turn.blocks if isinstance(b, ToolResult)]
    assert ANSWER in [result.text for result in results]


def test_a_finished_conversation_can_be_condensed_entirely():
    events = log(TaskOpened(text="go"), *done(1), *done(2))
    assert cut_points(events, fold(events))[-1] == events[-1].seq
    asking = at_a_question(2)
    answer = max(event.seq for event in asking if isinstance(event.fact, AssistantSpoke))
    assert cut_points(asking, fold(asking))[-1] == answer - 1
    again = going_on(asking, Condensed(upto=answer - 1))
    assert cut_points(again, fold(again)) == [answer - 1, answer - 1]
