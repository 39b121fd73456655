"""The manager of a project, put together: its supervisor, and a handler for every request.

Leaving ends no session. A manager that may not write answers only what looks.
"""

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Mapping
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Any, cast

import anyio

from rookery.manager.dependencies import Dependencies, TrustedFolders
from rookery.manager.handlers.review_handler import ReviewHandler
from rookery.manager.handlers.router import Handler, Handlers, LookingOnly, Router
from rookery.manager.handlers.session_handler import ForkHandler, SessionHandler, overview_of
from rookery.manager.handlers.settings_handler import LookupHandler, SettingsHandler
from rookery.manager.handlers.start_handler import StartHandler
from rookery.manager.handlers.undo_handler import UndoHandler
from rookery.manager.handlers.worktree_access import WorktreeAccess
from rookery.manager.handlers.worktree_handler import WorktreeHandler
from rookery.manager.handlers.worktree_scripts import AgreedScripts, RunScripts, SettingUp
from rookery.manager.queue_keeper import CALLED, start_keepers
from rookery.manager.requests import (
    ListDevices,
    RevokeDevice,
)
from rookery.manager.sessions.session_folders import Workspaces
from rookery.manager.sessions.session_states import SessionState
from rookery.manager.sessions.session_store import held_by, manager_folder
from rookery.manager.sessions.session_summary import ShownSession
from rookery.manager.sessions.supervisor import Supervisor, open_supervisor
from rookery.manager.shown_rows import Overview
from rookery.manager.worktrees.create import Fetching
from rookery.platform.user_folders import Places

SECONDS_TO_SETTLE = 40.0
"""More than a process is given to announce its session."""


class Manager:
    router: Router

    def __init__(self, supervisor: Supervisor, trust: TrustedFolders) -> None:
        self.supervisor = supervisor
        self._trust = trust
        self.blocked_requests = 0
        """Of strangers, which whoever serves the page counts."""

    @property
    def project(self) -> Path:
        return self.supervisor.project

    @property
    def is_locked_out(self) -> bool:
        """Nothing can be changed here for as long as another manager has the sessions."""
        return self.supervisor.store.is_held_elsewhere

    def overview(self) -> Overview:
        trusted = self.is_trusted()
        return overview_of(self.supervisor, self.blocked_requests, trusted=trusted)

    def is_trusted(self) -> bool:
        return self._trust.trusts(self.project)

    async def settled(self) -> None:
        """Waits until all that was asked for goes on without a manager: what was begun has been
        handed over, words have arrived, what was stopped has ended. Not for ever, though: the
        next manager takes up whatever is left."""
        await self._until_none(_is_prepared)
        with anyio.move_on_after(SECONDS_TO_SETTLE):
            await self._until_none(_needs_us)

    async def _until_none(self, is_such: Callable[[ShownSession], bool]) -> None:
        async with aclosing(cast(AsyncGenerator[object, None], self.supervisor.changes())) as news:
            async for _ in news:
                if not any(map(is_such, self.supervisor.all())):
                    return


@asynccontextmanager
async def open_manager(
    project: Path,
    places: Places,
    environ: Mapping[str, str],
    dependencies: Dependencies,
    *,
    handlers: Iterable[Handler] = (),
    called: str = "manager",
) -> AsyncIterator[Manager]:
    """The manager of a project; leaving ends no session. `handlers` are those of whoever opens it,
    instead of ours for the same requests. They are `called` so when somebody else wants to know
    who has it open."""
    limit = dependencies.settings().manager.running_limit
    opened = open_supervisor(project, places, environ, dependencies.tasks, limit=limit)
    async with opened as supervisor:
        manager = Manager(supervisor, dependencies.trust)
        all_handlers = (*_handlers(manager, places, environ, dependencies), *handlers)
        if supervisor.read_only:
            manager.router = Router([LookingOnly(all_handlers, supervisor.read_only)])
            yield manager
            return
        manager.router = Router(all_handlers, supervisor.take_over)
        if called != CALLED:
            supervisor.group.start_soon(start_keepers, supervisor, environ)
        with held_by(places, supervisor.project, called):
            yield manager


def _handlers(
    manager: Manager, places: Places, environ: Mapping[str, str], dependencies: Dependencies
) -> Iterable[Handler]:
    supervisor = manager.supervisor
    workspaces = Workspaces(supervisor.project, places)
    return (
        SessionHandler(supervisor, manager.overview),
        *worktree_handlers(supervisor, places, environ, dependencies),
        UndoHandler(supervisor, workspaces, dependencies.snapshots),
        SettingsHandler(dependencies),
        LookupHandler(dependencies, workspaces),
        ForkHandler(supervisor, workspaces, dependencies),
        UnservedDevices(manager_folder(places, supervisor.project) / "devices.json"),
    )


def _is_prepared(shown: ShownSession) -> bool:
    return bool(shown.step)


def _needs_us(shown: ShownSession) -> bool:
    session = shown.session
    if shown.queued or not session.process_open:
        return False
    arriving = any(mail.state in ("queued", "sending") for mail in shown.mail)
    return not session.saw_session_created or arriving or _is_stopping(shown)


def _is_stopping(shown: ShownSession) -> bool:
    rests = shown.view.closed or shown.view.open_ask is not None
    return shown.session.state is SessionState.STOPPED and not rests


class UnservedDevices:
    """The file is read when it is asked for: what is wrong with it is nobody else's concern."""

    def __init__(self, file: Path) -> None:
        self._file = file

    @property
    def handlers(self) -> Handlers:
        return {ListDevices: self._do, RevokeDevice: self._do}

    async def _do(self, request: Any) -> Any:
        from rookery.manager.web.devices import DeviceHandler, Devices

        return await DeviceHandler(Devices(self._file), _is_away).handlers[type(request)](request)


def _is_away(device_id: str) -> None:
    """There is no connection of it to be ended."""


def worktree_handlers(
    supervisor: Supervisor,
    places: Places,
    environ: Mapping[str, str],
    dependencies: Dependencies,
    *,
    fetching: Fetching | None = None,
) -> tuple[Handler, ...]:
    """They see to it that no session runs where it does not belong, and go on with removals that
    were broken off."""
    access = WorktreeAccess(supervisor, dependencies.trust, fetching=fetching)
    agreed = AgreedScripts(access.project, places)
    scripts = RunScripts(access.project, places, environ, supervisor.group)
    worktrees = WorktreeHandler(access, agreed, scripts)
    supervisor.ready_to_run = access.ready_to_run
    supervisor.group.start_soon(worktrees.recover)
    return (
        StartHandler(access, SettingUp(access, agreed, scripts, environ), dependencies.settings),
        worktrees,
        ReviewHandler(access, dependencies),
    )
