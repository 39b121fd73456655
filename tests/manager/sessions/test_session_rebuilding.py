"""A session rebuilt from storage equals the live one.

The always-run part plays six hundred random lives; ROOKERY_TORTURE=1 plays 100,000:

    ROOKERY_TORTURE=1 python -m pytest --workers auto --each-test \
        tests/manager/sessions/test_session_rebuilding.py
"""

import os
import random
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from rookery.core.message import Message
from rookery.manager.sessions.session_events import LastExit, PendingAsk, ProcessEvent
from rookery.manager.sessions.session_record import (
    SessionRecord,
    session_from_json,
    session_to_json,
)
from rookery.manager.sessions.session_states import Failure, SessionState, SessionStatus
from rookery.manager.sessions.session_task import last_ask
from rookery.manager.sessions.stored_session import rebuild_session
from support.session_simulation import EVENT_OF, LIVELY, Move, World

TORTURE = bool(os.environ.get("ROOKERY_TORTURE"))
BATCHES, LIVES = (100, 1000) if TORTURE else (2, 300)

MOVES = st.lists(st.tuples(st.sampled_from(sorted(EVENT_OF)), st.integers(0, 99)), max_size=25)


def check(world: World, story: list[str]) -> None:
    live = world.record
    if live.state is SessionState.IDLE:
        return
    stored = as_stored(live)
    ask = last_ask(world.messages)
    reported = "\n".join(story)
    # a process the machine gave up may linger, so finding one alive proves nothing
    assert rebuild_session(stored, ask, alive=True) == live, reported
    if not live.process_open:
        assert rebuild_session(stored, ask, alive=False) == live, reported
    waits = live.state in (SessionState.WAITING_APPROVAL, SessionState.WAITING_INPUT)
    assert not waits or (live.process_open and live.pending_ask), reported
    assert live.stop_requested is (live.state is SessionState.STOPPED), reported
    assert (live.failure is not None) is (live.state is SessionState.ERROR), reported


def live_through(moves: list[Move]) -> World:
    world, story = World(), []
    for move in moves:
        before = world.record
        event = world.play(move)
        story.append(f"{before.state} {event} {world.record.state}")
        if isinstance(event, ProcessEvent) and not listened_to(before, event):
            assert world.record == before, "\n".join(story)
        check(world, story)
    assert session_from_json(session_to_json(world.record)) == as_stored(world.record)
    return world


def as_stored(record: SessionRecord) -> SessionRecord:
    return replace(record, pending_ask=None, deferred_ask=None, stop_requested=False)


def listened_to(session: SessionRecord, event: ProcessEvent) -> bool:
    return session.process_open and event.generation == session.generation


def random_life(seed: int) -> list[Move]:
    chance = random.Random(seed)
    rest = [(chance.choice(LIVELY), chance.randrange(100)) for _ in range(chance.randrange(30))]
    return [("start", 0), *rest]


@pytest.mark.parametrize("batch", range(BATCHES))
def test_rebuilding_random_histories_gives_the_live_session(batch: int):
    reached: Counter[SessionState] = Counter()
    for seed in range(batch * LIVES, (batch + 1) * LIVES):
        reached[live_through(random_life(seed)).record.state] += 1
    assert set(reached) == set(SessionState) - {SessionState.IDLE}, reached


@settings(max_examples=40 if not TORTURE else 5000, deadline=None)
@given(moves=MOVES)
def test_rebuilding_any_event_sequence_gives_the_live_session(moves: list[Move]):
    live_through(moves)


@settings(max_examples=40 if not TORTURE else 5000, deadline=None)
@given(moves=MOVES, more=MOVES)
def test_a_rebuilt_session_continues_like_the_live_one(moves: list[Move], more: list[Move]):
    world = live_through([("start", 0), *moves])
    world.record = rebuild_session(world.record, last_ask(world.messages), alive=True)
    for move in more:
        world.play(move)
        check(world, [])


# ── the rows of the table ─────────────────────────────────────────────────────────────────────

TOOL = PendingAsk(ask="tool", ts=9)
DEAD, ALIVE, EITHER = (False,), (True,), (True, False)

ROWS = """
2  | stopped  | either | tool                          | stopped
2  | stopped  | either | resume_task                   | stopped
3  | creating | dead   | -                             | error
3  | creating | dead   | tool                          | error
5  | running  | alive  | -                             | streaming
5  | done     | alive  | -                             | streaming
5  | running  | alive  | tool answered                 | streaming
5  | done     | alive  | completion_result answered    | streaming
6  | running  | alive  | tool                          | waiting_approval
6  | running  | alive  | command                       | waiting_approval
6  | done     | alive  | browser_action_launch         | waiting_approval
6  | running  | alive  | use_mcp_server                | waiting_approval
6  | running  | alive  | auto_approval_max_req_reached | waiting_approval
7  | running  | alive  | followup                      | waiting_input
8  | running  | alive  | completion_result             | completed
8  | done     | alive  | resume_completed_task         | completed
9  | running  | alive  | resume_completed_task         | paused
9  | running  | alive  | resume_task                   | paused
9  | done     | alive  | resume_task                   | paused
10 | running  | alive  | api_req_failed                | error
10 | running  | alive  | mistake_limit_reached         | error
10 | running  | alive  | invalid_model                 | error
10 | running  | alive  | payment_required_prompt       | error
11 | done     | dead   | completion_result             | completed
11 | done     | dead   | -                             | completed
12 | error    | dead   | -                             | error
12 | error    | dead   | tool                          | error
13 | running  | dead   | completion_result             | completed
14 | running  | dead   | completion_result answered    | paused
14 | running  | lost   | tool                          | waiting_approval
14 | running  | lost   | auto_approval_max_req_reached | waiting_approval
14 | running  | lost   | followup                      | waiting_input
14 | running  | lost   | tool answered                 | paused
14 | running  | ended  | tool                          | paused
14 | running  | ended  | followup                      | paused
14 | running  | dead   | -                             | paused
"""
CASES = [[part.strip() for part in row.split("|")] for row in ROWS.strip().splitlines()]


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"row {' '.join(case)}")
def test_each_row_gives_its_state(case: list[str]):
    _, status, life, said, state = case
    kind, _, answered = said.partition(" ")
    ask = None if kind == "-" else PendingAsk(ask=kind, ts=9)
    record = SessionRecord(
        session_id="s",
        status=SessionStatus(status),
        process_open=True,
        saw_session_created=True,
        saw_api_req_started=True,
        answered_ask_ts=9 if answered else None,
        last_exit=LastExit(code=0) if life == "ended" else None,
    )
    for alive in {"alive": ALIVE, "either": EITHER}.get(life, DEAD):
        assert rebuild_session(record, ask, alive=alive).state == state


@pytest.mark.parametrize(
    ("announced", "requested", "ask", "state"),
    [
        (False, False, None, "creating"),
        (False, True, None, "creating"),
        (True, False, None, "creating"),
        (False, True, TOOL, "creating"),
        (True, True, None, "streaming"),
        (True, False, TOOL, "waiting_approval"),
    ],
)
def test_a_live_session_is_creating_until_announced_and_working(
    announced: bool, requested: bool, ask: PendingAsk | None, state: str
):
    record = SessionRecord(
        session_id="s",
        process_open=True,
        saw_session_created=announced,
        saw_api_req_started=requested,
    )
    session = rebuild_session(record, ask, alive=True)
    assert session.state == state
    assert session.deferred_ask == (ask if state == "creating" else None)


def test_an_interrupted_creation_is_reported_and_keeps_its_prompt():
    world = World()
    world.play(("start", 7))
    session = rebuild_session(world.record, None, alive=False)
    assert session.failure is not None
    assert session.failure.kind == "creation_interrupted"
    assert [letter.text for letter in session.outbox] == ["task 7"]


def test_the_stored_state_is_ignored_when_rebuilding():
    world = live_through([("start", 0), ("created", 0), ("request", 0), ("ask", 0)])
    for shown in SessionState:
        record = replace(world.record, state=shown)
        assert rebuild_session(record, last_ask(world.messages), alive=True) == world.record


def test_a_missed_failure_is_rebuilt_from_the_ask():
    record = SessionRecord(session_id="s", status=SessionStatus.RUNNING, process_open=True)
    ask = PendingAsk(ask="api_req_failed", ts=4, text="401: who are you?")
    assert rebuild_session(record, ask, alive=True).failure == Failure(kind="auth", text=ask.text)


def says(kind: str, ts: int = 1, **more: object) -> Message:
    return Message(ts=ts, type="say", say=kind, **more)


def asks(kind: str | None, ts: int = 2, **more: object) -> Message:
    return Message(ts=ts, type="ask", ask=kind, **more)


@pytest.mark.parametrize(
    ("messages", "kind"),
    [
        ([], None),
        ([says("text")], None),
        ([asks("tool")], "tool"),
        ([asks("tool"), says("checkpoint_saved", 3), says("checkpoint_saved", 4)], "tool"),
        ([says("checkpoint_saved")], None),
        ([asks("tool"), says("text", 3)], None),
        ([asks("tool", partial=True)], None),
        ([asks("tool", answered=True)], None),
        ([asks("command_output")], None),
        ([asks("moonrise")], None),
        ([asks(None)], None),
    ],
)
def test_the_last_ask_is_found_at_the_end_of_the_messages(
    messages: list[Message], kind: str | None
):
    found = last_ask(messages)
    assert (found.ask if found else None) == kind


def test_a_missed_ask_of_a_stopped_process_is_not_pending():
    record = SessionRecord(session_id="s", status=SessionStatus.STOPPED, process_open=True)
    assert rebuild_session(record, TOOL, alive=True).pending_ask is None
    offer = PendingAsk(ask="resume_task", ts=9)
    assert rebuild_session(record, offer, alive=True).pending_ask == offer
