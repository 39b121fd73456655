"""A view holds all that a client shows of a task; comparing two gives what to redraw."""

import json
import sys
from collections.abc import Callable
from functools import reduce
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from rookery.core.asks import AskKind
from rookery.core.blocks import Text
from rookery.core.event_list import live
from rookery.core.facts import (
    Answered,
    ApprovalSwitched,
    Asked,
    AssistantSpoke,
    Event,
    Fact,
    ModelSwitched,
    ModeSwitched,
    Noted,
    QueueEdited,
    RequestFailed,
    RequestStarted,
    Rewound,
    TaskClosed,
    TaskOpened,
    TaskReopened,
    TextStreamed,
    Todo,
    TodosChanged,
    Usage,
    UserSpoke,
    Waiting,
)
from rookery.core.folds.rows import PAGE, Rows
from rookery.core.folds.run_tallies import Totals
from rookery.core.folds.view import View, ViewChange, changes, see
from rookery.core.limits import FailureKind
from rookery.core.message import Message, detect
from support.sample_logs import ANY_LOG, log, messages

OPENED = TaskOpened(text="do it", mode="code")
STARTED = RequestStarted(request_id="r", model="m")
ASKED = Asked(ask_id="q", ask=AskKind.TOOL, text="T")


def view_of(*facts: Fact) -> View:
    return reduce(see, log(*facts), View())


def views(events: list[Event]) -> list[View]:
    seen = [View()]
    for event in events:
        seen.append(see(seen[-1], event))
    return seen


# ── the content of a view ───────────────────────────────────────────────────────────────


@given(ANY_LOG)
def test_a_view_shows_the_rows_of_its_events(events: list[Event]):
    assert list(views(events)[-1].messages) == list(messages(events))


@given(ANY_LOG)
def test_a_new_event_does_not_change_the_old_view(events: list[Event]):
    seen = [View()]
    rows = [list(seen[0].messages)]
    for event in events:
        seen.append(see(seen[-1], event))
        rows.append(list(seen[-1].messages))
    assert [list(view.messages) for view in seen] == rows


@given(ANY_LOG)
def test_the_agent_state_agrees_with_the_rows(events: list[Event]):
    for view in views(events):
        assert view.agent == detect(view.messages)


def test_the_agent_state_follows_the_task():
    assert View().agent.state == "no_task"
    assert view_of(OPENED, STARTED).agent.state == "streaming"
    assert view_of(OPENED, ASKED).agent.state == "waiting_for_input"


def test_the_view_shows_the_newest_mode_and_todos():
    todos = (Todo(id="1", content="x"),)
    view = view_of(OPENED, ModeSwitched(mode="ask"), TodosChanged(todos=todos))
    assert (view.mode, view.todos) == ("ask", todos)


def test_a_task_is_closed_until_it_is_opened_again():
    assert [view.closed for view in views(log(OPENED, TaskClosed(), TaskReopened()))[1:]] == [
        False,
        True,
        False,
    ]


def test_the_queue_holds_messages_not_yet_sent_to_the_model():
    facts = (
        OPENED,
        UserSpoke(message_id="a", text="one"),
        UserSpoke(message_id="b", text="two"),
        QueueEdited(message_id="a", text=None),
    )
    assert [spoken.text for spoken in view_of(*facts).queue] == ["two"]
    assert view_of(*facts, STARTED).queue == ()


def test_an_ask_stays_open_until_it_is_answered():
    assert view_of(OPENED).open_ask is None
    ask = view_of(OPENED, ASKED).open_ask
    assert ask
    assert (ask.ask_id, ask.ask) == ("q", "tool")
    answer = Answered(ask_id="q", ask=AskKind.TOOL, reply="yes")
    assert view_of(OPENED, ASKED, answer).open_ask is None


def test_an_offer_is_an_open_ask_too():
    offer = Asked(ask_id="o", ask=AskKind.COMMAND_OUTPUT)
    ask = view_of(OPENED, offer, Noted(text="x")).open_ask
    assert ask
    assert ask.ask_id == "o"


def test_silence_ends_with_the_next_streamed_text():
    silent = view_of(OPENED, STARTED, Waiting(request_id="r", seconds=15.0, what="Loading m"))
    assert (silent.silence, silent.waiting_for) == (15.0, "Loading m")
    spoken = see(silent, Event(2, 2, 9999, TextStreamed(request_id="r", text="x")))
    assert (spoken.silence, spoken.waiting_for) == (0.0, "")


def test_a_rewind_undoes_mode_todos_and_closing():
    facts = (OPENED, ModeSwitched(mode="ask"), ModeSwitched(mode="plan"), TaskClosed())
    view = view_of(*facts, Rewound(to=2))
    assert (view.mode, view.closed) == ("ask", False)
    assert view_of(*facts, Rewound(to=0)).mode == ""


@given(ANY_LOG)
def test_a_rewind_leaves_no_trace_of_later_events(events: list[Event]):
    view, counted = reduce(see, events, View()), reduce(see, live(events), View())
    assert (view.mode, view.todos, view.closed, view.queue) == (
        counted.mode,
        counted.todos,
        counted.closed,
        counted.queue,
    )


# ── usage ──────────────────────────────────────────────────────


def answer(request: str, usage: Usage) -> list[Fact]:
    return [
        RequestStarted(request_id=request, model="m"),
        AssistantSpoke(request_id=request, blocks=(Text(text="x"),), usage=usage),
    ]


def test_usage_is_added_up_and_the_context_is_that_of_the_newest_request():
    view = view_of(
        OPENED,
        *answer("a", Usage(tokens_in=100, tokens_out=10, cost=0.5)),
        *answer("b", Usage(tokens_in=200, tokens_out=20, cache_reads=50, cost=0.25)),
        *answer("c", Usage()),
    )
    assert view.usage == Totals(
        tokens_in=300,
        tokens_out=30,
        cache_reads=50,
        cache_writes=0,
        cost=0.75,
        context_tokens=220,
    )


def test_cache_sums_stay_absent_until_first_seen():
    view = view_of(OPENED, *answer("a", Usage(tokens_in=1)))
    assert (view.usage.cache_reads, view.usage.cache_writes) == (None, None)


def test_the_cost_of_a_failed_request_counts():
    failure = RequestFailed(
        request_id="r", error=FailureKind.DROPPED, message="x", usage=Usage(tokens_in=7, cost=0.1)
    )
    assert view_of(OPENED, STARTED, failure).usage == Totals(
        tokens_in=7, cost=0.1, context_tokens=7
    )


def usage_of(rows: list[Message]) -> Totals:
    """Over the rows, the first excluded."""
    infos = [json.loads(row.text or "{}") for row in rows[1:] if row.say == "api_req_started"]

    def total(key: str) -> Any:
        return sum(info.get(key) or 0 for info in infos)

    cached = any("cacheReads" in info for info in infos)
    sizes = [info.get("tokensIn", 0) + info.get("tokensOut", 0) for info in infos]
    return Totals(
        tokens_in=total("tokensIn"),
        tokens_out=total("tokensOut"),
        cache_reads=total("cacheReads") if cached else None,
        cache_writes=total("cacheWrites") if cached else None,
        cost=total("cost"),
        context_tokens=next((size for size in reversed(sizes) if size), 0),
    )


@given(ANY_LOG)
def test_usage_agrees_with_the_rows(events: list[Event]):
    events = [replace(event, seq=event.seq + 1) for event in events]
    view = reduce(see, [*log(OPENED), *events], View())
    if view.messages and view.messages[0].ts == 1000 and view.messages[0].text == "do it":
        assert view.usage == usage_of(list(view.messages))


# ── what changed ────────────────────────────────────────────────────────────────────────


def redrawn(rows: list[Message], change: ViewChange) -> list[Message]:
    """The rows of a client after it applied a change."""
    kept = {row.ts: row for row in rows if row.ts not in change.removed}
    kept |= {row.ts: row for row in (*change.added, *change.changed)}
    return [kept[ts] for ts in sorted(kept)]


@given(ANY_LOG, st.data())
def test_drawing_the_changes_gives_the_rows_between_any_two_views(
    events: list[Event], data: st.DataObject
):
    seen = views(events)
    before, after = (
        seen[data.draw(st.integers(0, len(seen) - 1))],
        seen[data.draw(st.integers(0, len(seen) - 1))],
    )
    change = changes(before, after)
    assert redrawn(list(before.messages), change) == list(after.messages)
    assert not {row.ts for row in change.added} & {row.ts for row in before.messages}
    assert {row.ts for row in change.changed} <= {row.ts for row in before.messages}
    assert ("mode" in change.parts) == (before.mode != after.mode)
    assert ("usage" in change.parts) == (before.usage != after.usage)


def test_a_piece_of_text_changes_one_row_and_nothing_else():
    events = log(OPENED, STARTED, TextStreamed(request_id="r", text="a"))
    more = [*events, Event(2, 2, 5000, TextStreamed(request_id="r", text="b"))]
    *_, before, after = views(more)
    change = changes(before, after)
    assert [row.text for row in change.changed] == ["ab"]
    assert change == ViewChange(changed=change.changed)


@pytest.mark.parametrize(
    ("fact", "parts"),
    [
        (ModeSwitched(mode="ask"), {"mode"}),
        (UserSpoke(message_id="m", text="x"), {"queue"}),
        (TodosChanged(todos=(Todo(id="1", content="x"),)), {"todos"}),
        (TaskClosed(), {"closed"}),
        (ASKED, {"agent", "open_ask"}),
        (STARTED, {"agent", "model"}),
        (ModelSwitched(provider="p", model="n"), {"model"}),
        (ApprovalSwitched(automatic=True), {"automatic", "level"}),
        (Waiting(request_id="r", seconds=15.0), {"silence"}),
        (Waiting(request_id="r", seconds=1, what="Loading m"), {"silence", "waiting_for"}),
        (Noted(text="x"), set[str]()),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_change_names_the_parts_that_differ(fact: Fact, parts: set[str]):
    *_, before, after = views(log(OPENED, fact))
    assert changes(before, after).parts == parts


def test_an_empty_change_is_falsy():
    view = view_of(OPENED, ASKED)
    assert not changes(view, view)
    assert changes(View(), view)


# ── what it costs ───────────────────────────────────────────────────────────────────────


def calls_made(act: Callable[[], object]) -> int:
    """How many functions were called, in Python or in C."""
    count = 0

    def note(frame: object, event: str, argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(note)
    try:
        act()
    finally:
        sys.setprofile(None)
    return count


@pytest.mark.parametrize("fact", [Noted(text="x"), STARTED, ASKED], ids=lambda f: type(f).__name__)
def test_the_cost_of_an_event_does_not_depend_on_the_log(fact: Fact):
    def cost(length: int) -> int:
        before = view_of(OPENED, *[Noted(text="x")] * length)
        event = Event(length + 2, 0, 10**9, fact)
        return calls_made(lambda: changes(before, see(before, event)))

    assert cost(4_000) <= cost(100) * 1.2


def test_the_cost_of_changes_is_linear_in_the_events():
    def cost(pieces: int) -> int:
        events = log(OPENED, STARTED, *[TextStreamed(request_id="r", text="word ")] * pieces)
        seen = [view for view in views(events)]
        return calls_made(lambda: [changes(*pair) for pair in pairwise(seen)])

    assert cost(2_000) < cost(1_000) * 2.1


# ── rows that are never changed in place ────────────────────────────────────────────────


def row(ts: int, text: str = "") -> Message:
    return Message(ts=ts, type="say", say="text", content=text)


@given(st.lists(st.tuples(st.sampled_from("aaaarxb"), st.integers(0, 300)), max_size=60))
def test_rows_behave_like_a_list_and_every_version_stays(steps: list[tuple[str, int]]):
    rows: Rows[Message] = Rows()
    plain = [row(ts) for ts in range(150)]
    for item in plain:
        rows = rows.append(item)
    versions = [(rows, plain)]
    for number, (step, place) in enumerate(steps, start=150):
        if step == "b":
            rows, plain = versions[place % len(versions)]
        elif step == "a" or not plain:
            rows, plain = rows.append(row(number)), [*plain, row(number)]
        elif step == "r":
            place %= len(plain)
            new = row(plain[place].ts, f"changed {number}")
            rows, plain = rows.replace(place, new), [*plain[:place], new, *plain[place + 1 :]]
        else:
            place %= len(plain)
            rows, plain = rows.remove(place), plain[:place] + plain[place + 1 :]
        versions.append((rows, plain))
    for version, expected in versions:
        assert list(version) == expected
        assert [version[index] for index in range(-len(version), len(version))] == expected * 2
        assert all(version.find(item.ts) == index for index, item in enumerate(expected))
        assert version.find(10**6) is None
        assert version[1:3] == expected[1:3]


def test_diverged_versions_of_rows_are_independent():
    base: Rows[Message] = Rows()
    for ts in range(10):
        base = base.append(row(ts))
    left = right = base
    for ts in range(100, 100 + 3 * PAGE):
        left, right = left.append(row(ts)), right.append(row(ts + 1000))
    assert [item.ts for item in left][10:] == list(range(100, 100 + 3 * PAGE))
    assert [item.ts for item in right][10:] == list(range(1100, 1100 + 3 * PAGE))
    assert len(base) == 10


def test_an_index_past_the_rows_is_an_index_error():
    with pytest.raises(IndexError):
        Rows[Message]()[0]
