"""Rewinding and undoing a rewind: which events count, and which files change."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from rookery.core.asks import AskKind
from rookery.core.event_list import live
from rookery.core.facts import (
    Answered,
    Asked,
    Change,
    CheckpointSaved,
    Ending,
    Event,
    Fact,
    FilesChanged,
    FilesRestored,
    FormatterStarted,
    Noted,
    Rewound,
    TaskOpened,
    ToolFinished,
    ToolStarted,
    UserSpoke,
)
from rookery.core.folds.history import history
from rookery.core.folds.points import Point, last_change, points
from rookery.core.folds.view import View, see
from rookery.core.modes import Level
from rookery.core.undo_plan import Unsettled, steps_since, unsettled, was_started


def log(*facts: Fact) -> list[Event]:
    return [Event(number, 0, number * 10, fact) for number, fact in enumerate(facts, 1)]


OPENED = TaskOpened(text="do it")


def seqs(events: list[Event]) -> list[int]:
    return [event.seq for event in events]


def test_rewound_events_do_not_count_until_they_are_restored():
    notes = [Noted(text=letter) for letter in "abc"]
    assert seqs(live(log(OPENED, *notes))) == [1, 2, 3, 4]
    assert seqs(live(log(OPENED, *notes, Rewound(to=2)))) == [1, 2, 5]
    assert seqs(live(log(OPENED, *notes, Rewound(to=2), Rewound(to=4)))) == [1, 2, 3, 4, 6]
    assert seqs(live(log(OPENED, *notes, Rewound(to=2), Rewound(to=5)))) == [1, 2, 5, 6]


@given(st.lists(st.one_of(st.none(), st.integers(1, 30)), max_size=30))
def test_undoing_an_undo_restores_exactly_the_earlier_events(goals: list[int | None]):
    """Right after `Rewound(to=n)` counts what counted right after event n, and the rewind."""
    events = log(OPENED)
    counted = {1: [1]}
    for goal in goals:
        fact = Noted(text="x") if goal is None else Rewound(to=min(goal, len(events)))
        number = len(events) + 1
        base = counted[fact.to] if isinstance(fact, Rewound) else counted[number - 1]
        counted[number] = [*base, number]
        events.append(Event(number, 0, number, fact))
        assert seqs(live(events)) == counted[number]


@given(st.lists(st.one_of(st.none(), st.integers(1, 30)), max_size=20))
def test_rows_and_mode_are_those_of_the_events_that_count(goals: list[int | None]):
    events, view = log(OPENED), see(View(), log(OPENED)[0])
    for goal in goals:
        number = len(events) + 1
        fact = Noted(text=f"n{number}") if goal is None else Rewound(to=min(goal, len(events)))
        events.append(Event(number, 0, number * 10, fact))
        view = see(view, events[-1])
    notes = [event.fact.text for event in live(events) if isinstance(event.fact, Noted)]
    assert [row.text for row in view.messages if row.say == "note"] == notes


def step(call_id: str, before: str, after: str, since: int) -> FilesChanged:
    return FilesChanged(call_id=call_id, before=before, after=after, since=since)


def test_files_are_restored_by_the_start_of_their_change():
    events = log(
        OPENED,
        CheckpointSaved(id="a", call_id="c1"),
        ToolFinished(call_id="c1", text=""),
        Noted(text="the model is asked meanwhile"),
        step("c1", "a", "b", since=2),
        CheckpointSaved(id="b", call_id="c2"),
        step("c2", "b", "c", since=6),
    )
    assert steps_since(events, 1) == [("a", "b"), ("b", "c")]
    assert steps_since(events, 4) == [("b", "c")]
    assert steps_since(events, 7) == []


def test_a_step_is_split_around_steps_of_sub_tasks():
    events = log(
        OPENED,
        CheckpointSaved(id="a", call_id="c1"),
        ToolStarted(call_id="c2", tool="new_task", title="Start a sub-task", child="t"),
        step("c1", "a", "b", since=2),
        step("c2", "c", "d", since=3),
        step("c2", "d", "e", since=3),
        step("c2", "f", "g", since=3),
        step("c1", "b", "h", since=4),
        step("c1", "h", "i", since=8),
    )
    own = [("b", "c"), ("d", "d"), ("e", "f"), ("g", "h"), ("h", "i")]
    assert steps_since(events, 1) == list(pairwise("abcddefghi"))
    assert steps_since(events, 3) == own


def test_rewinding_the_conversation_restores_no_file():
    events = log(
        OPENED, CheckpointSaved(id="a", call_id="c"), step("c", "a", "b", 2), Rewound(to=1)
    )
    assert steps_since(events, 1) == [("a", "b")]


def test_a_restore_is_a_step_like_any_other():
    events = log(
        OPENED,
        CheckpointSaved(id="a", call_id="c"),
        step("c", "a", "b", 2),
        FilesRestored(to=1, before="b", after="a"),
    )
    assert steps_since(events, 1) == [("a", "b"), ("b", "a")]
    assert steps_since(events, 3) == [("b", "a")]


def test_a_call_without_a_recorded_end_is_unsettled():
    saved = CheckpointSaved(id="a", call_id="c")
    begun = log(OPENED, saved, ToolStarted(call_id="c", tool="execute_command", title="Run x"))
    assert unsettled(begun) == Unsettled("c", "a", 2)
    assert unsettled([*begun, Event(4, 0, 4, step("c", "a", "a", 2))]) is None
    assert unsettled(log(OPENED, saved)) is None
    assert unsettled(log(OPENED)) is None


def test_a_call_that_was_denied_was_never_started():
    started = ToolStarted(call_id="c", tool="execute_command", title="Run x")
    stopped = ToolFinished(call_id="c", text="stopped", ending=Ending.FAILED)
    denied = ToolFinished(call_id="c", text="no", ending=Ending.DENIED)
    assert was_started(log(OPENED, started), "c")
    assert was_started(log(OPENED, started, stopped), "c")
    assert not was_started(log(OPENED, started), "other")
    assert not was_started(log(OPENED, denied), "c")
    assert not was_started(log(OPENED, started, stopped, denied), "c")


def test_a_lost_edit_is_settled_by_its_files():
    change = Change(path="x.py", before="1", after="2")
    started = ToolStarted(call_id="c", tool="edit", title="Edit x.py", changes=(change,))
    lost = unsettled(log(OPENED, CheckpointSaved(id="a", call_id="c"), started))
    assert lost == Unsettled("c", "a", 2, ("x.py",), ("x.py",))


def test_a_lost_formatter_may_have_changed_any_file():
    change = Change(path="x.py", before="1", after="2")
    started = ToolStarted(call_id="c", tool="edit", title="Edit x.py", changes=(change,))
    formatter = FormatterStarted(call_id="c", command="ruff format {file}")
    lost = unsettled(log(OPENED, CheckpointSaved(id="a", call_id="c"), started, formatter))
    assert lost == Unsettled("c", "a", 2, None, ("x.py",))


def test_points_are_user_messages_and_possible_file_changes():
    events = log(
        OPENED,
        Asked(ask_id="q", ask=AskKind.TOOL, call_id="c1"),
        Answered(ask_id="q", ask=AskKind.TOOL, reply="yes"),
        CheckpointSaved(id="a", call_id="c1"),
        ToolStarted(call_id="c1", tool="edit", title="Edit x"),
        ToolFinished(call_id="c1", text=""),
        step("c1", "a", "b", since=4),
        ToolStarted(call_id="c2", tool="read_file", title="Read x"),
        UserSpoke(message_id="m", text="no, y"),
    )
    assert points(events) == [
        Point(1, 10, "do it", by_user=True),
        Point(1, 50, "Edit x", changed_files=True),
        Point(8, 90, "no, y", by_user=True),
    ]


def test_a_rewind_to_an_approved_plan_leaves_the_input_empty():
    kind = AskKind.COMPLETION_RESULT
    answer = Answered(ask_id="q", ask=kind, reply="message", text="1. Go", level=Level.ASK)
    events = log(OPENED, Asked(ask_id="q", ask=kind, plan="1. Go"), answer)
    assert points(events)[1:] == [Point(2, 30, "(The plan was approved.)")]


def saved_and_started(call_id: str, checkpoint: str, title: str) -> list[Fact]:
    return [
        CheckpointSaved(id=checkpoint, call_id=call_id),
        ToolStarted(call_id=call_id, tool="edit", title=title),
        ToolFinished(call_id=call_id, text=""),
    ]


def changing(*facts: Fact) -> list[tuple[int, str]]:
    return [(point.to, point.what) for point in points(log(*facts)) if point.changed_files]


def test_a_step_without_a_recorded_change_counts_as_a_change():
    first = saved_and_started("c1", "a", "Run x")
    assert changing(OPENED, *first) == [(1, "Run x")]
    assert changing(OPENED, *first, step("c1", "a", "a", since=2)) == []


def test_a_reused_call_id_is_another_step():
    events = log(
        OPENED,
        Asked(ask_id="q", ask=AskKind.TOOL, call_id="c"),
        *saved_and_started("c", "a", "Edit x"),
        step("c", "a", "b", since=3),
        Rewound(to=1),
        Asked(ask_id="r", ask=AskKind.TOOL, call_id="c"),
        *saved_and_started("c", "b", "Run y"),
        step("c", "b", "b", since=9),
    )
    found = [(point.to, point.what, point.changed_files) for point in points(events)]
    assert found[1] == (1, "Edit x", True)
    assert found[3] == (7, "Run y", False)


def test_points_are_ordered_by_their_target():
    events = log(
        OPENED,
        Asked(ask_id="q", ask=AskKind.TOOL, call_id="c"),
        UserSpoke(message_id="m", text="and y"),
        *saved_and_started("c", "a", "Edit x"),
    )
    assert [point.to for point in points(events)] == [1, 1, 2]


def test_an_undone_change_is_not_the_last_change():
    steps = [
        OPENED,
        *saved_and_started("c1", "a", "Edit x"),
        step("c1", "a", "b", since=2),
        *saved_and_started("c2", "b", "Edit y"),
        step("c2", "b", "c", since=6),
    ]
    back = FilesRestored(to=5, before="c", after="b")
    assert last_change(log(*steps)) == 5
    assert last_change(log(*steps, back)) == 1
    assert last_change(log(*steps, back, FilesRestored(to=1, before="b", after="a"))) is None


def test_undo_skips_a_step_with_nothing_to_restore():
    steps = [
        OPENED,
        *saved_and_started("c1", "a", "Edit x"),
        step("c1", "a", "b", since=2),
        *saved_and_started("c2", "b", "Run tests"),
        step("c2", "b", "c", since=6),
    ]
    in_vain = FilesRestored(to=5, before="c", after="c")
    assert last_change(log(*steps, in_vain)) == 1
    assert points(log(*steps, in_vain)) == points(log(*steps))


def test_a_redone_change_is_the_last_change():
    steps = [OPENED, *saved_and_started("c1", "a", "Edit x"), step("c1", "a", "b", since=2)]
    back = FilesRestored(to=1, before="b", after="a")
    assert last_change(log(*steps, back)) is None
    assert last_change(log(*steps, back, FilesRestored(to=5, before="a", after="b"))) == 1


def test_the_model_learns_which_files_the_user_restored():
    restored = FilesRestored(to=1, before="b", after="a", paths=("x.py",), count=3)
    said = history(log(OPENED, restored))[-1].blocks[-1].text
    assert "x.py, and 2 more" in said
