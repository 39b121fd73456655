"""`rookery mcp serve`: sessions as tools for other agents, and the other commands of `mcp`."""

import os
import sys
from pathlib import Path
from typing import Any

import click

from rookery import NAME
from rookery.cli.main import session_flags
from rookery.errors import SettingsError
from rookery.mcp.cli.mcp_command import command


def _run(workspace: Path, **flags: Any) -> int:
    from rookery.cli.acp import LocalFolders, serve_protocol
    from rookery.compat.mcp_server.mcp_server import SessionServer
    from rookery.platform.user_folders import find_places
    from rookery.protocol.channels import Channel
    from rookery.storage.sessions import TaskStore

    if sys.stdin.isatty():
        raise SettingsError(f"{NAME} mcp serve is started by an agent. See {NAME} mcp serve -h.")
    places = find_places(os.environ)
    TaskStore(places).sweep()
    folders = LocalFolders(flags, places, acts_anyway=False)
    fixed = [name for name in ("mode", "model") if flags.get(name)]

    def serve(channel: Channel) -> SessionServer:
        return SessionServer(channel, folders, workspace.resolve(), fixed=fixed)

    return serve_protocol(serve)


command.add_command(
    click.Command(
        "serve",
        callback=_run,
        help=(
            "Offer sessions as MCP tools to other agents: Claude Code, Codex, Cursor, Zed. The "
            "agent starts this command and exchanges messages on standard input and output. It "
            "works in this folder and below. It never approves actions: the user does, in the "
            "MCP client. Flags apply to all sessions."
        ),
        params=session_flags("workspace"),
    )
)
