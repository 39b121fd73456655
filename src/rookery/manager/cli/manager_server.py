"""The server behind `rookery manager`: from its sockets to its shutdown, and what it prints.

The link goes to standard output, everything else to standard error.
"""

import json
import os
import shlex
import signal
import sys
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
import anyio.to_thread
from msgspec import Struct

from rookery import NAME
from rookery.cli.run import KILLED_BY, handled_signals
from rookery.core.text.terminal_text import harmless, harmless_line
from rookery.errors import RookeryError, StorageError
from rookery.platform.user_folders import Places

if TYPE_CHECKING:
    from rookery.manager.dependencies import FleetView
    from rookery.manager.handlers.router import Handler
    from rookery.manager.manager import Manager
    from rookery.manager.projects import Projects
    from rookery.manager.web.access import Access
    from rookery.manager.web.listeners import ListenOptions, ListenPlan
    from rookery.manager.web.page_files import PageFiles
    from rookery.manager.web.push import Pusher
    from rookery.manager.web.routes import HostedProject
    from rookery.manager.web.server_links import LinkRequest, Links
    from rookery.manager.web.web_server import WebServer

LOCK_WAIT_SECONDS = 10.0
"""Seconds to wait for another process that holds the session list."""
OTHER_LOCK_WAIT_SECONDS = 3.0
"""The same for a project that is opened later."""
SECONDS_TO_SETTLE = 5.0
"""Seconds to wait at the end for session starts that are under way."""


class ManagerOptions(Struct, frozen=True, kw_only=True):
    workspace: Path
    reach: "ListenOptions"
    open: bool = True
    pair: bool = False
    stop_sessions: bool = False
    as_json: bool = False
    fleet: "FleetView | None" = None

    @property
    def command(self) -> str:
        """The command that opens the manager of the same project from the current folder."""
        here = self.workspace == Path.cwd()
        return f"{NAME} manager" + ("" if here else f" -w {shlex.quote(str(self.workspace))}")


class ServerSetup(Struct, frozen=True, kw_only=True):
    """What the server needs besides the managers."""

    places: Places
    folder: Path
    """Of the user's server, not of a project."""
    plan: "ListenPlan"
    page: "PageFiles"


async def serve(options: ManagerOptions, setup: ServerSetup) -> int:
    from rookery.manager.projects import open_projects
    from rookery.manager.web.access import Access, Keys, Visitors
    from rookery.manager.web.devices import DEVICES_FILE, DeviceHandler, Devices
    from rookery.manager.web.push import Pusher, VapidKey

    devices, visitors = Devices(setup.folder / DEVICES_FILE), Visitors()
    pusher = Pusher(devices, VapidKey(setup.folder))
    handlers = [DeviceHandler(devices, visitors.disconnect, pusher)]
    open_one = _OpenWhenFree(setup.places, handlers, options.fleet)
    shutdown = _Shutdown()
    with anyio.open_signal_receiver(*handled_signals()) as signals:
        async with (
            anyio.create_task_group() as group,
            open_projects(setup.places, open_one) as projects,
        ):
            group.start_soon(shutdown.watch, signals)
            group.start_soon(pusher.run)
            projects.on_waiting = partial(_push, setup.places, pusher)

            def count(blocked: int) -> None:
                for manager in projects.managers:
                    manager.blocked_requests = blocked

            access = Access(Keys(devices), visitors, count)
            with shutdown.scopes[0]:
                await projects.open(options.workspace)
                open_one.patience = OTHER_LOCK_WAIT_SECONDS
                await _run_server(options, setup, projects, access)
            projects.stop_serving()
            with shutdown.scopes[1]:
                await _shut_down(options, projects)
            group.cancel_scope.cancel()
    return KILLED_BY + shutdown.signal


class _OpenWhenFree:
    """Opens the manager of a project, waiting for another process that holds the session list."""

    def __init__(
        self, places: Places, handlers: "Iterable[Handler]", fleet: "FleetView | None"
    ) -> None:
        self.patience = LOCK_WAIT_SECONDS
        self._fleet = fleet
        self._places = places
        self._handlers = handlers

    @asynccontextmanager
    async def __call__(self, project: Path, environ: Mapping[str, str]) -> "AsyncIterator[Manager]":
        from rookery.manager.cli.sessions_common import ProjectDependencies
        from rookery.manager.manager import open_manager
        from rookery.manager.sessions.session_store import holder_of, wait_for_lock

        environ = environ or os.environ
        places, deps = self._places, ProjectDependencies(project, self._places, environ)
        give_up = anyio.current_time() + self.patience
        while True:
            async with open_manager(
                project, places, environ, deps, handlers=self._handlers, fleet=self._fleet
            ) as manager:
                if not manager.is_locked_out:
                    yield manager
                    return
            if not await wait_for_lock(places, project, within=give_up - anyio.current_time()):
                raise StorageError(
                    f"{holder_of(places, project)} has the sessions of {project} open. Nothing was "
                    "changed; try again when it is done, or end it."
                )


async def _run_server(
    options: ManagerOptions, setup: ServerSetup, projects: "Projects", access: "Access"
) -> None:
    from rookery.manager.web.server_links import record_port, serve_links
    from rookery.manager.web.web_server import web_server

    def paired(device_id: str) -> None:
        (device,) = (each for each in access.keys.devices.all() if each.id == device_id)
        report(f"{harmless_line(device.name)} is paired. To pair another: {options.command} --pair")

    (first,) = projects.managers
    if reason := first.supervisor.read_only:
        report(reason)
    async with (
        web_server(
            setup.plan,
            access,
            partial(_hosted, projects),
            page=setup.page,
            find_webhook=partial(_webhook, setup.places),
            on_paired=paired,
            fleet=options.fleet,
        ) as server,
        serve_links(setup.folder, partial(_links, server, projects)),
        anyio.create_task_group() as group,
    ):
        with record_port(setup.folder, server.port):
            _keep_port(setup, server, access)
            if options.fleet:
                options.fleet.is_at(server.outside_url or server.url, server.fingerprint)
            await _print_welcome(options, setup.plan, server, projects)
            group.start_soon(projects.open_active)
            group.start_soon(projects.open_scheduled)
            await anyio.sleep_forever()


async def _hosted(projects: "Projects", project_id: str) -> "HostedProject":
    from rookery.manager.service import serve_manager
    from rookery.manager.web.routes import HostedProject
    from rookery.protocol.channels import Channel

    manager = await projects.find(project_id)

    async def talk(channel: Channel, token: str) -> None:
        await serve_manager(manager, channel, token=token)

    return HostedProject(manager.router, talk)


def _push(places: Places, pusher: "Pusher", manager: "Manager") -> None:
    from rookery.manager.cli.sessions_common import ProjectDependencies

    with suppress(RookeryError):  # the page shows problems of settings
        if ProjectDependencies(manager.project, places).settings().manager.notify:
            pusher.push_soon()


async def _webhook(places: Places, project_id: str, token: str) -> str:
    """Read without the manager of the project, which only a valid token opens."""
    from rookery.manager.schedules.schedule_file import SCHEDULES_FILE, find_webhook, read_schedules
    from rookery.manager.sessions.session_store import project_of

    if not project_of(places, project_id):
        return ""
    file = places.state / "manager" / project_id / SCHEDULES_FILE
    return find_webhook(await anyio.to_thread.run_sync(read_schedules, file), token)


def _keep_port(setup: ServerSetup, server: "WebServer", access: "Access") -> None:
    """Record the user's port. If another program has taken it, pages of that program may have read
    what browsers store for ours, so their tokens are no longer valid."""
    from rookery.manager.web.server_links import record_own_port

    if not setup.plan.may_move:
        return
    if server.port != setup.plan.port:
        access.keys.devices.forget_browsers()
        report(
            f"Another program uses port {setup.plan.port}. The page is now at port {server.port}: "
            "earlier links, bookmarks and open pages on this machine no longer work."
        )
    record_own_port(setup.folder, server.port)


async def _links(server: "WebServer", projects: "Projects", asked: "LinkRequest") -> "Links":
    from rookery.manager.web.server_links import Links

    pairing_url = server.pairing_url() if asked.pair else ""
    try:
        manager = await (
            projects.open(Path(asked.project), asked.environ)
            if asked.project
            else projects.find("")
        )
    except RookeryError as error:
        return Links(url=server.url, launch_url="", pid=os.getpid(), problem=str(error))
    url = server.launch_url(manager.id)
    return Links(url=server.url, launch_url=url, pid=os.getpid(), pairing_url=pairing_url)


async def _print_welcome(
    options: ManagerOptions, plan: "ListenPlan", server: "WebServer", projects: "Projects"
) -> None:
    from rookery.manager.web.server_links import LinkRequest
    from rookery.manager.web.web_server import access_notes

    for line in access_notes(plan, server):
        report(line)
    links = await _links(server, projects, LinkRequest(pair=bool(server.outside_url)))
    if links.pairing_url:
        show_pairing(links.pairing_url)
    announce(links, as_json=options.as_json)
    if not options.as_json:
        report(f"Ctrl-C ends it; sessions keep running. For a new link: {options.command}")
    if options.open:
        await open_browser(links.launch_url)


async def _shut_down(options: ManagerOptions, projects: "Projects") -> None:
    with anyio.move_on_after(SECONDS_TO_SETTLE):
        for manager in projects.managers:
            await manager.wait_settled()
    writable = [each.supervisor for each in projects.managers if not each.supervisor.read_only]
    number = sum(each.active_count for each in writable)
    if not number:
        return
    named = "1 session" if number == 1 else f"{number} sessions"
    if options.stop_sessions:
        report(f"Stopping {named}. You can resume them later.")
        for supervisor in writable:
            await supervisor.stop_all()
    else:
        keep = "keeps" if number == 1 else "keep"
        report(f"{named} {keep} running. To stop: {NAME} sessions stop-all")


class _Shutdown:
    """The first signal ends the server, the second also the work after it."""

    def __init__(self) -> None:
        self.scopes = (anyio.CancelScope(), anyio.CancelScope())
        self.signal = 0

    async def watch(self, signals: AsyncIterator[signal.Signals]) -> None:
        for scope in self.scopes:
            self.signal = await anext(signals)
            scope.cancel()


def report(sentence: str) -> None:
    print(harmless(sentence), file=sys.stderr, flush=True)


def announce(links: "Links", *, as_json: bool) -> None:
    if as_json:
        value = {"url": links.url, "launch_url": links.launch_url, "pid": links.pid}
        pairing = {"pairing_url": links.pairing_url} if links.pairing_url else {}
        print(json.dumps({**value, **pairing}), flush=True)
    else:
        print(f"Open this within a minute; it works once: {links.launch_url}", flush=True)


def show_pairing(link: str) -> None:
    from rookery.manager.web.server_links import qr_code

    if sys.stderr.isatty():
        print(qr_code(link), file=sys.stderr, end="", flush=True)
    report(f"To pair a device, scan this or open {link} within five minutes.")


async def open_browser(link: str) -> None:
    """Open the link in a browser if there is a display; a text browser would use this terminal."""
    has_screen = any(os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER"))
    if not has_screen and sys.platform != "darwin":
        report("No display was found. Open the link yourself.")
        return
    import webbrowser

    if not await anyio.to_thread.run_sync(webbrowser.open, link, abandon_on_cancel=True):
        report("No browser could be opened. Open the link yourself.")
