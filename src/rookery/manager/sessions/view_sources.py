"""Where the view of a task comes from that somebody follows: a session, or what is stored of it."""

from collections.abc import Callable, Mapping
from typing import Protocol

import anyio

from rookery.core.folds.view import View
from rookery.errors import CommandRejected
from rookery.manager.sessions.session_task import FollowedTask
from rookery.manager.sessions.stored_session import Glimpse, Recollection
from rookery.manager.sessions.supervised_session import SupervisedSession
from rookery.manager.sessions.supervisor import Supervisor


class Source(Protocol):
    @property
    def view(self) -> View: ...

    @property
    def unread(self) -> int:
        """About how many rows of it are not in the view yet, because they are still being read."""

    @property
    def workers(self) -> Mapping[str, str]:
        """The tasks that work for it or have, by the call they work for."""

    @property
    def gone(self) -> bool:
        """There is no such session any more."""

    async def until(self, holds: Callable[[], bool]) -> None:
        """Waits until that holds; looked at whenever the view has changed, or at a `wake`."""

    def wake(self) -> None: ...


async def source_of(supervisor: Supervisor, session_id: str, task_id: str) -> Source:
    """What there is to be followed of a session: its own task, whose id is its own, or one that
    works for it or has. Raises `CommandRejected` if there is no such."""
    if supervisor.session(session_id) is None:
        raise CommandRejected(f"There is no session {session_id} here.")
    session = None if supervisor.read_only else supervisor.find(session_id)
    if session and task_id == session_id:
        await _look(supervisor, session)
        return SessionSource(session, session.root)
    past = session.recollection if session else _stored(supervisor, session_id)
    if not (task := await past.task(task_id)):
        raise CommandRejected(f"There is no task {task_id} in session {session_id}.")
    return SessionSource(session, task) if session else StoredSource(task)


async def _look(supervisor: Supervisor, session: SupervisedSession) -> None:
    """Until at least the last rows of a session are known; the others are read on."""
    done = anyio.Event()

    async def read() -> None:
        await session.recall()
        done.set()
        session.wake()

    supervisor.group.start_soon(read)
    await session.until(lambda: done.is_set() or session.recollection.glimpse is not None)


def _stored(supervisor: Supervisor, session_id: str) -> Recollection:
    return Recollection(FollowedTask(session_id), supervisor.tasks, lambda: None)


class SessionSource:
    """A task of a session under supervision: its own, or one that works for it or has."""

    def __init__(self, session: SupervisedSession, task: FollowedTask) -> None:
        self._session = session
        self._task = task

    @property
    def view(self) -> View:
        glimpse = self._glimpse
        return glimpse.view if glimpse else self._now().view

    @property
    def unread(self) -> int:
        return self._glimpse.earlier if self._glimpse else 0

    @property
    def _glimpse(self) -> Glimpse | None:
        is_root = self._task is self._session.root
        return self._session.recollection.glimpse if is_root else None

    @property
    def workers(self) -> Mapping[str, str]:
        return self._now().workers

    @property
    def gone(self) -> bool:
        return self._session.is_forgotten

    async def until(self, holds: Callable[[], bool]) -> None:
        await self._session.until(holds)

    def wake(self) -> None:
        self._session.wake()

    def _now(self) -> FollowedTask:
        """One that has ended is no longer heard of, and stays as it was heard last."""
        for task in self._session.keeper.tasks:
            if task.task_id == self._task.task_id and task.view.seq:
                self._task = task
        return self._task


class StoredSource:
    """A task as it is stored, for whoever may only look."""

    gone = False
    unread = 0

    def __init__(self, task: FollowedTask) -> None:
        self.view = task.view
        self.workers = task.workers
        self._woken = anyio.Event()

    async def until(self, holds: Callable[[], bool]) -> None:
        while not holds():
            await self._woken.wait()
            self._woken = anyio.Event()

    def wake(self) -> None:
        self._woken.set()
