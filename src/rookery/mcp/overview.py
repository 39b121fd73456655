"""The state of the configured servers, from configuration and cache; starts none."""

from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct

from rookery.mcp.agreements import ConfigFiles
from rookery.mcp.catalogue import Catalogue, CatalogueCache
from rookery.mcp.config import ServerDefinition, ServerProblem
from rookery.mcp.server import ServerHealth, State


class KnownServer(Struct, frozen=True, kw_only=True):
    health: ServerHealth
    place: str
    """The command line or URL."""


class ServerOverview(Struct, frozen=True, kw_only=True):
    servers: tuple[KnownServer, ...]
    problems: tuple[ServerProblem, ...]
    doubts: tuple[str, ...]


def overview(
    *,
    workspace: Path,
    user_file: Path,
    memory_file: Path,
    environ: Mapping[str, str],
    trusted: bool,
) -> ServerOverview:
    found = ConfigFiles(user_file, workspace, environ=environ, trusted=trusted).read()
    memory = CatalogueCache(memory_file)
    return ServerOverview(
        servers=tuple(
            KnownServer(health=_health(each, memory, trusted=trusted), place=each.place)
            for each in found.servers
        ),
        problems=found.problems,
        doubts=found.doubts,
    )


def _health(server: ServerDefinition, memory: CatalogueCache, *, trusted: bool) -> ServerHealth:
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
