"""`rookery mcp`: manage the MCP servers that the agent may use."""

import json
import os
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rookery import NAME
from rookery.cli.command_line import json_option
from rookery.core.text.terminal_text import aligned, counted, visible_line
from rookery.errors import SettingsError, ToolError
from rookery.mcp.cli.definition_commands import (
    ServersFile,
    add_json,
    add_server,
    file_of,
    import_command,
    print_fields,
    shown_definition,
    workspace_option,
)
from rookery.permissions.trust import TrustStore
from rookery.platform.user_folders import find_places
from rookery.storage.cli.session_listing import GAP, age
from rookery.storage.settings_files import find_settings
from rookery.storage.token_store import TokenStore

if TYPE_CHECKING:
    from rookery.mcp.agreements import ConfigFiles
    from rookery.mcp.config import Parsed, ServerDefinition
    from rookery.mcp.hub import McpHub

_PROJECT = click.option("--project", is_flag=True, help="Use the project's file, not yours.")


@click.group(invoke_without_command=True)
@click.pass_context
def command(ctx: click.Context) -> int:
    """Manage MCP servers: programs and services that give the agent more tools. Without a
    command, list them."""
    return 0 if ctx.invoked_subcommand else int(ctx.invoke(list_command))


@command.command("list")
@workspace_option
@json_option
def list_command(workspace: Path, as_json: bool) -> int:
    """List the configured servers and their last known state. Nothing is started."""
    from rookery.mcp.hub import overview

    found, states = overview(_files(workspace), find_places(os.environ).mcp_memory)
    listed = list(zip(states, found.servers, strict=True))
    if as_json:
        servers = [{**_fields(state), "place": each.place} for state, each in listed]
        problems = [{"server": each.server, "problem": each.text} for each in found.problems]
        print(json.dumps({"servers": servers, "problems": problems, "notes": found.doubts}))
        return 0
    for problem in found.problems:
        named = f"{problem.server}: " if problem.server else ""
        print(visible_line(f"Not used: {named}{problem.text}."))
    for doubt in found.doubts:
        print(visible_line(doubt))
    if not found.servers:
        print(f"No MCP server is configured. Add one with: {NAME} mcp add NAME -- COMMAND")
        return 0
    now = datetime.now().astimezone()
    rows = [_row(state, each.place, now) for state, each in listed]
    print("\n".join(aligned(rows, shown=visible_line)))
    return 0


@command.command("get")
@click.argument("name")
@workspace_option
@json_option
def get_command(name: str, workspace: Path, as_json: bool) -> int:
    """Show one server: its definition with secrets masked, its state and its tools. Nothing is
    started."""
    from rookery.mcp.hub import overview

    found, states = overview(_files(workspace), find_places(os.environ).mcp_memory)
    for problem in found.problems:
        if problem.server == name:
            raise SettingsError(f"The server {name} is not used: {problem.text}.")
    server = _named(name, found)
    state = states[found.servers.index(server)]
    fields = {**shown_definition(server), "state": str(state.state)}
    fields |= {"error": state.error} if state.error else {}
    fields |= {"tools": list(state.tools)} if state.tools else {}
    print(json.dumps(fields)) if as_json else print_fields(fields)
    return 0


@command.command("test")
@click.argument("name")
@workspace_option
def test_command(name: str, workspace: Path) -> int:
    """Connect to a server and print its tools, or why it does not work."""
    import anyio

    try:
        lines = anyio.run(_test_server, name, workspace)
    except ToolError as error:
        print(visible_line(str(error)), file=sys.stderr)
        return 1
    for line in lines:
        print(visible_line(line))
    return 0


@command.command("login")
@click.argument("name")
@workspace_option
def login_command(name: str, workspace: Path) -> int:
    """Sign in to a server with a browser."""
    import anyio

    try:
        place = anyio.run(_sign_in, name, workspace)
    except ToolError as error:
        raise SettingsError(str(error)) from error
    print(visible_line(f"Signed in to {name}. The tokens are in {place}."))
    return 0


@command.command("logout")
@click.argument("name")
@workspace_option
def logout_command(name: str, workspace: Path) -> int:
    """Forget the sign-in to a server. The server is not notified."""
    from rookery.mcp.hub import overview
    from rookery.mcp.server_sign_in import entry_of

    found, _ = overview(_files(workspace), find_places(os.environ).mcp_memory)
    tokens = TokenStore(find_places(os.environ).mcp_tokens)
    gone = tokens.forget(entry_of(_named(name, found)))
    print(visible_line(f"{'Signed out of' if gone else 'You were not signed in to'} {name}."))
    return 0


def _named(name: str, found: "Parsed") -> "ServerDefinition":
    for each in found.servers:
        if each.name == name:
            return each
    raise SettingsError(f"No such server: {name}. See {NAME} mcp list.")


class _AddCommand(click.Command):
    """Says what is missing if the options of the server's program are taken for ours."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        separated = "--" in args
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            if separated:
                raise
            advice = f"Put options of the program after --: {NAME} mcp add NAME -- COMMAND ARGS."
            raise click.UsageError(f"{error.format_message()} {advice}", ctx) from error


@command.command("add", cls=_AddCommand)
@click.argument("name")
@click.argument("program", nargs=-1, metavar="[-- COMMAND ARGS...]", type=click.UNPROCESSED)
@click.option("--url", help="The address of a server.")
@click.option(
    "--transport",
    type=click.Choice(["streamable-http", "sse"]),
    default="streamable-http",
    help="The transport of the url.",
)
@click.option(
    "--env",
    "environment",
    multiple=True,
    metavar="NAME=VALUE",
    help="An environment variable for the program.",
)
@click.option(
    "--header", "headers", multiple=True, metavar="NAME=VALUE", help="A header for the url."
)
@click.option("--timeout", type=float, help="Seconds for a call; default 60.")
@_PROJECT
@workspace_option
def add_command(
    name: str,
    program: Sequence[str],
    url: str | None,
    transport: str,
    environment: Sequence[str],
    headers: Sequence[str],
    timeout: float | None,
    project: bool,
    workspace: Path,
) -> int:
    """Add a server: a program or a URL. Write a key as ${env:NAME}."""
    if bool(program) == bool(url):
        raise SettingsError("Give a command after --, or --url, and not both.")
    definition: dict[str, Any] = {}
    if program:
        definition |= {"command": program[0], "args": list(program[1:])}
    if url:
        definition |= {"type": transport, "url": url}
    if environment:
        definition["env"] = _pairs(environment, "--env")
    if headers:
        definition["headers"] = _pairs(headers, "--header")
    if timeout is not None:
        definition["timeout"] = timeout
    file = file_of(workspace, project=project)
    add_server(name, definition, file)
    if project and not _trusted(workspace):
        print(f"It is not started before the folder is trusted: {NAME} trust")
    return 0


@command.command("add-json")
@click.argument("name")
@click.argument("definition", metavar="JSON")
@_PROJECT
@workspace_option
def add_json_command(name: str, definition: str, project: bool, workspace: Path) -> int:
    """Add a server by its JSON definition; - reads it from standard input."""
    text = sys.stdin.read() if definition == "-" else definition
    return add_json(name, text, workspace, project=project)


command.add_command(import_command)


@command.command("remove")
@click.argument("name")
@_PROJECT
@workspace_option
def remove_command(name: str, project: bool, workspace: Path) -> int:
    """Remove a server from your file, or from the project's."""
    from rookery.platform.user_folders import PROJECT_MCP_FILES

    files = [file_of(workspace, project=False)]
    theirs = [ServersFile(workspace / each, workspace) for each in PROJECT_MCP_FILES]
    for file in theirs if project else files:
        if file.remove(name):
            print(visible_line(f"Removed {name} from {file.path}."))
            return 0
    elsewhere = [file for file in (files if project else theirs) if name in file.names()]
    hint = f" It is in {elsewhere[0].path}." if elsewhere else f" See {NAME} mcp list."
    raise SettingsError(f"No such server in that file: {name}.{hint}")


async def _test_server(name: str, workspace: Path) -> list[str]:
    async with _hub(workspace) as hub:
        began = time.monotonic()
        server = hub.server(name)
        server.files.accept()
        server.agree()
        catalogue = await server.catalogue()
        seconds = time.monotonic() - began
        off = server.definition.disabled_tools
        return [
            f"{server.definition.name} answered in {seconds:.2f} s: "
            f"{counted(len(catalogue.tools), 'tool')}, "
            f"{counted(len(catalogue.resources), 'resource')}, "
            f"{counted(len(catalogue.prompts), 'prompt')}.",
            *catalogue.notes,
            *(
                f"{GAP}{tool.name}{' (switched off)' if tool.name in off else ''}: "
                f"{' '.join(tool.description.split())[:200]}"
                for tool in catalogue.tools
            ),
        ]


async def _sign_in(name: str, workspace: Path) -> str:
    def tell(text: str) -> None:
        print(text, file=sys.stderr)

    async with _hub(workspace) as hub:
        typed = sys.stdin.fileno() if sys.stdin.isatty() else None
        return await hub.server(name).sign_in(tell, typed=typed)


def _hub(workspace: Path) -> "AbstractAsyncContextManager[McpHub]":
    from rookery.mcp.hub import open_hub

    places = find_places(os.environ)
    tokens = TokenStore(places.mcp_tokens)
    return open_hub(_files(workspace), places.mcp_memory, tokens=tokens)


def _files(workspace: Path) -> "ConfigFiles":
    from rookery.mcp.agreements import ConfigFiles

    return ConfigFiles(
        find_places(os.environ).mcp_file,
        workspace,
        environ=_environ(),
        trusted=_trusted(workspace),
        other_agents=_uses_other_agents(workspace),
    )


def _uses_other_agents(workspace: Path) -> bool:
    project = workspace if _trusted(workspace) else None
    found = find_settings(find_places(os.environ).settings_file, project, os.environ, {})
    return found.settings.context.other_agents


def _environ() -> Mapping[str, str]:
    """Our environment without the API keys of models."""
    from rookery.app.model_choice import KEYS_OF_PROVIDERS

    keys = set(KEYS_OF_PROVIDERS.values())
    return {name: text for name, text in os.environ.items() if name not in keys}


def _trusted(workspace: Path) -> bool:
    return TrustStore(find_places(os.environ).trust_file).trusts(workspace)


def _pairs(given: Sequence[str], option: str) -> dict[str, str]:
    pairs = [pair.partition("=") for pair in given]
    if any(not name or not equals for name, equals, _ in pairs):
        raise SettingsError(f"Give {option} as NAME=VALUE.")
    return {name: text for name, _, text in pairs}


def _fields(health: Any) -> dict[str, object]:
    return {
        "name": health.name,
        "source": health.source,
        "state": str(health.state),
        "error": health.error,
        "tools": list(health.tools),
        "resources": health.resources,
        "ts": health.since,
    }


def _row(health: Any, place: str, now: datetime) -> list[str]:
    tools = counted(len(health.tools), "tool")
    seen = f"{tools}, {age(health.since, now)}" if health.since else "never used"
    detail = health.error if health.state == "failed" else place
    return [health.name, str(health.state), health.source, seen, detail]
