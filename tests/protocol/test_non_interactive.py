"""Automatic answers of runs without a terminal: silence never approves a change."""

import json

import anyio
import pytest

from rookery.core.asks import CATEGORY, AskCategory, AskKind
from rookery.core.facts import (
    Asked,
    Ending,
    Event,
    RequestFailed,
    ToolFinished,
    ToolStarted,
)
from rookery.core.limits import FailureKind
from rookery.protocol.attend import Leave, Say
from rookery.protocol.outcomes import (
    DECIDE_YOURSELF,
    NOT_APPROVED,
    PATIENCE,
    Unattended,
    leave_at_failure,
)
from support.each_row import each_row

pytestmark = pytest.mark.anyio

QUESTION = json.dumps({"question": "Which?", "suggest": [{"answer": "this"}, {"answer": "that"}]})


def asked(kind: AskKind, text: str = "") -> Asked:
    return Asked(ask_id="q", ask=kind, text=text)


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        (asked(AskKind.TOOL), Say("no", NOT_APPROVED, by="policy")),
        (asked(AskKind.COMMAND), Say("no", NOT_APPROVED, by="policy")),
        (asked(AskKind.USE_MCP_SERVER), Say("no", NOT_APPROVED, by="policy")),
        (asked(AskKind.COMPLETION_RESULT), Say("yes", by="policy")),
        (asked(AskKind.FOLLOWUP, QUESTION), Say("message", "this", by="policy")),
        (
            Asked(ask_id="q", ask=AskKind.FOLLOWUP, text=QUESTION, title="The MCP server x asks"),
            Say("message", NOT_APPROVED, by="policy"),
        ),
        (asked(AskKind.FOLLOWUP, "Which?"), Say("message", DECIDE_YOURSELF, by="policy")),
        (asked(AskKind.RESUME_TASK), Say("yes", by="policy")),
        (asked(AskKind.RESUME_COMPLETED_TASK), Say("yes", by="policy")),
        (asked(AskKind.API_REQ_FAILED, "No."), Leave("No.")),
        (asked(AskKind.PAYMENT_REQUIRED_PROMPT, "Pay."), Leave("Pay.", code="no_credit")),
        (asked(AskKind.INVALID_MODEL, "None such."), Leave("None such.")),
    ],
    ids=lambda value: value.ask if isinstance(value, Asked) else "",
)
async def test_each_question_is_answered_by_rule(question: Asked, answer: Say | Leave):
    assert await Unattended()(question) == answer


@each_row("kind", [AskKind.RESUME_TASK, AskKind.RESUME_COMPLETED_TASK])
async def test_a_resumed_task_gets_the_new_message_once(kind: AskKind):
    respond = Unattended("and now the docs")
    assert await respond(asked(kind)) == Say("message", "and now the docs")
    assert await respond(asked(kind)) == Say("yes", by="policy")


async def test_a_stuck_model_gets_a_limited_number_of_retries():
    respond, stuck = Unattended(), asked(AskKind.MISTAKE_LIMIT_REACHED, "Stuck.")
    answers = [await respond(stuck) for _ in range(PATIENCE + 1)]
    assert answers == [Say("yes", by="policy")] * PATIENCE + [Leave("Stuck.", code="stalled")]


async def test_a_reached_limit_ends_the_run_with_its_own_code():
    leave = await Unattended()(asked(AskKind.AUTO_APPROVAL_MAX_REQ_REACHED))
    assert isinstance(leave, Leave)
    assert leave.code == "limit_reached"


@each_row("kind", [k for k in AskKind if CATEGORY[k] is AskCategory.INTERACTIVE])
async def test_no_interactive_question_is_approved(kind: AskKind):
    assert await Unattended()(asked(kind)) != Say("yes", by="policy")


def refused(text: str = "no") -> Event:
    return Event(1, 0, 1, ToolFinished(call_id="c", text=text, ending=Ending.DENIED))


def failed(kind: FailureKind) -> Event:
    return Event(1, 0, 1, RequestFailed(request_id="r", error=kind, message="It failed."))


@each_row(
    ("kind", "code"),
    [
        (FailureKind.BAD_KEY, "auth_failed"),
        (FailureKind.BUSY, "rate_limited"),
        (FailureKind.DROPPED, "stalled"),
        (FailureKind.KEEPALIVE_ONLY, "stalled"),
        (FailureKind.EMPTY, "task_failed"),
        (FailureKind.OFFLINE, "task_failed"),
        (FailureKind.REJECTED, "task_failed"),
        (FailureKind.REFUSED, "task_failed"),
    ],
)
async def test_the_last_failure_decides_the_code_of_the_run(kind: FailureKind, code: str):
    respond = Unattended()
    respond.show(failed(FailureKind.BUSY))
    respond.show(failed(kind))
    assert await respond(asked(AskKind.API_REQ_FAILED, "No.")) == Leave("No.", code=code)


async def test_repeating_a_refused_call_ends_the_run_at_once():
    respond = Unattended()
    respond.show(refused("Commands must run in a sandbox."), "child")
    leave = await respond(asked(AskKind.MISTAKE_LIMIT_REACHED, "Stuck."))
    sentence = "Stuck. It was refused: Commands must run in a sandbox."
    assert leave == Leave(sentence, code="policy_denied")


async def test_refusals_before_a_successful_step_do_not_count():
    respond = Unattended()
    respond.show(refused())
    change = ToolStarted(call_id="d", tool="execute_command", title="Run x", command="x")
    respond.show(Event(2, 0, 2, change))
    respond.show(Event(3, 0, 3, ToolFinished(call_id="d", text="")))
    assert await respond(asked(AskKind.MISTAKE_LIMIT_REACHED)) == Say("yes", by="policy")


async def test_a_run_without_auto_approve_ends_at_a_question():
    leave = await Unattended(automatic=False)(asked(AskKind.FOLLOWUP, QUESTION))
    assert isinstance(leave, Leave)
    assert (leave.code, "Which?" in leave.reason) == ("needs_human", True)


async def test_another_client_has_time_to_answer():
    with anyio.move_on_after(0.02) as gone:
        await Unattended(seconds=60)(asked(AskKind.FOLLOWUP, QUESTION))
    assert gone.cancelled_caught


async def test_a_suggested_mode_is_used_if_mode_switches_are_auto_approved():
    text = json.dumps({"question": "?", "suggest": [{"answer": "Do it.", "mode": "code"}]})
    assert await Unattended()(asked(AskKind.FOLLOWUP, text)) == Say(
        "message", "Do it.", by="policy", mode="code"
    )


async def test_a_suggestion_does_not_change_a_mode_chosen_by_the_user():
    text = json.dumps({"question": "?", "suggest": [{"answer": "Do it.", "mode": "code"}]})
    answer = await Unattended(keeps_mode=True)(asked(AskKind.FOLLOWUP, text))
    assert answer == Say("message", "Do it.", by="policy")


@each_row("kind", [k for k in AskKind if CATEGORY[k] is AskCategory.INTERACTIVE])
async def test_no_question_waits_for_an_answer(kind: AskKind):
    with anyio.fail_after(60):
        assert await Unattended()(asked(kind))


@each_row("kind", FailureKind)
def test_with_exit_on_error_the_first_failure_ends_the_run(kind: FailureKind):
    leave = leave_at_failure(failed(kind))
    if kind in (FailureKind.OVERFLOW, FailureKind.BROKEN_HISTORY):
        assert leave is None
    else:
        assert leave
        assert leave.reason == "It failed."
    assert leave_at_failure(refused()) is None
