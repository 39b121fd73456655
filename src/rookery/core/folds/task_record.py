"""Folds a task's events into its state, and keeps both.

A `TaskRecord` is complete in itself: it can be stored beside the events and continued from there.
"""

from collections.abc import Iterable, Sequence
from functools import reduce

from msgspec import Struct
from msgspec.structs import replace

from rookery.core.asks import AskKind, offered_in
from rookery.core.blocks import ToolCall
from rookery.core.event_list import EventList, live, of_kind
from rookery.core.facts import (
    AgentTask,
    Answered,
    ApprovalSwitched,
    Asked,
    AssistantSpoke,
    Change,
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
    PromptRefused,
    QueueEdited,
    Reminded,
    RequestFailed,
    RequestStarted,
    Rewound,
    ScopeGranted,
    Seen,
    Spent,
    StepCancelled,
    TaskClosed,
    TaskFailed,
    TaskOpened,
    TaskReopened,
    TodosChanged,
    ToolFinished,
    ToolStarted,
    Usage,
    UserSpoke,
)
from rookery.core.folds.run_tallies import limit_in, spent_with
from rookery.core.folds.task_state import (
    TaskState,
    after_answer,
    after_call,
    after_message,
    after_opening,
    after_reply,
    after_selecting,
    after_sending,
    new_turn,
    too_full,
    with_model,
)
from rookery.core.limits import FailureKind
from rookery.core.modes import Level

PATIENCE_WITH_CHECKS = 2
"""How often work that fails its checks goes back to the model before the user is asked."""


def advance(state: TaskState, fact: Fact) -> TaskState:
    """The state after one more fact. Facts that do not concern the loop change nothing."""
    match fact:
        case TaskOpened(text=text, parent=parent):
            # a child's words are a model's, which looks things up with its tools
            return after_opening(fact) if parent else after_message(after_opening(fact), text)
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
            # a call that was rewound is not made again unless the model makes it again
            return replace(state, interrupted=True, failure=None, failures=0, pending=())
        case TaskClosed() | TaskFailed():
            return replace(state, closed=True)
        case UserSpoke(message_id=message_id, text=text):
            state = new_turn(replace(state, queue=state.queue | {message_id}, silent=False))
            return after_message(state, text, message_id)
        case QueueEdited(message_id=message_id, text=text):
            state = replace(state, unread=tuple(e for e in state.unread if e[0] != message_id))
            if text is None:
                return replace(state, queue=state.queue - {message_id})
            return after_message(state, text, message_id)
        case RequestStarted():
            return after_sending(state, fact)
        case AssistantSpoke(interrupted=False):
            return after_answer(state, fact)
        case AssistantSpoke(usage=usage):
            return replace(state, spent=spent_with(state.spent, usage))
        case RequestFailed(usage=usage):
            spent = spent_with(state.spent, usage)
            state = replace(state, failure=fact, failures=state.failures + 1, spent=spent)
            return too_full(state, fact) if fact.error is FailureKind.OVERFLOW else state
        case ToolStarted():
            return replace(state, running=fact)
        case ToolFinished():
            return after_call(state, fact)
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
            return after_selecting(state, fact)
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
            # a suggestion was written by the model
            return after_reply(new_turn(state), fact)
        case Answered(text=text, by="user"):
            state = replace(state, silent=state.silent and not text)
            state = new_turn(state) if text.strip() else state
            return after_message(after_reply(state, fact), text)
        case Answered():
            return after_reply(state, fact)
        case _:
            return state


def fold(events: Iterable[Event]) -> TaskState:
    return reduce(advance, (event.fact for event in live(events)), TaskState())


class TaskRecord:
    def __init__(
        self,
        events: EventList | None = None,
        state: TaskState = TaskState(),  # noqa: B008 (it never changes)
        call_ids: Iterable[str] = (),
        agents: Iterable[tuple[str, AgentTask]] = (),
        files: "KnownFiles | None" = None,
    ) -> None:
        self.events = EventList() if events is None else events
        self._state: TaskState | None = state
        self.call_ids = set(call_ids)
        """The ids of all calls, condensed and rewound ones too. Some servers repeat theirs."""
        self.agents = list(agents)
        """The agents of all calls with the calls' ids, rewound ones too."""
        self._files: KnownFiles | None = KnownFiles() if files is None else files

    @classmethod
    def of(cls, events: Iterable[Event]) -> "TaskRecord":
        record = cls()
        for event in events:
            record.append(event)
        return record

    @property
    def state(self) -> TaskState:
        if self._state is None:
            self._state = fold(self.events)
        return self._state

    @property
    def files(self) -> "KnownFiles":
        if self._files is None:
            self._files = KnownFiles.of(self.events)
        return self._files

    def append(self, event: Event) -> None:
        self.events.append(event)
        match event.fact:
            case Rewound() | PromptRefused():
                self._state = self._files = None
            case AssistantSpoke(blocks=blocks):
                self.call_ids |= {each.id for each in blocks if isinstance(each, ToolCall)}
            case ToolStarted(call_id=call_id, agents=agents):
                self.agents += ((call_id, agent) for agent in agents)
            case _:
                pass
        if self._state is not None:
            self._state = advance(self._state, event.fact)
        if self._files is not None:
            self._files.add(event)


class KnownFile(Struct, frozen=True):
    """`sha` is empty for a file too large to read."""

    sha: str
    whole: bool


class KnownFiles(Struct):
    """The files as the model last saw them: those it read and those it changed."""

    by_path: dict[str, KnownFile] = {}
    started: dict[str, tuple[Change, ...]] = {}
    """What calls without an end change."""

    @classmethod
    def of(cls, events: Sequence[Event]) -> "KnownFiles":
        files = cls()
        for event in of_kind(live(events), ToolStarted, ToolFinished, Gathered):
            files.add(event)
        return files

    def add(self, event: Event) -> None:
        match event.fact:
            case ToolStarted(call_id=call_id, changes=changes) if changes:
                self.started[call_id] = changes
            case ToolFinished(call_id=call_id, ending=ending, seen=seen):
                changes = self.started.pop(call_id, ())
                moves = any(not change.after for change in changes)
                for change in changes if ending is Ending.DONE else ():
                    self._learn_change(change, moves=moves)
                for each in seen:
                    self._learn_seen(each)
            case Gathered(seen=seen):
                for each in seen:
                    self._learn_seen(each)
            case _:
                pass

    def _learn_change(self, change: Change, *, moves: bool) -> None:
        """An edit does not show the rest of a file. The model knows a file it created as a whole,
        unless the file may have been moved there."""
        known = self.by_path.pop(change.path, None)
        if change.after:
            made = not change.before and not moves
            followed = known is not None and known.sha == change.before
            whole = made or (known is not None and known.whole and followed)
            self.by_path[change.path] = KnownFile(change.after, whole)

    def _learn_seen(self, seen: Seen) -> None:
        known = self.by_path.get(seen.path)
        follows = known is not None and (known.sha == seen.sha or seen.amended)
        seen_before = known is not None and known.whole and follows
        self.by_path[seen.path] = KnownFile(seen.sha, seen.whole or seen_before)
