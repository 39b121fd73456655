"""Follows one task: shows its events, answers its questions, and reports how it ended.

The display shows events and the responder answers questions. Both are small interfaces, so that a
terminal, a pipe and a program differ only in these. Ctrl-C once stops the task; twice leaves.
"""

import uuid
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from enum import Enum
from functools import partial
from typing import Literal, Protocol, TypeAlias

import anyio
from anyio.abc import TaskGroup
from msgspec import Struct

from rookery.core.asks import AskKind, Choice, Reply, is_non_blocking_ask
from rookery.core.blocks import Image
from rookery.core.commands import Answer, Speak, SwitchMode
from rookery.core.facts import (
    Answered,
    ApprovalSwitched,
    Asked,
    ChildBegan,
    CommandEnded,
    Event,
    FilesChanged,
    IntentCleared,
    IntentSelected,
    ModelSwitched,
    ModeSwitched,
    Noted,
    OfferWithdrawn,
    QueueEdited,
    Reminded,
    RequestStarted,
    TaskClosed,
    TaskFailed,
    ToolStarted,
    UserSpoke,
)
from rookery.core.modes import Level
from rookery.errors import CommandRejected
from rookery.protocol.codec import Host


class Say(Struct, frozen=True):
    """An answer to a question; `by` is a rule if no one was asked."""

    reply: Reply
    text: str = ""
    images: tuple[Image, ...] = ()
    by: Literal["user", "policy"] = "user"
    always: bool = False
    """Add the rule in the question."""
    mode: str = ""
    """The mode to continue in, if the answer was offered with one."""
    choice: Choice | None = None
    """The choice beyond yes and no in a governance question."""
    level: Level | None = None
    """Approve the plan, or the text instead of it, at this level."""
    prefix: bool = False
    """Add the question's rule for commands that begin like this one."""


class Leave(Struct, frozen=True):
    """End the run instead of answering. The task is kept and can be resumed."""

    reason: str
    code: str = "task_failed"


class Question(Protocol):
    """An answered question: a fact, or the row that shows it."""

    @property
    def ask_id(self) -> str: ...

    @property
    def digest(self) -> str: ...


def answer_to(task_id: str, question: Question, said: Say) -> Answer:
    return Answer(
        task_id=task_id,
        ask_id=question.ask_id,
        reply=said.reply,
        text=said.text,
        images=said.images,
        by=said.by,
        digest=question.digest,
        always=said.always,
        prefix=said.prefix,
        level=said.level,
        choice=said.choice,
    )


def new_message(task_id: str, text: str, images: tuple[Image, ...] = ()) -> Speak:
    """A message for the model, with a new id."""
    return Speak(task_id=task_id, message_id=uuid.uuid4().hex, text=text, images=images)


Response: TypeAlias = Say | Leave
Responder: TypeAlias = Callable[[Asked], Awaitable[Response]]
Until: TypeAlias = Callable[[Event], Leave | None]
"""Returns how to leave after an event; None to continue."""


def never(event: Event) -> None:
    return None


class Display(Protocol):
    def show(self, event: Event, child: str = "") -> None:
        """Show an event of the task, or of its sub-task `child` at any depth."""
        ...


BESIDE_A_QUESTION = (
    UserSpoke,
    QueueEdited,
    ModeSwitched,
    ModelSwitched,
    ApprovalSwitched,
    IntentSelected,
    IntentCleared,
    Noted,
    Reminded,
    FilesChanged,
    CommandEnded,
    OfferWithdrawn,
)
"""Facts that leave an open question open; any other fact means that it is closed."""


class Fate(Enum):
    COMPLETED = "completed"
    CLOSED = "closed"
    FAILED = "failed"
    LEFT = "left"


class RunEnd(Struct, frozen=True):
    """How a run ended; `code` is for programs, `reason` for people."""

    fate: Fate
    reason: str = ""
    code: str = ""
    note: str = ""
    """A notice about a successful run."""


class Focus:
    """The task that is working: the task itself or a sub-task."""

    def __init__(self, task_id: str) -> None:
        self._chain = [task_id]

    @property
    def task_id(self) -> str:
        return self._chain[-1]

    @contextmanager
    def on(self, child: str) -> Iterator[None]:
        self._chain.append(child)
        try:
            yield
        finally:
            self._chain.remove(child)


async def attend(
    host: Host,
    task_id: str,
    *,
    display: Display,
    respond: Responder,
    after: int = 0,
    focus: Focus | None = None,
    until: Until = never,
) -> RunEnd:
    """Follow a task and its sub-tasks until it ends, the responder leaves, or `until` says so."""
    watch = _Watch(host, display, respond, focus or Focus(task_id), until)
    async with anyio.create_task_group() as watch.group:
        await watch.follow(task_id, after, display.show)
        watch.group.cancel_scope.cancel()
    return watch.end


class _Watch:
    group: TaskGroup

    def __init__(
        self,
        host: Host,
        display: Display,
        respond: Responder,
        focus: Focus,
        until: Until,
    ) -> None:
        self._host = host
        self._display = display
        self._respond = respond
        self._focus = focus
        self._until = until
        self.end = RunEnd(Fate.CLOSED)

    async def follow(
        self, task_id: str, after: int, show: Callable[[Event], None], *, child: bool = False
    ) -> None:
        question = anyio.CancelScope()
        async for event in self._host.follow(task_id, after):
            if not isinstance(event.fact, BESIDE_A_QUESTION):
                question.cancel()
            show(event)
            if not child:
                self._note(event)
            if leave := self._until(event):
                self._leave(leave)
            if isinstance(event.fact, Asked) and not is_non_blocking_ask(event.fact.ask):
                question = anyio.CancelScope()
                self.group.start_soon(self._answer, task_id, event.fact, question)
            if isinstance(event.fact, ChildBegan):
                self.group.start_soon(self._follow_child, event.fact)

    async def _follow_child(self, began: ChildBegan) -> None:
        show = partial(self._display.show, child=began.task_id)
        # refused means that it ended before we came, in an earlier run: its parent tells the rest
        # messages are for the session, not for one of several agents
        focus = nullcontext() if began.name else self._focus.on(began.task_id)
        with focus, suppress(CommandRejected):
            await self.follow(began.task_id, began.after, show, child=True)

    def _note(self, event: Event) -> None:
        match event.fact:
            case Answered(ask=AskKind.COMPLETION_RESULT, reply="yes"):
                self.end = RunEnd(Fate.COMPLETED)
            case TaskFailed(message=message):
                self.end = RunEnd(Fate.FAILED, message, "task_failed")
            case TaskClosed() if self.end.fate is not Fate.COMPLETED:
                self.end = RunEnd(Fate.CLOSED, "The task was closed.", "task_aborted")
            case _:
                pass

    async def _answer(self, task_id: str, asked: Asked, question: anyio.CancelScope) -> None:
        with question:
            response = await self._respond(asked)
            if isinstance(response, Leave):
                self._leave(response)
                return
            # a refusal means that another client was faster or the question was withdrawn;
            # the log will say which
            with suppress(CommandRejected):
                if response.mode:
                    await self._switch(task_id, response.mode)
                await self._host.send(answer_to(task_id, asked, response))

    async def _switch(self, task_id: str, mode: str) -> None:
        # a model may offer a mode that there is not; its answer is one all the same
        with suppress(CommandRejected):
            await self._host.send(SwitchMode(task_id=task_id, mode=mode))

    def _leave(self, leave: Leave) -> None:
        self.end = RunEnd(Fate.LEFT, leave.reason, leave.code)
        self.group.cancel_scope.cancel()


class Displays:
    def __init__(self, *displays: Display) -> None:
        self._displays = displays

    def show(self, event: Event, child: str = "") -> None:
        for display in self._displays:
            display.show(event, child)


class Interrupts:
    """Remembers whether the task was interrupted and has not continued since."""

    def __init__(self) -> None:
        self._stopping = False

    def second(self) -> bool:
        """Count a Ctrl-C; whether it is the second."""
        before, self._stopping = self._stopping, True
        return before

    def show(self, event: Event, child: str = "") -> None:
        if isinstance(event.fact, RequestStarted | ToolStarted):
            self._stopping = False
