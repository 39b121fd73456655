"""`rookery manager`: serves the page on which the user's sessions are started and watched.

One process serves all projects of the user. If it runs already, the command asks it for a link.
"""

import logging
import os
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
import click
from msgspec.structs import replace

from rookery import NAME
from rookery.cli.command_line import resolve_folder
from rookery.cli.main import hide_key
from rookery.cli.reports import Exit
from rookery.errors import SettingsError, StorageError, first_error
from rookery.platform.user_folders import Places, find_places

if TYPE_CHECKING:
    from rookery.manager.cli.manager_server import ManagerOptions
    from rookery.manager.web.server_links import Links

NEEDED = ("segno", "starlette", "uvicorn", "websockets")


def _run(
    workspace: Path,
    no_open: bool,
    pair: bool,
    stop_sessions: bool,
    as_json: bool,
    database: str | None = None,
    **reach: Any,
) -> int:
    if any(find_spec(package) is None for package in NEEDED):
        raise SettingsError(f"The page needs more packages. In your clone of {NAME}, run: make web")
    from rookery.manager.cli.manager_server import ManagerOptions
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
        if database is None:
            return anyio.run(_manage, options, find_places(os.environ))
        from rookery.fleet.managed_fleet import fleet_at

        with fleet_at(database) as fleet:
            return anyio.run(_manage, replace(options, fleet=fleet), find_places(os.environ))
    except BaseExceptionGroup as group:
        raise first_error(group) from group


async def _manage(options: "ManagerOptions", places: Places) -> int:
    from rookery.manager.cli.manager_server import ServerSetup, serve
    from rookery.manager.web.page_files import HOW_TO_BUILD, PageFiles
    from rookery.manager.web.server_links import ask_for_links, own_port

    folder = places.state / "manager"
    if links := await ask_for_links(
        folder, pair=options.pair, project=options.workspace, environ=os.environ
    ):
        return await _use_running(options, links)
    if options.pair:
        raise SettingsError(
            "No manager is running that devices can reach. Start one "
            f"with {options.command} --host, or --behind-tunnel."
        )
    page = PageFiles()
    if not page.is_built and options.open:
        raise SettingsError(
            f"The page is not built in this checkout. Run {HOW_TO_BUILD}, which needs Node; or "
            "start with --no-open for programs only."
        )
    plan = options.reach.plan(folder / "tls", own_port(folder))
    setup = ServerSetup(places=places, folder=folder, plan=plan, page=page)
    return await serve(options, setup)


async def _use_running(options: "ManagerOptions", links: "Links") -> int:
    from rookery.manager.cli.manager_server import announce, open_browser, report, show_pairing

    if links.problem:
        raise StorageError(links.problem)
    if options.reach.is_special or options.fleet:
        other = "show a fleet" if options.fleet else "use another address"
        raise SettingsError(
            f"A manager is already running, as process {links.pid}. To {other}, end it "
            "first. Sessions keep running."
        )
    if options.pair and not links.pairing_url:
        raise SettingsError(
            f"The running manager (process {links.pid}) serves this machine only. End "
            "it, and start it with --host or --behind-tunnel."
        )
    if not options.as_json:
        report(f"A manager is already running, as process {links.pid}.")
    announce(links, as_json=options.as_json)
    if options.pair:
        show_pairing(links.pairing_url)
    elif options.open:
        await open_browser(links.launch_url)
    return Exit.DONE


command = click.Command(
    "manager",
    callback=_run,
    help=(
        "Open the Agent Manager in your browser, to start, watch and answer sessions of your "
        "projects. It serves this machine only, unless --host or "
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
            help="Port to listen on; 0 picks a free one. Default: always the same.",
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
            ["--database"],
            metavar="URL",
            callback=hide_key,
            help="Also show the fleet with this PostgreSQL database.",
        ),
        click.Option(
            ["--pair"],
            is_flag=True,
            help="Show a code for another device; the manager must be running.",
        ),
    ],
)
