"""The manager of a project: its supervisor, and a handler for every request.

Closing it ends no session. A read-only manager answers only requests that change nothing.
"""

import os
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import aclosing, asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import anyio.to_thread
from msgspec.structs import replace

from rookery.errors import CommandRejected
from rookery.manager.dependencies import Dependencies, FleetView, TrustedFolders
from rookery.manager.handlers.change_counts import ChangeCounts
from rookery.manager.handlers.list_handler import FleetHandler, ListHandler, spent_today
from rookery.manager.handlers.review_handler import ReviewHandler
from rookery.manager.handlers.router import Handler, Handlers, ReadOnlyHandlers, Router
from rookery.manager.handlers.schedule_handler import ScheduleHandler
from rookery.manager.handlers.session_handler import ForkHandler, SessionHandler, overview_of
from rookery.manager.handlers.settings_handler import LookupHandler, SettingsHandler
from rookery.manager.handlers.start_handler import StartHandler
from rookery.manager.handlers.terminals import Terminals
from rookery.manager.handlers.undo_handler import UndoHandler
from rookery.manager.handlers.worktree_access import WorktreeAccess
from rookery.manager.handlers.worktree_handler import WorktreeHandler
from rookery.manager.handlers.worktree_scripts import AgreedScripts, RunScripts, WorktreeSetup
from rookery.manager.handlers.worktree_tools import PullRequestHandler, WorktreeToolsHandler
from rookery.manager.requests import ListDevices, ReadPushKey, RevokeDevice, SubscribePush
from rookery.manager.schedules.scheduler import Scheduler
from rookery.manager.sessions.session_folders import Workspaces
from rookery.manager.sessions.session_states import SessionState
from rookery.manager.sessions.session_store import holder_note
from rookery.manager.sessions.session_summary import SessionSummary
from rookery.manager.sessions.supervisor import Supervisor, open_supervisor
from rookery.manager.shown_rows import Overview, ProjectRow
from rookery.platform.user_folders import Places
from rookery.platform.worktree_git import Fetching

SECONDS_TO_SETTLE = 40.0
"""More than the time a process has to announce its session."""


QUEUE_PROCESS = "queue"
"""What the process calls itself that starts queued sessions while no manager is open."""
_DETACH = """\
import os, sys
os.setsid()
if os.fork():
    os._exit(0)
os.execv(sys.argv[1], sys.argv[1:])
"""


class Manager:
    router: Router

    def __init__(
        self, supervisor: Supervisor, trust: TrustedFolders, fleet: FleetView | None = None
    ) -> None:
        self.supervisor = supervisor
        self.fleet = fleet
        self._trust = trust
        self.id = supervisor.store.file.parent.name
        """The project's id, which is part of its address."""
        self.blocked_requests = 0
        """Unauthenticated requests, counted by the web server."""
        self.other_projects: Callable[[], tuple[ProjectRow, ...]] = tuple
        self.look_for_projects: Callable[[], Awaitable[None]] = anyio.lowlevel.checkpoint

    @property
    def project(self) -> Path:
        return self.supervisor.project

    @property
    def is_locked_out(self) -> bool:
        """Whether another manager holds the session list, so that nothing can be changed here."""
        return self.supervisor.store.is_held_elsewhere

    def overview(self) -> Overview:
        return replace(
            overview_of(self.supervisor, self.blocked_requests, trusted=self.is_trusted()),
            project_id=self.id,
            other_projects=self.other_projects(),
            fleet=self.fleet is not None,
        )

    def is_trusted(self) -> bool:
        return self._trust.trusts(self.project)

    async def wait_settled(self) -> None:
        """Wait until everything that was requested continues without a manager: started
        processes have their task, messages are delivered, stopped sessions have ended. After
        `SECONDS_TO_SETTLE` the rest is left to the next manager."""
        await self._wait_until_none(lambda each: bool(each.step))
        with anyio.move_on_after(SECONDS_TO_SETTLE):
            await self._wait_until_none(_needs_manager)

    async def _wait_until_none(self, condition: Callable[[SessionSummary], bool]) -> None:
        async with aclosing(self.supervisor.changes()) as news:
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
    fleet: FleetView | None = None,
) -> AsyncIterator[Manager]:
    """Open the manager of a project; closing it ends no session. `handlers` override the default
    ones for the same requests. `called` names this process to others that find the list locked."""
    limit = dependencies.settings().manager.running_limit
    opened = open_supervisor(project, places, environ, dependencies.tasks, limit=limit)
    async with opened as supervisor:
        manager = Manager(supervisor, dependencies.trust, fleet)
        all_handlers = (*_handlers(manager, places, environ, dependencies), *handlers)
        if supervisor.read_only:
            manager.router = Router([ReadOnlyHandlers(all_handlers, supervisor.read_only)])
            yield manager
            return
        manager.router = Router(all_handlers, supervisor.ensure_supervised)
        if called != QUEUE_PROCESS:
            supervisor.group.start_soon(_start_queue_processes, supervisor, environ)
        with holder_note(places, supervisor.project, called):
            yield manager


def _handlers(
    manager: Manager, places: Places, environ: Mapping[str, str], dependencies: Dependencies
) -> Iterable[Handler]:
    supervisor = manager.supervisor
    workspaces = Workspaces(supervisor.project, places)
    return (
        SessionHandler(supervisor, manager.overview),
        ListHandler(supervisor, dependencies),
        *worktree_handlers(supervisor, places, environ, dependencies),
        UndoHandler(supervisor, workspaces, dependencies.snapshots),
        SettingsHandler(dependencies),
        LookupHandler(dependencies, workspaces),
        UnservedDevices(places.state / "manager"),
        FleetHandler(manager.fleet),
    )


async def _start_queue_processes(supervisor: Supervisor, environ: Mapping[str, str]) -> None:
    """Start a process whenever the queue becomes non-empty; it exits if another one runs."""
    had_queue = False
    async with aclosing(supervisor.changes()) as changes:
        async for _ in changes:
            has_queue = supervisor.admission.has_queue
            if has_queue and not had_queue:
                with anyio.CancelScope(shield=True):
                    await anyio.to_thread.run_sync(
                        _start_queue_process, supervisor.project, environ
                    )
            had_queue = has_queue


def _start_queue_process(project: Path, environ: Mapping[str, str]) -> None:
    """Start a detached process. If that fails, the queue is left to the next manager."""
    program = [sys.executable, "-P", "-m", "rookery.manager.cli.queue_process"]
    with suppress(OSError):
        subprocess.run(
            [sys.executable, "-I", "-S", "-c", _DETACH, *program],
            env=dict(environ),
            input=os.fsencode(project),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd="/",
            check=False,
        )


def _needs_manager(summary: SessionSummary) -> bool:
    record = summary.record
    if summary.queued or not record.process_open:
        return False
    arriving = any(each.state in ("queued", "sending") for each in summary.undelivered)
    return not record.saw_session_created or arriving or _is_stopping(summary)


def _is_stopping(summary: SessionSummary) -> bool:
    is_idle = summary.view.closed or summary.view.open_ask is not None
    return summary.record.state is SessionState.STOPPED and not is_idle


class UnservedDevices:
    """Device requests where no web server runs in this process. The file is read on demand, so
    that a broken one only affects these requests."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @property
    def handlers(self) -> Handlers:
        return dict.fromkeys((ListDevices, RevokeDevice, ReadPushKey, SubscribePush), self._do)

    async def _do(self, request: Any) -> Any:
        from rookery.manager.web.devices import DEVICES_FILE, DeviceHandler, Devices
        from rookery.manager.web.server_links import ask_for_links

        if isinstance(request, RevokeDevice) and (server := await ask_for_links(self._folder)):
            raise CommandRejected(
                f"The manager that devices are connected to, process {server.pid}, serves other "
                "projects. Revoke the device in the settings of its page."
            )
        handler = DeviceHandler(Devices(self._folder / DEVICES_FILE), _ignore)
        return await handler.handlers[type(request)](request)


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
    setup = WorktreeSetup(access, agreed, scripts, environ)
    worktrees = WorktreeHandler(access, agreed, scripts)
    review = ReviewHandler(access, dependencies)
    supervisor.start_obstacle = access.start_obstacle
    supervisor.terminals = Terminals(access, environ, setup.processes)
    supervisor.on_followed = ChangeCounts(supervisor, review).start
    supervisor.group.start_soon(worktrees.recover)
    start = StartHandler(access, setup, dependencies.settings)
    scheduler = Scheduler(supervisor, start.start, partial(spent_today, dependencies.tasks))
    supervisor.run_schedules = scheduler.run
    workspaces = Workspaces(supervisor.project, places)
    return (
        start,
        ScheduleHandler(access, scheduler, dependencies.settings),
        ForkHandler(supervisor, workspaces, dependencies, start.place_in_worktree),
        worktrees,
        WorktreeToolsHandler(access, scripts, dependencies.settings, environ),
        PullRequestHandler(access),
        review,
    )
