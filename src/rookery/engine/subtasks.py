"""What joins a task and the child that does the work of one of its calls.

The parent's log names the child before the child writes anything, and what the child did to
files is on record in both, so that taking back the call takes back all of it.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

from msgspec.structs import replace

from rookery.core.asks import AskKind
from rookery.core.facts import (
    Answered,
    Ending,
    Event,
    Fact,
    FilesChanged,
    FilesRestored,
    StepCancelled,
    TaskFailed,
    TaskReopened,
    ToolStarted,
    UserSpoke,
    live,
)
from rookery.core.folds.task_state import TaskState
from rookery.core.replies import failed
from rookery.engine.event_log import EventLog
from rookery.engine.ports.actions import Outcome
from rookery.engine.ports.tool import ChildEnd

GIVEN_UP = "it ended before it had a result"


def end_of(log: EventLog) -> ChildEnd:
    """What a child that runs no more leaves behind."""
    spent = log.state.spent
    if log.state.completion is not None:
        return ChildEnd(log.state.completion, "", spent)
    failures = [event.fact.message for event in log.events if isinstance(event.fact, TaskFailed)]
    return ChildEnd(None, failures[-1].rstrip(".") if failures else GIVEN_UP, spent)


def outcome_of(end: ChildEnd) -> Outcome:
    if end.result is None:
        text = failed(f"The sub-task has no result: {end.why_not}. What it changed is kept.")
        return Outcome(text=text, ending=Ending.FAILED, spent=end.spent)
    return Outcome(text=f"The sub-task is done. Its result:\n{end.result}", spent=end.spent)


def said_on_going_on(events: Sequence[Event]) -> UserSpoke | None:
    """What the user said when a task was to go on; whoever is at work for it is to hear it."""
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
    """Put on the parent's record what the child did to files and is not there yet."""
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


def governance_of(parent: TaskState) -> Iterator[Fact]:
    """What a child is told of what it may change: it works for what its parent works for."""
    if parent.governed:
        yield parent.governed
    if parent.intent:
        yield replace(parent.intent, by="parent")


class Recoverable(Protocol):
    @property
    def log(self) -> EventLog: ...

    async def recover(self) -> None: ...


async def recover(task: Recoverable, stored: Callable[[str], Recoverable | None]) -> None:
    """Find out what was done to files when the process died, also by the child that was at work,
    and by its own."""
    await task.recover()
    running = task.log.state.running
    child = stored(running.child) if running and running.child else None
    if running and child:
        try:
            await recover(child, stored)
        finally:
            child.log.close()
        record_changes(task.log, running.call_id, child.log.events)
