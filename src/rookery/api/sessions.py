"""Sessions as programs see them: events, answers to questions, and the result of a turn.

A session is followed with `events`, which ends when the turn does. Questions are answered by the
program. An unanswered question keeps the session waiting; no answer is yes by default.
"""

import inspect
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from typing import Any, Literal, TypeAlias

import anyio
from anyio.abc import TaskGroup
from msgspec import Struct

from rookery.core.asks import CATEGORY, AskCategory, AskKind, Reply
from rookery.core.commands import Answer, Cancel, CloseTask, Speak
from rookery.core.facts import (
    Asked,
    AssistantSpoke,
    ChildBegan,
    CompletionOffered,
    Event,
    Fact,
    TaskClosed,
    TaskFailed,
)
from rookery.errors import CommandRejected, RookeryError, UsageError, first_error
from rookery.protocol.codec import Host
from rookery.protocol.outcomes import DECIDE_YOURSELF, NOT_APPROVED

BUFFERED = 16
"""Events read ahead of a slow program."""

Status: TypeAlias = Literal["completed", "failed", "waiting", "closed"]


class TaskEvent(Struct, frozen=True, kw_only=True):
    """Something that happened in a session or one of its sub-tasks."""

    session_id: str
    """The sub-task's own id, if it happened there."""
    seq: int
    ts: int
    """Milliseconds since the epoch."""
    fact: Fact

    @property
    def is_question(self) -> bool:
        """Whether the session waits until this is answered."""
        fact = self.fact
        return isinstance(fact, Asked) and CATEGORY[fact.ask] is AskCategory.INTERACTIVE


class TurnResult(Struct, frozen=True, kw_only=True):
    """How a turn ended. `waiting` means that the session stopped without a result."""

    status: Status
    text: str = ""
    """The result, or the last words of the model."""
    reason: str = ""
    """Why there is no result; empty if there is one."""
    tokens_in: int = 0
    tokens_out: int = 0
    cost: float = 0.0


Answers: TypeAlias = Callable[[TaskEvent], Awaitable[bool | str] | bool | str]
"""Answers a question: True approves, False rejects, a text is sent to the model. It may be an async
function."""


class OpenSession:
    """A session of an open host."""

    def __init__(self, host: Host, session_id: str, after: int = 0) -> None:
        self.id = session_id
        self._host = host
        self._after = after
        self._send, self._events = anyio.create_memory_object_stream[TaskEvent](BUFFERED)
        self._idle: Asked | None = None
        self._turn = _Turn(session_id)
        self._is_followed = False
        self.is_closed = False
        """Whether the program closed it; it may still be ending."""
        self.has_ended = anyio.Event()
        self._failure: BaseException | None = None

    async def events(self) -> AsyncIterator[TaskEvent]:
        """Yield events until the turn ends. After `say`, call it again for the next turn."""
        while event := await self.next_event():
            yield event

    async def next_event(self) -> TaskEvent | None:
        """Wait for the next event; None if the turn has ended."""
        if self._idle is not None:
            return None
        if self._is_followed:
            raise UsageError(
                f"Session {self.id} is followed already. Read its events in one place only."
            )
        self._is_followed = True
        try:
            event = await self._events.receive()
        except (anyio.EndOfStream, anyio.ClosedResourceError):
            if self._failure:
                raise self._failure from None
            return None
        finally:
            self._is_followed = False
        fact = event.fact
        if event.session_id == self.id and isinstance(fact, Asked) and _ends_turn(fact):
            self._idle = fact
        self._turn.see(event)
        return event

    async def finish(self, answer: Answers | None = None) -> TurnResult:
        """Follow the turn to its end. Without `answer`, actions that need approval are rejected,
        and questions of the model are answered with: decide yourself."""
        for question in [*self._turn.questions.values()]:
            await self._settle(question, answer)
        async for event in self.events():
            if event.is_question:
                await self._settle(event, answer)
        return self._turn.result(self._idle)

    async def approve(self, question: TaskEvent, *, always: bool = False) -> None:
        """Approve the action in a question. `always` also adds the rule that it offers."""
        await self._answer(question, "yes", always=always)

    async def reject(self, question: TaskEvent, reason: str = "") -> None:
        """Reject the action in a question; the model reads the reason."""
        await self._answer(question, "no", reason)

    async def answer(self, question: TaskEvent, text: str) -> None:
        """Answer a question of the model, or say what to do instead of an action."""
        await self._answer(question, "message", text)

    async def say(self, text: str) -> None:
        """Send a message: the next turn if this one has ended, otherwise with the next request."""
        self._check_not_ended()
        if self._idle:
            await self._go_on("message", text)
            return
        message_id = uuid.uuid4().hex
        await self._host.send(Speak(task_id=self.id, message_id=message_id, text=text))

    async def proceed(self) -> None:
        """Continue where the turn ended: resume the session, retry the request, or go on past a
        limit. After a result, this accepts it and closes the session."""
        self._check_not_ended()
        if not self._idle:
            raise UsageError("The turn has not ended. Follow its events first.")
        self.is_closed = self._idle.ask is AskKind.COMPLETION_RESULT
        await self._go_on("yes")

    async def _go_on(self, reply: Reply, text: str = "") -> None:
        assert self._idle
        idle, self._idle, self._turn = self._idle, None, _Turn(self.id)
        await self._host.send(Answer(task_id=self.id, ask_id=idle.ask_id, reply=reply, text=text))

    async def cancel(self) -> None:
        """Stop the current step. The session stays open; `say` continues it."""
        await self._host.send(Cancel(task_id=self.id))

    async def close(self) -> None:
        """End the session. It can be resumed later."""
        self.is_closed = True
        with suppress(CommandRejected):  # it has ended already
            await self._host.send(CloseTask(task_id=self.id))

    async def follow(self) -> None:
        """Read the session's events until it ends."""
        try:
            async with anyio.create_task_group() as children:
                await self._read(self.id, self._after, children)
                children.cancel_scope.cancel()
        except* RookeryError as errors:
            self._failure = first_error(errors)
        finally:
            self._send.close()

    def leave(self) -> None:
        """Deliver no more events: the host was closed, or the session was resumed."""
        self._send.close()
        self._events.close()

    async def _read(self, task_id: str, after: int, children: TaskGroup) -> None:
        async for event in self._host.follow(task_id, after):
            if isinstance(event.fact, ChildBegan):
                children.start_soon(self._read_child, event.fact, children)
            with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):  # it was left
                await self._send.send(_task_event(task_id, event))

    async def _read_child(self, began: ChildBegan, children: TaskGroup) -> None:
        with suppress(CommandRejected):  # it ended in an earlier run
            await self._read(began.task_id, began.after, children)

    async def _settle(self, question: TaskEvent, answer: Answers | None) -> None:
        with suppress(CommandRejected):  # it was withdrawn or answered meanwhile
            await self._give(question, answer)

    async def _give(self, question: TaskEvent, answer: Answers | None) -> None:
        assert isinstance(question.fact, Asked)
        if answer is not None:
            said = answer(question)
            match await said if inspect.isawaitable(said) else said:
                case str() as text:
                    await self.answer(question, text)
                case given:
                    await (self.approve(question) if given is True else self.reject(question))
        elif question.fact.ask is AskKind.FOLLOWUP:
            await self._answer(question, "message", DECIDE_YOURSELF, by="policy")
        else:
            await self._answer(question, "no", NOT_APPROVED, by="policy")

    async def _answer(self, question: TaskEvent, reply: Reply, text: str = "", **more: Any) -> None:
        fact = question.fact
        if not isinstance(fact, Asked):
            raise UsageError(f"Only a question can be answered, not {type(fact).__name__}.")
        self._turn.questions.pop(fact.ask_id, None)
        await self._host.send(
            Answer(
                task_id=question.session_id,
                ask_id=fact.ask_id,
                reply=reply,
                text=text,
                digest=fact.digest,
                **more,
            )
        )
        if self._idle and self._idle.ask_id == fact.ask_id:
            self._idle, self._turn = None, _Turn(self.id)

    def _check_not_ended(self) -> None:
        if self.is_closed or self.has_ended.is_set():
            raise CommandRejected(f"Session {self.id} has ended. Continue it with host.resume.")


class _Turn:
    """Collects the result of a turn, and its unanswered questions."""

    def __init__(self, session_id: str) -> None:
        self._id = session_id
        self._words = self._result = self._reason = ""
        self._status: Status = "waiting"
        self._used = [0, 0, 0.0]
        self.questions: dict[str, TaskEvent] = {}

    def see(self, event: TaskEvent) -> None:
        fact = event.fact
        if isinstance(fact, Asked) and event.is_question:
            self.questions[fact.ask_id] = event
        if isinstance(fact, AssistantSpoke):
            self._add(fact)
        if event.session_id != self._id:
            return
        match fact:
            case AssistantSpoke():
                self._words = fact.words or self._words
            case CompletionOffered(result=result):
                self._status, self._result = "completed", result
            case TaskFailed(message=message):
                self._status, self._reason = "failed", message
            case TaskClosed() if self._status == "waiting":
                self._status, self._reason = "closed", "The session was closed."
            case _:
                pass

    def _add(self, spoke: AssistantSpoke) -> None:
        usage = spoke.usage
        more = (usage.tokens_in, usage.tokens_out, usage.cost or 0.0)
        self._used = [old + new for old, new in zip(self._used, more, strict=True)]

    def result(self, idle: Asked | None) -> TurnResult:
        status, reason = self._status, self._reason
        if idle and idle.ask is not AskKind.COMPLETION_RESULT:
            failed = idle.ask is AskKind.API_REQ_FAILED
            status, reason = "failed" if failed else "waiting", idle.text
        elif not idle and status == "waiting":
            status, reason = "closed", "The host was closed."
        tokens_in, tokens_out, cost = self._used
        return TurnResult(
            status=status,
            text=self._result or self._words,
            reason=reason,
            tokens_in=int(tokens_in),
            tokens_out=int(tokens_out),
            cost=cost,
        )


def _ends_turn(asked: Asked) -> bool:
    return CATEGORY[asked.ask] in (AskCategory.IDLE, AskCategory.RESUMABLE)


def _task_event(task_id: str, event: Event) -> TaskEvent:
    return TaskEvent(session_id=task_id, seq=event.seq, ts=event.ts, fact=event.fact)
