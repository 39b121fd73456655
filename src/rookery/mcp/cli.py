"""`rookery mcp`: manage the MCP servers that the agent may use.

`ServersFile` edits a configuration file and keeps everything else in it.
"""

import json
import os
import sys
import time
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import click

from rookery import NAME
from rookery.core.text.terminal_text import cells_of, visible_line
from rookery.errors import SettingsError, StorageError, ToolError
from rookery.permissions.trust import TrustStore
from rookery.platform.descriptors import attributes_at
from rookery.platform.disk import private_folder, put, reason
from rookery.platform.user_folders import find_places
from rookery.storage.cli.session_listing import GAP, age, padded
from rookery.storage.settings_files import find_settings

SERVERS = "mcpServers"
SHOWN_OF_A_NAME = 80
OPEN_FILE = 0o644
"""Mode of a new project file."""

_HERE = click.option(
    "-w",
    "--workspace",
    type=click.Path(path_type=Path, exists=True, file_okay=False, resolve_path=True),
    default=".",
    help="The project folder.",
)
_PROJECT = click.option("--project", is_flag=True, help="Use the project's file, not yours.")


class ServersFile:
    """The user's file, or a project's if its `root` is given."""

    def __init__(self, path: Path, root: Path | None = None) -> None:
        self.path = path
        self._root = root

    def names(self) -> list[str]:
        return list(self._table().get(SERVERS, {}))

    def add(self, name: str, definition: dict[str, Any]) -> Sequence[str]:
        """Add a server and return doubts about its definition. Raises `SettingsError`, and
        changes nothing, if the definition or the name is not valid, or the name is taken."""
        from rookery.mcp.catalogue import VALID_NAME, VALID_NAME_TEXT
        from rookery.mcp.config import parse
        from rookery.mcp.results import visible_line

        shown = visible_line(name, SHOWN_OF_A_NAME)
        as_written = json.dumps({SERVERS: {name: definition}}).encode()
        parsed = parse(as_written, "project" if self._root else "user", os.environ)
        if parsed.problems:
            raise SettingsError(f"{shown} was not added: {parsed.problems[0].text}.")
        if not VALID_NAME.fullmatch(name):
            raise SettingsError(f"{shown} was not added: a server's name is {VALID_NAME_TEXT}.")
        table = self._table()
        servers = table.setdefault(SERVERS, {})
        if name in servers:
            raise SettingsError(f"{self.path} already has a server {name}; remove it first.")
        servers[name] = definition
        self._write(table)
        return parsed.doubts

    def remove(self, name: str) -> bool:
        """Remove a server; False if there was none."""
        table = self._table()
        if name not in table.get(SERVERS, {}):
            return False
        del table[SERVERS][name]
        self._write(table)
        return True

    def _table(self) -> dict[str, Any]:
        try:
            table = json.loads(self._place().read_bytes())
        except (FileNotFoundError, NotADirectoryError):
            return {}
        except OSError as error:
            raise SettingsError(f"{self.path} cannot be read ({reason(error)}).") from error
        except (ValueError, RecursionError) as error:
            raise SettingsError(
                f"{self.path} is not valid JSON ({error}), so nothing was changed; correct it."
            ) from error
        if not isinstance(table, dict) or not isinstance(table.get(SERVERS, {}), dict):
            raise SettingsError(
                f'{self.path} has no object "{SERVERS}", so nothing was changed; correct it.'
            )
        return table

    def _write(self, table: dict[str, Any]) -> None:
        place = self._place()
        try:
            if self._root:
                place.parent.mkdir(exist_ok=True)
            else:
                private_folder(place.parent)
            like = attributes_at(place)
            text = json.dumps(table, indent=2, ensure_ascii=False) + "\n"
            put(place, [text.encode()], like=like)
            if like is None and self._root:
                place.chmod(OPEN_FILE)
        except OSError as error:
            raise StorageError(f"{self.path} could not be written ({reason(error)}).") from error

    def _place(self) -> Path:
        """The file with links resolved; a project's file must be inside the project."""
        place = self.path.resolve()
        if self._root and not place.is_relative_to(self._root.resolve()):
            raise SettingsError(f"{self.path} leads out of the project, so it is not changed.")
        return place


@click.group(invoke_without_command=True)
@click.pass_context
def command(ctx: click.Context) -> int:
    """Manage MCP servers: programs and services that give the agent more tools. Without a
    command, list them."""
    return 0 if ctx.invoked_subcommand else int(ctx.invoke(list_command))


@command.command("list")
@_HERE
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def list_command(workspace: Path, as_json: bool) -> int:
    """List the configured servers and their last known state. Nothing is started."""
    from rookery.mcp.server import overview

    found, states = overview(**_hub_options(workspace))
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
    print("\n".join(_aligned(rows)))
    return 0


@command.command("test")
@click.argument("name")
@_HERE
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


@command.command("add")
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
@_HERE
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
    file = _file(workspace, project=project)
    doubts = file.add(name, definition)
    print(visible_line(f"Added {name} to {file.path}. Try it with: {NAME} mcp test {name}"))
    for doubt in doubts:
        print(visible_line(doubt))
    if project and not _trusted(workspace):
        print(f"It is not started before the folder is trusted: {NAME} trust")
    return 0


@command.command("remove")
@click.argument("name")
@_PROJECT
@_HERE
def remove_command(name: str, project: bool, workspace: Path) -> int:
    """Remove a server from your file, or from the project's."""
    from rookery.platform.user_folders import PROJECT_MCP_FILES

    files = [_file(workspace, project=False)]
    theirs = [ServersFile(workspace / each, workspace) for each in PROJECT_MCP_FILES]
    for file in theirs if project else files:
        if file.remove(name):
            print(visible_line(f"Removed {name} from {file.path}."))
            return 0
    elsewhere = [file for file in (files if project else theirs) if name in file.names()]
    hint = f" It is in {elsewhere[0].path}." if elsewhere else f" See {NAME} mcp list."
    raise SettingsError(f"No server {name} in that file.{hint}")


async def _test_server(name: str, workspace: Path) -> list[str]:
    from rookery.mcp.hub import open_hub

    async with open_hub(**_hub_options(workspace)) as hub:
        began = time.monotonic()
        server = hub.server(name)
        server.files.accept()
        server.agree()
        catalogue = await server.catalogue()
        seconds = time.monotonic() - began
        off = server.definition.disabled_tools
        return [
            f"{server.definition.name} answered in {seconds:.2f} s: {len(catalogue.tools)} tools, "
            f"{len(catalogue.resources)} resources, {len(catalogue.prompts)} prompts.",
            *catalogue.notes,
            *(
                f"{GAP}{tool.name}{' (switched off)' if tool.name in off else ''}: "
                f"{' '.join(tool.description.split())[:200]}"
                for tool in catalogue.tools
            ),
        ]


def _hub_options(workspace: Path) -> dict[str, Any]:
    places = find_places(os.environ)
    return {
        "workspace": workspace,
        "user_file": places.mcp_file,
        "memory_file": places.mcp_memory,
        "environ": _environ(),
        "trusted": _trusted(workspace),
        "other_agents": _uses_other_agents(workspace),
    }


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


def _file(workspace: Path, *, project: bool) -> ServersFile:
    from rookery.platform.user_folders import PROJECT_MCP_FILES

    if project:
        return ServersFile(workspace / PROJECT_MCP_FILES[0], workspace)
    return ServersFile(find_places(os.environ).mcp_file)


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
    seen = f"{len(health.tools)} tools, {age(health.since, now)}" if health.since else "never used"
    detail = health.error if health.state == "failed" else place
    return [health.name, str(health.state), health.source, seen, detail]


def _aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    shown = [[visible_line(cell) for cell in row] for row in rows]
    widths = [max(map(cells_of, column)) for column in zip(*shown, strict=True)]
    widths[-1] = 0
    return [GAP.join(map(padded, row, widths)) for row in shown]
