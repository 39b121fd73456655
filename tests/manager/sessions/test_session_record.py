"""The stored record of a session, and the flags that the page derives from it."""

import pytest
from msgspec.structs import asdict, replace

from rookery.manager.sessions.session_events import PendingAsk
from rookery.manager.sessions.session_record import (
    LOG_LINES,
    ParallelMode,
    SessionRecord,
    flags,
    label_of,
    updated_record,
    with_log_line,
)
from rookery.manager.sessions.session_states import SessionState

TRUE_IN = """
show_spinner            creating streaming
show_cancel_button      creating streaming waiting_approval waiting_input
show_resume_button      paused stopped completed
show_auto_mode_warning  creating streaming
input_enabled           waiting_input completed paused stopped
is_active               creating streaming waiting_approval waiting_input
show_approval_buttons   waiting_approval
show_retry_button       error
can_queue_text          creating streaming waiting_approval
needs_attention         waiting_approval waiting_input error
can_guide_text
can_finish_to_branch
can_create_pull_request
"""
"""For a local session that has nothing unread."""

LOCAL = SessionRecord(session_id="s", process_open=True)
WORKTREE = replace(LOCAL, parallel_mode=ParallelMode(branch="agent/x"), unread=True)


def moved(record: SessionRecord, state: str, now: int = 1) -> SessionRecord:
    return updated_record(replace(record, state=SessionState(state)), record.state, now=now)


@pytest.mark.parametrize("row", TRUE_IN.strip().splitlines(), ids=lambda row: f"5 {row.split()[0]}")
def test_each_flag_is_true_in_its_states(row: str):
    name, *states = row.split()
    for state in SessionState:
        assert getattr(flags(replace(LOCAL, state=state)), name) is (state in states), state


def test_every_flag_has_a_row():
    assert {row.split()[0] for row in TRUE_IN.strip().splitlines()} == set(asdict(flags(LOCAL)))


@pytest.mark.parametrize(
    ("name", "states"),
    [
        ("needs_attention", "waiting_approval waiting_input error completed"),
        ("can_finish_to_branch", "streaming waiting_input completed paused"),
        (
            "can_create_pull_request",
            "idle streaming waiting_approval waiting_input completed paused error stopped",
        ),
    ],
)
def test_flags_of_an_unread_session_in_a_worktree(name: str, states: str):
    for state in SessionState:
        assert getattr(flags(replace(WORKTREE, state=state)), name) is (state in states.split()), (
            state
        )


def test_a_session_without_a_branch_cannot_create_a_pull_request():
    record = replace(LOCAL, state=SessionState.COMPLETED, parallel_mode=ParallelMode())
    assert not flags(record).can_create_pull_request


def test_the_auto_mode_warning_is_only_for_auto_approving_sessions():
    record = replace(LOCAL, state=SessionState.STREAMING, auto_approve=False)
    assert not flags(record).show_auto_mode_warning


def test_guidance_is_offered_after_the_mistake_limit():
    asked = PendingAsk(ask="mistake_limit_reached", ts=1)
    assert flags(replace(LOCAL, state=SessionState.ERROR, pending_ask=asked)).can_guide_text


@pytest.mark.parametrize(
    ("state", "status"),
    [
        ("creating", "creating"),
        ("streaming", "running"),
        ("waiting_approval", "running"),
        ("waiting_input", "running"),
        ("paused", "running"),
        ("completed", "done"),
        ("error", "error"),
        ("stopped", "stopped"),
    ],
)
def test_each_state_sets_its_status_and_end_time(state: str, status: str):
    record = moved(LOCAL, state, now=7)
    ended = status in ("done", "error", "stopped")
    assert (record.state, record.status, record.end_time) == (state, status, 7 if ended else None)


def test_the_end_time_stays_until_the_session_runs_again():
    record = moved(LOCAL, "completed", now=7)
    assert moved(record, "completed", now=9).end_time == 7
    assert moved(record, "streaming", now=9).end_time is None


@pytest.mark.parametrize(
    ("state", "unread"),
    [
        ("streaming", False),
        ("waiting_approval", True),
        ("waiting_input", True),
        ("completed", True),
        ("error", True),
        ("paused", False),
        ("stopped", False),
    ],
)
def test_a_session_that_ends_or_asks_is_unread_until_it_is_read(state: str, unread: bool):
    record = moved(LOCAL, state)
    assert record.unread is unread
    assert moved(record, state).unread is unread
    assert not moved(replace(record, unread=False), state).unread


def test_a_closed_process_has_no_pid():
    record = replace(LOCAL, pid=42)
    assert moved(record, "streaming").pid == 42
    assert moved(replace(record, process_open=False), "streaming").pid is None


@pytest.mark.parametrize(
    ("prompt", "label"),
    [
        ("Fix the\n  parser ", "Fix the parser"),
        ("x" * 40, "x" * 40),
        ("x" * 41, "x" * 37 + "..."),
        ("", ""),
    ],
)
def test_the_label_is_the_prompt_on_one_line(prompt: str, label: str):
    assert label_of(prompt) == label


def test_a_title_replaces_the_label_unless_the_user_chose_it():
    record = replace(LOCAL, label="fix it", title="Parser fix")
    assert record.name == "Parser fix"
    assert replace(record, renamed=True).name == "fix it"
    assert replace(record, title="").name == "fix it"


def test_the_log_keeps_only_its_last_lines():
    record = LOCAL
    for number in range(LOG_LINES + 5):
        record = with_log_line(record, str(number))
    assert record.logs == tuple(str(number) for number in range(5, LOG_LINES + 5))
