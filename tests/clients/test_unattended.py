"""What is answered when nobody is there: nobody's silence is a yes to a change."""

import json

import pytest

from rookery.clients.attendant import Leave, Say
from rookery.clients.unattended import DECIDE_YOURSELF, NOBODY_TO_ASK, PATIENCE, Unattended
from rookery.core.asks import CATEGORY, AskCategory, AskKind
from rookery.core.facts import Asked

pytestmark = pytest.mark.anyio

QUESTION = json.dumps({"question": "Which?", "suggest": [{"answer": "this"}, {"answer": "that"}]})


def asked(kind: AskKind, text: str = "") -> Asked:
    return Asked(ask_id="q", ask=kind, text=text)


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        (asked(AskKind.TOOL), Say("no", NOBODY_TO_ASK, by="policy")),
        (asked(AskKind.COMMAND), Say("no", NOBODY_TO_ASK, by="policy")),
        (asked(AskKind.USE_MCP_SERVER), Say("no", NOBODY_TO_ASK, by="policy")),
        (asked(AskKind.COMPLETION_RESULT), Say("yes", by="policy")),
        (asked(AskKind.FOLLOWUP, QUESTION), Say("message", "this", by="policy")),
        (asked(AskKind.FOLLOWUP, "Which?"), Say("message", DECIDE_YOURSELF, by="policy")),
        (asked(AskKind.RESUME_TASK), Say("yes", by="policy")),
        (asked(AskKind.RESUME_COMPLETED_TASK), Say("yes", by="policy")),
        (asked(AskKind.API_REQ_FAILED, "No."), Leave("No.")),
        (asked(AskKind.PAYMENT_REQUIRED_PROMPT, "Pay."), Leave("Pay.")),
        (asked(AskKind.INVALID_MODEL, "None such."), Leave("None such.")),
    ],
    ids=lambda value: value.ask if isinstance(value, Asked) else "",
)
async def test_each_question_is_answered_by_rule(question: Asked, answer: Say | Leave):
    assert await Unattended()(question) == answer


@pytest.mark.parametrize("kind", [AskKind.RESUME_TASK, AskKind.RESUME_COMPLETED_TASK])
async def test_a_resumed_task_is_told_the_new_words_once(kind: AskKind):
    respond = Unattended("and now the docs")
    assert await respond(asked(kind)) == Say("message", "and now the docs")
    assert await respond(asked(kind)) == Say("yes", by="policy")


async def test_a_model_that_is_stuck_may_try_a_few_times_and_no_more():
    respond, stuck = Unattended(), asked(AskKind.MISTAKE_LIMIT_REACHED, "Stuck.")
    answers = [await respond(stuck) for _ in range(PATIENCE + 1)]
    assert answers == [Say("yes", by="policy")] * PATIENCE + [Leave("Stuck.")]


async def test_a_limit_ends_the_run_with_a_code_of_its_own():
    leave = await Unattended()(asked(AskKind.AUTO_APPROVAL_MAX_REQ_REACHED))
    assert isinstance(leave, Leave)
    assert leave.code == "limit_reached"


@pytest.mark.parametrize("kind", [k for k in AskKind if CATEGORY[k] is AskCategory.INTERACTIVE])
async def test_nothing_that_changes_anything_is_ever_allowed(kind: AskKind):
    assert await Unattended()(asked(kind)) != Say("yes", by="policy")
