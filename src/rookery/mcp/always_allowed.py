"""What the user's own MCP configuration allows without a question."""

from rookery.core.blocks import ToolCall
from rookery.core.rulings import Ruling, allow
from rookery.engine.ports.actions import Action, Outcome
from rookery.mcp.hub import McpHub


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
