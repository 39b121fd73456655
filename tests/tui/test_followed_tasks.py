"""When events are folded: streamed pieces are merged, and a long history opens fast."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rookery.core.facts import (
    CallStreamed,
    Ending,
    Event,
    Fact,
    OutputStreamed,
    RequestStarted,
    Rewound,
    TaskOpened,
    TextStreamed,
    ThinkingStreamed,
    ToolFinished,
    ToolStarted,
    next_event,
)
from rookery.core.folds.view import View, see
from rookery.tui.followed_tasks import BACKLOG, WatchedTask
from support.tui_long_session import long_past

pytestmark = pytest.mark.anyio

PIECES = st.lists(
    st.one_of(
        st.builds(TextStreamed, request_id=st.just("r"), text=st.sampled_from(["a", "b "])),
        st.builds(ThinkingStreamed, request_id=st.just("r"), text=st.just("hm ")),
        st.builds(OutputStreamed, call_id=st.just("c"), text=st.just("out\n")),
        st.builds(
            CallStreamed,
            request_id=st.just("r"),
            index=st.sampled_from([0, 1]),
            name=st.just("read_file"),
            arguments=st.sampled_from(['{"path": "', "a"]),
        ),
    ),
    max_size=30,
)


def reported(*facts: Fact) -> list[Event]:
    events: list[Event] = []
    for fact in facts:
        events.append(next_event(events[-1] if events else None, fact, 1_000))
    return events


BEGIN = (
    TaskOpened(text="go"),
    ToolStarted(call_id="c", tool="execute_command", title="x", command="x"),
    RequestStarted(request_id="r", model="m"),
)


@given(PIECES)
async def test_merged_pieces_make_the_same_rows(pieces: list[Fact]):
    events = reported(*BEGIN, *pieces)
    followed, one_by_one = WatchedTask("t1"), View()
    for event in events:
        followed.receive(event)
        one_by_one = see(one_by_one, event)
    followed.catch_up(10.0)
    assert [(row.say or row.ask, row.text) for row in followed.view.messages] == [
        (row.say or row.ask, row.text) for row in one_by_one.messages
    ]
    assert followed.waiting == 0


async def test_a_flood_of_pieces_is_folded_at_once():
    followed = WatchedTask("t1")
    for event in reported(*BEGIN, *(TextStreamed(request_id="r", text="x") for _ in range(5_000))):
        followed.receive(event)
    followed.catch_up(0.0)
    followed.catch_up(0.0)
    assert followed.waiting == 0
    assert followed.view.messages[-1].text == "x" * 5_000


async def test_the_end_of_a_long_history_is_shown_before_all_of_it_is_folded():
    followed = WatchedTask("t1")
    for event in reported(*long_past(3_000, "the last words")):
        followed.receive(event)
    preview = followed.preview()
    assert preview.messages[0].text == "Do a lot"
    assert [row.text for row in preview.messages if row.say == "completion_result"] == [
        "the last words"
    ]
    assert followed.waiting > BACKLOG
    turns = 0
    while followed.waiting:
        followed.catch_up(0.0)
        turns += 1
    assert turns > 10
    tail = {row.ts: row.text for row in list(preview.messages)[-50:]}
    whole = {row.ts: row.text for row in followed.view.messages}
    assert all(whole[ts] == text for ts, text in tail.items())


async def test_a_rewound_call_counts_as_skipped_until_it_is_restored():
    done = ToolFinished(call_id="c", text="The file is as you specified it.")
    followed = WatchedTask("t1")
    endings = []
    for event in reported(*BEGIN, done, Rewound(to=1), Rewound(to=4)):
        followed.receive(event)
        followed.catch_up(1)
        endings += [(end.ending, end.text) for end in followed.ended.values()]
    assert endings == [(Ending.DONE, done.text), (Ending.SKIPPED, ""), (Ending.DONE, done.text)]
