"""The task that is shown: what it asks, who listens, what is sent about it, and switching to
another one."""

import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Literal

from msgspec import Struct

from rookery.core.asks import AskKind, Choice, Reply
from rookery.core.blocks import Image
from rookery.core.commands import (
    Answer,
    Cancel,
    CloseTask,
    Command,
    EditQueue,
    OpenTask,
    ReopenTask,
    Speak,
    SwitchMode,
)
from rookery.core.facts import Asked, Event
from rookery.core.folds.view import View
from rookery.errors import CommandRejected
from rookery.protocol.codec import Host, OfferedAnswer
from rookery.tui.followed_tasks import Following, Start, WatchedTask
from rookery.tui.interfaces import Controller
from rookery.tui.question_page import APPROVALS

RESUMES = (AskKind.RESUME_TASK, AskKind.RESUME_COMPLETED_TASK)


class Said(Struct, frozen=True, kw_only=True):
    """What the user says: words, and pictures that go with them."""

    text: str = ""
    images: tuple[Image, ...] = ()


class OpenQuestion(Struct, frozen=True):
    """An open question, and whose it is."""

    task: WatchedTask
    asked: Asked

    def answer(
        self,
        reply: Reply,
        text: str = "",
        *,
        images: tuple[Image, ...] = (),
        always: bool = False,
        choice: Choice | None = None,
        by_policy: bool = False,
    ) -> Answer:
        by: Literal["user", "policy"] = "policy" if by_policy else "user"
        return Answer(
            task_id=self.task.task_id,
            ask_id=self.asked.ask_id,
            reply=reply,
            text=text,
            images=images,
            digest=self.asked.digest,
            by=by,
            always=always,
            choice=choice,
        )

    def in_words(self, said: Said) -> Sequence[Command]:
        """The answer that words are. What is asked for permission, words refuse; the result of
        a refused call holds no pictures, so those are said besides."""
        if self.asked.ask not in APPROVALS:
            return [self.answer("message", said.text, images=said.images)]
        besides = speak(self.task.task_id, Said(images=said.images))
        return [*([besides] if said.images else []), self.answer("no", said.text)]

    def in_queued_words(self) -> Sequence[Command]:
        """The answer that words are which came too late for the last step."""
        queue = self.task.view.queue
        task_id = self.task.task_id
        taken = [EditQueue(task_id=task_id, message_id=each.message_id) for each in queue]
        text = "\n\n".join(each.text for each in queue if each.text)
        images = tuple(image for each in queue for image in each.images)
        return [*taken, *self.in_words(Said(text=text, images=images))]

    def chosen(
        self, suggestion: OfferedAnswer, images: tuple[Image, ...] = ()
    ) -> Sequence[Command]:
        """A suggestion may ask for a mode to go on in."""
        answer = self.answer("message", suggestion.answer, images=images)
        if not suggestion.mode or suggestion.mode == self.task.view.mode:
            return [answer]
        return [SwitchMode(task_id=self.task.task_id, mode=suggestion.mode), answer]


def speak(task_id: str, said: Said) -> Speak:
    message_id = uuid.uuid4().hex
    return Speak(task_id=task_id, message_id=message_id, text=said.text, images=said.images)


class SessionView:
    def __init__(self, host: Host, start: Start, news: Callable[[], None]) -> None:
        self.following = Following(host, start, news)
        self._settled: set[str] = set()
        """Questions that were answered from here; their end is about to be told."""

    @property
    def root(self) -> WatchedTask | None:
        return self.following.root

    @property
    def task_id(self) -> str | None:
        return self.root.task_id if self.root else None

    @property
    def view(self) -> View | None:
        return self.root.view if self.root else None

    @property
    def views(self) -> Mapping[str, View]:
        return self.following.views

    def events(self, task_id: str) -> Sequence[Event]:
        task = self.following.task(task_id)
        return task.events if task else ()

    @property
    def works(self) -> bool:
        """Something is being done that could be stopped."""
        root = self.root
        if root is None or root.over or self.question:
            return False
        if any(task.condensing for task in self.following.tasks):
            return True
        return root.view.agent.is_running or not root.view.messages

    @property
    def question(self) -> OpenQuestion | None:
        """What the loop waits for, of the innermost task first."""
        for task, asked in self.following.asking():
            if asked.ask is not AskKind.COMMAND_OUTPUT and asked.ask_id not in self._settled:
                return OpenQuestion(task, asked)
        return None

    @property
    def offer(self) -> OpenQuestion | None:
        """The running command may be let run on, or be ended."""
        for task, asked in self.following.asking():
            if asked.ask is AskKind.COMMAND_OUTPUT and asked.ask_id not in self._settled:
                return OpenQuestion(task, asked)
        return None

    def note_condensing(self, task_id: str) -> None:
        """It was asked for; from now on words wait for what comes after it."""
        if task := self.following.task(task_id):
            task.condensing = True

    def settle(self, question: OpenQuestion) -> None:
        self._settled.add(question.asked.ask_id)

    def reopen_question(self, question: OpenQuestion) -> None:
        """The answer was refused."""
        self._settled.discard(question.asked.ask_id)

    @property
    def listener(self) -> str | None:
        """Whoever is at work: the task, or the innermost that works for it."""
        at_work = [task for task in self.following.tasks if not task.over]
        return max(at_work, key=lambda task: task.depth).task_id if at_work else None

    def words(self, said: Said) -> Speak | None:
        return speak(self.listener, said) if self.listener else None

    def stop(self) -> Cancel | None:
        return Cancel(task_id=self.task_id) if self.task_id else None


AT_WORK = "A task is running. Esc stops it."


class TaskSwitcher:
    def __init__(
        self,
        controller: Controller,
        session: SessionView,
        *,
        start: Start,
        leave: Callable[[], None],
    ) -> None:
        """`start` has a task followed beside everything else; `leave` clears the screen of the
        one that was looked at."""
        self._controller = controller
        self._session = session
        self._start = start
        self._leave = leave
        self.has_begun = False
        """There was a task, which one may want to go on with."""

    async def begin(self, first: OpenTask | ReopenTask) -> None:
        self._leave()
        try:
            await self._controller.host.send(first)
        except CommandRejected as refusal:
            self._controller.toast(str(refusal), "warning")
        else:
            self._look_at(first.task_id)

    async def open(self, task_id: str) -> None:
        """Another task, unless one works."""
        if task_id == self._session.task_id or self._is_held():
            return
        if await self._controller.send(ReopenTask(task_id=task_id)):
            await self._put_away()
            self.turn_to(task_id)

    async def renew(self) -> None:
        """No task, unless one works."""
        if not self._is_held():
            await self._put_away()
            self._leave()

    async def take_up(self, command: ReopenTask) -> bool:
        """Go on with a task that is over. Whether it can be gone on with."""
        self._leave()
        accepted = await self._controller.send(command)
        if accepted:
            self._look_at(command.task_id)
        return accepted

    def turn_to(self, task_id: str) -> None:
        self._leave()
        self._look_at(task_id)

    def _is_held(self) -> bool:
        works = self._session.works
        if works:
            self._controller.toast(AT_WORK, "warning")
        return works

    def _look_at(self, task_id: str) -> None:
        self.has_begun = True
        self._start(self._follow(task_id))

    async def _follow(self, task_id: str) -> None:
        try:
            await self._session.following.follow(task_id)
        except CommandRejected as refusal:
            self._controller.toast(str(refusal), "error")

    async def _put_away(self) -> None:
        """The task that was looked at is over: done if it says so, and kept in any case."""
        root, question = self._session.root, self._session.question
        if root is None or root.over:
            return
        if question and question.asked.ask is AskKind.COMPLETION_RESULT:
            await self._controller.send(question.answer("yes"))
        else:
            await self._controller.send(CloseTask(task_id=root.task_id))
