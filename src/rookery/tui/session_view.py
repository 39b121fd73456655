"""The session on the screen: its questions, the commands to answer them, and switching sessions."""

from collections.abc import Callable, Sequence

from msgspec import Struct

from rookery.core.asks import APPROVALS, AskKind
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
from rookery.protocol.attend import Say, answer_to, new_message
from rookery.protocol.codec import Host, OfferedAnswer
from rookery.tui.followed_tasks import Following, Start, WatchedTask
from rookery.tui.interfaces import Controller


class Draft(Struct, frozen=True, kw_only=True):
    """A message of the user: text and images."""

    text: str = ""
    images: tuple[Image, ...] = ()


class OpenQuestion(Struct, frozen=True):
    """An open question and the task that asks it."""

    task: WatchedTask
    asked: Asked

    def answer(self, said: Say) -> Answer:
        return answer_to(self.task.task_id, self.asked, said)

    def text_answer(self, message: Draft) -> Sequence[Command]:
        """Answer with a message. A message rejects an approval; its images are sent separately,
        as the result of a rejected call has none."""
        if self.asked.ask not in APPROVALS:
            return [self.answer(Say("message", message.text, message.images))]
        extra = new_message(self.task.task_id, "", message.images)
        return [*([extra] if message.images else []), self.answer(Say("no", message.text))]

    def queued_answer(self) -> Sequence[Command]:
        """Answer with the queued messages that came too late for the last step."""
        queue = self.task.view.queue
        task_id = self.task.task_id
        edits = [EditQueue(task_id=task_id, message_id=each.message_id) for each in queue]
        text = "\n\n".join(each.text for each in queue if each.text)
        images = tuple(image for each in queue for image in each.images)
        return [*edits, *self.text_answer(Draft(text=text, images=images))]

    def chosen(
        self, suggestion: OfferedAnswer, images: tuple[Image, ...] = ()
    ) -> Sequence[Command]:
        """Answer with a suggestion, which may also switch the mode."""
        answer = self.answer(Say("message", suggestion.answer, images))
        if not suggestion.mode or suggestion.mode == self.task.view.mode:
            return [answer]
        return [SwitchMode(task_id=self.task.task_id, mode=suggestion.mode), answer]


class SessionView(Following):
    def __init__(self, host: Host, start: Start, on_event: Callable[[], None]) -> None:
        super().__init__(host, start, on_event)
        self.settled: set[str] = set()
        """Ids of questions answered here whose `Answered` fact has not arrived."""

    @property
    def task_id(self) -> str | None:
        return self.root.task_id if self.root else None

    @property
    def view(self) -> View | None:
        return self.root.view if self.root else None

    def events(self, task_id: str) -> Sequence[Event]:
        task = self.task(task_id)
        return task.events if task else ()

    @property
    def is_working(self) -> bool:
        """Whether something is running that can be stopped."""
        root = self.root
        if root is None or root.over or self.question:
            return False
        if any(task.condensing for task in self.tasks):
            return True
        return root.view.agent.is_running or not root.view.messages

    @property
    def has_agents_at_work(self) -> bool:
        """Whether agents run, also while another one asks."""
        return any(
            each.agent and not each.over and each.view.agent.is_running for each in self.tasks
        )

    def belongs_to_work(self, task_id: str) -> bool:
        """Whether it is a sub-task of a session that has not finished. Opening it by itself would
        end that session."""
        task, root, question = self.task(task_id), self.root, self.question
        if task is None or task.parent is None or root is None or root.over:
            return False
        return question is None or question.asked.ask is not AskKind.COMPLETION_RESULT

    @property
    def question(self) -> OpenQuestion | None:
        """The open question, of the innermost task first."""
        return self._first_question(about_output=False)

    @property
    def background_question(self) -> OpenQuestion | None:
        """The question whether to keep the running command in the background."""
        return self._first_question(about_output=True)

    def _first_question(self, *, about_output: bool) -> OpenQuestion | None:
        for task, asked in self.open_questions():
            is_about_output = asked.ask is AskKind.COMMAND_OUTPUT
            if is_about_output is about_output and asked.ask_id not in self.settled:
                return OpenQuestion(task, asked)
        return None

    def note_condensing(self, task_id: str) -> None:
        """Note that a summary was requested; messages are queued until it is done."""
        if task := self.task(task_id):
            task.condensing = True

    @property
    def working_task_id(self) -> str | None:
        """Id of the task that works: the innermost one, except for agents side by side."""
        at_work = [task for task in self.tasks if not task.over and not task.agent]
        return max(at_work, key=lambda task: task.depth).task_id if at_work else None

    def speak_command(self, message: Draft) -> Speak | None:
        receiver = self.working_task_id
        return new_message(receiver, message.text, message.images) if receiver else None

    def stop(self) -> Cancel | None:
        return Cancel(task_id=self.task_id) if self.task_id else None


BUSY = "A task is running. Esc stops it."


class TaskSwitcher:
    def __init__(
        self,
        controller: Controller,
        session: SessionView,
        *,
        start: Start,
        leave: Callable[[], None],
    ) -> None:
        """`start` runs a task in the background; `leave` clears the screen."""
        self._controller = controller
        self._session = session
        self._start = start
        self._leave = leave
        self.has_opened = False
        """Whether a session was opened, which can be resumed after the exit."""

    async def begin(self, first: OpenTask | ReopenTask) -> None:
        self._leave()
        try:
            await self._controller.host.send(first)
        except CommandRejected as refusal:
            self._controller.toast(str(refusal), "warning")
        else:
            self._show(first.task_id)

    async def open(self, task_id: str) -> None:
        """Show another session, unless one is working."""
        if task_id == self._session.task_id or self._is_blocked():
            return
        if await self._controller.send(ReopenTask(task_id=task_id)):
            await self._close_current()
            self.switch_to(task_id)

    async def show_empty(self) -> None:
        """Show the empty page, unless a session is working."""
        if not self._is_blocked():
            await self._close_current()
            self._leave()

    async def resume(self, command: ReopenTask) -> bool:
        """Resume an ended session. Returns whether it was accepted."""
        self._leave()
        accepted = await self._controller.send(command)
        if accepted:
            self._show(command.task_id)
        return accepted

    def switch_to(self, task_id: str) -> None:
        self._leave()
        self._show(task_id)

    def _is_blocked(self) -> bool:
        is_working = self._session.is_working or self._session.has_agents_at_work
        if is_working:
            self._controller.toast(BUSY, "warning")
        return is_working

    def _show(self, task_id: str) -> None:
        self.has_opened = True
        self._start(self._follow(task_id))

    async def _follow(self, task_id: str) -> None:
        try:
            await self._session.follow(task_id)
        except CommandRejected as refusal:
            self._controller.toast(str(refusal), "error")

    async def _close_current(self) -> None:
        """End the current session: completed if it offered a result, else closed."""
        root, question = self._session.root, self._session.question
        if root is None or root.over:
            return
        if question and question.asked.ask is AskKind.COMPLETION_RESULT:
            await self._controller.send(question.answer(Say("yes")))
        else:
            await self._controller.send(CloseTask(task_id=root.task_id))
