"""Sessions rebuilt from disk: their state, their record, their tasks.

If the manager has received everything the process sent, `rebuild_session` returns the session
exactly as the machine has it. What it missed is in the journal, or follows from whether the
process lives.

A journal may be long, so it is read in a thread and its end is shown first, from the start of a
request: nothing before that is still open.
"""

from collections.abc import Callable, Iterable, Sequence

import anyio
import anyio.from_thread
import anyio.to_thread
from msgspec import Struct
from msgspec.structs import replace

from rookery.core.asks import AskKind
from rookery.core.facts import Answered, Event, RequestStarted, Rewound, TaskOpened, UserSpoke
from rookery.core.folds.view import View, see
from rookery.errors import StorageError
from rookery.manager.dependencies import StoredTasks
from rookery.manager.sessions.message_queue import number_of
from rookery.manager.sessions.session_events import PendingAsk, is_answered
from rookery.manager.sessions.session_folders import SessionFolder, SessionLaunch
from rookery.manager.sessions.session_record import SessionRecord, TodoStats, label_of
from rookery.manager.sessions.session_states import (
    CREATION_INTERRUPTED,
    ENDS_PROCESS,
    Failure,
    SessionState,
    SessionStatus,
    Signal,
    failure_of_ask,
)
from rookery.manager.sessions.session_task import FollowedTask

_STATES = {
    Signal.ASK_APPROVAL: SessionState.WAITING_APPROVAL,
    Signal.ASK_LIMIT: SessionState.WAITING_APPROVAL,
    Signal.ASK_FOLLOWUP: SessionState.WAITING_INPUT,
    Signal.ASK_COMPLETION_RESULT: SessionState.COMPLETED,
    Signal.ASK_RESUME_TASK: SessionState.PAUSED,
    Signal.ASK_RESUME_COMPLETED_TASK: SessionState.PAUSED,
    Signal.ASK_FAILURE: SessionState.ERROR,
}
_QUESTIONS = frozenset((Signal.ASK_APPROVAL, Signal.ASK_LIMIT, Signal.ASK_FOLLOWUP))
EVENTS_GLIMPSED = 600
"""Minimum number of events in a glimpse."""
_FROM_LAUNCH = ("model", "mode", "provider", "auto_approve", "workspace")
_MAX_DEPTH = 20
"""Maximum depth of sub-tasks."""


class Glimpse(Struct, frozen=True):
    """The last rows of a task; `earlier` estimates the number of rows before them."""

    view: View
    earlier: int


def rebuild_session(
    record: SessionRecord, last_ask: PendingAsk | None, *, alive: bool
) -> SessionRecord:
    """Rebuild a stored session. `alive`: its process was verified to live, or is queued."""
    if last_ask and is_answered(last_ask.ts, record.answered_ask_ts):
        last_ask = None
    followed = alive and record.process_open
    state = _state(record, last_ask, followed=followed)
    failure = _failure(record, last_ask, state, followed=followed)
    session = replace(
        record,
        state=state,
        process_open=followed and not (failure and failure.kind in ENDS_PROCESS),
        failure=failure,
        pending_ask=None,
        deferred_ask=None,
        stop_requested=state is SessionState.STOPPED,
    )
    return _with_ask(session, last_ask)


def _state(record: SessionRecord, ask: PendingAsk | None, *, followed: bool) -> SessionState:
    """The order of the rules is their priority."""
    status = record.status
    if status is SessionStatus.STOPPED:
        return SessionState.STOPPED
    if not followed:
        return _state_without_process(record, ask)
    if status is SessionStatus.CREATING and not _is_created(record, ask):
        return SessionState.CREATING
    if ask is None:
        return SessionState.STREAMING
    if ask.ask == AskKind.RESUME_COMPLETED_TASK and status is SessionStatus.DONE:
        return SessionState.COMPLETED
    return _STATES[ask.signal]


def _is_created(record: SessionRecord, ask: PendingAsk | None) -> bool:
    return record.saw_session_created and (record.saw_api_req_started or ask is not None)


def _state_without_process(record: SessionRecord, ask: PendingAsk | None) -> SessionState:
    """The state of a session without a process. A question survives a process that was lost, for
    example in a reboot: the answer starts another process. If the exit of the process was
    recorded, the session is paused."""
    if _is_lost(record) and ask is not None and ask.signal in _QUESTIONS:
        return _STATES[ask.signal]
    match record.status:
        case SessionStatus.CREATING | SessionStatus.ERROR:
            return SessionState.ERROR
        case SessionStatus.DONE:
            return SessionState.COMPLETED
        case _:
            finished = ask is not None and ask.ask == AskKind.COMPLETION_RESULT
            return SessionState.COMPLETED if finished else SessionState.PAUSED


def _is_lost(record: SessionRecord) -> bool:
    return record.status is SessionStatus.RUNNING and record.last_exit is None


def _failure(
    record: SessionRecord, ask: PendingAsk | None, state: SessionState, *, followed: bool
) -> Failure | None:
    if state is not SessionState.ERROR:
        return None
    if followed and ask:
        return failure_of_ask(ask.ask, ask.text)
    return CREATION_INTERRUPTED if record.status is SessionStatus.CREATING else record.failure


def _with_ask(session: SessionRecord, ask: PendingAsk | None) -> SessionRecord:
    """Set the ask where the state expects it; a stopped session keeps only the offer to resume."""
    match session.state:
        case SessionState.CREATING:
            return replace(session, deferred_ask=ask)
        case SessionState.STOPPED if ask and not ask.resumes:
            return session
        case _:
            return replace(session, pending_ask=ask)


def with_usage(record: SessionRecord, view: View) -> SessionRecord:
    """Update usage, to-dos, mode, model and intent from the messages."""
    if not view.seq:
        return record
    todos = view.todos
    done = sum(todo.status == "completed" for todo in todos)
    return replace(
        record,
        tokens=view.usage.tokens_in + view.usage.tokens_out,
        cost=view.usage.cost,
        todo_stats=TodoStats(done=done, total=len(todos)) if todos else None,
        mode=view.mode or record.mode,
        model=view.model or record.model,
        intent=view.intent.intent_id if view.intent else "",
    )


def recovered_record(
    folder: SessionFolder, launch: SessionLaunch, tasks: StoredTasks
) -> SessionRecord | None:
    """Rebuild the record of a session that is not on the list, from its folder and journal. None
    if it has no journal."""
    try:
        events = list(tasks.read(folder.session_id)) if tasks.exists(folder.session_id) else []
    except StorageError:
        return None
    openings = ((each.fact.text, each.ts) for each in events if isinstance(each.fact, TaskOpened))
    if not (opened := next(openings, None)):
        return None
    text, start_time = opened
    mark = folder.mark()
    fields = {name: getattr(launch, name) for name in _FROM_LAUNCH}
    return SessionRecord(
        **fields,
        session_id=folder.session_id,
        label=label_of(text),
        prompt=text,
        start_time=start_time,
        status=SessionStatus.RUNNING,
        state=SessionState.STREAMING,
        generation=mark.generation if mark else 0,
        process_open=mark is not None,
        saw_session_created=True,
        saw_api_req_started=True,
        pid=mark.pid if mark else None,
        announced=True,
        taken=_next_number(events),
    )


def _next_number(events: Iterable[Event]) -> int:
    """The next message number; a number used before would make the engine drop the message."""
    facts = (event.fact for event in events if isinstance(event.fact, UserSpoke | Answered))
    numbers = (number_of(fact.message_id) for fact in facts)
    return 1 + max((number for number in numbers if number is not None), default=-1)


class StoredHistory:
    """Reads the stored tasks of one session. `wake` is called when `glimpse` is set."""

    def __init__(self, root: FollowedTask, tasks: StoredTasks, wake: Callable[[], None]) -> None:
        self._root = root
        self._tasks = tasks
        self._wake = wake
        self._one_at_a_time = anyio.Lock()
        self.glimpse: Glimpse | None = None
        """The end of the journal, while the rest is being read."""
        self.problem = ""
        """Why the journal could not be read completely; empty if it could."""

    async def load(self) -> FollowedTask | None:
        """Read the session's own task; None if it is not stored or already known."""
        async with self._one_at_a_time:
            if self._root.view.seq or not self._tasks.exists(self._root.task_id):
                return None
            try:
                return await anyio.to_thread.run_sync(self._read_root)
            finally:
                self.glimpse = None

    async def task(self, task_id: str) -> FollowedTask | None:
        """Read a task of the session; None if it belongs to another session."""
        return await anyio.to_thread.run_sync(self._read_own, task_id)

    async def subtasks(self, task: FollowedTask) -> tuple[FollowedTask, ...]:
        """The running sub-tasks of a stored task, the innermost last."""
        found: list[FollowedTask] = []
        waiting = list(task.children.values())
        while waiting and len(found) < _MAX_DEPTH:
            if worker := await self.task(waiting.pop(0).task_id):
                found.append(worker)
                waiting += worker.children.values()
        return tuple(found)

    def _read_root(self) -> FollowedTask:
        events = self._read(self._root.task_id)
        if glimpse := glimpse_of(events):
            anyio.from_thread.run_sync(self._show, glimpse)
        return _task_from(self._root.task_id, events)

    def _show(self, glimpse: Glimpse) -> None:
        self.glimpse = glimpse
        self._wake()

    def _read_own(self, task_id: str) -> FollowedTask | None:
        is_own = self._is_own_task(task_id)
        return _task_from(task_id, self._read(task_id)) if is_own else None

    def _is_own_task(self, task_id: str) -> bool:
        at: str | None = task_id
        for _ in range(_MAX_DEPTH):
            if at is None or at == self._root.task_id:
                return at is not None
            at = self._parent(at)
        return False

    def _parent(self, task_id: str) -> str | None:
        try:
            for event in self._tasks.read(task_id) if self._tasks.exists(task_id) else ():
                if isinstance(event.fact, TaskOpened):
                    return event.fact.parent
        except StorageError:
            return None
        return None

    def _read(self, task_id: str) -> list[Event]:
        """The events up to the first that cannot be read."""
        events: list[Event] = []
        try:
            for event in self._tasks.read(task_id):
                events.append(event)
        except StorageError as error:
            self.problem = str(error)
        return events


def _task_from(task_id: str, events: Sequence[Event]) -> FollowedTask:
    task = FollowedTask(task_id)
    task.load_events(events)
    return task


def glimpse_of(events: Sequence[Event]) -> Glimpse | None:
    """The end of the journal; None if it is short, or has a rewind, which needs all of it."""
    last = len(events) - EVENTS_GLIMPSED
    if last < EVENTS_GLIMPSED or any(isinstance(event.fact, Rewound) for event in events):
        return None
    starts = (at for at in range(last, 0, -1) if isinstance(events[at].fact, RequestStarted))
    begin = next(starts, 0)
    if not begin:
        return None
    view = View()
    for event in events[begin:]:
        view = see(view, event)
    return Glimpse(view, begin)
