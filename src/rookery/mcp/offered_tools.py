"""What a model can call of MCP servers: two tools, whichever servers there are."""

import json
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from msgspec.structs import replace

from rookery.core.blocks import ToolCall
from rookery.engine.ports.tool import Tool
from rookery.mcp.access_mcp_resource import AccessMcpResource
from rookery.mcp.hub import McpHub
from rookery.mcp.use_mcp_tool import UseMcpTool

_ELSEWHERE = {"server_name": "server", "tool_name": "tool"}


def mcp_tools(hub: McpHub) -> dict[str, Tool[Any]]:
    """The tools, by their names; none if there is no server to use them with."""
    if not hub.offered:
        return {}
    tools: list[Tool[Any]] = [UseMcpTool(hub), AccessMcpResource(hub)]
    return {tool.name: tool for tool in tools}


def as_it_was_meant(call: ToolCall, hub: McpHub) -> ToolCall:
    """A call of `mcp--server--tool` as the call of `use_mcp_tool` that it stands for; any other
    call as it is."""
    if call.name in (UseMcpTool.name, AccessMcpResource.name):
        return replace(call, arguments=_in_our_words(call.arguments))
    meant = hub.resolve(call.name)
    if meant is None:
        return call
    server, tool = meant
    arguments = {"server": server, "tool": tool, "arguments": dict(call.arguments)}
    return replace(call, name=UseMcpTool.name, arguments=arguments)


def _in_our_words(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments under the names that models were taught elsewhere, where ours are not given."""
    ours = dict(arguments)
    for theirs, name in _ELSEWHERE.items():
        if theirs in ours and name not in ours:
            ours[name] = ours.pop(theirs)
    if isinstance(text := ours.get("arguments"), str):
        with suppress(ValueError):  # what is no JSON is refused as what it is
            ours["arguments"] = json.loads(text)
    return ours
