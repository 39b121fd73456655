"""What the loop needs to know about a task, folded from its facts."""

import hashlib
import json
from collections.abc import Iterable
from dataclasses import replace
from functools import reduce

from rookery.core.asks import CATEGORY, AskCategory, AskKind
from rookery.core.blocks import ToolCall
from rookery.core.facts import (
    Answered,
    AssistantSpoke,
    CompletionOffered,
    Ending,
    Event,
    Fact,
    HistoryRepaired,
    ModeSwitched,
    QueueEdited,
    Reminded,
    RequestFailed,
    RequestStarted,
    Rewound,
    StepCancelled,
    StopReason,
    TaskClosed,
    TaskFailed,
    TaskOpened,
    TaskReopened,
    ToolFinished,
    ToolStarted,
    Truncated,
    UserSpoke,
    live,
)
from rookery.core.values import record

REMEMBERED_CALLS = 18


@record
class TaskState:
    mode: str = "code"

    pending: tuple[ToolCall, ...] = ()
    """Calls of the last answer that have no result yet."""
    running: ToolStarted | None = None
    answered_calls: int = 0
    endings: frozenset[Ending] = frozenset()
    """How the calls of the last answer ended so far."""
    recent: tuple[str, ...] = ()
    """The latest calls, by name and arguments, to notice a model that walks in circles."""

    stop: StopReason = StopReason.END
    answers: int = 0
    """Answers the model would be sent; what could be cut from the context."""
    toolless: int = 0
    paused: int = 0
    owes_reminder: bool = False
    mistakes: int = 0
    completion: str | None = None

    failure: RequestFailed | None = None
    failures: int = 0
    cut: bool = False
    repaired: bool = False

    requests: int = 0
    cost: float = 0.0
    queue: frozenset[str] = frozenset()
    """Words of the user that the model has not heard."""

    interrupted: bool = False
    over: bool = False
    closed: bool = False


def advance(state: TaskState, fact: Fact) -> TaskState:
    """The state after one more fact. Facts the loop does not care about change nothing."""
    match fact:
        case TaskOpened(mode=mode):
            return TaskState(mode=mode)
        case TaskReopened():
            return replace(
                state, interrupted=True, over=False, closed=False, failure=None, failures=0
            )
        case StepCancelled():
            return replace(state, interrupted=True, failure=None, failures=0)
        case Rewound():
            # what was taken back is not done again unless the model is told and wants it again
            return replace(state, interrupted=True, failure=None, failures=0, pending=())
        case TaskClosed() | TaskFailed():
            return replace(state, closed=True)
        case UserSpoke(message_id=message_id):
            return replace(state, queue=state.queue | {message_id})
        case QueueEdited(message_id=message_id, text=None):
            return replace(state, queue=state.queue - {message_id})
        case RequestStarted():
            return replace(
                state,
                requests=state.requests + 1,
                queue=frozenset(),
                completion=None,
                failure=None,
                owes_reminder=False,
            )
        case AssistantSpoke(interrupted=False):
            return _after_answer(state, fact)
        case AssistantSpoke(usage=usage):
            return replace(state, cost=state.cost + (usage.cost or 0.0))
        case RequestFailed(usage=usage):
            cost = state.cost + (usage.cost or 0.0)
            return replace(state, failure=fact, failures=state.failures + 1, cost=cost)
        case ToolStarted():
            return replace(state, running=fact)
        case ToolFinished():
            return _after_call(state, fact)
        case CompletionOffered(result=result):
            return replace(state, completion=result)
        case Reminded(mistake=mistake):
            mistakes = state.mistakes + mistake
            return replace(state, owes_reminder=False, failure=None, mistakes=mistakes)
        case ModeSwitched(mode=mode):
            return replace(state, mode=mode)
        case Truncated():
            kept = state.answers - state.answers // 2
            return replace(state, failure=None, cut=True, answers=kept)
        case HistoryRepaired():
            return replace(state, failure=None, repaired=True)
        case Answered():
            return _after_reply(state, fact)
        case _:
            return state


def fold(events: Iterable[Event]) -> TaskState:
    return reduce(advance, (event.fact for event in live(events)), TaskState())


def call_key(call: ToolCall) -> str:
    """The same for two calls that ask for the same thing."""
    text = json.dumps([call.name, dict(call.arguments)], sort_keys=True, default=str)
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:16]


def times_repeated(recent: tuple[str, ...], key: str, longest_cycle: int = 3) -> int:
    """How often the calls just made already went through the circle this call would close."""
    walk = (*recent, key)
    return max(_laps(walk, cycle) for cycle in range(1, longest_cycle + 1))


def _laps(walk: tuple[str, ...], cycle: int) -> int:
    lap = walk[-cycle:]
    laps = 0
    while len(walk) >= cycle * (laps + 2) and walk[-cycle * (laps + 2) :][:cycle] == lap:
        laps += 1
    return laps


def _after_answer(state: TaskState, answer: AssistantSpoke) -> TaskState:
    calls = tuple(block for block in answer.blocks if isinstance(block, ToolCall))
    paused = answer.stop is StopReason.PAUSED
    return replace(
        state,
        pending=calls,
        answered_calls=0,
        endings=frozenset(),
        stop=answer.stop,
        answers=state.answers + 1,
        toolless=0 if calls else state.toolless + (not paused),
        paused=state.paused + 1 if paused else 0,
        owes_reminder=not calls,
        failures=0,
        cut=False,
        repaired=False,
        cost=state.cost + (answer.usage.cost or 0.0),
    )


def _after_call(state: TaskState, end: ToolFinished) -> TaskState:
    ended = [call for call in state.pending if call.id == end.call_id]
    mistakes = {Ending.DONE: 0, Ending.MISTAKEN: state.mistakes + 1}
    return replace(
        state,
        pending=tuple(call for call in state.pending if call.id != end.call_id),
        running=None,
        answered_calls=state.answered_calls + len(ended),
        endings=state.endings | {end.ending},
        recent=(*state.recent, *map(call_key, ended))[-REMEMBERED_CALLS:],
        mistakes=mistakes.get(end.ending, state.mistakes),
    )


def _after_reply(state: TaskState, answer: Answered) -> TaskState:
    if CATEGORY[answer.ask] is AskCategory.NON_BLOCKING:
        return _redirected(state) if answer.reply == "message" else state
    if CATEGORY[answer.ask] is AskCategory.INTERACTIVE:
        return state
    if answer.reply == "no" or (answer.ask, answer.reply) == (AskKind.COMPLETION_RESULT, "yes"):
        return replace(state, over=True)
    state = replace(state, failure=None, failures=0)
    match answer.ask:
        case AskKind.COMPLETION_RESULT:
            return replace(state, completion=None, owes_reminder=False)
        case AskKind.RESUME_TASK | AskKind.RESUME_COMPLETED_TASK:
            state = replace(state, interrupted=False)
            return _redirected(state) if answer.reply == "message" else state
        case AskKind.MISTAKE_LIMIT_REACHED:
            state = replace(state, mistakes=0, recent=())
            return _redirected(state) if answer.reply == "message" else state
        case AskKind.AUTO_APPROVAL_MAX_REQ_REACHED:
            return replace(state, requests=0, cost=0.0)
        case _:
            return state


def _redirected(state: TaskState) -> TaskState:
    """New words overrule what was about to be done; what had begun stays to be settled."""
    begun = state.running.call_id if state.running else None
    kept = tuple(call for call in state.pending if call.id == begun)
    return replace(state, pending=kept, completion=None, owes_reminder=False)
