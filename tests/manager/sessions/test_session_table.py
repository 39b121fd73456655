"""The transition table of the manager's specification, cell by cell."""

import re
from collections.abc import Iterator

import pytest
from msgspec.structs import replace

from rookery.core.asks import AskKind
from rookery.manager.sessions.machine import advance
from rookery.manager.sessions.session_events import (
    ActivityEvent,
    AgentAsked,
    ApiReqStarted,
    ApproveEvent,
    AskAnswered,
    AutoApproved,
    CancelEvent,
    CreationTimeout,
    PendingAsk,
    ProcessError,
    ProcessExit,
    RejectEvent,
    ResumeEvent,
    RetryEvent,
    SayCheckpointSaved,
    SayCompletionResult,
    SendEvent,
    Session,
    SessionCreated,
    SessionEvent,
    StartEvent,
)
from rookery.manager.sessions.session_states import (
    ASK_SIGNALS,
    TABLE,
    SessionState,
    Signal,
    ask_signal,
    cell,
)
from support.session_samples import ASK_TS, GENERATION, NEWER, standing
from support.state_diagram import diagram

COLUMNS = "idle creating streaming w_approval w_input completed paused error stopped"

SPECIFICATION = """
start_session | creating | · | · | · | · | creating | creating | creating | creating
send_message | · | = | = | streaming | streaming | streaming | streaming | streaming | streaming
approve_action | · | · | · | streaming | · | · | · | · | ·
reject_action | · | · | · | streaming | · | · | · | · | ·
cancel_session | · | stopped | stopped | stopped | stopped | · | stopped | stopped | ·
resume_session | · | · | · | · | · | streaming | streaming | streaming | streaming
retry | · | · | · | · | · | · | · | streaming | ·
session_created | streaming | streaming if A, else = | = | = | = | = | = | = | =
api_req_started | streaming | streaming if C, else = | = | streaming | streaming | streaming \
| streaming | streaming | ·
activity | · | = | = | streaming | streaming | streaming | streaming | streaming | ·
say:completion_result | · | = | = | streaming | streaming | streaming | streaming | streaming | ·
say:checkpoint_saved | · | = | = | = | = | = | = | = | ·
ask: an approval | · | w_approval if C, else D | w_approval | = | w_approval | w_approval \
| w_approval | w_approval | ·
auto_approved | · | · | · | streaming | · | · | · | · | ·
ask:auto_approval_max_req_reached | · | w_approval if C, else D | w_approval | = | w_approval \
| w_approval | w_approval | w_approval | ·
ask:followup | · | w_input if C, else D | w_input | w_input | = | w_input | w_input | w_input | ·
ask:completion_result | · | completed if C, else D | completed | completed | completed | = \
| completed | completed | ·
ask:resume_task | · | paused if C, else D | paused | paused | paused | paused | = | paused | =
ask:resume_completed_task | · | paused if C, else D | paused | paused | paused | = | = | paused | =
ask: a failure | · | error | error | error | error | error | error | = | ·
creation_timeout | · | error | · | · | · | · | · | · | ·
process_error | · | error | error | error | error | = | = | = | =
process_exit 0, no pending ask | · | completed if C, else error | completed | n/a | n/a | = \
| n/a | completed | n/a
process_exit 0, ask pending | · | n/a | n/a | paused | paused | = | = | = | n/a
process_exit, stop was requested | · | stopped | stopped | stopped | stopped | = | = | = | =
process_exit non-zero or by signal | · | error | error | error | error | error | error | error \
| error
"""

STATES = [
    SessionState(name.replace("w_", "waiting_")) for name in COLUMNS.split()
]  # the columns, in the order of the specification


def cells() -> Iterator[tuple[Signal, SessionState, str]]:
    for row in SPECIFICATION.strip().splitlines():
        name, *shown = (part.strip() for part in row.split("|"))
        for state, text in zip(STATES, shown, strict=True):
            yield Signal(name), state, text.replace("w_", "waiting_")


CELLS = list(cells())


def test_the_quoted_table_is_complete():
    assert {(signal, state) for signal, state, _ in CELLS} == {
        (signal, state) for signal in Signal for state in SessionState
    }
    assert set(TABLE) == set(Signal)


def test_the_table_matches_the_specification():
    assert [(a, b, str(cell(a, b))) for a, b, _ in CELLS] == CELLS


def asks_of(signal: Signal) -> list[SessionEvent]:
    return [
        AgentAsked(generation=GENERATION, ts=NEWER, ask=kind, text="t")
        for kind, row in ASK_SIGNALS.items()
        if row is signal
    ]


EVENTS: dict[Signal, list[SessionEvent]] = {
    Signal.START_SESSION: [StartEvent(text="go")],
    Signal.SEND_MESSAGE: [SendEvent(text="hi", ask_ts=ASK_TS)],
    Signal.APPROVE_ACTION: [ApproveEvent(ask_ts=ASK_TS)],
    Signal.REJECT_ACTION: [RejectEvent(ask_ts=ASK_TS)],
    Signal.CANCEL_SESSION: [CancelEvent()],
    Signal.RESUME_SESSION: [ResumeEvent(), ResumeEvent(text="on")],
    Signal.RETRY: [RetryEvent()],
    Signal.SESSION_CREATED: [SessionCreated(generation=GENERATION, session_id="s")],
    Signal.API_REQ_STARTED: [ApiReqStarted(generation=GENERATION, ts=NEWER)],
    Signal.ACTIVITY: [
        ActivityEvent(generation=GENERATION, ts=NEWER),
        AskAnswered(generation=GENERATION, ts=ASK_TS),
        AgentAsked(generation=GENERATION, ts=NEWER, ask="command_output"),
        AgentAsked(generation=GENERATION, ts=NEWER, ask="moonrise"),
    ],
    Signal.SAY_COMPLETION_RESULT: [SayCompletionResult(generation=GENERATION, ts=NEWER, text="t")],
    Signal.SAY_CHECKPOINT_SAVED: [SayCheckpointSaved(generation=GENERATION, ts=NEWER)],
    Signal.AUTO_APPROVED: [AutoApproved(generation=GENERATION, ask_ts=ASK_TS)],
    Signal.CREATION_TIMEOUT: [CreationTimeout(generation=GENERATION)],
    Signal.PROCESS_ERROR: [ProcessError(generation=GENERATION, text="pipe closed")],
    Signal.EXIT_CLEAN: [ProcessExit(generation=GENERATION)],
    Signal.EXIT_CLEAN_ASKING: [ProcessExit(generation=GENERATION)],
    Signal.EXIT_STOPPED: [
        ProcessExit(generation=GENERATION, code=code, signal=by, requested=True)
        for code, by in [(0, None), (1, None), (None, 15)]
    ],
    Signal.EXIT_FAILED: [
        ProcessExit(generation=GENERATION, code=code, signal=by)
        for code, by in [(1, None), (124, None), (130, None), (143, None), (None, 9)]
    ],
}
for _asking in set(Signal) - set(EVENTS):
    EVENTS[_asking] = asks_of(_asking)

NOT_REQUESTED = (Signal.EXIT_CLEAN, Signal.EXIT_CLEAN_ASKING, Signal.EXIT_FAILED)


def session_before(signal: Signal, state: SessionState, *, created: bool, asked: bool) -> Session:
    session = standing(
        state,
        created=created,
        requested=asked,
        asking=signal is not Signal.EXIT_CLEAN,
        stop_requested=False if signal in NOT_REQUESTED else None,
    )
    if signal is Signal.EXIT_CLEAN_ASKING and session.pending_ask is None:
        return replace(session, pending_ask=PendingAsk(ask="tool", ts=ASK_TS))
    return session


def expected(shown: str, state: SessionState, *, created: bool, asked: bool) -> str:
    if shown in ("·", "=", "n/a"):
        return state
    target, _, condition = shown.partition(" if ")
    if not condition:
        return target
    which, _, otherwise = condition.partition(", else ")
    if {"C": created, "A": asked}[which]:
        return target
    return state if otherwise in ("=", "D") else otherwise


@pytest.mark.parametrize("created", [True, False], ids=["C", "no C"])
@pytest.mark.parametrize("asked", [True, False], ids=["A", "no A"])
@pytest.mark.parametrize("signal", Signal)
def test_the_machine_follows_the_table(signal: Signal, created: bool, asked: bool):
    for row, state, shown in CELLS:
        if row is signal:
            demand_cell(signal, state, shown, created=created, asked=asked)


def demand_cell(
    signal: Signal, state: SessionState, shown: str, *, created: bool, asked: bool
) -> None:
    if signal is Signal.CREATION_TIMEOUT and created:
        shown = "·"  # 7.3: the timer is for the announcement, which has come
    if state is SessionState.IDLE:
        created = asked = False
    before = session_before(signal, state, created=created, asked=asked)
    assert EVENTS[signal]
    for event in EVENTS[signal]:
        after = advance(before, event)
        assert after.state == expected(shown, state, created=created, asked=asked), event
        if shown == "·":
            still = {"pending_ask": None, "answered_ask_ts": None}
            assert replace(after, **still) == replace(before, **still), event


@pytest.mark.parametrize("kind", AskKind)
def test_every_kind_of_ask_has_a_row(kind: AskKind):
    assert ask_signal(kind) is ASK_SIGNALS[kind]


USER_SIGNALS = list(Signal)[: list(Signal).index(Signal.SESSION_CREATED)]


@pytest.mark.parametrize("state", SessionState)
def test_the_user_can_leave_every_state(state: SessionState):
    ways = {advance(standing(state), event).state for row in USER_SIGNALS for event in EVENTS[row]}
    assert ways - {state}


def test_the_diagram_shows_every_state_and_only_transitions_of_the_table():
    drawn = re.findall(r"^    (\w+) --> (\w+): (.+)$", diagram(), re.MULTILINE)
    assert {state for start, end, _ in drawn for state in (start, end)} == {*SessionState}
    assert ("waiting_approval", "streaming", "send, approve, reject") in drawn
    possible = {(state, cell.to) for row in TABLE.values() for state, cell in row.items()}
    assert {(start, end) for start, end, _ in drawn} <= possible
