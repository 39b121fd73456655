"""What a task does next, decided from its state alone.

This is the whole policy of the agent loop. It runs nothing and waits for nothing, so each rule can
be tested with a value, and an interrupted, restarted or replayed task follows the same rules.
"""

import json
from typing import Literal, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from rookery.core.asks import AskKind
from rookery.core.blocks import ToolCall, times_repeated
from rookery.core.facts import Ending, RequestFailed, StopReason
from rookery.core.folds.run_tallies import used_since, used_up
from rookery.core.folds.task_state import TaskState
from rookery.core.limits import FALLBACK_KINDS, FailureKind, Limits, delay_before_retry
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
    REFUSED_AGAIN,
    REPEATED,
    TOO_MANY_CALLS,
    WRITTEN_CALL,
    stuck,
)
from rookery.core.tool_traits import COMPLETION

MOST_REFUSALS = 3
"""How often governance refuses the same call before the user is asked."""
MOST_CUTS = 3
"""How often the context is cut for one answer. Each cut makes it smaller."""


class TurnRules(Struct, frozen=True, kw_only=True):
    """What ends a turn."""

    words_end: bool = True
    """Whether an answer without a call ends the turn; otherwise only `attempt_completion` does."""
    nudges: int = 1
    """How often per message of the user an answer that looks like a mistake does not end the
    turn."""
    attended: bool = True
    """Whether someone sees the answer and can reply."""


class CallModel(Struct, frozen=True):
    """Send the next request after `delay` seconds, or a random part of them unless the server
    named the time."""

    attempt: int = 1
    delay: float = 0.0
    named_by_server: bool = False
    reason: str = ""


class RunTool(Struct, frozen=True):
    call: ToolCall


class Skip(Struct, frozen=True):
    """Answer a call without running it."""

    call: ToolCall
    text: str
    ending: Ending = Ending.SKIPPED


class Reconcile(Struct, frozen=True):
    """Determine the result of a call that started and has no recorded end."""

    call: ToolCall


class Ask(Struct, frozen=True):
    ask: AskKind
    text: str = ""


class Gather(Struct, frozen=True):
    """Resolve the mentions in a message."""

    text: str


class Remind(Struct, frozen=True):
    text: str
    mistake: bool = False
    nudge: bool = False


class Complete(Struct, frozen=True):
    """End the turn with the model's text."""

    result: str


class Shorten(Struct, frozen=True):
    """Leave the oldest part of the conversation out: the request was refused with `message`."""

    message: str


class Repair(Struct, frozen=True):
    """Leave out what the provider may have objected to."""


class FallBack(Struct, frozen=True):
    """Continue with the model at `place` of the setting `fallback`, counted from 1."""

    place: int


class Close(Struct, frozen=True):
    """End the task. `fate` and `reason` say why an agent has no result."""

    fate: Literal["", "failed", "stopped", "out of budget"] = ""
    reason: str = ""


class Stop(Struct, frozen=True):
    pass


Step: TypeAlias = (
    CallModel
    | RunTool
    | Skip
    | Reconcile
    | Ask
    | Gather
    | Remind
    | Complete
    | Shorten
    | Repair
    | FallBack
    | Close
    | Stop
)

_USUAL = TurnRules()


def next_step(state: TaskState, limits: Limits, turn: TurnRules = _USUAL) -> Step:
    """The next step. An agent that runs beside others ends instead of asking how to go on: its
    parent continues with the results of the others."""
    step = _next_step(state, limits, turn)
    if state.opened.agent and isinstance(step, Ask):
        return _end_of_agent(step) or step
    return step


def _end_of_agent(step: Ask) -> Close | None:
    match step.ask:
        case AskKind.RESUME_TASK | AskKind.RESUME_COMPLETED_TASK:
            return Close("stopped")
        case AskKind.AUTO_APPROVAL_MAX_REQ_REACHED:
            return Close("out of budget", "the limit of the session is reached")
        case _:
            return Close("failed", step.text)


def _next_step(state: TaskState, limits: Limits, turn: TurnRules) -> Step:
    """The order of the rules is their priority."""
    if state.closed:
        return Stop()
    if state.over:
        return Close()
    if state.interrupted:
        done = state.completion is not None
        return Ask(AskKind.RESUME_COMPLETED_TASK if done else AskKind.RESUME_TASK)
    if state.silent:
        return Ask(AskKind.RESUME_TASK)
    if state.pending:
        return _about_call(state, state.pending[0], limits)
    if state.failure:
        return _after_failure(state, state.failure, limits, turn)
    if state.completion is not None and not state.queue:
        # a child's result is for its parent, which was allowed to ask for it
        return Close() if state.parent else Ask(AskKind.COMPLETION_RESULT)
    in_words = state.words is not None and not _may_continue(state, limits)
    if in_words and turn.words_end:
        return _after_text(state, turn)
    if limits.mistakes and state.mistakes >= limits.mistakes:
        return Ask(AskKind.MISTAKE_LIMIT_REACHED, stuck(state.mistakes))
    if state.refused[1] >= MOST_REFUSALS:
        return Ask(AskKind.MISTAKE_LIMIT_REACHED, REFUSED_AGAIN.format(times=state.refused[1]))
    if in_words:
        text = CUT_OFF if state.stop is StopReason.LENGTH else NO_TOOL_USED
        return Remind(text, mistake=state.toolless > 1)
    return _request(state, limits)


def _about_call(state: TaskState, call: ToolCall, limits: Limits) -> Step:
    if state.running and state.running.call_id == call.id:
        return RunTool(call) if state.running.harmless else Reconcile(call)
    if Ending.DENIED in state.endings:
        return Skip(call, AFTER_DENIAL)
    if state.completion is not None:
        return Skip(call, AFTER_COMPLETION)
    if state.delegated:
        return Skip(call, AFTER_DELEGATING)
    if state.answered_calls >= limits.calls_per_message:
        return Skip(call, TOO_MANY_CALLS.format(limit=limits.calls_per_message))
    if call.name == COMPLETION and state.endings - {Ending.DONE}:
        return Skip(call, COMPLETION_TOO_EARLY)
    times = times_repeated(state.recent, call.key) if limits.repeats else 0
    if times > limits.repeats:
        return Ask(AskKind.MISTAKE_LIMIT_REACHED, LOOPING.format(tool=call.name))
    if limits.repeats and times == limits.repeats:
        return Skip(call, REPEATED.format(times=times), Ending.MISTAKEN)
    return RunTool(call)


def _after_text(state: TaskState, turn: TurnRules) -> Step:
    """Text ends the turn, unless it looks like a mistake and nudges are left."""
    slip = _nudge_for(state, turn)
    if slip and state.nudges < turn.nudges:
        return Remind(slip, nudge=True)
    return Complete(state.words) if state.words else Ask(AskKind.API_REQ_FAILED, NO_ANSWER)


def _nudge_for(state: TaskState, turn: TurnRules) -> str:
    """The nudge for an answer that was probably not meant to end the turn; empty if it was."""
    if not state.words:
        return EMPTY_ANSWER
    if state.stop is StopReason.LENGTH:
        return CUT_OFF
    if state.written:
        return WRITTEN_CALL.format(tool=state.written)
    open_todos = any(todo.status != "completed" for todo in state.todos)
    if open_todos and not (state.called or turn.attended):
        return NOT_BEGUN
    return ""


def _after_failure(
    state: TaskState, failure: RequestFailed, limits: Limits, turn: TurnRules
) -> Step:
    if state.fallback < limits.fallbacks and _model_fails(state, failure, limits):
        return FallBack(state.fallback + 1)
    match failure.error:
        case FailureKind.OVERFLOW if state.cuts < MOST_CUTS:
            return Shorten(failure.message)
        case FailureKind.BROKEN_HISTORY if not state.repaired:
            return Repair()
        case FailureKind.EMPTY if state.failures > 1:
            return _about_empty_answers(state, failure, limits, turn)
        case FailureKind.NO_CREDIT:
            return Ask(AskKind.PAYMENT_REQUIRED_PROMPT, failure.message)
        case FailureKind.NO_MODEL:
            return Ask(AskKind.INVALID_MODEL, failure.message)
    delay = delay_before_retry(failure.error, state.failures, failure.retry_after)
    if delay is None:
        return Ask(AskKind.API_REQ_FAILED, failure.message)
    step = _request(state, limits)
    if isinstance(step, CallModel):
        named = delay == failure.retry_after
        return replace(step, delay=delay, named_by_server=named, reason=failure.message)
    return step


def _model_fails(state: TaskState, failure: RequestFailed, limits: Limits) -> bool:
    """Whether the model is gone, or cannot be reached within the time that the user waits."""
    if failure.error not in FALLBACK_KINDS:
        return False
    delay = delay_before_retry(failure.error, state.failures, failure.retry_after)
    if delay is None:
        return True
    waited = state.spent.seconds - state.sent_at
    return failure.error is FailureKind.BUSY and waited + delay > limits.fallback_after


def _about_empty_answers(
    state: TaskState, failure: RequestFailed, limits: Limits, turn: TurnRules
) -> Step:
    if turn.words_end and state.nudges < turn.nudges:
        return Remind(EMPTY_ANSWER, nudge=True)
    if turn.words_end:
        return Ask(AskKind.API_REQ_FAILED, failure.message)
    if limits.mistakes and state.mistakes >= limits.mistakes:
        return Ask(AskKind.MISTAKE_LIMIT_REACHED, stuck(state.mistakes))
    return Remind(EMPTY_ANSWER, mistake=state.failures > 2)


def _may_continue(state: TaskState, limits: Limits) -> bool:
    """Whether a provider that paused its answer is called again with the same content."""
    return state.stop is StopReason.PAUSED and state.paused <= limits.continuations


def _request(state: TaskState, limits: Limits) -> CallModel | Ask | Gather | Close:
    spent = state.spent
    if kind := used_up(state.opened.budget, used_since(state.opened.spent, spent)):
        return Close("out of budget", f"its budget of {kind} is used up")
    ceilings = {
        "requests": (spent.requests, limits.requests),
        "cost": (spent.cost, limits.cost),
        "tokens": (spent.tokens, limits.tokens),
        "seconds": (spent.seconds, limits.seconds),
    }
    for kind, (used, most) in ceilings.items():
        if most and used >= most:
            return _ceiling(most, kind)
    if state.unread:
        _, text = state.unread[0]
        return Gather(text)
    return CallModel(attempt=state.failures + 1)


def _ceiling(count: float, kind: str) -> Ask:
    return Ask(AskKind.AUTO_APPROVAL_MAX_REQ_REACHED, json.dumps({"count": count, "type": kind}))
