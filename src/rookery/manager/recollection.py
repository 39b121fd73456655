"""What is stored of a session's tasks, read beside the loop: a log may be long."""

import anyio
import anyio.to_thread

from rookery.core.facts import TaskOpened
from rookery.errors import StorageError
from rookery.manager.followed_task import FollowedTask
from rookery.storage.tasks import TaskStore

_DEEPEST = 20
"""Tasks that work for one another."""


class Recollection:
    """Of one session, whose own task is `root`."""

    def __init__(self, root: FollowedTask, tasks: TaskStore) -> None:
        self._root = root
        self._tasks = tasks
        self._one_at_a_time = anyio.Lock()
        self.problem = ""
        """Why not all of it could be read, if so."""

    async def recall(self) -> FollowedTask | None:
        """What is stored of the session's task, unless that is known; None if there is nothing."""
        async with self._one_at_a_time:
            if self._root.view.seq or not self._tasks.exists(self._root.task_id):
                return None
            return await anyio.to_thread.run_sync(self._read, self._root.task_id)

    async def task(self, task_id: str) -> FollowedTask | None:
        """A task of the session, as it is stored; None if it is none."""
        return await anyio.to_thread.run_sync(self._read_own, task_id)

    def _read_own(self, task_id: str) -> FollowedTask | None:
        return self._read(task_id) if self._works_for_us(task_id) else None

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

    def _read(self, task_id: str) -> FollowedTask:
        task = FollowedTask(task_id)
        try:
            task.remember(self._tasks.read(task_id))
        except StorageError as error:
            self.problem = str(error)
        return task
