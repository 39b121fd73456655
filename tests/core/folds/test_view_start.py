"""A view that begins late shows the end of a session as one that begins at the first event."""

import os
import sys
from collections.abc import Sequence
from functools import reduce

from hypothesis import given
from hypothesis import strategies as st

from core.test_event_list import logs, stored
from rookery.core.asks import AskKind
from rookery.core.event_list import EventList
from rookery.core.facts import (
    Answered,
    ApprovalSwitched,
    Asked,
    AssistantSpoke,
    Condensed,
    Event,
    Fact,
    IntentSelected,
    ModelSwitched,
    ModeSwitched,
    Noted,
    RequestFailed,
    RequestStarted,
    Rewound,
    StepCancelled,
    TaskOpened,
    Todo,
    TodosChanged,
    UserSpoke,
)
from rookery.core.folds.view import View, see, view_from
from rookery.core.folds.view_start import view_start
from rookery.core.limits import FailureKind
from rookery.core.modes import Level
from rookery.core.queries import ViewStart
from support.long_log import PAID, long_log, numbered, turn, turns

STEP = 1 if os.environ.get("ROOKERY_TORTURE") else 3
"""A turn has four events: so each kind comes first somewhere."""


def folded(events: Sequence[Event], start: ViewStart) -> View:
    return reduce(see, events[start.seq :], view_from(start))


def said(view: View) -> object:
    """All that a view says but its older rows."""
    ask = view.open_ask
    return (
        *(view.seq, view.usage, view.queue, view.mode, view.model, view.window, view.level),
        *(view.intent, view.todos, view.closed, view.agent, ask and ask.ask_id),
    )


def check(events: list[Event], start: ViewStart) -> None:
    whole, late = reduce(see, events, View()), folded(events, start)
    assert said(late) == said(whole)
    rows = [row for row in whole.messages if row.seq > start.seq]
    assert list(late.messages) == rows


OPTIONS: list[Fact] = [
    TaskOpened(text="Go", mode="code"),
    ModeSwitched(mode="debug"),
    ApprovalSwitched(automatic=None, level=Level.EDITS),
    IntentSelected(intent_id="i1", name="Mend it"),
    TodosChanged(todos=(Todo(id="1", content="first", status="pending"),)),
]


def test_usage_and_options_of_the_events_before_are_known():
    other = [
        Condensed(upto=3, summary="so far", usage=PAID),
        Noted(text="a title", usage=PAID),
        RequestStarted(request_id="x", model="m"),
        RequestFailed(request_id="x", error=FailureKind.BUSY, message="busy", usage=PAID),
        RequestStarted(request_id="y", model="m"),
        StepCancelled(),
        AssistantSpoke(request_id="y", blocks=(), usage=PAID),
        ModelSwitched(provider="p", model="other"),
        Asked(ask_id="q", ask=AskKind.RESUME_TASK),
        Answered(ask_id="q", ask=AskKind.RESUME_TASK, reply="message", text="go on"),
    ]
    events = numbered([*OPTIONS, *turns(0, 20), *other, *turns(20, 40)])
    for shown in range(1, len(events), STEP):
        check(events, view_start(EventList(events), shown, long=10))
    start = view_start(EventList(events), 20, long=10)
    assert (start.state.mode, start.state.level, start.state.model) == ("debug", Level.EDITS, "m")
    assert start.usage.tokens_in == 3_600
    assert start.seq == len(events) - 20


def test_a_start_leaves_nothing_open_behind():
    spoken = UserSpoke(message_id="m", text="and this")
    failed = RequestFailed(request_id="r19", error=FailureKind.BUSY, message="busy")
    for late in ([spoken], [turn(19)[0], failed]):
        events = numbered([TaskOpened(text="Go"), *turns(0, 19), *late, *turns(20, 30)])
        for shown in range(1, len(events), STEP):
            start = view_start(EventList(events), shown, long=10)
            check(events, start)
            assert events[start.seq].fact != turn(20)[0]


def test_a_session_rewound_to_before_is_shown_from_there():
    past = [TaskOpened(text="Go"), *turns(0, 30)]
    back = Rewound(to=50)
    events = numbered([*past, back, *turns(30, 32)])
    start = view_start(EventList(events), 12, long=10)
    assert 40 < start.seq < 50
    check(events, start)
    events = numbered([*past, back, *turns(30, 60)])
    start = view_start(EventList(events), 12, long=10)
    assert start.seq > len(past)
    check(events, start)


def test_a_start_is_not_before_a_rewind_that_goes_further_back():
    past = [TaskOpened(text="Go", mode="code"), *turns(0, 30)]
    spoken = UserSpoke(message_id="m", text="and this")
    events = numbered([*past, Rewound(to=9), spoken, *turns(30, 31), spoken, *turns(31, 32)])
    for shown in range(1, len(events), STEP):
        check(events, view_start(EventList(events), shown, long=10))


def test_a_message_that_a_rewind_queues_again_is_shown():
    spoken = UserSpoke(message_id="m", text="and this")
    past = [TaskOpened(text="Go"), *turns(0, 10), spoken, *turns(10, 12)]
    events = numbered([*past, Rewound(to=42), *turns(30, 40)])
    for shown in range(1, len(events), STEP):
        check(events, view_start(EventList(events), shown, long=10))


@given(logs(), st.integers(0, 12))
def test_any_log_ends_the_same(events: list[Event], shown: int):
    start = view_start(stored(events, 3), shown, long=0)
    whole, late = reduce(see, events, View()), folded(events, start)
    assert said(late) == said(whole)


def test_few_of_the_older_events_are_read():
    known, store = long_log()
    start = view_start(known)
    assert len(known) - 3_010 < start.seq <= len(known) - 3_000
    assert store.reads < start.seq / 4 + 5  # one of the events of a turn
    assert view_start(known, long=20_000) == ViewStart()


def test_the_start_of_what_was_shown_before_is_found():
    known, _ = long_log()
    earlier = view_start(known, upto=8_000)
    assert 4_990 < earlier.seq < 5_000
    whole, late = reduce(see, known[:8_000], View()), folded(known[:8_000], earlier)
    assert said(late) == said(whole)


def test_a_view_does_not_keep_the_events_it_has_seen():
    events = numbered([TaskOpened(text="Go"), *turns(0, 20)])

    def references() -> list[int]:
        return [sys.getrefcount(event) for event in events][:-1]

    alone = references()
    view = reduce(see, events, View())
    assert len(view.messages) > 40
    assert references() == alone
