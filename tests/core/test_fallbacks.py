"""When the next model of the setting `fallback` takes over, and until when."""

from typing import Any

from msgspec.structs import replace

from rookery.core.asks import AskKind
from rookery.core.facts import (
    Answered,
    Event,
    Fact,
    FellBack,
    ModelSwitched,
    RequestFailed,
    RequestStarted,
    Spent,
    TaskOpened,
    TaskReopened,
    UserSpoke,
)
from rookery.core.folds.task_record import fold
from rookery.core.folds.task_state import TaskState
from rookery.core.limits import FailureKind, Limits
from rookery.core.next_step import Ask, CallModel, FallBack, Step, next_step
from support.each_row import each_row


def after(kind: FailureKind, failures: int = 1, **more: Any) -> TaskState:
    failure = RequestFailed(request_id="r", error=kind, message="It failed.")
    return TaskState(failure=failure, failures=failures, **more)


def busy_for(seconds: float, retry_after: float | None = None, **more: Any) -> TaskState:
    """A model that is busy `seconds` after its first request was sent."""
    failure = RequestFailed(
        request_id="r", error=FailureKind.BUSY, message="Slow down.", retry_after=retry_after
    )
    spent = Spent(seconds=100.0 + seconds)
    return TaskState(failure=failure, failures=1, spent=spent, sent_at=100.0, **more)


GONE = FallBack(1)
BUSY = FallBack(1)
FAILED = Ask(AskKind.API_REQ_FAILED, "It failed.")
AGAIN = CallModel(2, 1.0, reason="Slow down.")


@each_row(
    ("state", "step"),
    [
        (busy_for(59), AGAIN),
        (busy_for(59.5), BUSY),
        (busy_for(0, retry_after=60), CallModel(2, 60.0, True, "Slow down.")),
        (busy_for(0, retry_after=61), BUSY),
        (busy_for(30, retry_after=31), BUSY),
        (busy_for(70, fallback=1), FallBack(2)),
        (busy_for(70, fallback=2), AGAIN),
        (after(FailureKind.NO_MODEL), GONE),
        (after(FailureKind.NO_MODEL, fallback=2), Ask(AskKind.INVALID_MODEL, "It failed.")),
        (
            after(FailureKind.DROPPED, 8, spent=Spent(seconds=900)),
            CallModel(9, 60.0, reason="It failed."),
        ),
        (after(FailureKind.DROPPED, 9), GONE),
        (after(FailureKind.KEEPALIVE_ONLY, 2), GONE),
        (after(FailureKind.OFFLINE, 5), GONE),
        (after(FailureKind.OFFLINE, 5, fallback=2), FAILED),
        (after(FailureKind.MISPLACED, 2), FAILED),
        (after(FailureKind.BAD_KEY), FAILED),
        (after(FailureKind.REFUSED), FAILED),
        (after(FailureKind.NO_CREDIT), Ask(AskKind.PAYMENT_REQUIRED_PROMPT, "It failed.")),
    ],
)
def test_a_model_that_stays_busy_or_is_gone_is_replaced_by_the_next(state: TaskState, step: Step):
    assert next_step(state, Limits(fallbacks=2)) == step


def test_without_fallbacks_a_busy_model_is_retried_however_long_it_takes():
    assert next_step(busy_for(1000), Limits()) == AGAIN


def test_a_busy_model_is_replaced_at_once_if_the_user_does_not_want_to_wait():
    assert next_step(busy_for(0), Limits(fallbacks=1, fallback_after=0)) == BUSY


FELL = FellBack(place=1, provider="p", model="b")
FAILURE = RequestFailed(request_id="r", error=FailureKind.BUSY, message="Slow down.")
RETRY = Answered(ask_id="q", ask=AskKind.API_REQ_FAILED, reply="yes")
RESUME = Answered(ask_id="q", ask=AskKind.RESUME_TASK, reply="yes")


def state_after(*facts: Fact) -> TaskState:
    opened = TaskOpened(text="Do")
    return fold(Event(n, 0, n, fact) for n, fact in enumerate((opened, *facts), 1))


@each_row(
    ("facts", "fallback", "fallback_model"),
    [
        ((), 1, ("p", "b")),
        ((TaskReopened(), RESUME), 1, ("p", "b")),
        ((replace(FELL, place=2, model="c", problem="No key."),), 2, ("p", "b")),
        ((TaskReopened(), replace(RESUME, text="And b?")), 0, ("", "")),
        ((UserSpoke(message_id="m", text="And b?"),), 0, ("", "")),
        ((FAILURE, RETRY), 0, ("", "")),
        ((replace(RETRY, ask=AskKind.INVALID_MODEL),), 0, ("", "")),
        ((ModelSwitched(provider="p", model="x"),), 0, ("", "")),
    ],
)
def test_a_fallback_answers_until_the_next_message_retry_or_choice_of_the_user(
    facts: tuple[Fact, ...], fallback: int, fallback_model: tuple[str, str]
):
    state = state_after(FAILURE, FELL, *facts)
    assert (state.fallback, state.fallback_model) == (fallback, fallback_model)


def test_the_wait_begins_with_the_first_request_and_again_with_each_model():
    def sent(seconds: float) -> RequestStarted:
        return RequestStarted(request_id="r", model="a", seconds=seconds)

    assert state_after(sent(5), FAILURE, sent(7)).sent_at == 5
    assert state_after(sent(5), FAILURE, sent(7), FAILURE, FELL, sent(2)).sent_at == 14


def test_the_measured_window_of_a_model_does_not_apply_to_its_fallback():
    too_long = RequestFailed(request_id="r", error=FailureKind.OVERFLOW, message="Too long.")
    sent = RequestStarted(request_id="r", model="a", size=90_000)
    assert state_after(sent, too_long).window > 0
    state = state_after(sent, too_long, FAILURE, FELL)
    assert (state.window, state.failure, state.failures) == (0, None, 0)
