"""Attends one task: shows what happens, has its questions answered, and says how it ended.

How things are shown is the display's business, how questions are answered the responder's.
Both are small, so that a terminal, a pipe and a program differ only in what they hand in.
"""

from collections.abc import Awaitable, Callable
from contextlib import suppress
from enum import Enum
from typing import Literal, Protocol, TypeAlias

import anyio

from rookery.core.asks import CATEGORY, AskCategory, AskKind, Reply
from rookery.core.commands import Answer
from rookery.core.facts import (
    Answered,
    Asked,
    CommandEnded,
    Event,
    FilesChanged,
    ModeSwitched,
    Noted,
    OfferWithdrawn,
    QueueEdited,
    Reminded,
    TaskClosed,
    TaskFailed,
    UserSpoke,
)
from rookery.core.values import record
from rookery.errors import CommandRejected
from rookery.wire.host import Host


@record
class Say:
    """An answer to a question; `by` a rule if nobody was asked."""

    reply: Reply
    text: str = ""
    by: Literal["user", "policy"] = "user"
    always: bool = False
    """What the question's rule says is allowed from now on."""


@record
class Leave:
    """End the run instead of answering. The task is kept and can be resumed."""

    reason: str
    code: str = "task_failed"


Response: TypeAlias = Say | Leave
Responder: TypeAlias = Callable[[Asked], Awaitable[Response]]


class Display(Protocol):
    def show(self, event: Event) -> None: ...


BESIDE_A_QUESTION = (
    UserSpoke,
    QueueEdited,
    ModeSwitched,
    Noted,
    Reminded,
    FilesChanged,
    CommandEnded,
    OfferWithdrawn,
)
"""What can happen while a question is open and leaves it open; anything else follows its end."""


class Fate(Enum):
    COMPLETED = "completed"
    CLOSED = "closed"
    FAILED = "failed"
    LEFT = "left"


@record
class RunEnd:
    """How a run ended; `code` is for programs, `reason` for people."""

    fate: Fate
    reason: str = ""
    code: str = ""


async def attend(
    host: Host, task_id: str, *, display: Display, respond: Responder, after: int = 0
) -> RunEnd:
    """Follow a task until it ends or the responder leaves."""
    watch = _Watch(host, task_id, respond)
    async with anyio.create_task_group() as group:
        question = anyio.CancelScope()
        async for event in host.follow(task_id, after):
            if not isinstance(event.fact, BESIDE_A_QUESTION):
                question.cancel()
            display.show(event)
            watch.note(event)
            if isinstance(event.fact, Asked) and _blocks(event.fact):
                question = anyio.CancelScope()
                group.start_soon(watch.answer, event.fact, question, group.cancel_scope)
        group.cancel_scope.cancel()
    return watch.end


class _Watch:
    def __init__(self, host: Host, task_id: str, respond: Responder) -> None:
        self._host = host
        self._task_id = task_id
        self._respond = respond
        self.end = RunEnd(Fate.CLOSED)

    def note(self, event: Event) -> None:
        match event.fact:
            case Answered(ask=AskKind.COMPLETION_RESULT, reply="yes"):
                self.end = RunEnd(Fate.COMPLETED)
            case TaskFailed(message=message):
                self.end = RunEnd(Fate.FAILED, message, "task_failed")
            case TaskClosed() if self.end.fate is not Fate.COMPLETED:
                self.end = RunEnd(Fate.CLOSED, "The task was closed.", "task_aborted")
            case _:
                pass

    async def answer(
        self, asked: Asked, question: anyio.CancelScope, everything: anyio.CancelScope
    ) -> None:
        with question:
            response = await self._respond(asked)
            if isinstance(response, Leave):
                self.end = RunEnd(Fate.LEFT, response.reason, response.code)
                everything.cancel()
                return
            # refused means that somebody else was quicker, or that the question was
            # withdrawn; either way the log is about to say so
            with suppress(CommandRejected):
                await self._host.send(self._spell(asked, response))

    def _spell(self, asked: Asked, said: Say) -> Answer:
        return Answer(
            task_id=self._task_id,
            ask_id=asked.ask_id,
            reply=said.reply,
            text=said.text,
            by=said.by,
            digest=asked.digest,
            always=said.always,
        )


def _blocks(asked: Asked) -> bool:
    return CATEGORY[asked.ask] is not AskCategory.NON_BLOCKING
