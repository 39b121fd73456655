"""Which task is looked at: one that begins, one of the past, or none."""

from collections.abc import Callable

from rookery.core.asks import AskKind
from rookery.core.commands import CloseTask, OpenTask, ReopenTask
from rookery.errors import CommandRejected
from rookery.tui.followed_tasks import Start
from rookery.tui.interfaces import Controller
from rookery.tui.session_view import Session

AT_WORK = "A task is at work. Esc stops it."


class TaskSwitcher:
    def __init__(
        self, controller: Controller, session: Session, *, start: Start, leave: Callable[[], None]
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
