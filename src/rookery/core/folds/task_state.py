"""What the loop needs to know about a task, folded from its facts."""

from collections.abc import Iterable, Sequence
from functools import reduce

from msgspec import Struct
from msgspec.structs import replace

from rookery.core.asks import CATEGORY, AskCategory, AskKind, offered_in
from rookery.core.blocks import ToolCall, call_key
from rookery.core.facts import (
    Answered,
    ApprovalSwitched,
    Asked,
    AssistantSpoke,
    CompletionOffered,
    Condensed,
    CriteriaChecked,
    Ending,
    Event,
    Fact,
    Gathered,
    Governed,
    HistoryRepaired,
    IntentCleared,
    IntentSelected,
    ModelSwitched,
    ModeSwitched,
    QueueEdited,
    Reminded,
    RequestFailed,
    RequestStarted,
    Rewound,
    ScopeGranted,
    Spent,
    StepCancelled,
    StopReason,
    TaskClosed,
    TaskFailed,
    TaskOpened,
    TaskReopened,
    Todo,
    TodosChanged,
    ToolFinished,
    ToolStarted,
    Usage,
    UserSpoke,
    live,
)
from rookery.core.folds.run_tallies import limit_in, spent_with, spent_without
from rookery.core.instructions import points_somewhere
from rookery.core.limits import FailureKind
from rookery.core.tokens import PER_BYTE, learnt, overflow_in
from rookery.core.tool_traits import DELEGATION

REMEMBERED_CALLS = 18
PLANNING = "architect"
"""The mode whose results are plans."""
SMALLEST_WINDOW = 1_000
"""Tokens; no model has less, so a smaller number must mean something else."""
GUESSES = (0.6, 0.3, 0.1)
"""Which part of what was refused would have fitted, the first time and later ones."""
PATIENCE_WITH_CHECKS = 2
"""How often work that fails its own checks is given back before the user is asked about it."""
SMALLEST_GUESS = 4_000
"""Tools and rules alone come close to it, and cannot be cut."""


class TaskState(Struct, frozen=True):
    mode: str = "code"
    chosen: tuple[str, str] = ("", "")
    """The provider and model that the user wants, if not the usual ones."""
    automatic: bool | None = None
    """Whether actions are allowed without a question, if not as the run was started."""

    pending: tuple[ToolCall, ...] = ()
    """Calls of the last answer that have no result yet."""
    running: ToolStarted | None = None
    answered_calls: int = 0
    endings: frozenset[Ending] = frozenset()
    """How the calls of the last answer ended so far."""
    delegated: bool = False
    """A call of the last answer handed its work to a sub-task, or tried to."""
    recent: tuple[str, ...] = ()
    """The latest calls, by name and arguments, to notice a model that walks in circles."""

    stop: StopReason = StopReason.END
    toolless: int = 0
    paused: int = 0
    words: str | None = None
    """What an answer without a call says, until something comes of it."""
    written: str = ""
    """The tool whose call stands in these words instead of being made."""
    nudges: int = 0
    """Nudges since the user last spoke."""
    called: bool = False
    """Whether a tool was called since the user last spoke."""
    mistakes: int = 0
    completion: str | None = None
    plan: str = ""
    """The last plan that the user has accepted."""
    todos: tuple[Todo, ...] = ()

    failure: RequestFailed | None = None
    failures: int = 0
    cuts: int = 0
    """How often the context was condensed since the last answer."""
    repaired: bool = False

    model: str = ""
    window: int = 0
    """What the model's context really holds, as a refusal gave away; 0 while none has."""
    sent: int = 0
    """Bytes of text in the last request."""
    per_byte: float = PER_BYTE
    """Tokens, as the provider counts them."""

    parent: str | None = None
    depth: int = 0
    spent: Spent = Spent()
    limit: str = ""
    """Which part of what was spent the user is asked about."""
    queue: frozenset[str] = frozenset()
    """Words of the user that the model has not heard."""
    unread: tuple[tuple[str, str], ...] = ()
    """Words of the user that point at something nobody has looked up, with the message's id."""
    silent: bool = False
    """What opened the task was refused, and nothing was said since."""
    offered: frozenset[str] = frozenset()
    """The answers that the model suggested to its last question."""

    governed: Governed | None = None
    """How intents govern the task, if they do."""
    intent: IntentSelected | None = None
    unread_intent: bool = False
    """The model has not answered yet since it was told of the intent."""
    distrusted: bool = False
    """A call of the task changed what the intent says."""
    grants: tuple[ScopeGranted, ...] = ()
    refused: tuple[str, int] = ("", 0)
    """The call that governance refused last, and how often in a row."""
    checked: bool = False
    """The acceptance criteria were looked at since the model last said something."""
    failed_checks: int = 0
    """How often the work was said to be done and was not, in a row."""

    interrupted: bool = False
    over: bool = False
    closed: bool = False


def advance(state: TaskState, fact: Fact) -> TaskState:
    """The state after one more fact. Facts the loop does not care about change nothing."""
    match fact:
        case TaskOpened(text=text, parent=parent):
            # a child's words are a model's, which looks things up with its tools
            return _opened(fact) if parent else _told(_opened(fact), text)
        case TodosChanged(todos=todos):
            return replace(state, todos=todos)
        case Gathered():
            return replace(state, unread=state.unread[1:])
        case TaskReopened(resumed=resumed):
            again = replace(state, over=False, closed=False, failure=None, failures=0)
            return replace(again, interrupted=not resumed, automatic=None)
        case StepCancelled():
            return replace(state, interrupted=True, failure=None, failures=0)
        case Rewound():
            # what was taken back is not done again unless the model is told and wants it again
            return replace(state, interrupted=True, failure=None, failures=0, pending=())
        case TaskClosed() | TaskFailed():
            return replace(state, closed=True)
        case UserSpoke(message_id=message_id, text=text):
            state = _new_turn(replace(state, queue=state.queue | {message_id}, silent=False))
            return _told(state, text, message_id)
        case QueueEdited(message_id=message_id, text=text):
            others = tuple(each for each in state.unread if each[0] != message_id)
            state = replace(state, unread=others)
            if text is None:
                return replace(state, queue=state.queue - {message_id})
            return _told(state, text, message_id)
        case RequestStarted():
            return _after_sending(state, fact)
        case AssistantSpoke(interrupted=False):
            return _after_answer(state, fact)
        case AssistantSpoke(usage=usage):
            return replace(state, spent=spent_with(state.spent, usage))
        case RequestFailed(usage=usage):
            spent = spent_with(state.spent, usage)
            state = replace(state, failure=fact, failures=state.failures + 1, spent=spent)
            return _too_full(state, fact) if fact.error is FailureKind.OVERFLOW else state
        case ToolStarted():
            return replace(state, running=fact)
        case ToolFinished():
            return _after_call(state, fact)
        case CompletionOffered(result=result, spoken=spoken):
            mistakes = 0 if spoken else state.mistakes
            done = replace(state, completion=result, words=None, mistakes=mistakes)
            return replace(done, failure=None, failures=0)
        case Reminded(mistake=mistake, nudge=nudge):
            told = replace(state, words=None, failure=None)
            return replace(told, mistakes=state.mistakes + mistake, nudges=state.nudges + nudge)
        case ModeSwitched(mode=mode):
            return replace(state, mode=mode)
        case ModelSwitched(provider=provider, model=model):
            return replace(state, chosen=(provider, model))
        case ApprovalSwitched(automatic=automatic):
            return replace(state, automatic=automatic)
        case Governed():
            return replace(state, governed=fact)
        case IntentSelected():
            return _selected(state, fact)
        case IntentCleared(own_doing=own_doing):
            distrusted = state.distrusted or own_doing
            return replace(state, intent=None, unread_intent=False, distrusted=distrusted)
        case ScopeGranted():
            return replace(state, grants=(*state.grants, fact))
        case CriteriaChecked(by_hook=True, failed=failed):
            return replace(state, completion=None) if failed else state
        case CriteriaChecked(failed=True) if state.failed_checks < PATIENCE_WITH_CHECKS:
            times = state.failed_checks + 1
            return replace(state, completion=None, failed_checks=times)
        case CriteriaChecked():
            return replace(state, checked=True, failed_checks=0)
        case Condensed(usage=usage):
            asked = usage != Usage()
            spent = spent_with(replace(state.spent, requests=state.spent.requests + asked), usage)
            return replace(state, failure=None, cuts=state.cuts + 1, spent=spent)
        case HistoryRepaired():
            return replace(state, failure=None, repaired=True)
        case Asked(ask=AskKind.AUTO_APPROVAL_MAX_REQ_REACHED, text=text):
            return replace(state, limit=limit_in(text))
        case Asked(ask=AskKind.FOLLOWUP, text=text):
            return replace(state, offered=offered_in(text))
        case Answered(text=text, by="user") if text.strip() in state.offered:
            # whoever picks a suggestion says what the model wrote
            return _after_reply(_new_turn(state), fact)
        case Answered(text=text, by="user"):
            state = replace(state, silent=state.silent and not text)
            state = _new_turn(state) if text.strip() else state
            return _told(_after_reply(state, fact), text)
        case Answered():
            return _after_reply(state, fact)
        case _:
            return state


def fold(events: Iterable[Event]) -> TaskState:
    return reduce(advance, (event.fact for event in live(events)), TaskState())


def _opened(fact: TaskOpened) -> TaskState:
    return TaskState(
        mode=fact.mode,
        parent=fact.parent,
        depth=fact.depth,
        spent=fact.spent,
        todos=fact.todos,
        silent=not (fact.text or fact.images),
    )


def _selected(state: TaskState, fact: IntentSelected) -> TaskState:
    """Writing may begin once the model has read what it selected; the user and the parent hand
    that over before it says anything."""
    known = state.intent is not None and state.intent.digest == fact.digest
    unread = fact.by == "model" and (not known or state.unread_intent)
    return replace(state, intent=fact, unread_intent=unread, distrusted=False)


def _new_turn(state: TaskState) -> TaskState:
    return replace(state, nudges=0, called=False)


def _told(state: TaskState, text: str, message_id: str = "") -> TaskState:
    if not points_somewhere(text):
        return state
    return replace(state, unread=(*state.unread, (message_id, text)))


def _after_sending(state: TaskState, started: RequestStarted) -> TaskState:
    state = replace(
        state,
        spent=replace(
            state.spent,
            requests=state.spent.requests + 1,
            seconds=state.spent.seconds + started.seconds,
        ),
        queue=frozenset(),
        completion=None,
        failure=None,
        words=None,
        sent=started.size,
    )
    if started.model == state.model:
        return state
    return replace(state, model=started.model, window=0, per_byte=PER_BYTE)


def _too_full(state: TaskState, failure: RequestFailed) -> TaskState:
    """What was learnt about the window: what the provider said of it, or else that it holds less
    than was sent."""
    said = overflow_in(failure.message)
    sent = failure.size or state.sent
    per_byte = learnt(state.per_byte, sent, said.used)
    guess = int(sent * per_byte * GUESSES[min(state.cuts, len(GUESSES) - 1)])
    if said.limit >= SMALLEST_WINDOW:
        return replace(state, per_byte=per_byte, window=said.limit)
    return replace(state, per_byte=per_byte, window=max(guess, SMALLEST_GUESS))


def _after_answer(state: TaskState, answer: AssistantSpoke) -> TaskState:
    calls = tuple(block for block in answer.blocks if isinstance(block, ToolCall))
    paused = answer.stop is StopReason.PAUSED
    return replace(
        state,
        pending=calls,
        answered_calls=0,
        endings=frozenset(),
        delegated=False,
        stop=answer.stop,
        toolless=0 if calls else state.toolless + (not paused),
        paused=state.paused + 1 if paused else 0,
        words=None if calls else answer.words,
        written=answer.written,
        called=state.called or bool(calls),
        failures=0,
        cuts=0,
        repaired=False,
        unread_intent=False,
        checked=False,
        per_byte=learnt(state.per_byte, state.sent, answer.usage.tokens_in),
        spent=spent_with(state.spent, answer.usage),
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
        delegated=state.delegated or any(call.name == DELEGATION for call in ended),
        recent=(*state.recent, *map(call_key, ended))[-REMEMBERED_CALLS:],
        mistakes=mistakes.get(end.ending, state.mistakes),
        spent=end.spent or state.spent,
        refused=_refused(state, ended, end),
    )


def _refused(state: TaskState, ended: Sequence[ToolCall], end: ToolFinished) -> tuple[str, int]:
    """What else is done in between does not make the same refusal a new one."""
    if not end.refusal or not ended:
        return state.refused
    key = call_key(ended[0])
    last, times = state.refused
    return key, times + 1 if key == last else 1


def _after_reply(state: TaskState, answer: Answered) -> TaskState:
    if CATEGORY[answer.ask] is AskCategory.NON_BLOCKING:
        return _redirected(state) if answer.reply == "message" else state
    if CATEGORY[answer.ask] is AskCategory.INTERACTIVE:
        return state
    if (answer.ask, answer.reply) == (AskKind.COMPLETION_RESULT, "yes"):
        accepted = state.mode == PLANNING and state.completion
        return replace(state, over=True, plan=accepted or state.plan)
    if answer.reply == "no":
        return replace(state, over=True)
    state = replace(state, failure=None, failures=0)
    match answer.ask:
        case AskKind.COMPLETION_RESULT:
            return replace(state, completion=None, words=None)
        case AskKind.API_REQ_FAILED:
            return replace(state, words=None)
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


def _redirected(state: TaskState) -> TaskState:
    """New words overrule what was about to be done; what had begun stays to be settled."""
    begun = state.running.call_id if state.running else None
    kept = tuple(call for call in state.pending if call.id == begun)
    return replace(state, pending=kept, completion=None, words=None)
