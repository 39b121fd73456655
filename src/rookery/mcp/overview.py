"""What is known of the configured servers without starting any."""

from collections.abc import Mapping
from pathlib import Path

from rookery.core.values import value
from rookery.mcp.catalogue import Catalogue, Memory
from rookery.mcp.config import Problem, ServerDefinition
from rookery.mcp.files import ConfigFiles
from rookery.mcp.server import ServerHealth, State


@value
class KnownServer:
    health: ServerHealth
    place: str
    """What would be started or called."""


@value
class Overview:
    servers: tuple[KnownServer, ...]
    problems: tuple[Problem, ...]


def overview(
    *,
    workspace: Path,
    user_file: Path,
    memory_file: Path,
    environ: Mapping[str, str],
    trusted: bool,
) -> Overview:
    found = ConfigFiles(user_file, workspace, environ=environ, trusted=trusted).read()
    # the words of the file, so that no secret that a variable holds is shown
    as_written = ConfigFiles(user_file, workspace, environ={}, trusted=trusted).read()
    places = {each.name: each.shown_place for each in as_written.servers}
    memory = Memory(memory_file)
    return Overview(
        servers=tuple(
            KnownServer(
                health=_health(each, memory, trusted=trusted), place=places.get(each.name, "")
            )
            for each in found.servers
        ),
        problems=found.problems,
    )


def _health(server: ServerDefinition, memory: Memory, *, trusted: bool) -> ServerHealth:
    last = memory.of(server)
    catalogue = last.catalogue if last else Catalogue()
    state = State.FAILED if last and last.error else State.IDLE
    if server.source == "project" and not trusted:
        state = State.UNTRUSTED
    if server.disabled:
        state = State.DISABLED
    return ServerHealth(
        name=server.name,
        source=server.source,
        state=state,
        error=last.error if last else "",
        tools=tuple(tool.name for tool in catalogue.tools),
        resources=len(catalogue.resources),
        since=last.ts if last else 0,
    )
