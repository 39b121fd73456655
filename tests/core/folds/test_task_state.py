"""What a task's state keeps: accepted plans, usage and learned limits."""

from rookery.core.asks import AskKind
from rookery.core.facts import (
    Answered,
    Asked,
    AssistantSpoke,
    CompletionOffered,
    Condensed,
    Fact,
    RequestFailed,
    RequestStarted,
    Spent,
    TaskOpened,
    TaskReopened,
    Usage,
    next_event,
)
from rookery.core.folds.task_record import fold
from rookery.core.folds.task_state import PER_BYTE, TaskState
from rookery.core.limits import FailureKind
from support.each_row import each_row


def state_after(*facts: Fact) -> TaskState:
    events = [next_event(None, facts[0], 1)]
    for fact in facts[1:]:
        events.append(next_event(events[-1], fact, 1))
    return fold(events)


def planned(mode: str) -> list[Fact]:
    """A task whose result was accepted and that was then reopened."""
    yes = Answered(ask_id="a", ask=AskKind.COMPLETION_RESULT, reply="yes")
    return [
        TaskOpened(text="Plan it.", mode=mode),
        CompletionOffered(result="First this, then that."),
        yes,
        TaskReopened(),
    ]


def test_an_accepted_plan_survives_condensing():
    facts = planned("architect")
    assert state_after(*facts).plan == "First this, then that."
    assert state_after(*facts, Condensed(upto=3, words=3)).plan == "First this, then that."
    assert state_after(*facts[:2]).plan == ""


def test_results_of_other_modes_are_not_plans():
    assert state_after(*planned("code")).plan == ""


def test_the_cost_of_an_interrupted_answer_counts():
    usage = Usage(tokens_in=600, tokens_out=500, cost=0.5)
    state = state_after(
        TaskOpened(text="Do it."),
        RequestStarted(request_id="r", model="m"),
        AssistantSpoke(request_id="r", blocks=(), usage=usage, interrupted=True),
    )
    assert state.spent == Spent(requests=1, tokens=1_100, cost=0.5)


def test_a_learned_context_size_applies_only_to_its_model():
    def asked(model: str) -> RequestStarted:
        return RequestStarted(request_id="r", model=model, size=10_000)

    usage = Usage(tokens_in=9_000)
    facts = [
        TaskOpened(text="Do it."),
        asked("one"),
        AssistantSpoke(request_id="r", blocks=(), usage=usage),
        asked("one"),
        RequestFailed(
            request_id="r", error=FailureKind.OVERFLOW, message="9500 tokens > 8000 maximum"
        ),
    ]
    learnt = state_after(*facts)
    assert learnt.per_byte != PER_BYTE
    assert learnt.window
    assert state_after(*facts, asked("one")).window == learnt.window
    fresh = state_after(*facts, asked("two"))
    assert (fresh.window, fresh.per_byte) == (0, PER_BYTE)


@each_row(
    ("question", "left"),
    [
        ('{"count": 9, "type": "requests"}', Spent(requests=0, tokens=100, cost=2.0, seconds=5.0)),
        ('{"count": 2.0, "type": "cost"}', Spent(requests=9, tokens=100, cost=0.0, seconds=5.0)),
        ('{"count": 100, "type": "tokens"}', Spent(requests=9, tokens=0, cost=2.0, seconds=5.0)),
        ('{"count": 5.0, "type": "seconds"}', Spent(requests=9, tokens=100, cost=2.0)),
        ("of an older version", Spent()),
    ],
)
def test_approval_of_one_limit_does_not_cover_the_others(question: str, left: Spent):
    ask = AskKind.AUTO_APPROVAL_MAX_REQ_REACHED
    used = Spent(requests=9, tokens=100, cost=2.0, seconds=5.0)
    state = state_after(
        TaskOpened(text="go", parent="p", spent=used),
        Asked(ask_id="a", ask=ask, text=question),
        Answered(ask_id="a", ask=ask, reply="yes"),
    )
    assert state.spent == left
