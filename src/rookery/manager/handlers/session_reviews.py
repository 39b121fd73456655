"""What a session itself has changed, wherever it works: told by its log and its checkpoints.

Neither the project's repository nor a process of the session is asked.
"""

from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias, TypeVar

import anyio.to_thread

from rookery.checkpoints.checkpoints import ShadowCheckpoints
from rookery.core.facts import ChildBegan, Event
from rookery.core.settings import Settings
from rookery.errors import CommandRejected, StorageError
from rookery.manager.handlers.worktree_access import WorktreeAccess
from rookery.manager.review.file_diffs import TextDiff
from rookery.manager.review.session_changes import (
    SessionFile,
    diff_of_session,
    find_file,
    review_of,
    session_files,
    steps_of,
)
from rookery.manager.shown_rows import Review
from rookery.manager.worktrees.worktree_git import InTheWay
from rookery.platform.processes.own_programs import find_own_program
from rookery.platform.user_folders import Places

Steps: TypeAlias = tuple[tuple[str, str], ...]
T = TypeVar("T")


class SessionReviews:
    """Remembers what it has read last: a page asks for one file after the other."""

    def __init__(
        self, access: WorktreeAccess, places: Places, settings: Callable[[], Settings]
    ) -> None:
        self._access = access
        self._tasks = access.supervisor.tasks
        self._places = places
        self._settings = settings
        self._read: tuple[str, Steps, tuple[SessionFile, ...]] = ("", (), ())

    async def review(self, session_id: str) -> Review:
        files = await self._files(session_id)
        program = self._git(session_id)
        return await anyio.to_thread.run_sync(review_of, program, files)

    async def diff(self, session_id: str, path: str, context: int) -> TextDiff:
        """Raises `CommandRejected` if the session has not changed it."""
        files = await self._files(session_id)
        program = self._git(session_id)
        if not program:
            raise CommandRejected("There is no git to compare lines with; install it.")
        return await anyio.to_thread.run_sync(
            lambda: _refused(lambda: diff_of_session(program, files, path, context=context))
        )

    async def file(self, session_id: str, path: str) -> SessionFile:
        files = await self._files(session_id)
        return _refused(lambda: find_file(files, path))

    async def _files(self, session_id: str) -> tuple[SessionFile, ...]:
        place = self._access.place_of(session_id)
        steps = await anyio.to_thread.run_sync(self._steps, session_id)
        if not steps or not place.is_dir():
            return ()
        if self._read[:2] == (session_id, steps):
            return self._read[2]
        limits = self._settings().as_limits()
        checkpoints = ShadowCheckpoints(place, self._places.checkpoints, limits)
        try:
            files = await session_files(checkpoints, steps)
        except (StorageError, OSError) as error:
            raise CommandRejected(
                f"Not all checkpoints of this session are there any more ({error}); look at what "
                "its branch has instead."
            ) from error
        self._read = (session_id, steps, files)
        return files

    def _steps(self, session_id: str) -> Steps:
        """Of the session and of those who work for it, in the order they were taken."""
        found: list[tuple[int, tuple[str, str]]] = []
        waiting, seen = [session_id], {session_id}
        while waiting:
            events = self._events(waiting.pop())
            for event in events:
                found += [(event.ts, step) for step in steps_of([event])]
                fact = event.fact
                if isinstance(fact, ChildBegan) and fact.task_id not in seen:
                    seen.add(fact.task_id)
                    waiting.append(fact.task_id)
        return tuple(step for _, step in sorted(found, key=lambda each: each[0]))

    def _events(self, task_id: str) -> list[Event]:
        return list(self._tasks.read(task_id)) if self._tasks.exists(task_id) else []

    def _git(self, session_id: str) -> str:
        return find_own_program("git", Path(self._access.place_of(session_id)))


def _refused(operation: Callable[[], T]) -> T:
    """What is in the way, as a refusal."""
    try:
        return operation()
    except InTheWay as error:
        raise CommandRejected(str(error)) from error
