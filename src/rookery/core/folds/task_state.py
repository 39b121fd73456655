"""What the loop needs to know about a task, folded from its facts."""

from collections.abc import Iterable, Mapping, Sequence
from functools import reduce

from msgspec import Struct
from msgspec.structs import replace

from rookery.core.asks import AskKind, offered_in
from rookery.core.blocks import ToolCall
from rookery.core.event_list import live
from rookery.core.facts import (
    Answered,
    ApprovalSwitched,
    Asked,
    AssistantSpoke,
    ChecksRun,
    CompletionOffered,
    Condensed,
    CriteriaChecked,
    Ending,
    Event,
    Fact,
    FellBack,
    Gathered,
    Governed,
    HistoryRepaired,
    IntentCleared,
    IntentSelected,
    ModelSwitched,
    ModeSwitched,
    Noted,
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
)
from rookery.core.folds.run_tallies import limit_in, spent_with
from rookery.core.folds.task_replies import after_reply, new_turn, with_model
from rookery.core.instructions import points_somewhere
from rookery.core.limits import Effort, FailureKind
from rookery.core.modes import Level
from rookery.core.tokens import PER_BYTE, learnt, overflow_in, window_after
from rookery.core.tool_traits import DELEGATION

REMEMBERED_CALLS = 18
PATIENCE_WITH_CHECKS = 2
"""How often work that fails its checks goes back to the model before the user is asked."""


class TaskState(Struct, frozen=True):
    mode: str = "code"
    chosen: tuple[str, str] = ("", "")
    """The provider and model that the user chose, if not the default ones."""
    effort: Effort | None = None
    """The reasoning effort that the user chose with the model, if not that of the settings."""
    fallback: int = 0
    """How many models of the setting `fallback` were tried since the user's last message."""
    fallback_model: tuple[str, str] = ("", "")
    """The provider and model that took over, if any."""
    level: Level | None = None
    """How far the agent may go without asking; None: as the run was started."""

    pending: tuple[ToolCall, ...] = ()
    """Calls of the last answer without a result."""
    running: ToolStarted | None = None
    answered_calls: int = 0
    endings: frozenset[Ending] = frozenset()
    """How the calls of the last answer ended so far."""
    delegated: bool = False
    """Whether a call of the last answer started a sub-task, or tried to."""
    recent: tuple[str, ...] = ()
    """The latest calls by name and arguments, to detect a loop."""

    stop: StopReason = StopReason.END
    toolless: int = 0
    paused: int = 0
    words: str | None = None
    """The text of an answer without a call, until it is handled."""
    written: str = ""
    """The tool whose call this text contains instead of making it."""
    nudges: int = 0
    """Nudges since the user's last message."""
    called: bool = False
    """Whether a tool was called since the user's last message."""
    mistakes: int = 0
    completion: str | None = None
    proposal: bool = False
    """Whether the completion is a plan for the user's approval."""
    plan: str = ""
    """The last plan that the user accepted."""
    todos: tuple[Todo, ...] = ()

    failure: RequestFailed | None = None
    failures: int = 0
    sent_at: float = 0.0
    """Seconds of work when the request was sent for the first time."""
    cuts: int = 0
    """How often the context was condensed since the last answer."""
    repaired: bool = False

    model: str = ""
    window: int = 0
    """The model's real context window, learnt from a refusal; 0 if unknown."""
    sent: int = 0
    """Bytes of text in the last request."""
    per_byte: float = PER_BYTE
    """Tokens per byte, as the provider counts."""
    known_details: Mapping[str, str] = {}
    """The environment details that the model has, by title; condensing clears them."""

    opened: TaskOpened = TaskOpened(text="")
    parent: str | None = None
    depth: int = 0
    spent: Spent = Spent()
    limit: str = ""
    """The limit that the user is asked about."""
    queue: frozenset[str] = frozenset()
    """Ids of queued messages."""
    unread: tuple[tuple[str, str], ...] = ()
    """Messages with unresolved mentions, with their ids."""
    silent: bool = False
    """Whether the opening message was refused and no other has come."""
    offered: frozenset[str] = frozenset()
    """The answers that the model suggested in its last question."""
    form: bool = False
    """Whether an MCP server asked the last question."""

    governed: Governed | None = None
    """How intents govern the task, if they do."""
    intent: IntentSelected | None = None
    unread_intent: bool = False
    """Whether the model has not answered since it got the intent."""
    distrusted: bool = False
    """Whether a call of the task changed the intent file."""
    grants: tuple[ScopeGranted, ...] = ()
    refused: tuple[str, int] = ("", 0)
    """The call that governance refused last, and how often in a row."""
    checked: bool = False
    """Whether the acceptance criteria were checked since the model's last answer."""
    failed_checks: int = 0
    """How often in a row the work was said to be done and failed its checks."""

    interrupted: bool = False
    over: bool = False
    closed: bool = False

    @property
    def unchecked(self) -> bool:
        """Whether it is offered as complete, and the acceptance criteria were not checked."""
        return self.completion is not None and not (self.checked or self.proposal)

    @property
    def proposed(self) -> str:
        """The plan that waits for the user's approval."""
        return (self.completion or "") if self.proposal else ""


def advance(state: TaskState, fact: Fact) -> TaskState:
    """The state after one more fact. Facts that do not concern the loop change nothing."""
    match fact:
        case TaskOpened(text=text, parent=parent):
            # a child's words are a model's, which looks things up with its tools
            return _opened(fact) if parent else _after_message(_opened(fact), text)
        case TodosChanged(todos=todos):
            return replace(state, todos=todos)
        case Gathered():
            return replace(state, unread=state.unread[1:])
        case TaskReopened(resumed=resumed):
            opened = state.opened if resumed else replace(state.opened, agent="", budget=Spent())
            again = replace(state, opened=opened, over=False, closed=False, level=None)
            return replace(again, interrupted=not resumed, failure=None, failures=0)
        case StepCancelled():
            return replace(state, interrupted=True, failure=None, failures=0)
        case Rewound():
            # what was taken back is not done again unless the model is told and wants it again
            return replace(state, interrupted=True, failure=None, failures=0, pending=())
        case TaskClosed() | TaskFailed():
            return replace(state, closed=True)
        case UserSpoke(message_id=message_id, text=text):
            state = new_turn(replace(state, queue=state.queue | {message_id}, silent=False))
            return _after_message(state, text, message_id)
        case QueueEdited(message_id=message_id, text=text):
            state = replace(state, unread=tuple(e for e in state.unread if e[0] != message_id))
            if text is None:
                return replace(state, queue=state.queue - {message_id})
            return _after_message(state, text, message_id)
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
            done = replace(state, completion=result, words=None, failure=None, failures=0)
            done = replace(done, proposal=bool(fact.plan))
            return replace(done, mistakes=0) if spoken else done
        case Reminded(mistake=mistake, nudge=nudge):
            reset = replace(state, words=None, failure=None)
            return replace(reset, mistakes=state.mistakes + mistake, nudges=state.nudges + nudge)
        case ModeSwitched(mode=mode):
            return replace(state, mode=mode)
        case ModelSwitched(provider=provider, model=model, effort=effort):
            state = replace(state, chosen=(provider, model), effort=effort)
            return replace(state, fallback=0, fallback_model=("", ""))
        case FellBack(place=place, provider=provider, model=model, problem=""):
            return with_model(state, place, (provider, model))
        case FellBack(place=place):
            return replace(state, fallback=place)
        case ApprovalSwitched(to=level):
            return replace(state, level=level)
        case Governed():
            return replace(state, governed=fact)
        case IntentSelected():
            return _selected(state, fact)
        case IntentCleared(own_doing=own_doing):
            distrusted = state.distrusted or own_doing
            return replace(state, intent=None, unread_intent=False, distrusted=distrusted)
        case ScopeGranted():
            return replace(state, grants=(*state.grants, fact))
        case CriteriaChecked(by_hook=True, failed=returned) | ChecksRun(returned=returned):
            return replace(state, completion=None) if returned else state
        case CriteriaChecked(failed=True) if state.failed_checks < PATIENCE_WITH_CHECKS:
            return replace(state, completion=None, failed_checks=state.failed_checks + 1)
        case CriteriaChecked():
            return replace(state, checked=True, failed_checks=0)
        case Noted(usage=Usage() as usage):
            spent = replace(state.spent, requests=state.spent.requests + 1)
            return replace(state, spent=spent_with(spent, usage))
        case Condensed(usage=usage):
            asked = usage != Usage()
            spent = spent_with(replace(state.spent, requests=state.spent.requests + asked), usage)
            return replace(state, failure=None, cuts=state.cuts + 1, spent=spent, known_details={})
        case HistoryRepaired():
            return replace(state, failure=None, repaired=True)
        case Asked(ask=AskKind.AUTO_APPROVAL_MAX_REQ_REACHED, text=text):
            return replace(state, limit=limit_in(text))
        case Asked(ask=AskKind.FOLLOWUP, text=text, title=title):
            return replace(state, offered=offered_in(text), form=bool(title))
        case Answered(ask=AskKind.FOLLOWUP) if state.form:
            return after_reply(state, fact)  # not for the model
        case Answered(level=Level()):
            # the plan is the model's text: what it mentions is not looked up for the user
            return after_reply(new_turn(state), fact)
        case Answered(text=text, by="user") if text.strip() in state.offered:
            # whoever picks a suggestion says what the model wrote
            return after_reply(new_turn(state), fact)
        case Answered(text=text, by="user"):
            state = replace(state, silent=state.silent and not text)
            state = new_turn(state) if text.strip() else state
            return _after_message(after_reply(state, fact), text)
        case Answered():
            return after_reply(state, fact)
        case _:
            return state


def fold(events: Iterable[Event]) -> TaskState:
    return reduce(advance, (event.fact for event in live(events)), TaskState())


def _opened(fact: TaskOpened) -> TaskState:
    return TaskState(
        opened=fact,
        mode=fact.mode,
        parent=fact.parent,
        depth=fact.depth,
        spent=fact.spent,
        todos=fact.todos,
        silent=not (fact.text or fact.images),
    )


def _selected(state: TaskState, fact: IntentSelected) -> TaskState:
    """Writing may start once the model has read an intent that it selected itself."""
    known = state.intent is not None and state.intent.digest == fact.digest
    unread = fact.by == "model" and (not known or state.unread_intent)
    return replace(state, intent=fact, unread_intent=unread, distrusted=False)


def _after_message(state: TaskState, text: str, message_id: str = "") -> TaskState:
    unread = (*state.unread, (message_id, text))
    return replace(state, unread=unread) if points_somewhere(text) else state


def _after_sending(state: TaskState, started: RequestStarted) -> TaskState:
    spent, known = state.spent, state.known_details
    seconds = spent.seconds + started.seconds
    state = replace(state, queue=frozenset(), completion=None, failure=None, words=None)
    state = replace(
        state,
        spent=replace(spent, requests=spent.requests + 1, seconds=seconds),
        sent_at=state.sent_at if state.failures else seconds,
        sent=started.size,
        known_details={**known, **started.details} if started.details else known,
    )
    same = started.model == state.model
    return state if same else replace(state, model=started.model, window=0, per_byte=PER_BYTE)


def _too_full(state: TaskState, failure: RequestFailed) -> TaskState:
    """Learn the context window from a refusal."""
    said, sent = overflow_in(failure.message), failure.size or state.sent
    per_byte = learnt(state.per_byte, sent, said.used)
    return replace(state, per_byte=per_byte, window=window_after(said, sent * per_byte, state.cuts))


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
        recent=(*state.recent, *(call.key for call in ended))[-REMEMBERED_CALLS:],
        mistakes=mistakes.get(end.ending, state.mistakes),
        spent=end.spent or state.spent,
        refused=_refused(state, ended, end),
    )


def _refused(state: TaskState, ended: Sequence[ToolCall], end: ToolFinished) -> tuple[str, int]:
    """Other calls in between do not reset the count of the same refusal."""
    if not end.refusal or not ended:
        return state.refused
    last, times = state.refused
    return ended[0].key, times + 1 if ended[0].key == last else 1
