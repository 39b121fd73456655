"""What a model can call of MCP servers: two tools, whichever servers there are."""

from dataclasses import replace
from typing import Any, cast

from rookery.core.blocks import ToolCall
from rookery.engine.ports import Tool
from rookery.mcp.access_mcp_resource import AccessMcpResource
from rookery.mcp.hub import McpHub
from rookery.mcp.use_mcp_tool import UseMcpTool


def mcp_tools(hub: McpHub) -> dict[str, Tool[Any]]:
    """The tools, by their names; none if there is no server to use them with."""
    if not hub.offered:
        return {}
    tools = cast("list[Tool[Any]]", [UseMcpTool(hub), AccessMcpResource(hub)])
    return {tool.name: tool for tool in tools}


def as_it_was_meant(call: ToolCall, hub: McpHub) -> ToolCall:
    """A call of `mcp--server--tool` as the call of `use_mcp_tool` that it stands for; any other
    call as it is."""
    meant = hub.resolve(call.name)
    if meant is None:
        return call
    server, tool = meant
    arguments = {"server": server, "tool": tool, "arguments": dict(call.arguments)}
    return replace(call, name=UseMcpTool.name, arguments=arguments)
