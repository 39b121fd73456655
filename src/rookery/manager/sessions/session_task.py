"""A task of a session as the manager follows it: its view, and the events it causes.

A row arrives more than once: while it is streamed, when its cost is known, and when a resumed
process repeats its history; `read_row` turns it into an event only once. When a connection
breaks, the view goes back to the last lasting event, and everything after that is sent again.
"""

import json
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Sequence
from contextlib import aclosing, asynccontextmanager, suppress
from pathlib import Path
from typing import cast

from msgspec import Struct
from msgspec.structs import replace

from rookery.core.asks import AskKind
from rookery.core.facts import (
    Answered,
    Asked,
    ChildBegan,
    Event,
    TaskFailed,
    TaskReopened,
    ToolFinished,
)
from rookery.core.folds.view import View, changes, see
from rookery.core.message import Message, newest_first
from rookery.core.plans import as_followup
from rookery.errors import CommandRejected, first_error
from rookery.manager.sessions.session_events import (
    ActivityEvent,
    AgentAsked,
    AgentMessage,
    ApiReqStarted,
    AskAnswered,
    PendingAsk,
    SayCheckpointSaved,
    SayCompletionResult,
    SessionEvent,
)
from rookery.manager.sessions.session_states import Signal, ask_signal
from rookery.protocol.channels import unix_channel
from rookery.protocol.codec import Host
from rookery.protocol.remote import remote_host

_RESULT = "completion_result"
RESUMING = (AskKind.RESUME_TASK, AskKind.RESUME_COMPLETED_TASK)
_USAGE = ("tokensIn", "tokensOut", "cost")


class ProcessReport(Struct, kw_only=True):
    """What was received from the process of one generation, which `read_row` updates."""

    generation: int
    stored_ts: int = 0
    """The last row that was stored when the process started; rows up to it are repeated history."""
    new_task: bool = False
    """Text before the first request is the prompt."""
    request_ts: int = 0
    ask_ts: int = 0
    result_ts: int = 0


class FollowedTask:
    def __init__(self, task_id: str, began: ChildBegan | None = None) -> None:
        """`began` is set for a sub-task."""
        self.task_id = task_id
        self.is_child = began is not None
        self._begins_after = began.after if began else 0
        self.view = View()
        self.children: dict[str, ChildBegan] = {}
        """Running sub-tasks, by id."""
        self.subtasks: dict[str, dict[str, str]] = {}
        """Names of all sub-tasks, running or finished, by call id and then by id."""
        self.resumed_with: Answered | None = None
        """The answer with which the task was resumed after it was last reopened."""
        self.reopened_at = 0
        """Sequence number of the event that last reopened the task."""
        self.failed_with = ""
        self.plans: set[str] = set()
        """The questions about a plan, by id."""
        self._lasting = View()
        self._report = ProcessReport(generation=0)

    @property
    def after(self) -> int:
        """Sequence number of the last lasting event received."""
        return max(self._lasting.seq, self._begins_after)

    @property
    def has_request(self) -> bool:
        return any(row.say == "api_req_started" for row in self.view.messages)

    @property
    def result(self) -> str:
        """The last result, or an empty string."""
        results = (row for row in newest_first(self.view.messages) if row.say == _RESULT)
        return next((row.text or "" for row in results), "")

    @property
    def ask(self) -> PendingAsk | None:
        return last_ask(self.view.messages)

    def row(self, ts: int) -> Message | None:
        position = self.view.messages.find(ts)
        return None if position is None else self.view.messages[position]

    def child(self, began: ChildBegan) -> "FollowedTask":
        child = FollowedTask(began.task_id, began)
        child.follow_process(self._report.generation)
        return child

    def load_events(self, events: Iterable[Event]) -> None:
        """Apply stored events without reporting them."""
        for event in events:
            self._apply(event)

    def replace_with(self, stored: "FollowedTask") -> None:
        """Copy the state of a task that was read in a thread."""
        self.view, self._lasting = stored.view, stored._lasting
        self.children, self.subtasks = stored.children, stored.subtasks
        self.resumed_with, self.failed_with = stored.resumed_with, stored.failed_with
        self.plans = stored.plans
        self.reopened_at = stored.reopened_at

    def follow_process(self, generation: int, *, new_task: bool = False) -> None:
        """Start following a process of this generation. What it repeats causes no events, except
        that the open ask may turn out to be answered."""
        last = self.view.messages[-1].ts if self.view.messages else 0
        ask = self.ask
        self._report = ProcessReport(
            generation=generation,
            stored_ts=ask.ts - 1 if ask else last,
            ask_ts=ask.ts if ask else 0,
            new_task=new_task,
        )

    def drop_transient(self) -> None:
        self.view = self._lasting

    def receive(self, event: Event) -> list[SessionEvent]:
        """Apply an event and return what it means for the session."""
        before = self.view
        self._apply(event)
        change = changes(before, self.view)
        rows = sorted((*change.added, *change.changed), key=lambda row: row.ts)
        reported = [self._read_row(row) for row in rows]
        return [each for each in reported if each]

    def _read_row(self, row: Message) -> SessionEvent | None:
        event = read_row(self._report, row)
        if not self.is_child or event is None or isinstance(event, AgentAsked | AskAnswered):
            return event
        # results and requests of a sub-task do not change the session's state
        return ActivityEvent(generation=event.generation, ts=event.ts)

    def _apply(self, event: Event) -> None:
        if isinstance(event.fact, Asked) and event.fact.plan:
            self.plans.add(event.fact.ask_id)
            event = replace(event, fact=as_followup(event.fact))
        self.view = see(self.view, event)
        if event.fact.lasting:
            self._lasting = self.view
        match event.fact:
            case TaskReopened():
                self.reopened_at, self.resumed_with = event.seq, None
            case Answered(ask=ask) if ask in RESUMING:
                self.resumed_with = event.fact
            case TaskFailed(message=message):
                self.failed_with = message
            case ChildBegan(call_id=call_id, task_id=task_id, name=name):
                self.children[task_id] = event.fact
                self.subtasks.setdefault(call_id, {})[task_id] = name
            case ToolFinished(call_id=call_id):
                running = self.children.items()
                self.children = {id: each for id, each in running if each.call_id != call_id}
            case _:
                pass


def read_row(report: ProcessReport, message: Message) -> AgentMessage | None:
    """What a row that arrived, possibly again, means for the session."""
    generation, ts = report.generation, message.ts
    if ts <= report.stored_ts or (message.partial and not message.text):
        return None
    if message.type == "ask":
        return _read_ask(report, message)
    match message.say:
        case "api_req_started":
            return _read_request(report, message)
        case "text" if report.new_task and not report.request_ts:
            return None
        case "checkpoint_saved":
            return SayCheckpointSaved(generation=generation, ts=ts)
        case "completion_result" if not message.partial:
            if ts <= report.result_ts:
                return None
            report.result_ts = ts
            return SayCompletionResult(generation=generation, ts=ts, text=message.text or "")
        case _:
            return ActivityEvent(generation=generation, ts=ts)


def _read_ask(report: ProcessReport, message: Message) -> AgentMessage | None:
    generation, ts = report.generation, message.ts
    if message.answered:
        return AskAnswered(generation=generation, ts=ts)
    if ts <= report.ask_ts:
        return None
    if message.partial or message.ask is None:
        return ActivityEvent(generation=generation, ts=ts)
    report.ask_ts = ts
    return AgentAsked(generation=generation, ts=ts, ask=message.ask, text=message.text or "")


def _read_request(report: ProcessReport, message: Message) -> AgentMessage | None:
    """A request is reported once, when it starts; later versions of the row only add its usage."""
    if message.ts <= report.request_ts:
        return None
    report.request_ts = message.ts
    if _has_usage(message.text):
        return None
    return ApiReqStarted(generation=report.generation, ts=message.ts)


def _has_usage(text: str | None) -> bool:
    try:
        about = json.loads(text or "{}")
    except (ValueError, RecursionError):
        return False
    return isinstance(about, dict) and any(name in about for name in _USAGE)


@asynccontextmanager
async def host_at(socket: Path) -> AsyncIterator[Host]:
    """Connect to the host at a socket. Raises the first error of a group instead of the group."""
    try:
        async with remote_host(await unix_channel(socket)) as host:
            yield host
    except BaseExceptionGroup as group:
        raise first_error(group) from group


async def events_of(host: Host, task: FollowedTask) -> AsyncGenerator[Event, None]:
    """Follow a task's events; none if the host refuses, which means that the task is over."""
    with suppress(CommandRejected):
        async with aclosing(closable(host.follow(task.task_id, task.after))) as events:
            async for event in events:
                yield event


def closable(events: AsyncIterator[Event]) -> AsyncGenerator[Event, None]:
    return cast(AsyncGenerator[Event, None], events)


def last_ask(messages: Sequence[Message]) -> PendingAsk | None:
    """The complete blocking ask at the end of the messages, ignoring checkpoints."""
    for message in newest_first(messages):
        if message.say == "checkpoint_saved":
            continue
        if message.type != "ask" or message.partial or message.answered or message.ask is None:
            return None
        if ask_signal(message.ask) is Signal.ACTIVITY:
            return None
        return PendingAsk(ask=message.ask, ts=message.ts, text=message.text or "")
    return None
