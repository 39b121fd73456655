"""`rookery manager`: the page on which all sessions of a project are started and watched.

The link goes to standard output, everything else to standard error.
"""

import json
import logging
import os
import shlex
import signal
import sys
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
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
    from rookery.manager.web.listeners import ListenOptions, ListenPlan
    from rookery.manager.web.page_files import PageFiles
    from rookery.manager.web.server_links import Links
    from rookery.manager.web.visitors import Watch
    from rookery.manager.web.web_server import WebServer

SECONDS_FOR_OTHERS = 10.0
"""For whoever has the sessions open for a moment."""
SECONDS_TO_SETTLE = 5.0
"""Until what was begun goes on by itself."""
NEEDED = ("starlette", "uvicorn", "websockets")


class Home(Struct, frozen=True, kw_only=True):
    """What the server is made with, beside the manager."""

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
    def again(self) -> str:
        """How the same project is named from the same folder."""
        here = self.workspace == Path.cwd()
        return f"{NAME} manager" + ("" if here else f" -w {shlex.quote(str(self.workspace))}")


def _run(
    workspace: Path, no_open: bool, pair: bool, stop_sessions: bool, as_json: bool, **reach: Any
) -> int:
    if any(find_spec(package) is None for package in NEEDED):
        raise SettingsError(f"The page needs more packages. In your clone of {NAME}, run: make web")
    from rookery.manager.web.listeners import ListenOptions

    options = ManagerOptions(
        workspace=workspace,
        reach=ListenOptions(**{name: said for name, said in reach.items() if said is not None}),
        open=not no_open,
        pair=pair,
        stop_sessions=stop_sessions,
        as_json=as_json,
    )
    # what a library warns of is nothing for our users
    logging.getLogger("asyncio").addHandler(logging.NullHandler())
    try:
        return anyio.run(_manage, options, find_places(os.environ))
    except BaseExceptionGroup as group:
        error: BaseException = group
        while isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        raise error from group


async def _manage(options: ManagerOptions, places: Places) -> int:
    from rookery.manager.sessions.session_store import manager_folder
    from rookery.manager.web.page_files import HOW_TO_BUILD, PageFiles
    from rookery.manager.web.server_links import ask_for_links

    folder = manager_folder(places, options.workspace)
    if links := await ask_for_links(folder, pair=options.pair):
        return await _use_the_one_that_runs(options, links)
    if options.pair:
        raise SettingsError(
            "No manager of this project is running that devices can reach. Start one "
            f"with {options.again} --host, or --behind-tunnel."
        )
    page = PageFiles()
    if not page.is_built and options.open:
        raise SettingsError(
            f"The page is not built in this checkout. Run {HOW_TO_BUILD}, which needs Node; or "
            "start with --no-open for programs only."
        )
    plan = options.reach.plan(places.state / "manager" / "tls")
    home = Home(places=places, folder=folder, plan=plan, page=page)
    return await _serve(options, home)


async def _use_the_one_that_runs(options: ManagerOptions, links: "Links") -> int:
    if options.pair and not links.pairing_url:
        raise SettingsError(
            f"The running manager (process {links.pid}) serves this machine only. End "
            "it, and start it with --host or --behind-tunnel."
        )
    if not options.as_json:
        tell(f"A manager of this project is already running, as process {links.pid}.")
    announce(links, as_json=options.as_json)
    if options.pair:
        show_pairing(links.pairing_url)
    elif options.open:
        await open_browser(links.launch_url)
    return Exit.DONE


async def _serve(options: ManagerOptions, home: Home) -> int:
    from rookery.manager.web.devices import DeviceHandler, Devices, Keys
    from rookery.manager.web.visitors import Visitors, Watch

    devices, visitors = Devices(home.folder / "devices.json"), Visitors()
    handlers = [DeviceHandler(devices, visitors.send_away)]
    leaving = _Shutdown()
    with anyio.open_signal_receiver(*_heeded()) as signals:
        async with (
            anyio.create_task_group() as group,
            _opened(options.workspace, home.places, handlers) as manager,
        ):
            group.start_soon(leaving.watch, signals)

            def count(blocked: int) -> None:
                manager.blocked_requests = blocked

            watch = Watch(Keys(devices), visitors, count)
            with leaving.scopes[0]:
                await _be_there(options, home, manager, watch)
            with leaving.scopes[1]:
                await _part(options, manager)
            group.cancel_scope.cancel()
    return KILLED_BY + leaving.signal


@asynccontextmanager
async def _opened(
    project: Path, places: Places, handlers: "Iterable[Handler]"
) -> "AsyncIterator[Manager]":
    """The manager of the project, once nobody else has it."""
    from rookery.manager.cli.host_dependencies import ProjectDependencies
    from rookery.manager.manager import open_manager
    from rookery.manager.sessions.session_store import freed, holder_of

    around = ProjectDependencies(project, places)
    give_up = anyio.current_time() + SECONDS_FOR_OTHERS
    while True:
        async with open_manager(project, places, os.environ, around, handlers=handlers) as manager:
            if not manager.is_locked_out:
                yield manager
                return
        if not await freed(places, project, within=give_up - anyio.current_time()):
            raise StorageError(
                f"{holder_of(places, project)} has the sessions of {project} open. Nothing was "
                "changed; try again when it is done, or end it."
            )


async def _be_there(
    options: ManagerOptions, home: Home, manager: "Manager", watch: "Watch"
) -> None:
    from rookery.manager.manager_socket import listening
    from rookery.manager.service import serve_manager
    from rookery.manager.web.server_links import giving_links, noted
    from rookery.manager.web.web_server import web_server
    from rookery.protocol.channels import Channel

    async def talk(channel: Channel, token: str) -> None:
        await serve_manager(manager, channel, token=token)

    def paired(device_id: str) -> None:
        (device,) = (each for each in watch.keys.devices.all() if each.id == device_id)
        tell(f"{harmless_line(device.name)} is paired. Another one: {options.again} --pair")

    async with (
        web_server(home.plan, watch, manager.router, talk, page=home.page, paired=paired) as server,
        giving_links(home.folder, partial(_links, server)),
        _unless_read_only(manager, partial(listening, manager, home.places)),
    ):
        with noted(home.folder, server.port):
            await _welcome(options, home.plan, server)
            await anyio.sleep_forever()


@asynccontextmanager
async def _unless_read_only(
    manager: "Manager", listening: Callable[[], Any]
) -> AsyncIterator[None]:
    if manager.supervisor.read_only:
        tell(manager.supervisor.read_only)
        yield
        return
    async with listening():
        yield


def _links(server: "WebServer", pair: bool) -> "Links":
    from rookery.manager.web.server_links import Links

    return Links(
        url=server.url,
        launch_url=server.launch_url(),
        pid=os.getpid(),
        pairing_url=server.pairing_url() if pair else "",
    )


async def _welcome(options: ManagerOptions, plan: "ListenPlan", server: "WebServer") -> None:
    from rookery.manager.web.web_server import told_plainly

    for line in told_plainly(plan, server):
        tell(line)
    links = _links(server, bool(server.outside_url))
    if links.pairing_url:
        show_pairing(links.pairing_url)
    announce(links, as_json=options.as_json)
    if not options.as_json:
        tell(f"Ctrl-C ends it; sessions keep running. For a new link: {options.again}")
    if options.open:
        await open_browser(links.launch_url)


async def _part(options: ManagerOptions, manager: "Manager") -> None:
    with anyio.move_on_after(SECONDS_TO_SETTLE):
        await manager.settled()
    number = manager.supervisor.active_number
    if not number or manager.supervisor.read_only:
        return
    named = "1 session" if number == 1 else f"{number} sessions"
    if options.stop_sessions:
        tell(f"Stopping {named}. You can resume them later.")
        await manager.supervisor.stop_all()
    else:
        keep = "keeps" if number == 1 else "keep"
        tell(f"{named} {keep} running. To stop: {NAME} sessions stop-all")


def _heeded() -> list[signal.Signals]:
    """What ends it, except what whoever started it wants ignored, as `nohup` does."""
    ending = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    return [number for number in ending if signal.getsignal(number) is not signal.SIG_IGN]


class _Shutdown:
    """The first signal ends the server, the second also what is done afterwards."""

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


def tell(sentence: str) -> None:
    print(harmless(sentence), file=sys.stderr, flush=True)


def announce(links: "Links", *, as_json: bool) -> None:
    if as_json:
        said = {"url": links.url, "launch_url": links.launch_url, "pid": links.pid}
        pairing = {"pairing_url": links.pairing_url} if links.pairing_url else {}
        print(json.dumps({**said, **pairing}), flush=True)
    else:
        print(f"Open this within a minute; it works once: {links.launch_url}", flush=True)


def show_pairing(link: str) -> None:
    from rookery.manager.web.server_links import qr_code

    if sys.stderr.isatty():
        print(qr_code(link), file=sys.stderr, end="", flush=True)
    tell(f"To pair a device, scan this or open {link} within five minutes.")


async def open_browser(link: str) -> None:
    """Only where there is a screen: a browser in this terminal would be in the way."""
    has_screen = any(os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER"))
    if not has_screen and sys.platform != "darwin":
        tell("There is no display to open a browser on.")
        return
    import webbrowser

    if not await anyio.to_thread.run_sync(webbrowser.open, link, abandon_on_cancel=True):
        tell("No browser could be opened. Open the link yourself.")
