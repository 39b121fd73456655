"""The manager of a project: its supervisor, and a handler for every request.

Closing it ends no session. A read-only manager answers only requests that change nothing.
"""

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Mapping
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Any, cast

import anyio

from rookery.manager.dependencies import Dependencies, TrustedFolders
from rookery.manager.handlers.review_handler import ReviewHandler
from rookery.manager.handlers.router import Handler, Handlers, ReadOnlyHandlers, Router
from rookery.manager.handlers.session_handler import ForkHandler, SessionHandler, overview_of
from rookery.manager.handlers.settings_handler import LookupHandler, SettingsHandler
from rookery.manager.handlers.start_handler import StartHandler
from rookery.manager.handlers.undo_handler import UndoHandler
from rookery.manager.handlers.worktree_access import WorktreeAccess
from rookery.manager.handlers.worktree_handler import WorktreeHandler
from rookery.manager.handlers.worktree_scripts import AgreedScripts, RunScripts, WorktreeSetup
from rookery.manager.queue_keeper import HOLDER_NAME, start_keepers
from rookery.manager.requests import (
    ListDevices,
    RevokeDevice,
)
from rookery.manager.sessions.session_folders import Workspaces
from rookery.manager.sessions.session_states import SessionState
from rookery.manager.sessions.session_store import holder_note, manager_folder
from rookery.manager.sessions.session_summary import SessionSummary
from rookery.manager.sessions.supervisor import Supervisor, open_supervisor
from rookery.manager.shown_rows import Overview
from rookery.manager.worktrees.worktree_git import Fetching
from rookery.platform.user_folders import Places

SECONDS_TO_SETTLE = 40.0
"""More than the time a process has to announce its session."""


class Manager:
    router: Router

    def __init__(self, supervisor: Supervisor, trust: TrustedFolders) -> None:
        self.supervisor = supervisor
        self._trust = trust
        self.blocked_requests = 0
        """Unauthenticated requests, counted by the web server."""

    @property
    def project(self) -> Path:
        return self.supervisor.project

    @property
    def is_locked_out(self) -> bool:
        """Whether another manager holds the session list, so that nothing can be changed here."""
        return self.supervisor.store.is_held_elsewhere

    def overview(self) -> Overview:
        trusted = self.is_trusted()
        return overview_of(self.supervisor, self.blocked_requests, trusted=trusted)

    def is_trusted(self) -> bool:
        return self._trust.trusts(self.project)

    async def wait_settled(self) -> None:
        """Wait until everything that was requested continues without a manager: started
        processes have their task, messages are delivered, stopped sessions have ended. After
        `SECONDS_TO_SETTLE` the rest is left to the next manager."""
        await self._wait_until_none(_is_preparing)
        with anyio.move_on_after(SECONDS_TO_SETTLE):
            await self._wait_until_none(_needs_manager)

    async def _wait_until_none(self, condition: Callable[[SessionSummary], bool]) -> None:
        async with aclosing(cast(AsyncGenerator[object, None], self.supervisor.changes())) as news:
            async for _ in news:
                if not any(map(condition, self.supervisor.all())):
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
    """Open the manager of a project; closing it ends no session. `handlers` override the default
    ones for the same requests. `called` names this process to others that find the list locked."""
    limit = dependencies.settings().manager.running_limit
    opened = open_supervisor(project, places, environ, dependencies.tasks, limit=limit)
    async with opened as supervisor:
        manager = Manager(supervisor, dependencies.trust)
        all_handlers = (*_handlers(manager, places, environ, dependencies), *handlers)
        if supervisor.read_only:
            manager.router = Router([ReadOnlyHandlers(all_handlers, supervisor.read_only)])
            yield manager
            return
        manager.router = Router(all_handlers, supervisor.ensure_supervised)
        if called != HOLDER_NAME:
            supervisor.group.start_soon(start_keepers, supervisor, environ)
        with holder_note(places, supervisor.project, called):
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


def _is_preparing(summary: SessionSummary) -> bool:
    return bool(summary.step)


def _needs_manager(summary: SessionSummary) -> bool:
    session = summary.session
    if summary.queued or not session.process_open:
        return False
    arriving = any(mail.state in ("queued", "sending") for mail in summary.mail)
    return not session.saw_session_created or arriving or _is_stopping(summary)


def _is_stopping(summary: SessionSummary) -> bool:
    is_idle = summary.view.closed or summary.view.open_ask is not None
    return summary.session.state is SessionState.STOPPED and not is_idle


class UnservedDevices:
    """Device requests while no web server runs. The file is read on demand, so that a broken one
    only affects these requests."""

    def __init__(self, file: Path) -> None:
        self._file = file

    @property
    def handlers(self) -> Handlers:
        return {ListDevices: self._do, RevokeDevice: self._do}

    async def _do(self, request: Any) -> Any:
        from rookery.manager.web.access import DeviceHandler, Devices

        return await DeviceHandler(Devices(self._file), _ignore).handlers[type(request)](request)


def _ignore(device_id: str) -> None:
    """Without a web server there is no connection to close."""


def worktree_handlers(
    supervisor: Supervisor,
    places: Places,
    environ: Mapping[str, str],
    dependencies: Dependencies,
    *,
    fetching: Fetching | None = None,
) -> tuple[Handler, ...]:
    """Make the worktree handlers, install their check before every process start, and continue
    interrupted removals."""
    access = WorktreeAccess(supervisor, dependencies.trust, fetching=fetching)
    agreed = AgreedScripts(access.project, places)
    scripts = RunScripts(access.project, places, environ, supervisor.group)
    worktrees = WorktreeHandler(access, agreed, scripts)
    supervisor.start_obstacle = access.start_obstacle
    supervisor.group.start_soon(worktrees.recover)
    return (
        StartHandler(
            access, WorktreeSetup(access, agreed, scripts, environ), dependencies.settings
        ),
        worktrees,
        ReviewHandler(access, dependencies),
    )
