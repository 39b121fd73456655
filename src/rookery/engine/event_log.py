"""The append-only log of a task: its only mutable state.

A sub-task has its own log. The parent's log names the child before the child writes anything, and
the child's file changes are recorded in both logs, so that undoing the parent's call undoes them.
"""

from collections.abc import AsyncIterator, Callable, Iterator, Sequence, Set
from typing import Protocol

import anyio
from msgspec.structs import replace

from rookery.core.asks import AskKind
from rookery.core.event_list import EventList, live, newest
from rookery.core.facts import (
    AgentTask,
    Answered,
    Ending,
    Event,
    Fact,
    FilesChanged,
    FilesRestored,
    Noted,
    StepCancelled,
    TaskFailed,
    TaskReopened,
    ToolStarted,
    UserSpoke,
    next_event,
)
from rookery.core.folds.task_record import KnownFiles
from rookery.core.folds.task_state import TaskState
from rookery.core.modes import Level
from rookery.core.replies import failed
from rookery.engine.ports.actions import Outcome
from rookery.engine.ports.hooks import LogStore
from rookery.engine.ports.tool import ChildEnd

_AT_ONCE = 256
"""Events of a long log that are read at once."""


class _Link:
    """A linked list of events. Streamed events are garbage-collected once a lasting event
    follows and every follower has passed them."""

    __slots__ = ("event", "next")

    def __init__(self, event: Event | None) -> None:
        self.event = event
        self.next: _Link | None = None


class EventLog:
    """Appending is synchronous, so nothing can interleave with it or cancel it halfway.
    Followers read at their own pace; the log is their queue."""

    def __init__(self, store: LogStore, now: Callable[[], int]) -> None:
        self._store = store
        self._now = now
        self._record = store.read()
        self._last = self.events[-1] if self.events else None
        self._tail = self._lasting = _Link(self._last)
        self._grown = anyio.Event()
        self._awaited = False
        self.ended = False
        self._failure: Exception | None = None
        self._reported = store.recovered

    @property
    def events(self) -> EventList:
        """The lasting events."""
        return self._record.events

    @property
    def state(self) -> TaskState:
        return self._record.state

    @property
    def known_files(self) -> KnownFiles:
        return self._record.files

    def started_agents(self) -> Sequence[tuple[str, AgentTask]]:
        """The agents of all calls with the calls' ids, rewound ones too."""
        return self._record.agents

    def call_ids(self) -> Set[str]:
        """The ids of all calls, condensed and rewound ones too. Some servers repeat theirs."""
        return self._record.call_ids

    def append(self, fact: Fact) -> Event:
        """Record a fact: write it to disk, update the state, wake the followers."""
        event = next_event(self._last, fact, self._now())
        if fact.lasting:
            self._store.write(event)
            self._record.append(event)
        self._last = event
        self._tail.next = self._tail = _Link(event)
        if fact.lasting:
            self._lasting = self._tail
        self._wake()
        self._report_recovery()
        return event

    def _report_recovery(self) -> None:
        """Report what the store recovered after it was opened."""
        recovered = self._store.recovered
        if recovered and recovered != self._reported:
            self._reported = recovered
            self.append(Noted(text=recovered))
            self._reported = self._store.recovered

    async def follow(self, after: int = 0) -> AsyncIterator[Event]:
        """Yield every lasting event after `after`, past and future, and streamed events in
        between, until the log is closed. A follower that joins in the middle of an answer gets
        it from the start, unless it already has the last lasting event."""
        missed = range(after, len(self.events))
        link = self._lasting if missed else self._tail
        for start in range(after, missed.stop, _AT_ONCE):
            for event in self.events[start : min(start + _AT_ONCE, missed.stop)]:
                yield event
        while True:
            while link.next:
                link = link.next
                assert link.event
                yield link.event
            if self.ended:
                break
            self._awaited = True
            await self._grown.wait()
        if self._failure:
            raise self._failure

    def close(self, failure: Exception | None = None) -> None:
        """End the log. A failure is raised to all followers."""
        if not self.ended:
            self.ended, self._failure = True, failure
            self._store.close()
            self._wake()

    def _wake(self) -> None:
        if self._awaited:
            self._awaited = False
            self._grown.set()
            self._grown = anyio.Event()


NO_RESULT = "it ended before it had a result"


def end_of(log: EventLog) -> ChildEnd:
    """The result of a child task that has ended."""
    spent = log.state.spent
    if log.state.completion is not None:
        return ChildEnd(log.state.completion, "", spent)
    facts = (event.fact for event in newest(log.events, TaskFailed))
    failures = (fact.message.rstrip(".") for fact in facts if isinstance(fact, TaskFailed))
    return ChildEnd(None, next(failures, NO_RESULT), spent)


def outcome_of(end: ChildEnd) -> Outcome:
    if end.result is None:
        text = failed(f"The sub-task has no result: {end.why_not}. What it changed is kept.")
        return Outcome(text=text, ending=Ending.FAILED, spent=end.spent)
    return Outcome(text=f"The sub-task is done. Its result:\n{end.result}", spent=end.spent)


def resume_message(events: Sequence[Event]) -> UserSpoke | None:
    """The message with which the user resumed a task; it is passed on to the running sub-task."""
    for event in reversed(live(events)):
        match event.fact:
            case UserSpoke() as spoken:
                return spoken
            case Answered(ask=AskKind.RESUME_TASK, reply="message") as answer:
                return UserSpoke(message_id=answer.ask_id, text=answer.text, images=answer.images)
            case Answered(ask=AskKind.RESUME_TASK):
                pass  # a bare yes; it may have been preceded by words
            case Answered() | TaskReopened() | StepCancelled():
                return None
            case _:
                pass
    return None


def record_changes(parent: EventLog, call_id: str, child: Sequence[Event]) -> None:
    """Record the child's file changes in the parent's log, unless they are there already."""
    own = list(parent.events)
    since = next((e.seq for e in reversed(own) if _begins(e, call_id)), own[-1].seq if own else 0)
    known = {
        (event.fact.before, event.fact.after)
        for event in own
        if isinstance(event.fact, FilesChanged) and event.fact.call_id == call_id
    }
    for event in child:
        match event.fact:
            case (
                FilesChanged(before=before, after=after) | FilesRestored(before=before, after=after)
            ) if (before, after) not in known:
                parent.append(
                    FilesChanged(call_id=call_id, before=before, after=after, since=since)
                )
            case _:
                pass


def _begins(event: Event, call_id: str) -> bool:
    return isinstance(event.fact, ToolStarted) and event.fact.call_id == call_id


def inherited_governance(parent: TaskState) -> Iterator[Fact]:
    """The governance facts that a child inherits from its parent."""
    if parent.governed:
        yield parent.governed
    if parent.intent:
        yield replace(parent.intent, by="parent")


class Recoverable(Protocol):
    @property
    def log(self) -> EventLog: ...

    async def recover(self) -> None: ...


async def recover(task: Recoverable, stored: Callable[[str], Recoverable | None]) -> None:
    """Determine which files changed when the process died, including changes by running
    sub-tasks."""
    await task.recover()
    running = task.log.state.running
    child = stored(running.child) if running and running.child else None
    if running and child:
        try:
            await recover(child, stored)
        finally:
            child.log.close()
        record_changes(task.log, running.call_id, child.log.events)


def level_after_rewind(events: Sequence[Event], to: int, level: Level | None) -> Level | None:
    """The level stays, unless a plan was approved since: then it is to be approved again."""
    approved = any(isinstance(e.fact, Answered) and e.fact.level for e in events[to:])
    return Level.PLAN if approved else level


def append_reopened(log: EventLog, store: LogStore, *, resumed: bool) -> None:
    if store.recovered:
        log.append(Noted(text=store.recovered))
    log.append(TaskReopened(resumed=resumed))
