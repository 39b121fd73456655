"""`rookery manager`: serves the page on which the sessions of a project are started and watched.

The link goes to standard output, everything else to standard error.
"""

import json
import logging
import os
import shlex
import signal
import sys
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager, nullcontext
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
import anyio.to_thread
import click
from msgspec import Struct

from rookery import NAME
from rookery.cli.main import resolve_folder
from rookery.cli.reports import Exit
from rookery.cli.run import KILLED_BY
from rookery.core.text.terminal_text import harmless, harmless_line
from rookery.errors import SettingsError, StorageError
from rookery.platform.user_folders import Places, find_places

if TYPE_CHECKING:
    from rookery.manager.handlers.router import Handler
    from rookery.manager.manager import Manager
    from rookery.manager.web.access import Access
    from rookery.manager.web.listeners import ListenOptions, ListenPlan
    from rookery.manager.web.page_files import PageFiles
    from rookery.manager.web.server_links import Links
    from rookery.manager.web.web_server import WebServer

LOCK_WAIT_SECONDS = 10.0
"""Seconds to wait for another process that holds the session list."""
SECONDS_TO_SETTLE = 5.0
"""Seconds to wait at the end for session starts that are under way."""
NEEDED = ("segno", "starlette", "uvicorn", "websockets")


class ServerSetup(Struct, frozen=True, kw_only=True):
    """What the server needs besides the manager."""

    places: Places
    folder: Path
    plan: "ListenPlan"
    page: "PageFiles"


class ManagerOptions(Struct, frozen=True, kw_only=True):
    workspace: Path
    reach: "ListenOptions"
    open: bool = True
    pair: bool = False
    stop_sessions: bool = False
    as_json: bool = False

    @property
    def command(self) -> str:
        """The command that opens the manager of the same project from the current folder."""
        here = self.workspace == Path.cwd()
        return f"{NAME} manager" + ("" if here else f" -w {shlex.quote(str(self.workspace))}")


def _run(
    workspace: Path, no_open: bool, pair: bool, stop_sessions: bool, as_json: bool, **reach: Any
) -> int:
    if any(find_spec(package) is None for package in NEEDED):
        raise SettingsError(f"The page needs more packages. In your clone of {NAME}, run: make web")
    from rookery.manager.sessions.session_task import first_error
    from rookery.manager.web.listeners import ListenOptions

    options = ManagerOptions(
        workspace=workspace,
        reach=ListenOptions(**{name: value for name, value in reach.items() if value is not None}),
        open=not no_open,
        pair=pair,
        stop_sessions=stop_sessions,
        as_json=as_json,
    )
    # asyncio's warnings are of no use to users
    logging.getLogger("asyncio").addHandler(logging.NullHandler())
    try:
        return anyio.run(_manage, options, find_places(os.environ))
    except BaseExceptionGroup as group:
        raise first_error(group) from group


async def _manage(options: ManagerOptions, places: Places) -> int:
    from rookery.manager.sessions.session_store import manager_folder
    from rookery.manager.web.page_files import HOW_TO_BUILD, PageFiles
    from rookery.manager.web.server_links import ask_for_links

    folder = manager_folder(places, options.workspace)
    if links := await ask_for_links(folder, pair=options.pair):
        return await _use_running(options, links)
    if options.pair:
        raise SettingsError(
            "No manager of this project is running that devices can reach. Start one "
            f"with {options.command} --host, or --behind-tunnel."
        )
    page = PageFiles()
    if not page.is_built and options.open:
        raise SettingsError(
            f"The page is not built in this checkout. Run {HOW_TO_BUILD}, which needs Node; or "
            "start with --no-open for programs only."
        )
    plan = options.reach.plan(places.state / "manager" / "tls")
    setup = ServerSetup(places=places, folder=folder, plan=plan, page=page)
    return await _serve(options, setup)


async def _use_running(options: ManagerOptions, links: "Links") -> int:
    if options.pair and not links.pairing_url:
        raise SettingsError(
            f"The running manager (process {links.pid}) serves this machine only. End "
            "it, and start it with --host or --behind-tunnel."
        )
    if not options.as_json:
        report(f"A manager of this project is already running, as process {links.pid}.")
    announce(links, as_json=options.as_json)
    if options.pair:
        show_pairing(links.pairing_url)
    elif options.open:
        await open_browser(links.launch_url)
    return Exit.DONE


async def _serve(options: ManagerOptions, setup: ServerSetup) -> int:
    from rookery.manager.web.access import Access, DeviceHandler, Devices, Keys, Visitors

    devices, visitors = Devices(setup.folder / "devices.json"), Visitors()
    handlers = [DeviceHandler(devices, visitors.disconnect)]
    shutdown = _Shutdown()
    with anyio.open_signal_receiver(*_end_signals()) as signals:
        async with (
            anyio.create_task_group() as group,
            _open_when_free(options.workspace, setup.places, handlers) as manager,
        ):
            group.start_soon(shutdown.watch, signals)

            def count(blocked: int) -> None:
                manager.blocked_requests = blocked

            access = Access(Keys(devices), visitors, count)
            with shutdown.scopes[0]:
                await _run_server(options, setup, manager, access)
            with shutdown.scopes[1]:
                await _shut_down(options, manager)
            group.cancel_scope.cancel()
    return KILLED_BY + shutdown.signal


@asynccontextmanager
async def _open_when_free(
    project: Path, places: Places, handlers: "Iterable[Handler]"
) -> "AsyncIterator[Manager]":
    """Open the manager, waiting for another process that holds the session list."""
    from rookery.manager.cli.sessions_common import ProjectDependencies
    from rookery.manager.manager import open_manager
    from rookery.manager.sessions.session_store import holder_of, wait_for_lock

    deps = ProjectDependencies(project, places)
    give_up = anyio.current_time() + LOCK_WAIT_SECONDS
    while True:
        async with open_manager(project, places, os.environ, deps, handlers=handlers) as manager:
            if not manager.is_locked_out:
                yield manager
                return
        if not await wait_for_lock(places, project, within=give_up - anyio.current_time()):
            raise StorageError(
                f"{holder_of(places, project)} has the sessions of {project} open. Nothing was "
                "changed; try again when it is done, or end it."
            )


async def _run_server(
    options: ManagerOptions, setup: ServerSetup, manager: "Manager", access: "Access"
) -> None:
    from rookery.manager.manager_socket import listening
    from rookery.manager.service import serve_manager
    from rookery.manager.web.server_links import record_port, serve_links
    from rookery.manager.web.web_server import web_server
    from rookery.protocol.channels import Channel

    async def talk(channel: Channel, token: str) -> None:
        await serve_manager(manager, channel, token=token)

    def paired(device_id: str) -> None:
        (device,) = (each for each in access.keys.devices.all() if each.id == device_id)
        report(f"{harmless_line(device.name)} is paired. Another one: {options.command} --pair")

    if reason := manager.supervisor.read_only:
        report(reason)
    async with (
        web_server(
            setup.plan, access, manager.router, talk, page=setup.page, on_paired=paired
        ) as server,
        serve_links(setup.folder, partial(_links, server)),
        nullcontext() if reason else listening(manager, setup.places),
    ):
        with record_port(setup.folder, server.port):
            await _print_welcome(options, setup.plan, server)
            await anyio.sleep_forever()


def _links(server: "WebServer", pair: bool) -> "Links":
    from rookery.manager.web.server_links import Links

    return Links(
        url=server.url,
        launch_url=server.launch_url(),
        pid=os.getpid(),
        pairing_url=server.pairing_url() if pair else "",
    )


async def _print_welcome(options: ManagerOptions, plan: "ListenPlan", server: "WebServer") -> None:
    from rookery.manager.web.web_server import access_notes

    for line in access_notes(plan, server):
        report(line)
    links = _links(server, bool(server.outside_url))
    if links.pairing_url:
        show_pairing(links.pairing_url)
    announce(links, as_json=options.as_json)
    if not options.as_json:
        report(f"Ctrl-C ends it; sessions keep running. For a new link: {options.command}")
    if options.open:
        await open_browser(links.launch_url)


async def _shut_down(options: ManagerOptions, manager: "Manager") -> None:
    with anyio.move_on_after(SECONDS_TO_SETTLE):
        await manager.wait_settled()
    number = manager.supervisor.active_count
    if not number or manager.supervisor.read_only:
        return
    named = "1 session" if number == 1 else f"{number} sessions"
    if options.stop_sessions:
        report(f"Stopping {named}. You can resume them later.")
        await manager.supervisor.stop_all()
    else:
        keep = "keeps" if number == 1 else "keep"
        report(f"{named} {keep} running. To stop: {NAME} sessions stop-all")


def _end_signals() -> list[signal.Signals]:
    """Signals that end the manager, except those its parent ignores, as `nohup` does."""
    ending = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    return [number for number in ending if signal.getsignal(number) is not signal.SIG_IGN]


class _Shutdown:
    """The first signal ends the server, the second also the work after it."""

    def __init__(self) -> None:
        self.scopes = (anyio.CancelScope(), anyio.CancelScope())
        self.signal = 0

    async def watch(self, signals: AsyncIterator[signal.Signals]) -> None:
        for scope in self.scopes:
            self.signal = await anext(signals)
            scope.cancel()


command = click.Command(
    "manager",
    callback=_run,
    help=(
        "Open the Agent Manager of a project in your browser, to start, watch and "
        "answer sessions. It serves this machine only, unless --host or "
        "--behind-tunnel is given. Sessions keep running when it ends."
    ),
    params=[
        click.Option(
            ["-w", "--workspace"],
            type=click.Path(path_type=Path),
            default=".",
            callback=resolve_folder,
            help="The project folder.",
        ),
        click.Option(
            ["--port"],
            type=click.IntRange(0, 65535),
            default=0,
            help="Port to listen on; 0 picks a free one.",
        ),
        click.Option(["--no-open"], is_flag=True, help="Do not open a browser."),
        click.Option(["--json", "as_json"], is_flag=True, help="Print JSON."),
        click.Option(
            ["--stop-sessions"], is_flag=True, help="Stop all sessions when the manager ends."
        ),
        click.Option(["--host"], help="Also serve paired devices at this address of this machine."),
        click.Option(
            ["--tls"], is_flag=True, help="With --host: encrypt with a generated certificate."
        ),
        click.Option(
            ["--tls-cert"],
            type=click.Path(path_type=Path),
            help="With --host: encrypt with this certificate.",
        ),
        click.Option(
            ["--tls-key"], type=click.Path(path_type=Path), help="The key of that certificate."
        ),
        click.Option(
            ["--behind-tunnel"],
            metavar="URL",
            help="Serve paired devices through a tunnel to this machine, at this https URL.",
        ),
        click.Option(
            ["--plain-text"],
            is_flag=True,
            help="With --host: do not encrypt. Others can read everything.",
        ),
        click.Option(
            ["--pair"],
            is_flag=True,
            help="Show a code for another device; the manager must be running.",
        ),
    ],
)


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
        report("There is no display to open a browser on.")
        return
    import webbrowser

    if not await anyio.to_thread.run_sync(webbrowser.open, link, abandon_on_cancel=True):
        report("No browser could be opened. Open the link yourself.")
