"""A prompt of a server as an action: words go to the server, which may have to be started."""

from rookery.core.asks import AskKind
from rookery.core.mentions import server_prompt
from rookery.engine.ports.actions import Action, Outcome, Permit
from rookery.mcp.hub import McpHub
from rookery.mcp.use_mcp_tool import insist
from rookery.mcp.visible_text import visible_line

LONGEST_LINE = 2000


def prompt_action(hub: McpHub, line: str) -> Action:
    """What `/mcp:server:prompt words` asks for. Raises `ToolError` if there is no such server, or
    it must not be started."""
    server = hub.server(server_prompt(line))
    server.insist_on_leave()
    name = server.definition.name

    async def perform(permit: Permit) -> Outcome:
        insist(permit, action, hub, name)
        await hub.tools(name)  # its prompts may not be known yet
        return Outcome(text=await hub.prompt_of(line))

    action = Action(
        title=f"Get a prompt of the MCP server {name}",
        perform=perform,
        external=f"mcp {name}",
        ask_as=AskKind.USE_MCP_SERVER,
        notes=[f"sends: {visible_line(line, LONGEST_LINE)}"],
        payload={"type": "use_mcp_tool", "serverName": name},
    )
    return action
