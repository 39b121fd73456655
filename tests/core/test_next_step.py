"""The policy of the loop, row by row."""

from typing import Any

from msgspec.structs import replace

from rookery.core.asks import AskKind
from rookery.core.blocks import Text, ToolCall, times_repeated
from rookery.core.facts import (
    AgentTask,
    Answered,
    AssistantSpoke,
    Change,
    CompletionOffered,
    Condensed,
    Ending,
    Event,
    Fact,
    HistoryRepaired,
    Reminded,
    RequestFailed,
    RequestStarted,
    Rewound,
    Spent,
    StepCancelled,
    StopReason,
    TaskClosed,
    TaskOpened,
    TaskReopened,
    Todo,
    ToolFinished,
    ToolStarted,
    Usage,
    UserSpoke,
)
from rookery.core.folds.task_record import fold
from rookery.core.folds.task_state import TaskState
from rookery.core.limits import CAP_SECONDS, FailureKind, Limits, delay_before_retry
from rookery.core.next_step import (
    Ask,
    CallModel,
    Close,
    Complete,
    Reconcile,
    Remind,
    Repair,
    RunTool,
    Shorten,
    Skip,
    Step,
    Stop,
    TurnRules,
    next_step,
)
from rookery.core.replies import (
    AFTER_COMPLETION,
    AFTER_DELEGATING,
    AFTER_DENIAL,
    COMPLETION_TOO_EARLY,
    CUT_OFF,
    EMPTY_ANSWER,
    LOOPING,
    NO_ANSWER,
    NO_TOOL_USED,
    NOT_BEGUN,
    REPEATED,
    TOO_MANY_CALLS,
    WRITTEN_CALL,
    stuck,
)
from support.each_row import each_row

LIMITS = Limits(mistakes=3, requests=10, cost=1.0, repeats=3)
READ = ToolCall(id="c1", name="read_file", arguments={"path": "a"})
EDIT = ToolCall(id="c2", name="edit", arguments={"path": "a"})
FINISH = ToolCall(id="c3", name="attempt_completion", arguments={"result": "ok"})
WRITING = ToolStarted(call_id="c1", tool="edit", title="Edit a", changes=(Change(path="a"),))
READING = ToolStarted(call_id="c1", tool="read_file", title="Read a")


def failed(kind: FailureKind, **more: Any) -> RequestFailed:
    return RequestFailed(request_id="r", error=kind, message="It failed.", **more)


def after(kind: FailureKind, failures: int = 1, **more: Any) -> TaskState:
    return TaskState(failure=failed(kind), failures=failures, **more)


KEY = READ.key
OTHER = EDIT.key


@each_row(
    ("state", "step"),
    [
        (TaskState(), CallModel()),
        (TaskState(closed=True, over=True), Stop()),
        (TaskState(over=True, pending=(READ,)), Close()),
        (TaskState(interrupted=True), Ask(AskKind.RESUME_TASK)),
        (TaskState(interrupted=True, pending=(READ,)), Ask(AskKind.RESUME_TASK)),
        (TaskState(interrupted=True, completion="ok"), Ask(AskKind.RESUME_COMPLETED_TASK)),
        (TaskState(pending=(READ, EDIT)), RunTool(READ)),
        (TaskState(pending=(READ, EDIT), running=WRITING), Reconcile(READ)),
        (TaskState(pending=(READ, EDIT), running=READING), RunTool(READ)),
        (TaskState(pending=(EDIT,), endings=frozenset({Ending.DENIED})), Skip(EDIT, AFTER_DENIAL)),
        (TaskState(pending=(EDIT,), endings=frozenset({Ending.FAILED})), RunTool(EDIT)),
        (TaskState(pending=(FINISH,), endings=frozenset({Ending.DONE})), RunTool(FINISH)),
        (
            TaskState(pending=(FINISH,), endings=frozenset({Ending.DONE, Ending.FAILED})),
            Skip(FINISH, COMPLETION_TOO_EARLY),
        ),
        (TaskState(pending=(READ,), completion="ok"), Skip(READ, AFTER_COMPLETION)),
        (
            TaskState(pending=(READ,), answered_calls=20),
            Skip(READ, TOO_MANY_CALLS.format(limit=20)),
        ),
        (TaskState(pending=(READ,), recent=(KEY, KEY)), RunTool(READ)),
        (
            TaskState(pending=(READ,), recent=(KEY, KEY, KEY)),
            Skip(READ, REPEATED.format(times=3), Ending.MISTAKEN),
        ),
        (
            TaskState(pending=(READ,), recent=(KEY,) * 4),
            Ask(AskKind.MISTAKE_LIMIT_REACHED, LOOPING.format(tool="read_file")),
        ),
        (
            TaskState(pending=(READ,), recent=(KEY, OTHER) * 3),
            RunTool(READ),
        ),
        (
            TaskState(pending=(READ,), recent=(OTHER, KEY) * 3 + (OTHER,)),
            Skip(READ, REPEATED.format(times=3), Ending.MISTAKEN),
        ),
        (TaskState(completion="ok"), Ask(AskKind.COMPLETION_RESULT)),
        (TaskState(completion="ok", queue=frozenset({"m1"})), CallModel()),
        (TaskState(mistakes=3), Ask(AskKind.MISTAKE_LIMIT_REACHED, stuck(3))),
        (TaskState(stop=StopReason.LENGTH), CallModel()),
        (TaskState(spent=Spent(requests=9)), CallModel()),
        (
            TaskState(spent=Spent(requests=10)),
            Ask(AskKind.AUTO_APPROVAL_MAX_REQ_REACHED, '{"count": 10, "type": "requests"}'),
        ),
        (
            TaskState(spent=Spent(cost=1.0)),
            Ask(AskKind.AUTO_APPROVAL_MAX_REQ_REACHED, '{"count": 1.0, "type": "cost"}'),
        ),
    ],
)
def test_each_state_has_one_next_step(state: TaskState, step: Step):
    assert next_step(state, LIMITS) == step


OPEN = (Todo(id="1", content="a", status="completed"), Todo(id="2", content="b"))
ALL_DONE = (Todo(id="1", content="a", status="completed"),)
ALONE = TurnRules(attended=False)
PATIENT = TurnRules(nudges=2)
READ_AS_TEXT = Remind(WRITTEN_CALL.format(tool="read_file"), nudge=True)


def said(words: str = "It is 4.", **more: Any) -> TaskState:
    return TaskState(words=words, **more)


@each_row(
    ("state", "turn", "step"),
    [
        (said(), TurnRules(), Complete("It is 4.")),
        (said(stop=StopReason.UNKNOWN), TurnRules(), Complete("It is 4.")),
        (said(mistakes=3), TurnRules(), Complete("It is 4.")),
        (said(toolless=9), ALONE, Complete("It is 4.")),
        (said(stop=StopReason.PAUSED, paused=10), TurnRules(), CallModel()),
        (said(stop=StopReason.PAUSED, paused=11), TurnRules(), Complete("It is 4.")),
        (said(queue=frozenset({"m1"})), TurnRules(), Complete("It is 4.")),
        (said(stop=StopReason.LENGTH), TurnRules(), Remind(CUT_OFF, nudge=True)),
        (said(stop=StopReason.LENGTH, nudges=1), TurnRules(), Complete("It is 4.")),
        (said(stop=StopReason.LENGTH, nudges=1), PATIENT, Remind(CUT_OFF, nudge=True)),
        (said(stop=StopReason.LENGTH), TurnRules(nudges=0), Complete("It is 4.")),
        (said(written="read_file"), TurnRules(), READ_AS_TEXT),
        (said(written="read_file", nudges=1), TurnRules(), Complete("It is 4.")),
        (said(todos=OPEN), ALONE, Remind(NOT_BEGUN, nudge=True)),
        (said(todos=OPEN, nudges=1), ALONE, Complete("It is 4.")),
        (said(todos=OPEN, called=True), ALONE, Complete("It is 4.")),
        (said(todos=OPEN), TurnRules(), Complete("It is 4.")),
        (said(todos=ALL_DONE), ALONE, Complete("It is 4.")),
        (said(""), TurnRules(), Remind(EMPTY_ANSWER, nudge=True)),
        (said("", nudges=1), TurnRules(), Ask(AskKind.API_REQ_FAILED, NO_ANSWER)),
    ],
)
def test_text_ends_the_turn_unless_it_looks_like_a_new_mistake(
    state: TaskState, turn: TurnRules, step: Step
):
    assert next_step(state, LIMITS, turn) == step


@each_row(
    ("state", "step"),
    [
        (said(toolless=1), Remind(NO_TOOL_USED)),
        (said(toolless=2), Remind(NO_TOOL_USED, mistake=True)),
        (said(toolless=1, stop=StopReason.LENGTH), Remind(CUT_OFF)),
        (said(toolless=4, mistakes=3), Ask(AskKind.MISTAKE_LIMIT_REACHED, stuck(3))),
        (after(FailureKind.EMPTY, 3), Remind(EMPTY_ANSWER, mistake=True)),
        (after(FailureKind.EMPTY, 6, mistakes=3), Ask(AskKind.MISTAKE_LIMIT_REACHED, stuck(3))),
    ],
)
def test_text_without_a_required_completion_is_reminded_then_a_mistake(
    state: TaskState, step: Step
):
    assert next_step(state, LIMITS, TurnRules(words_end=False)) == step


@each_row(
    ("state", "step"),
    [
        (after(FailureKind.BUSY), CallModel(2, 1.0, reason="It failed.")),
        (after(FailureKind.BUSY, 4), CallModel(5, 8.0, reason="It failed.")),
        (after(FailureKind.BUSY, 9), Ask(AskKind.API_REQ_FAILED, "It failed.")),
        (after(FailureKind.DROPPED), CallModel(2, 0.0, reason="It failed.")),
        (after(FailureKind.DROPPED, 2), CallModel(3, 1.0, reason="It failed.")),
        (after(FailureKind.KEEPALIVE_ONLY), CallModel(2, 0.0, reason="It failed.")),
        (after(FailureKind.KEEPALIVE_ONLY, 2), Ask(AskKind.API_REQ_FAILED, "It failed.")),
        (after(FailureKind.MISPLACED), CallModel(2, 0.0, reason="It failed.")),
        (after(FailureKind.MISPLACED, 2), Ask(AskKind.API_REQ_FAILED, "It failed.")),
        (after(FailureKind.OFFLINE, 4), CallModel(5, 8.0, reason="It failed.")),
        (after(FailureKind.OFFLINE, 5), Ask(AskKind.API_REQ_FAILED, "It failed.")),
        (after(FailureKind.REJECTED), Ask(AskKind.API_REQ_FAILED, "It failed.")),
        (after(FailureKind.REFUSED), Ask(AskKind.API_REQ_FAILED, "It failed.")),
        (after(FailureKind.BAD_KEY), Ask(AskKind.API_REQ_FAILED, "It failed.")),
        (after(FailureKind.NO_CREDIT), Ask(AskKind.PAYMENT_REQUIRED_PROMPT, "It failed.")),
        (after(FailureKind.NO_MODEL), Ask(AskKind.INVALID_MODEL, "It failed.")),
        (after(FailureKind.OVERFLOW), Shorten("It failed.")),
        (after(FailureKind.OVERFLOW, 3, cuts=2), Shorten("It failed.")),
        (after(FailureKind.OVERFLOW, 4, cuts=3), Ask(AskKind.API_REQ_FAILED, "It failed.")),
        (after(FailureKind.BROKEN_HISTORY), Repair()),
        (
            after(FailureKind.BROKEN_HISTORY, repaired=True),
            Ask(AskKind.API_REQ_FAILED, "It failed."),
        ),
        (after(FailureKind.EMPTY), CallModel(2, 1.0, reason="It failed.")),
        (after(FailureKind.EMPTY, 2), Remind(EMPTY_ANSWER, nudge=True)),
        (after(FailureKind.EMPTY, 3, nudges=1), Ask(AskKind.API_REQ_FAILED, "It failed.")),
        (
            after(FailureKind.BUSY, spent=Spent(requests=10)),
            Ask(AskKind.AUTO_APPROVAL_MAX_REQ_REACHED, '{"count": 10, "type": "requests"}'),
        ),
    ],
)
def test_each_kind_of_request_failure_has_its_next_step(state: TaskState, step: Step):
    assert next_step(state, LIMITS) == step


@each_row(
    ("retry_after", "delay"), [(7.0, 7.0), (0.0, 1.0), (-3.0, 1.0), (600.0, 600.0), (601.0, None)]
)
def test_a_reasonable_wait_from_the_server_replaces_the_default(
    retry_after: float, delay: float | None
):
    assert delay_before_retry(FailureKind.BUSY, 1, retry_after) == delay


def test_no_wait_is_longer_than_the_cap():
    delays = [delay_before_retry(FailureKind.BUSY, failed, None) for failed in range(1, 9)]
    assert delays == [1, 2, 4, 8, 16, 32, CAP_SECONDS, CAP_SECONDS]


def test_limits_of_zero_never_ask():
    free = Limits(mistakes=0, requests=0, cost=0.0, repeats=0)
    state = TaskState(mistakes=99, spent=Spent(requests=99, cost=99.0, tokens=10**9, seconds=1e9))
    assert next_step(state, free) == CallModel()
    circling = replace(state, pending=(READ,), recent=(KEY,) * 9)
    assert next_step(circling, free) == RunTool(READ)


def spoke(*calls: ToolCall, **more: Any) -> AssistantSpoke:
    return AssistantSpoke(request_id="r", blocks=(Text(text="Hm."), *calls), **more)


def state_after(*facts: Fact) -> TaskState:
    events = [Event(n, 0, n, fact) for n, fact in enumerate((TaskOpened(text="Do"), *facts), 1)]
    return fold(events)


OFFERED = CompletionOffered(result="Hm.", spoken=True)
MORE = Answered(ask_id="q", ask=AskKind.COMPLETION_RESULT, reply="message", text="And b?")
CUT_TWICE = (
    spoke(stop=StopReason.LENGTH),
    Reminded(text=CUT_OFF, nudge=True),
    spoke(stop=StopReason.LENGTH),
)
DELEGATE = ToolCall(id="c4", name="new_task", arguments={"mode": "code", "message": "Do b"})
DELEGATED = ToolFinished(call_id="c4", text="Done.")
ASK_AGAIN = Answered(ask_id="q", ask=AskKind.RESUME_TASK, reply="yes")


@each_row(
    ("facts", "step"),
    [
        ((), CallModel()),
        ((RequestStarted(request_id="r", model="m"),), CallModel()),
        ((spoke(),), Complete("Hm.")),
        ((spoke(), Reminded(text="x")), CallModel()),
        ((spoke(), Reminded(text="x", mistake=True), spoke()), Complete("Hm.")),
        ((spoke(), OFFERED), Ask(AskKind.COMPLETION_RESULT)),
        ((spoke(), OFFERED, UserSpoke(message_id="m", text="And b?")), CallModel()),
        ((spoke(), StepCancelled(), ASK_AGAIN), Complete("Hm.")),
        ((spoke(interrupted=True),), CallModel()),
        ((spoke(stop=StopReason.LENGTH),), Remind(CUT_OFF, nudge=True)),
        ((*CUT_TWICE,), Complete("Hm.")),
        ((*CUT_TWICE, OFFERED, MORE, *CUT_TWICE[:1]), Remind(CUT_OFF, nudge=True)),
        ((spoke(DELEGATE, READ), DELEGATED), Skip(READ, AFTER_DELEGATING)),
        ((spoke(READ, DELEGATE), ToolFinished(call_id="c1", text="x")), RunTool(DELEGATE)),
        ((spoke(DELEGATE, READ), DELEGATED, spoke(READ)), RunTool(READ)),
        ((spoke(READ, EDIT),), RunTool(READ)),
        ((spoke(READ, EDIT), ToolFinished(call_id="c1", text="x")), RunTool(EDIT)),
        ((spoke(READ), WRITING, TaskReopened()), Ask(AskKind.RESUME_TASK)),
        ((spoke(READ), WRITING, TaskReopened(), ASK_AGAIN), Reconcile(READ)),
        ((spoke(READ), StepCancelled(), ASK_AGAIN), RunTool(READ)),
        (
            (spoke(READ), StepCancelled(), replace(ASK_AGAIN, reply="message", text="No, b")),
            CallModel(),
        ),
        (
            (
                spoke(READ, EDIT),
                WRITING,
                StepCancelled(),
                replace(ASK_AGAIN, reply="message", text="No, b"),
            ),
            Reconcile(READ),
        ),
        ((StepCancelled(), replace(ASK_AGAIN, reply="no")), Close()),
        ((replace(ASK_AGAIN, ask=AskKind.AUTO_APPROVAL_MAX_REQ_REACHED, reply="no"),), Close()),
        (
            (spoke(FINISH), CompletionOffered(result="ok"), ToolFinished(call_id="c3", text="")),
            Ask(AskKind.COMPLETION_RESULT),
        ),
        (
            (
                spoke(FINISH),
                CompletionOffered(result="ok"),
                ToolFinished(call_id="c3", text=""),
                Answered(ask_id="q", ask=AskKind.COMPLETION_RESULT, reply="yes"),
            ),
            Close(),
        ),
        (
            (
                spoke(FINISH),
                CompletionOffered(result="ok"),
                ToolFinished(call_id="c3", text=""),
                Answered(ask_id="q", ask=AskKind.COMPLETION_RESULT, reply="message", text="More"),
            ),
            CallModel(),
        ),
        (
            (
                spoke(FINISH),
                CompletionOffered(result="ok"),
                ToolFinished(call_id="c3", text=""),
                Answered(ask_id="q", ask=AskKind.COMPLETION_RESULT, reply="yes"),
                TaskClosed(),
                TaskReopened(),
            ),
            Ask(AskKind.RESUME_COMPLETED_TASK),
        ),
        ((failed(FailureKind.BUSY), TaskReopened(), ASK_AGAIN), CallModel()),
        (
            (
                failed(FailureKind.REJECTED),
                Answered(ask_id="q", ask=AskKind.API_REQ_FAILED, reply="yes"),
            ),
            CallModel(),
        ),
        (
            (
                failed(FailureKind.REJECTED),
                Answered(ask_id="q", ask=AskKind.API_REQ_FAILED, reply="no"),
            ),
            Close(),
        ),
        ((spoke(READ), spoke(EDIT), failed(FailureKind.OVERFLOW)), RunTool(EDIT)),
        (
            (spoke(), spoke(), Reminded(text=""), failed(FailureKind.OVERFLOW), Condensed(upto=2)),
            CallModel(attempt=2),
        ),
        (
            (failed(FailureKind.BROKEN_HISTORY), HistoryRepaired(upto=2)),
            CallModel(attempt=2),
        ),
        ((spoke(READ), Rewound(to=1)), Ask(AskKind.RESUME_TASK)),
        ((spoke(READ), Rewound(to=1), ASK_AGAIN), CallModel()),
        ((UserSpoke(message_id="m", text="x"),), CallModel()),
    ],
)
def test_a_log_leads_to_its_next_step(facts: tuple[Fact, ...], step: Step):
    assert next_step(state_after(*facts), Limits()) == step


def test_mistakes_count_up_and_a_good_call_clears_them():
    wrong = ToolFinished(call_id="c1", text="", ending=Ending.MISTAKEN)
    assert state_after(spoke(READ), wrong, spoke(READ), wrong).mistakes == 2
    right = ToolFinished(call_id="c1", text="")
    assert state_after(spoke(READ), wrong, spoke(READ), right).mistakes == 0


def test_requests_and_cost_add_up_until_the_user_resets_them():
    facts: tuple[Fact, ...] = (
        RequestStarted(request_id="r", model="m"),
        spoke(READ, usage=Usage(cost=0.5)),
        RequestStarted(request_id="r", model="m"),
        failed(FailureKind.BUSY, usage=Usage(cost=0.25)),
    )
    state = state_after(*facts)
    assert (state.spent.requests, state.spent.cost) == (2, 0.75)
    ask = AskKind.AUTO_APPROVAL_MAX_REQ_REACHED
    state = state_after(*facts, Answered(ask_id="q", ask=ask, reply="yes"))
    assert (state.spent.requests, state.spent.cost) == (0, 0.0)


def test_guidance_at_the_mistake_limit_replaces_the_repeated_call():
    hint = Answered(ask_id="q", ask=AskKind.MISTAKE_LIMIT_REACHED, reply="message", text="Use b")
    assert next_step(state_after(spoke(READ), hint), Limits()) == CallModel()
    again = replace(hint, reply="yes", text="")
    assert next_step(state_after(spoke(READ), again), Limits()) == RunTool(READ)


def test_a_call_may_be_repeated_after_a_user_message():
    three = (spoke(READ), ToolFinished(call_id="c1", text="")) * 3
    again = UserSpoke(message_id="m", text="Run it again")
    assert isinstance(next_step(state_after(*three, spoke(READ)), Limits()), Skip)
    assert next_step(state_after(*three, again, spoke(READ)), Limits()) == RunTool(READ)


@each_row(
    ("walk", "times"),
    [
        ("", 0),
        ("b", 0),
        ("a", 1),
        ("aa", 2),
        ("aab", 0),
        ("abab", 1),
        ("babab", 2),
        ("bcabcabc", 2),
    ],
)
def test_loops_of_up_to_three_calls_are_detected(walk: str, times: int):
    assert times_repeated(tuple(walk), "a") == times


AGENT = TaskOpened(text="x", parent="p", agent="scout", spent=Spent(requests=5, cost=0.5))
POOR = replace(AGENT, budget=Spent(requests=2))


@each_row(
    ("state", "step"),
    [
        (TaskState(opened=AGENT, parent="p"), CallModel()),
        (TaskState(opened=AGENT, parent="p", completion="ok"), Close()),
        (TaskState(opened=AGENT, interrupted=True), Close("stopped")),
        (after(FailureKind.BUSY, opened=AGENT), CallModel(attempt=2, delay=1, reason="It failed.")),
        (after(FailureKind.BAD_KEY, opened=AGENT), Close("failed", "It failed.")),
        (after(FailureKind.NO_MODEL, opened=AGENT), Close("failed", "It failed.")),
        (TaskState(opened=AGENT, mistakes=3), Close("failed", stuck(3))),
        (
            TaskState(opened=AGENT, spent=Spent(requests=10)),
            Close("out of budget", "the limit of the session is reached"),
        ),
        (TaskState(opened=POOR, spent=Spent(requests=6)), CallModel()),
        (
            TaskState(opened=POOR, spent=Spent(requests=7)),
            Close("out of budget", "its budget of requests is used up"),
        ),
        (TaskState(opened=POOR, spent=Spent(requests=7), pending=(READ,)), RunTool(READ)),
        (TaskState(opened=replace(AGENT, agent=""), interrupted=True), Ask(AskKind.RESUME_TASK)),
    ],
)
def test_an_agent_ends_instead_of_asking_how_to_go_on(state: TaskState, step: Step):
    assert next_step(state, LIMITS) == step


def test_an_agent_that_the_user_reopens_is_a_session_like_others():
    reopened = fold([Event(1, 0, 1, AGENT), Event(2, 0, 2, TaskReopened())])
    assert next_step(reopened, LIMITS) == Ask(AskKind.RESUME_TASK)
    resumed = fold([Event(1, 0, 1, AGENT), Event(2, 0, 2, TaskReopened(resumed=True))])
    assert next_step(resumed, LIMITS) == CallModel()


def test_agents_are_settled_and_never_run_again():
    agents = (AgentTask(task_id="a", name="scout", text="x", mode="ask"),)
    started = ToolStarted(call_id="c1", tool="run_agents", title="Start", agents=agents)
    state = TaskState(pending=(READ,), running=started)
    assert next_step(state, LIMITS) == Reconcile(READ)
