"""A task of a session as the manager follows it: its view, and what in it is news to the machine.

Rows come more than once: while they grow, when their request is paid for, when a resumed process
repeats its past. An event comes once. When a connection breaks, the view goes back to the last
lasting event, and everything after that is sent again.
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
    ChildBegan,
    Event,
    TaskFailed,
    TaskReopened,
    ToolFinished,
)
from rookery.core.folds.agent_state import newest_first
from rookery.core.folds.view import View, changes, see
from rookery.core.message import Message
from rookery.errors import CommandRejected
from rookery.manager.sessions.session_events import (
    ActivityEvent,
    AgentAsked,
    AgentMessage,
    ApiReqStarted,
    AskAnswered,
    PendingAsk,
    SayCheckpointSaved,
    SayCompletionResult,
)
from rookery.manager.sessions.session_events import Event as SessionEvent
from rookery.manager.sessions.session_states import Signal, ask_signal
from rookery.protocol.codec import Host
from rookery.protocol.remote import remote_host
from rookery.protocol.unix_sockets import unix_channel

_RESULT = "completion_result"
RESUMING = (AskKind.RESUME_TASK, AskKind.RESUME_COMPLETED_TASK)
_USAGE = ("tokensIn", "tokensOut", "cost")


class ProcessReport(Struct, frozen=True, kw_only=True):
    """What a process of one generation has told so far."""

    generation: int
    stored_ts: int = 0
    """The last row that was stored when the process started. Up to there it repeats the past."""
    new_task: bool = False
    """Until the first request, the text that comes is the prompt."""
    request_ts: int = 0
    ask_ts: int = 0
    result_ts: int = 0


class Told(Struct, frozen=True):
    heard: ProcessReport
    event: AgentMessage | None = None


class FollowedTask:
    def __init__(self, task_id: str, began: ChildBegan | None = None) -> None:
        """`began` if it works for another task."""
        self.task_id = task_id
        self.is_child = began is not None
        self._begins_after = began.after if began else 0
        self.view = View()
        self.children: dict[str, ChildBegan] = {}
        """Those at work, by the call they work for."""
        self.workers: dict[str, str] = {}
        """The tasks that work for it or have, by the call they work for."""
        self.resumed_with: Answered | None = None
        """How it was taken up again, since it last was."""
        self.reopened_at = 0
        """The event with which it was last taken up again."""
        self.failed_with = ""
        self._lasting = View()
        self._heard = ProcessReport(generation=0)

    @property
    def after(self) -> int:
        """The last lasting event that was heard."""
        return max(self._lasting.seq, self._begins_after)

    @property
    def has_made_a_request(self) -> bool:
        return any(row.say == "api_req_started" for row in self.view.messages)

    @property
    def result(self) -> str:
        """The last that was completed with; nothing if nothing was."""
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
        child.listen_to(self._heard.generation)
        return child

    def remember(self, events: Iterable[Event]) -> None:
        """What is stored of it, which is no news."""
        for event in events:
            self._see(event)

    def become(self, remembered: "FollowedTask") -> None:
        """What was remembered beside the loop."""
        self.view, self._lasting = remembered.view, remembered._lasting
        self.children, self.workers = remembered.children, remembered.workers
        self.resumed_with, self.failed_with = remembered.resumed_with, remembered.failed_with
        self.reopened_at = remembered.reopened_at

    def listen_to(self, generation: int, *, new_task: bool = False) -> None:
        """From now on a process of this generation is heard. What it tells again is no news,
        except that an ask that is open now may be answered."""
        last = self.view.messages[-1].ts if self.view.messages else 0
        ask = self.ask
        self._heard = ProcessReport(
            generation=generation,
            stored_ts=ask.ts - 1 if ask else last,
            ask_ts=ask.ts if ask else 0,
            new_task=new_task,
        )

    def forget_news(self) -> None:
        self.view = self._lasting

    def hear(self, event: Event) -> list[SessionEvent]:
        """What an event means for the session."""
        before = self.view
        self._see(event)
        change = changes(before, self.view)
        rows = sorted((*change.added, *change.changed), key=lambda row: row.ts)
        said = [self._told(row) for row in rows]
        return [each for each in said if each]

    def _told(self, row: Message) -> SessionEvent | None:
        done = told(self._heard, row)
        self._heard = done.heard
        event = done.event
        if not self.is_child or event is None or isinstance(event, AgentAsked | AskAnswered):
            return cast(SessionEvent | None, event)
        # the results and requests of a child are its parent's business
        return ActivityEvent(generation=event.generation, ts=event.ts)

    def _see(self, event: Event) -> None:
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
            case ChildBegan(call_id=call_id, task_id=task_id):
                self.children[call_id] = event.fact
                self.workers[call_id] = task_id
            case ToolFinished(call_id=call_id):
                self.children.pop(call_id, None)
            case _:
                pass


def told(heard: ProcessReport, message: Message) -> Told:
    """What a row means that came, or came again."""
    if message.ts <= heard.stored_ts or (message.partial and not message.text):
        return Told(heard)
    if message.type == "ask":
        return _told_by_ask(heard, message)
    generation, ts = heard.generation, message.ts
    match message.say:
        case "api_req_started":
            return _told_by_request(heard, message)
        case "text" if heard.new_task and not heard.request_ts:
            return Told(heard)
        case "checkpoint_saved":
            return Told(heard, SayCheckpointSaved(generation=generation, ts=ts))
        case "completion_result" if not message.partial:
            if ts <= heard.result_ts:
                return Told(heard)
            said = SayCompletionResult(generation=generation, ts=ts, text=message.text or "")
            return Told(replace(heard, result_ts=ts), said)
        case _:
            return Told(heard, ActivityEvent(generation=generation, ts=ts))


def _told_by_ask(heard: ProcessReport, message: Message) -> Told:
    generation, ts = heard.generation, message.ts
    if message.answered:
        return Told(heard, AskAnswered(generation=generation, ts=ts))
    if ts <= heard.ask_ts:
        return Told(heard)
    if message.partial or message.ask is None:
        return Told(heard, ActivityEvent(generation=generation, ts=ts))
    asked = AgentAsked(generation=generation, ts=ts, ask=message.ask, text=message.text or "")
    return Told(replace(heard, ask_ts=ts), asked)


def _told_by_request(heard: ProcessReport, message: Message) -> Told:
    """A request is news once, when it starts; later the row only tells what it took."""
    if message.ts <= heard.request_ts:
        return Told(heard)
    heard = replace(heard, request_ts=message.ts)
    if _tells_usage(message.text):
        return Told(heard)
    return Told(heard, ApiReqStarted(generation=heard.generation, ts=message.ts))


def _tells_usage(text: str | None) -> bool:
    try:
        about = json.loads(text or "{}")
    except (ValueError, RecursionError):
        return False
    return isinstance(about, dict) and any(name in about for name in _USAGE)


@asynccontextmanager
async def host_at(socket: Path) -> AsyncIterator[Host]:
    """The host there. What goes wrong is raised as it is, not in a group."""
    try:
        async with remote_host(await unix_channel(socket)) as host:
            yield host
    except BaseExceptionGroup as group:
        raise _first_in(group) from group


async def events_of(host: Host, task: FollowedTask) -> AsyncGenerator[Event, None]:
    """None if the task is over already, which a refusal means."""
    with suppress(CommandRejected):
        async with aclosing(_closable(host.follow(task.task_id, task.after))) as events:
            async for event in events:
                yield event


def _closable(events: AsyncIterator[Event]) -> AsyncGenerator[Event, None]:
    return cast(AsyncGenerator[Event, None], events)


def _first_in(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def last_ask(messages: Sequence[Message]) -> PendingAsk | None:
    """The complete blocking ask that the messages end with, checkpoints aside."""
    for message in newest_first(messages):
        if message.say == "checkpoint_saved":
            continue
        if message.type != "ask" or message.partial or message.answered or message.ask is None:
            return None
        if ask_signal(message.ask) is Signal.ACTIVITY:
            return None
        return PendingAsk(ask=message.ask, ts=message.ts, text=message.text or "")
    return None
