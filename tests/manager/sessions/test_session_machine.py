"""The session machine: its stored fields, its orders to the supervisor, ignored events."""

import pytest
from msgspec.structs import replace

from rookery.manager.sessions.machine import MachineStep, advance, step
from rookery.manager.sessions.session_events import (
    ActivityEvent,
    AgentAsked,
    AnswerOrder,
    ApiReqStarted,
    ApproveEvent,
    AskAnswered,
    AutoApproved,
    CancelEvent,
    CancelOrder,
    CreationTimeout,
    Deliver,
    LastExit,
    PendingAsk,
    ProcessError,
    ProcessExit,
    ProcessOrder,
    RejectEvent,
    Respawn,
    ResumeEvent,
    RetryEvent,
    SayCompletionResult,
    SendEvent,
    Session,
    SessionCreated,
    SessionEvent,
    StartEvent,
    StartTask,
    Terminate,
    UserMessage,
)
from rookery.manager.sessions.session_states import ErrorKind, failure_of_ask
from rookery.manager.sessions.session_states import SessionState as S
from support.session_samples import ASK_TS, GENERATION, NEWER, standing

NEXT = GENERATION + 1
SEND = SendEvent(text="hi", ask_ts=ASK_TS)
HI = (UserMessage(text="hi"),)
EXIT = ProcessExit(generation=GENERATION)
CREATED = SessionCreated(generation=GENERATION, session_id="s")


def asked(kind: str, text: str = "", ts: int = NEWER) -> AgentAsked:
    return AgentAsked(generation=GENERATION, ts=ts, ask=kind, text=text)


def gone(session: Session) -> Session:
    return replace(session, process_open=False)


def answer(reply: str, text: str = "") -> AnswerOrder:
    return AnswerOrder(ask_ts=ASK_TS, reply=reply, message=UserMessage(text=text))


STOPPING = replace(
    standing(S.STOPPED), pending_ask=PendingAsk(ask="resume_task", ts=ASK_TS, text="")
)

ORDERS: list[tuple[str, Session, SessionEvent, ProcessOrder | None]] = [
    ("start", Session(), StartEvent(text="hi"), StartTask()),
    ("approve", standing(S.WAITING_APPROVAL), ApproveEvent(ask_ts=ASK_TS), answer("yes")),
    (
        "approve with a note",
        standing(S.WAITING_APPROVAL),
        ApproveEvent(ask_ts=ASK_TS, text="ok"),
        answer("yes", "ok"),
    ),
    (
        "reject",
        standing(S.WAITING_APPROVAL),
        RejectEvent(ask_ts=ASK_TS, text="no"),
        answer("no", "no"),
    ),
    ("words to an approval", standing(S.WAITING_APPROVAL), SEND, answer("message", "hi")),
    ("words to a question", standing(S.WAITING_INPUT), SEND, answer("message", "hi")),
    ("words to a result", standing(S.COMPLETED), SEND, answer("message", "hi")),
    ("words after the end", gone(standing(S.COMPLETED)), SEND, Respawn()),
    ("resume a result", standing(S.COMPLETED), ResumeEvent(), Respawn()),
    (
        "resume a result in words",
        standing(S.COMPLETED),
        ResumeEvent(text="a"),
        answer("message", "a"),
    ),
    ("resume", standing(S.PAUSED), ResumeEvent(), answer("yes")),
    ("resume in words", standing(S.PAUSED), ResumeEvent(text="on"), answer("message", "on")),
    ("resume without a process", gone(standing(S.PAUSED)), ResumeEvent(), Respawn()),
    ("resume what is stopping", standing(S.STOPPED), ResumeEvent(), Respawn()),
    ("resume what has stopped", STOPPING, ResumeEvent(), answer("yes")),
    ("words to what has stopped", STOPPING, SEND, answer("message", "hi")),
    ("words to the paused", standing(S.PAUSED), SEND, answer("message", "hi")),
    ("words to the failed", standing(S.ERROR), SEND, answer("message", "hi")),
    ("words to the dead", gone(standing(S.ERROR)), SEND, Respawn()),
    ("retry", standing(S.ERROR), RetryEvent(), answer("yes")),
    ("resume the failed", standing(S.ERROR), ResumeEvent(), answer("yes")),
    ("retry without a process", gone(standing(S.ERROR)), RetryEvent(), Respawn()),
    ("words while it works", standing(S.STREAMING), SEND, Deliver(messages=HI)),
    ("cancel", standing(S.STREAMING), CancelEvent(), CancelOrder()),
    ("cancel a creation", standing(S.CREATING, created=False), CancelEvent(), Terminate()),
    ("cancel without a process", gone(standing(S.PAUSED)), CancelEvent(), None),
    (
        "creation timeout",
        standing(S.CREATING, created=False),
        CreationTimeout(generation=GENERATION),
        Terminate(),
    ),
    ("failed creation", standing(S.CREATING), asked("api_req_failed"), Terminate()),
    ("payment", standing(S.STREAMING), asked("payment_required_prompt"), Terminate()),
    ("invalid model", standing(S.STREAMING), asked("invalid_model"), Terminate()),
    ("a failure", standing(S.STREAMING), asked("api_req_failed"), None),
    ("auto-approved", standing(S.WAITING_APPROVAL), AutoApproved(generation=3, ask_ts=50), None),
    ("exit", standing(S.STREAMING), EXIT, None),
]


@pytest.mark.parametrize(
    ("before", "event", "order"), [row[1:] for row in ORDERS], ids=[r[0] for r in ORDERS]
)
def test_each_transition_has_its_action(
    before: Session, event: SessionEvent, order: ProcessOrder | None
):
    assert step(before, event).orders == ((order,) if order else ())


def test_a_respawned_session_streams_at_once_with_a_new_generation():
    after = advance(gone(standing(S.ERROR)), RetryEvent())
    assert (after.state, after.generation, after.process_open) == (S.STREAMING, NEXT, True)
    failed = advance(after, ProcessError(generation=NEXT, text="no such file"))
    assert failed.state is S.ERROR
    assert failed.failure is not None
    assert failed.failure.text == "no such file"


# ── ignored events ────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("state", S)
@pytest.mark.parametrize("generation", [GENERATION - 1, GENERATION + 1, 0])
def test_events_of_other_generations_change_nothing(state: S, generation: int):
    before = standing(state)
    for event in [
        SessionCreated(generation=generation, session_id="other"),
        ApiReqStarted(generation=generation, ts=NEWER),
        AgentAsked(generation=generation, ts=NEWER, ask="tool"),
        AgentAsked(generation=generation, ts=NEWER, ask="resume_task"),
        AutoApproved(generation=generation, ask_ts=ASK_TS),
        CreationTimeout(generation=generation),
        ProcessError(generation=generation, text="x"),
        ProcessExit(generation=generation, code=1),
    ]:
        assert step(before, event) == MachineStep(before)


@pytest.mark.parametrize(
    "closing",
    [
        EXIT,
        ProcessExit(generation=GENERATION, code=1),
        ProcessError(generation=GENERATION, text="x"),
        asked("payment_required_prompt"),
    ],
)
def test_events_of_a_closed_process_are_ignored(closing: SessionEvent):
    before = advance(standing(S.STREAMING), closing)
    for event in [
        asked("tool", ts=NEWER + 1),
        ActivityEvent(generation=GENERATION, ts=NEWER + 1),
        CREATED,
        ProcessExit(generation=GENERATION, code=1),
    ]:
        assert advance(before, event) == before


@pytest.mark.parametrize("kind", ["tool", "followup", "completion_result", "api_req_failed"])
def test_after_a_stop_only_a_resume_ask_is_accepted(kind: str):
    stopped = advance(standing(S.STREAMING), CancelEvent())
    late = advance(stopped, asked(kind))
    assert (late.state, late.pending_ask) == (S.STOPPED, None)
    offered = advance(late, asked("resume_task", ts=NEWER + 1))
    assert (offered.state, offered.pending_ask) == (
        S.STOPPED,
        PendingAsk(ask="resume_task", ts=NEWER + 1),
    )


@pytest.mark.parametrize("ts", [ASK_TS - 1, ASK_TS])
def test_an_event_not_newer_than_the_open_ask_does_not_settle_it(ts: int):
    before = standing(S.WAITING_APPROVAL)
    assert advance(before, ActivityEvent(generation=GENERATION, ts=ts)) == before
    assert advance(before, SayCompletionResult(generation=GENERATION, ts=ts)) == before
    assert advance(before, asked("followup", ts=ASK_TS - 1)) == before
    assert advance(before, AskAnswered(generation=GENERATION, ts=ASK_TS - 1)) == before


@pytest.mark.parametrize("ask_ts", [ASK_TS - 1, ASK_TS + 1, -1])
def test_an_answer_to_another_ask_is_ignored(ask_ts: int):
    before = standing(S.WAITING_APPROVAL)
    for event in [
        ApproveEvent(ask_ts=ask_ts),
        RejectEvent(ask_ts=ask_ts),
        AutoApproved(generation=GENERATION, ask_ts=ask_ts),
    ]:
        done = step(before, event)
        assert (done.session, done.orders) == (before, ())


@pytest.mark.parametrize("state", [S.WAITING_APPROVAL, S.WAITING_INPUT])
@pytest.mark.parametrize("ask_ts", [None, ASK_TS - 1])
def test_queued_text_never_answers_an_ask_it_was_not_written_for(state: S, ask_ts: int | None):
    before = standing(state)
    done = step(before, SendEvent(text="hi", ask_ts=ask_ts))
    assert (done.session, done.orders) == (before, (Deliver(messages=HI),))


# ── the outbox ──────────────────────────────────────────────────────────────────────────


def test_messages_sent_during_creation_are_delivered_in_order():
    session = advance(Session(session_id="s"), StartEvent(text="task"))
    for text in ("one", "two"):
        done = step(session, SendEvent(text=text))
        assert done.orders == ()
        session = done.session
    done = step(session, SessionCreated(generation=1, session_id="s"))
    assert done.orders == (Deliver(messages=(UserMessage(text="one"), UserMessage(text="two"))),)
    assert done.session.outbox == ()


def test_a_failed_start_keeps_the_prompt_and_later_messages():
    session = advance(Session(session_id="s"), StartEvent(text="task"))
    session = advance(session, SendEvent(text="more"))
    session = advance(session, ProcessError(generation=1, text="no such file"))
    done = step(session, RetryEvent())
    messages = (UserMessage(text="task"), UserMessage(text="more"))
    assert done.orders == (Respawn(),)
    assert (done.session.generation, done.session.outbox, done.session.handed) == (2, messages, 2)
    announced = step(done.session, SessionCreated(generation=2, session_id="s"))
    assert (announced.session.outbox, announced.orders) == ((), ())


def test_a_stopping_session_gets_no_messages_and_none_arrives_twice():
    session = advance(Session(session_id="s"), StartEvent(text="task"))
    session = advance(session, SendEvent(text="more"))
    session = advance(session, CancelEvent())
    done = step(session, SessionCreated(generation=1, session_id="s"))
    assert done.orders == ()
    resumed = step(done.session, ResumeEvent())
    assert resumed.orders == (Respawn(),)
    assert (resumed.session.outbox, resumed.session.handed) == ((UserMessage(text="more"),), 1)


def test_a_respawned_process_takes_input_only_after_it_announced_itself():
    session = advance(gone(standing(S.PAUSED)), ResumeEvent())
    done = step(session, SEND)
    assert (done.orders, done.session.outbox) == ((), HI)
    announced = step(done.session, SessionCreated(generation=NEXT, session_id="s"))
    assert announced.orders == (Deliver(messages=HI),)


# ── fields beside the state ─────────────────────────────────────────────────────────────


def test_start_session_resets_everything_but_the_ids():
    before = replace(
        standing(S.COMPLETED), completion_text="done", last_exit=LastExit(code=0), outbox=HI
    )
    assert advance(before, StartEvent(text="again")) == Session(
        session_id="s",
        state=S.CREATING,
        generation=NEXT,
        process_open=True,
        answered_ask_ts=ASK_TS,
        outbox=(UserMessage(text="again"),),
        handed=1,
    )


def test_a_session_streams_after_announcement_and_request_in_any_order():
    session = advance(Session(session_id="s"), StartEvent(text="task"))
    created = SessionCreated(generation=1, session_id="renamed")
    request = ApiReqStarted(generation=1, ts=2)
    assert advance(session, created).state is S.CREATING
    assert advance(session, request).state is S.CREATING
    for events in [(created, request), (request, created)]:
        born = advance(advance(session, events[0]), events[1])
        assert (born.state, born.session_id) == (S.STREAMING, "renamed")


@pytest.mark.parametrize(
    ("kind", "state"),
    [
        ("tool", S.WAITING_APPROVAL),
        ("followup", S.WAITING_INPUT),
        ("completion_result", S.COMPLETED),
        ("resume_task", S.PAUSED),
    ],
)
def test_an_ask_before_the_announcement_is_applied_with_it(kind: str, state: S):
    deferred = advance(standing(S.CREATING, created=False), asked(kind, "x"))
    assert (deferred.state, deferred.deferred_ask) == (
        S.CREATING,
        PendingAsk(ask=kind, ts=NEWER, text="x"),
    )
    born = advance(deferred, CREATED)
    assert (born.state, born.pending_ask) == (state, deferred.deferred_ask)
    assert born.deferred_ask is None


@pytest.mark.parametrize(
    "event",
    [
        ActivityEvent(generation=GENERATION, ts=NEWER + 1),
        ApiReqStarted(generation=GENERATION, ts=NEWER + 1),
    ],
)
def test_the_next_agent_event_drops_a_deferred_ask(event: SessionEvent):
    deferred = advance(standing(S.CREATING, created=False), asked("tool"))
    dropped = advance(deferred, event)
    assert (dropped.deferred_ask, dropped.answered_ask_ts) == (None, NEWER)
    assert advance(dropped, CREATED).state is S.STREAMING


@pytest.mark.parametrize(
    "event",
    [
        ApproveEvent(ask_ts=ASK_TS),
        RejectEvent(ask_ts=ASK_TS),
        SEND,
        AutoApproved(generation=GENERATION, ask_ts=ASK_TS),
        ApiReqStarted(generation=GENERATION, ts=NEWER),
        ActivityEvent(generation=GENERATION, ts=NEWER),
        AskAnswered(generation=GENERATION, ts=ASK_TS),
    ],
)
def test_an_answered_ask_is_not_pending_and_its_ts_is_kept(event: SessionEvent):
    after = advance(standing(S.WAITING_APPROVAL), event)
    assert (after.pending_ask, after.answered_ask_ts) == (None, ASK_TS)


def test_events_update_result_ask_failure_and_exit():
    working, failed = standing(S.STREAMING), standing(S.ERROR)
    said = advance(working, SayCompletionResult(generation=GENERATION, ts=NEWER, text="done"))
    assert said.completion_text == "done"
    newer = advance(standing(S.WAITING_APPROVAL), asked("command", "ls"))
    assert newer.pending_ask == PendingAsk(ask="command", ts=NEWER, text="ls")
    again = advance(failed, asked("mistake_limit_reached", "lost"))
    assert again.failure is not None
    assert (again.failure.kind, again.failure.text) == (ErrorKind.MISTAKES, "lost")
    left = advance(standing(S.PAUSED), EXIT)
    assert (left.state, left.last_exit, left.pending_ask) == (
        S.PAUSED,
        LastExit(code=0),
        standing(S.PAUSED).pending_ask,
    )


def test_a_crash_keeps_the_earlier_failure():
    failed = advance(standing(S.STREAMING), asked("api_req_failed", "The provider is down."))
    crashed = advance(failed, ProcessExit(generation=GENERATION, code=1))
    assert crashed.failure == failed.failure
    assert crashed.last_exit == LastExit(code=1)


def test_a_failure_is_cleared_when_the_session_continues():
    failed = advance(standing(S.STREAMING), asked("api_req_failed"))
    for event in [RetryEvent(), CancelEvent(), ActivityEvent(generation=GENERATION, ts=NEWER + 1)]:
        assert advance(failed, event).failure is None


@pytest.mark.parametrize(
    ("ask", "text", "kind", "shown"),
    [
        ("api_req_failed", "401 who are you", "auth", "401 who are you"),
        ("api_req_failed", "Provider: 401 no", "auth", "Provider: 401 no"),
        ("api_req_failed", "anthropic rejected the key X: no. Set another.", "auth", None),
        ("api_req_failed", "p did not accept the key X: no (an older version)", "auth", None),
        ("api_req_failed", "p needs a key, and none was given: no", "auth", None),
        ("api_req_failed", "p rejected the request (403): no", "auth", None),
        ("api_req_failed", "403 forbidden", "auth", "403 forbidden"),
        ("api_req_failed", "p rejected the request (400): no", "api", None),
        ("api_req_failed", "port 1401 busy", "api", "port 1401 busy"),
        ("api_req_failed", "402: pay", "payment", "402: pay"),
        ("api_req_failed", "404 model x unknown", "model", "404 model x unknown"),
        ("api_req_failed", "Model x was not found", "model", "Model x was not found"),
        ("api_req_failed", '500 {"error": {"message": "Busy."}}', "api", "Busy."),
        ("api_req_failed", "the map {x} is odd", "api", "the map {x} is odd"),
        (
            "payment_required_prompt",
            '{"title": "Credit", "message": "Used up."}',
            "payment",
            "Credit: Used up.",
        ),
        ("mistake_limit_reached", "Guide me.", "mistakes", "Guide me."),
    ],
)
def test_each_failed_ask_gives_its_failure_kind_and_text(
    ask: str, text: str, kind: str, shown: str | None
):
    failure = failure_of_ask(ask, text)
    assert (failure.kind, failure.text) == (kind, shown or text)


@pytest.mark.parametrize("text", ["", '{"code": 7}', "[1, 2]", '{"message": 3}'])
def test_raw_json_is_never_the_failure_text(text: str):
    failure = failure_of_ask("api_req_failed", text)
    assert failure.text.startswith("The request to the model failed.")


@pytest.mark.parametrize(
    ("code", "by", "part"),
    [
        (1, None, "ended with code 1."),
        (None, 9, "ended by signal 9."),
        (None, None, "unknown status"),
    ],
)
def test_a_crash_reports_the_known_exit_code_or_signal(code: int | None, by: int | None, part: str):
    after = advance(standing(S.STREAMING), ProcessExit(generation=GENERATION, code=code, signal=by))
    assert after.failure is not None
    assert after.failure.kind is ErrorKind.CRASH
    assert part in after.failure.text
    assert "None" not in after.failure.text


NO_MODEL = "No model available: no key is set.\nDo one of these:\n  rookery auth anthropic"


@pytest.mark.parametrize(
    ("code", "log", "kind", "text"),
    [
        (3, f"note: x\nError: {NO_MODEL}\n", ErrorKind.AUTH, NO_MODEL),
        (3, "Error: The key is missing.", ErrorKind.AUTH, "The key is missing."),
        (3, "Error: No model was chosen, but x.", ErrorKind.MODEL, "No model was chosen, but x."),
        (2, "Error: Choose a model for x.", ErrorKind.MODEL, None),
        (9, "Error: The disk is full.", ErrorKind.EARLY_EXIT, "The disk is full."),
        (1, "Traceback\n  x\nValueError: y\n\n", ErrorKind.EARLY_EXIT, "ValueError: y"),
        (3, " \n", ErrorKind.CRASH, None),
    ],
)
def test_a_process_that_exits_during_start_reports_its_log(
    code: int, log: str, kind: ErrorKind, text: str | None
):
    begun = advance(Session(session_id="s"), StartEvent(text="Do it"))
    ended = ProcessExit(generation=begun.generation, code=code, text=log)
    failure = advance(begun, ended).failure
    assert failure
    assert failure.kind is kind
    assert text in (None, failure.text)
    announced = advance(begun, SessionCreated(generation=begun.generation, session_id="s"))
    later = advance(announced, ended).failure
    assert later
    assert later.kind is ErrorKind.CRASH
