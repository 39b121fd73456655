"""How answers of the user and changes of the model change the state of a task."""

from typing import TYPE_CHECKING

from msgspec.structs import replace

from rookery.core.asks import CATEGORY, AskCategory, AskKind
from rookery.core.facts import Answered
from rookery.core.folds.run_tallies import spent_without
from rookery.core.tokens import PER_BYTE

if TYPE_CHECKING:
    from rookery.core.folds.task_state import TaskState

PLANNING = "architect"
"""The mode whose results are plans."""


def new_turn(state: "TaskState") -> "TaskState":
    return replace(from_first_model(state), nudges=0, called=False, recent=())


def from_first_model(state: "TaskState") -> "TaskState":
    return with_model(state, 0, ("", "")) if state.fallback else state


def with_model(state: "TaskState", place: int, fallback_model: tuple[str, str]) -> "TaskState":
    """Switch to another model and drop what was measured for the last one."""
    state = replace(state, fallback=place, fallback_model=fallback_model, failure=None, failures=0)
    return replace(state, window=0, per_byte=PER_BYTE)


def after_reply(state: "TaskState", answer: Answered) -> "TaskState":
    if answer.level:
        return _with_plan(state, answer)
    if CATEGORY[answer.ask] is AskCategory.NON_BLOCKING:
        return _redirected(state) if answer.reply == "message" else state
    if CATEGORY[answer.ask] is AskCategory.INTERACTIVE:
        return state
    if (answer.ask, answer.reply) == (AskKind.COMPLETION_RESULT, "yes"):
        accepted = (state.mode == PLANNING or state.proposal) and state.completion
        return replace(state, over=True, plan=accepted or state.plan)
    if answer.reply == "no":
        return replace(state, over=True)
    state = replace(state, failure=None, failures=0)
    match answer.ask:
        case AskKind.COMPLETION_RESULT:
            return replace(state, completion=None, words=None)
        case AskKind.API_REQ_FAILED | AskKind.INVALID_MODEL:
            return replace(from_first_model(state), words=None)
        case AskKind.RESUME_TASK | AskKind.RESUME_COMPLETED_TASK:
            state = replace(state, interrupted=False)
            return _redirected(state) if answer.reply == "message" else state
        case AskKind.MISTAKE_LIMIT_REACHED:
            state = replace(state, mistakes=0, recent=(), refused=("", 0))
            return _redirected(state) if answer.reply == "message" else state
        case AskKind.AUTO_APPROVAL_MAX_REQ_REACHED:
            return replace(state, spent=spent_without(state.spent, state.limit))
        case _:
            return state


def _redirected(state: "TaskState") -> "TaskState":
    """A new message drops pending calls; a started one still has to be settled."""
    begun = state.running.call_id if state.running else None
    kept = tuple(call for call in state.pending if call.id == begun)
    return replace(state, pending=kept, completion=None, words=None)


def _with_plan(state: "TaskState", answer: Answered) -> "TaskState":
    """The user approved a plan: its steps are the to-do list."""
    from rookery.core.plans import plan_steps

    state = replace(state, completion=None, words=None, proposal=False, failure=None, failures=0)
    steps = plan_steps(answer.text) or state.todos
    return replace(state, plan=answer.text, level=answer.level, todos=steps)
