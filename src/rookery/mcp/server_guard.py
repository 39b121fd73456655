"""The hooks for MCP servers: what the user's configuration allows, and what is always asked.

`ServerGuard` has a person asked about a tool that is not what it was, and before a server starts
that may load changed code, whatever else allows it. `AlwaysAllowed` spares the question for tools
that the user's own file names.
"""

from collections.abc import Iterator

from rookery.core.asks import Ruling, allow, ask, joined
from rookery.core.blocks import ToolCall
from rookery.engine.ports.actions import Action, Outcome
from rookery.mcp.agreements import how_to_agree
from rookery.mcp.config import Pairs, ServerDefinition, Transport
from rookery.mcp.hub import McpHub
from rookery.mcp.presence import FILE_NAME
from rookery.mcp.results import visible_line
from rookery.mcp.variables import is_secret_name

LONGEST_PLACE = 1000
LONGEST_PATH = 200
MAY_LOAD = (
    "The server runs outside the sandbox and may load {}, which changed since the "
    "start of this run."
)
CHANGED = "The server's description of this tool changed since it was last approved."


class ServerGuard:
    """A hook. It has a person asked before a tool is called that is not what it was, and before a
    server is started that may load what has changed in the workspace meanwhile. Whoever is asked
    is told what would be started."""

    def __init__(self, hub: McpHub) -> None:
        self._hub = hub

    async def before(self, call: ToolCall, action: Action) -> Ruling:
        server = action.payload.get("serverName")
        if not isinstance(server, str) or not action.external.startswith(f"mcp {server}"):
            return Ruling()
        on_tool = ask(CHANGED) if CHANGED in action.notes else Ruling()
        return joined([on_tool, await self._on_start(server)])

    async def after(self, call: ToolCall, action: Action, outcome: Outcome) -> None:
        pass

    async def _on_start(self, server: str) -> Ruling:
        if self._hub.is_connected(server):
            return Ruling()
        definition = self._hub.server(server).definition
        what_starts = Ruling(notes=tuple(_what_starts(definition)))
        if why := self._hub.disagreement(server):
            what_starts = joined([ask(f"{why} {how_to_agree(definition.name)}"), what_starts])
        changed = await self._hub.changed_code(server)
        if changed is None:
            return what_starts
        file = visible_line(changed, LONGEST_PATH)
        return joined([ask(MAY_LOAD.format(file)), what_starts])


class AlwaysAllowed:
    """A hook. It allows the tools that `alwaysAllow` of the user's file names, as long as their
    server describes them as it did when they were first seen, and to start a server all of whose
    tools it names."""

    def __init__(self, hub: McpHub) -> None:
        self._hub = hub

    async def before(self, call: ToolCall, action: Action) -> Ruling:
        server, tool = action.payload.get("serverName"), action.payload.get("toolName")
        if not isinstance(server, str):
            return Ruling()
        if isinstance(tool, str):
            mine = action.external == f"mcp {server} {tool}"
            return allow() if mine and self._hub.always_allowed(server, tool) else Ruling()
        mine = action.external == f"mcp {server}"
        return allow() if mine and self._hub.may_start(server) else Ruling()

    async def after(self, call: ToolCall, action: Action, outcome: Outcome) -> None:
        pass


def _what_starts(server: ServerDefinition) -> Iterator[str]:
    """What would be started or called, and who says so."""
    does = "starts" if server.transport is Transport.STDIO else "connects to"
    whose = "your own" if server.source == "user" else "this project's"
    place = visible_line(server.place, LONGEST_PLACE)
    yield f"{does}: {place} (outside the sandbox, as {whose} {FILE_NAME} says)"
    if server.source == "user":
        return
    for name, said in (("cwd", server.cwd), ("env", _pairs(server.env))):
        if said:
            yield f"{name}: {visible_line(said, LONGEST_PLACE)}"
    if server.headers:
        yield f"headers: {', '.join(name for name, _ in server.headers)}"


def _pairs(env: Pairs) -> str:
    """Variables with what they are set to, which may lead to other code."""
    return " ".join(f"{name}={'***' if is_secret_name(name) else text}" for name, text in env)
