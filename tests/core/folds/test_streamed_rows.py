"""Rows made a request at a time are those of the whole log."""

from typing import Any

from hypothesis import given

from rookery.core.asks import AskKind
from rookery.core.facts import (
    Asked,
    Event,
    ModelSwitched,
    Noted,
    RequestStarted,
    Rewound,
    TaskOpened,
)
from rookery.core.folds.streamed_rows import outline, streamed_rows
from rookery.core.message import Message
from support.sample_logs import ANY_LOG, log, messages


def shown(row: Message) -> tuple[Any, ...]:
    return row.type, row.say, row.ask, row.text, row.images, row.outcome, row.open, row.call_id


def streamed(events: list[Event]) -> list[Message]:
    steps = streamed_rows(events, outline(events).counting)
    return [row for step in steps for row in step.rows]


@given(ANY_LOG)
def test_streamed_rows_equal_the_rows_of_the_whole_log(events: list[Event]):
    stored = log(*(event.fact for event in events if event.fact.lasting))
    assert list(map(shown, streamed(stored))) == list(map(shown, messages(stored)))


def test_rewound_events_are_left_out_on_every_branch():
    events = log(
        TaskOpened(text="do it"),
        Noted(text="one"),
        RequestStarted(request_id="r1", model="small"),
        Rewound(to=2),
        Noted(text="two"),
        Rewound(to=1),
        Asked(ask_id="q", ask=AskKind.FOLLOWUP, text="three"),
        Rewound(to=5),
        ModelSwitched(provider="p", model="large"),
    )
    known = outline(events)
    assert [seq for each in known.counting for seq in each] == [1, 2, 4, 5, 8, 9]
    assert known.model == "large"
    assert [row.text for row in streamed(events)] == ["do it", "one", "two"]


def test_a_rewind_to_the_start_leaves_out_everything_before_it():
    events = log(TaskOpened(text="do it"), Rewound(to=0), Noted(text="two"))
    assert [row.text for row in streamed(events)] == [row.text for row in messages(events)]
