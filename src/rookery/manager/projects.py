"""The user's projects, and the managers of those that this process has open.

A project is opened when it is first needed or has active sessions, and then stays open. Each has
its own list, lock, running limit and socket. What is known about the others is read from their
stored lists.
"""

from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TypeAlias

import anyio
import anyio.to_thread
from anyio.abc import TaskGroup, TaskStatus

from rookery import NAME
from rookery.errors import CommandRejected, RookeryError, first_error
from rookery.manager.manager import Manager
from rookery.manager.manager_socket import listening
from rookery.manager.schedules.schedule_file import has_schedules
from rookery.manager.sessions.session_record import SessionRecord, count_records
from rookery.manager.sessions.session_states import WAITING, SessionState, needs_attention
from rookery.manager.sessions.session_store import (
    manager_folder,
    project_of,
    records_in,
    session_lists,
)
from rookery.manager.shown_rows import ProjectRow, WaitingSession
from rookery.platform.user_folders import Places

OpenManager: TypeAlias = Callable[[Path, Mapping[str, str]], AbstractAsyncContextManager[Manager]]
"""Opens the manager of a project, whose sessions get an environment; empty for the usual one.
Raises `RookeryError`."""
_USUAL: Mapping[str, str] = {}
SECONDS_BETWEEN = 0.3
"""Changes within this time are shown together in the other projects."""
SECONDS_BETWEEN_LOOKS = 30.0
"""Between two searches for projects with schedules."""


@asynccontextmanager
async def open_projects(places: Places, opened: OpenManager) -> "AsyncIterator[Projects]":
    async with anyio.create_task_group() as group:
        projects = Projects(places, opened, group)
        yield projects
        projects.stop_serving()
        projects.over.set()


class Projects:
    def __init__(self, places: Places, opened: OpenManager, group: TaskGroup) -> None:
        self.over = anyio.Event()
        """Set when the managers shall close."""
        self.on_waiting: Callable[[Manager], None] = lambda _: None
        """Called when one more session needs the user."""
        self._places = places
        self._opened = opened
        self._group = group
        self._managers: dict[str, Manager] = {}
        self._opening: dict[str, anyio.Lock] = {}
        self._serving: list[anyio.CancelScope] = []
        self._rows: dict[str, ProjectRow] = {}

    @property
    def managers(self) -> tuple[Manager, ...]:
        return tuple(self._managers.values())

    async def find(self, project_id: str) -> Manager:
        """The manager of a known project, opened if needed; without an id the first one. Raises
        `RookeryError`."""
        if found := self._managers.get(project_id or next(iter(self._managers), "")):
            return found
        path = project_of(self._places, project_id)
        if not path or not path.is_dir():
            raise CommandRejected(
                "The manager does not know this project, or its folder is gone. To add a "
                f"project, run {NAME} manager in its folder."
            )
        return await self.open(path)

    async def open(self, folder: Path, environ: Mapping[str, str] = _USUAL) -> Manager:
        """The manager of the project in a folder. Raises `RookeryError`."""
        project_id = manager_folder(self._places, folder).name
        async with self._opening.setdefault(project_id, anyio.Lock()):
            if found := self._managers.get(project_id):
                return found
            try:
                opened: Manager = await self._group.start(self._keep_open, folder, environ)
            except BaseExceptionGroup as group:  # from one of its task groups
                raise first_error(group) from group
            return opened

    async def open_active(self) -> None:
        """Open the projects that have active sessions, except those that another process has: its
        own manager, or a command, knows their questions."""
        await self.look()
        for row in [*self._rows.values()]:
            if row.counts.active and row.id not in self._managers:
                with suppress(RookeryError):
                    await self.open(Path(row.path))

    async def open_scheduled(self) -> None:
        """Open the projects that have schedules, again and again, until cancelled."""
        while True:
            for folder in await anyio.to_thread.run_sync(session_lists, self._places):
                if folder.name not in self._managers and has_schedules(folder):
                    with suppress(RookeryError):
                        await self.find(folder.name)
            await anyio.sleep(SECONDS_BETWEEN_LOOKS)

    async def look(self) -> None:
        """Read the lists of the projects that are not open here."""
        stored = await anyio.to_thread.run_sync(self._stored_rows)
        live = {each.id: each for each in self._rows.values() if each.id in self._managers}
        rows = {each.id: each for each in stored} | live
        if rows != self._rows:
            self._rows = rows
            self._tell_others("")

    def others(self, project_id: str) -> tuple[ProjectRow, ...]:
        """All projects but one, by name."""
        rows = (each for each in self._rows.values() if each.id != project_id)
        return tuple(sorted(rows, key=lambda each: (each.name.casefold(), each.path)))

    def stop_serving(self) -> None:
        """Accept no more connections of commands."""
        for scope in self._serving:
            scope.cancel()

    async def _keep_open(
        self,
        folder: Path,
        environ: Mapping[str, str],
        *,
        task_status: TaskStatus[Manager] = anyio.TASK_STATUS_IGNORED,
    ) -> None:
        async with self._opened(folder, environ) as manager:
            self._managers[manager.id] = manager
            manager.other_projects = partial(self.others, manager.id)
            manager.look_for_projects = self.open_active
            with anyio.CancelScope() as scope:
                self._serving.append(scope)
                await self._serve(manager, task_status)
            await self.over.wait()

    async def _serve(self, manager: Manager, task_status: TaskStatus[Manager]) -> None:
        async with aclosing(manager.supervisor.changes()) as changes:
            if manager.supervisor.read_only:
                task_status.started(manager)
                await self._watch(manager, changes)
            else:
                async with (
                    listening(manager, self._places),
                    anyio.create_task_group() as group,
                ):
                    group.start_soon(manager.supervisor.run_schedules)
                    task_status.started(manager)
                    await self._watch(manager, changes)

    async def _watch(self, manager: Manager, changes: AsyncIterator[frozenset[str]]) -> None:
        async for _ in changes:
            limit = manager.supervisor.admission.limit
            row = _row_of(manager.id, manager.project, manager.supervisor.records(), limit)
            before = self._rows.get(manager.id)
            if row != before:
                self._rows[manager.id] = row
                if before and {*row.waiting} - {*before.waiting}:
                    self.on_waiting(manager)
                self._tell_others(manager.id)
            await anyio.sleep(SECONDS_BETWEEN)

    def _tell_others(self, project_id: str) -> None:
        for other_id, other in self._managers.items():
            if other_id != project_id:
                other.supervisor.overview_changed()

    def _stored_rows(self) -> list[ProjectRow]:
        known = (
            (each, project_of(self._places, each.name)) for each in session_lists(self._places)
        )
        return [
            _row_of(folder.name, path, records_in(folder))
            for folder, path in known
            if path and path.is_dir()
        ]


def _row_of(
    project_id: str, path: Path, records: Iterable[SessionRecord], limit: int = 0
) -> ProjectRow:
    known = [*records]
    waiting = sorted(
        (
            each
            for each in known
            if not each.archived and needs_attention(each.state, unread=each.unread)
        ),
        key=urgency,
    )
    return ProjectRow(
        id=project_id,
        name=path.name,
        path=str(path),
        counts=count_records(known),
        running_limit=limit,
        waiting=tuple(
            WaitingSession(session_id=each.session_id, name=each.name, state=each.state)
            for each in waiting
        ),
    )


def urgency(record: SessionRecord) -> tuple[int, int, str]:
    """Questions come before failures and results, as in the inbox; each oldest first."""
    kind = 0 if record.state in WAITING else 1 if record.state is SessionState.ERROR else 2
    return kind, record.start_time, record.session_id
