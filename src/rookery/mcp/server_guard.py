"""Hooks for MCP servers.

`ServerGuard` asks about tools that have changed, and before a server starts that may load changed
code, whatever else allows it. `AlwaysAllowed` skips the question for tools that the user's own file
allows.
"""

from collections.abc import Iterator

from rookery.core.asks import Ruling, allow, ask, joined
from rookery.core.blocks import ToolCall
from rookery.engine.ports.actions import Action, Outcome
from rookery.mcp.agreements import how_to_agree
from rookery.mcp.config import Pairs, ServerDefinition, Transport
from rookery.mcp.hub import McpHub
from rookery.mcp.results import visible_line
from rookery.mcp.variables import is_secret_name
from rookery.platform.user_folders import MCP_FILE

LONGEST_PLACE = 1000
LONGEST_PATH = 200
MAY_LOAD = (
    "The server runs outside the sandbox and may load {}, which changed since the "
    "start of this run."
)
CHANGED = "The server's description of this tool changed since it was last approved."


class ServerGuard:
    """Asks before a changed tool is called, and before a server starts that is not approved or
    may load files changed during this run. The question shows what would be started."""

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
        if why := self._hub.missing_approval(server):
            what_starts = joined([ask(f"{why} {how_to_agree(definition.name)}"), what_starts])
        changed = await self._hub.changed_code(server)
        if changed is None:
            return what_starts
        file = visible_line(changed, LONGEST_PATH)
        return joined([ask(MAY_LOAD.format(file)), what_starts])


class AlwaysAllowed:
    """Allows the tools in `alwaysAllow` of the user's file, as long as their descriptions have
    not changed since they were first seen, and starting a server if it allows all tools."""

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
    """The program or URL, and who configured it."""
    does = "starts" if server.transport is Transport.STDIO else "connects to"
    whose = "your own" if server.source == "user" else "this project's"
    place = visible_line(server.place, LONGEST_PLACE)
    yield f"{does}: {place} (outside the sandbox, as {whose} {MCP_FILE} says)"
    if server.source == "user":
        return
    for name, value in (("cwd", server.cwd), ("env", _pairs(server.env))):
        if value:
            yield f"{name}: {visible_line(value, LONGEST_PLACE)}"
    if server.headers:
        yield f"headers: {', '.join(name for name, _ in server.headers)}"


def _pairs(env: Pairs) -> str:
    """The values are shown because they may load other code; secret ones are masked."""
    return " ".join(f"{name}={'***' if is_secret_name(name) else text}" for name, text in env)
