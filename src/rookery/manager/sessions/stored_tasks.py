"""What is stored of a session's tasks, read beside the loop: a log may be long.

To put together all rows of a long log takes a while, but its last rows can be had at once: when a
request starts, nothing that was before is still open. So there is a glimpse of them first.
"""

from collections.abc import Callable, Sequence

import anyio
import anyio.from_thread
import anyio.to_thread
from msgspec import Struct

from rookery.core.facts import Event, RequestStarted, Rewound, TaskOpened
from rookery.core.folds.view import View, see
from rookery.errors import StorageError
from rookery.manager.sessions.heard_task import FollowedTask
from rookery.storage.sessions import TaskStore

EVENTS_GLIMPSED = 600
"""At least, if there are many more."""
_DEEPEST = 20
"""Tasks that work for one another."""


class Glimpse(Struct, frozen=True):
    """The last rows of a task. How many are before them is guessed."""

    view: View
    earlier: int


class Recollection:
    """Of one session, whose own task is `root`; `wake` is called when there is a glimpse."""

    def __init__(self, root: FollowedTask, tasks: TaskStore, wake: Callable[[], None]) -> None:
        self._root = root
        self._tasks = tasks
        self._wake = wake
        self._one_at_a_time = anyio.Lock()
        self.glimpse: Glimpse | None = None
        """While the rest is being read."""
        self.problem = ""
        """Why not all of it could be read, if so."""

    async def recall(self) -> FollowedTask | None:
        """What is stored of the session's task, unless that is known; None if there is nothing."""
        async with self._one_at_a_time:
            if self._root.view.seq or not self._tasks.exists(self._root.task_id):
                return None
            try:
                return await anyio.to_thread.run_sync(self._read_root)
            finally:
                self.glimpse = None

    async def task(self, task_id: str) -> FollowedTask | None:
        """A task of the session, as it is stored; None if it is none."""
        return await anyio.to_thread.run_sync(self._read_own, task_id)

    async def workers(self, task: FollowedTask) -> tuple[FollowedTask, ...]:
        """The stored tasks at work for another, the innermost last."""
        found: list[FollowedTask] = []
        waiting = list(task.children.values())
        while waiting and len(found) < _DEEPEST:
            if worker := await self.task(waiting.pop(0).task_id):
                found.append(worker)
                waiting += worker.children.values()
        return tuple(found)

    def _read_root(self) -> FollowedTask:
        events = self._read(self._root.task_id)
        if glimpse := glimpse_of(events):
            anyio.from_thread.run_sync(self._show, glimpse)
        return _remembered(self._root.task_id, events)

    def _show(self, glimpse: Glimpse) -> None:
        self.glimpse = glimpse
        self._wake()

    def _read_own(self, task_id: str) -> FollowedTask | None:
        works_for_us = self._works_for_us(task_id)
        return _remembered(task_id, self._read(task_id)) if works_for_us else None

    def _works_for_us(self, task_id: str) -> bool:
        at: str | None = task_id
        for _ in range(_DEEPEST):
            if at is None or at == self._root.task_id:
                return at is not None
            at = self._parent(at)
        return False

    def _parent(self, task_id: str) -> str | None:
        try:
            for event in self._tasks.read(task_id) if self._tasks.exists(task_id) else ():
                if isinstance(event.fact, TaskOpened):
                    return event.fact.parent
        except StorageError:
            return None
        return None

    def _read(self, task_id: str) -> list[Event]:
        """As far as it can be read."""
        events: list[Event] = []
        try:
            for event in self._tasks.read(task_id):
                events.append(event)
        except StorageError as error:
            self.problem = str(error)
        return events


def _remembered(task_id: str, events: Sequence[Event]) -> FollowedTask:
    task = FollowedTask(task_id)
    task.remember(events)
    return task


def glimpse_of(events: Sequence[Event]) -> Glimpse | None:
    """None if it would not be worth it, or could not be right: a rewind brings back what is far
    away."""
    last = len(events) - EVENTS_GLIMPSED
    if last < EVENTS_GLIMPSED or any(isinstance(event.fact, Rewound) for event in events):
        return None
    starts = (at for at in range(last, 0, -1) if isinstance(events[at].fact, RequestStarted))
    begin = next(starts, 0)
    if not begin:
        return None
    view = View()
    for event in events[begin:]:
        view = see(view, event)
    return Glimpse(view, begin)
