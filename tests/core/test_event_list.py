"""A list of events answers as the plain list of the same events does, however little it reads."""

from collections.abc import Iterable, Iterator, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rookery.core.event_list import EventList, events_after, live, newest, of_kind
from rookery.core.facts import (
    AssistantSpoke,
    Condensed,
    Event,
    Fact,
    Noted,
    PromptRefused,
    RequestStarted,
    Rewound,
    TaskOpened,
    UserSpoke,
)
from rookery.core.folds.history import history
from rookery.core.folds.points import points, standing_changes
from rookery.core.folds.task_record import KnownFiles, TaskRecord, fold
from rookery.core.undo_plan import background_commands, named_checkpoints, steps_since, unsettled
from support.long_log import Store
from support.sample_logs import ANY_LOG

REFUSED = st.builds(PromptRefused, of=st.integers(1, 40), text=st.just(""), reason=st.just("no"))
REWOUND = st.builds(Rewound, to=st.integers(0, 40))


def lasting(events: Iterable[Event]) -> list[Event]:
    facts = [event.fact for event in events if event.fact.lasting]
    return [Event(number, 0, number, fact) for number, fact in enumerate(facts, 1)]


@st.composite
def logs(draw: st.DrawFn) -> list[Event]:
    """Logs with more rewinds and refusals."""
    facts = [event.fact for event in draw(ANY_LOG) if event.fact.lasting]
    for fact in draw(st.lists(st.one_of(REWOUND, REFUSED), max_size=3)):
        facts.insert(draw(st.integers(min(1, len(facts)), len(facts))), fact)
    return [Event(number, 0, number, fact) for number, fact in enumerate(facts, 1)]


def stored(events: Sequence[Event], in_memory: int) -> EventList:
    known = EventList(events)
    known.let_go(in_memory, Store(events))
    return known


@given(logs(), st.integers(0, 5))
def test_it_answers_like_a_list(events: list[Event], in_memory: int):
    known = stored(events, in_memory)
    assert known == events
    assert list(reversed(known)) == events[::-1]
    assert known[-3:] == events[-3:]
    assert known.copy() == events
    for after in (0, 2):
        kinds = UserSpoke, AssistantSpoke, Rewound
        assert list(of_kind(known, *kinds, after=after)) == list(
            of_kind(events, *kinds, after=after)
        )
    assert list(newest(known, Noted, TaskOpened)) == list(newest(events, Noted, TaskOpened))
    assert events_after(known, 1, 4) == events_after(events, 1, 4)


@given(logs(), st.integers(0, 5))
def test_every_fold_gives_the_same(events: list[Event], in_memory: int):
    known = stored(events, in_memory)
    assert list(live(known)) == live(events)
    assert fold(known) == fold(events)
    assert history(known) == history(events)
    assert points(known) == points(events)
    assert standing_changes(known) == standing_changes(events)
    assert unsettled(known) == unsettled(events)
    assert steps_since(known, 2) == steps_since(events, 2)
    assert background_commands(known) == background_commands(events)
    assert named_checkpoints(known) == named_checkpoints(events)
    assert KnownFiles.of(known) == KnownFiles.of(events)


@given(logs())
def test_a_record_grows_to_what_the_whole_log_says(events: list[Event]):
    record = TaskRecord.of(events)
    assert record.state == fold(events)
    assert record.files == KnownFiles.of(events)


@given(logs(), st.integers(0, 5))
def test_events_are_found_after_a_rewind(events: list[Event], in_memory: int):
    counted = live(stored(events, in_memory))
    expected = live(events)
    assert list(of_kind(counted, UserSpoke, Noted, after=3)) == list(
        of_kind(expected, UserSpoke, Noted, after=3)
    )
    assert events_after(counted, 2, 9) == events_after(expected, 2, 9)


def test_only_events_of_the_wanted_kinds_are_read():
    facts: list[Fact] = [
        TaskOpened(text="Go"),
        *[Noted(text="n")] * 500,
        UserSpoke(message_id="m", text="x"),
    ]
    events = [Event(number, 0, number, fact) for number, fact in enumerate(facts, 1)]
    store = Store(events)
    known = EventList(events)
    known.let_go(0, store)
    assert [event.seq for event in of_kind(known, TaskOpened, UserSpoke)] == [1, 502]
    assert next(newest(known, UserSpoke)).seq == 502
    assert store.reads == 3
    with pytest.raises(IndexError):
        known[502]


def test_what_is_read_for_a_cut_grows_with_the_log_and_not_with_its_square():
    facts: list[Fact] = [TaskOpened(text="go")]
    for number in range(200):
        facts.append(UserSpoke(message_id=str(number), text="more"))
        facts.append(RequestStarted(request_id="r", model="m"))
    events = lasting(Event(0, 0, 0, fact) for fact in facts)
    looked_at = 0

    def read(places: Iterable[int]) -> Iterator[Event]:
        nonlocal looked_at
        wanted = [*places]
        looked_at += len(wanted)
        return (events[place] for place in wanted)

    known = EventList(events)
    known.let_go(0, read)
    assert len(history(known, Condensed(upto=len(events)))) == 1
    assert looked_at <= 4 * len(events)
