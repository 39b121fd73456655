"""The tools and prompts through which a model uses MCP servers, and the hooks that judge them.

There are two tools for all servers, so that their definitions are stable and prompts can be cached.
Calls by other naming conventions, such as `mcp--server--tool`, are rewritten to them.

`ServerGuard` asks about tools that have changed, and before a server starts that may load changed
code, whatever else allows it. `AlwaysAllowed` skips the question for tools that the user's own file
allows.
"""

import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Annotated, Any, ClassVar

import msgspec
from msgspec.structs import replace

from rookery.core.asks import AskKind, Ruling, allow, ask, joined
from rookery.core.blocks import ToolCall
from rookery.core.instructions import quoted, server_prompt
from rookery.core.tool_traits import ACCESS_MCP, ToolGroup
from rookery.engine.ports.actions import Action, Outcome, Permit
from rookery.engine.ports.hooks import Hook
from rookery.engine.ports.tool import Tool, ToolContext
from rookery.errors import ToolError
from rookery.mcp.agreements import how_to_agree
from rookery.mcp.catalogue import ResourceOffer
from rookery.mcp.config import EVERY_TOOL, Pairs, ServerDefinition, Transport
from rookery.mcp.hub import McpHub
from rookery.mcp.results import resource_outcome, visible_line
from rookery.mcp.use_mcp_tool import CHANGED, LOST, UseMcpTool, check_permit, list_action, startable
from rookery.mcp.variables import is_secret_name
from rookery.platform.user_folders import MCP_FILE

LONGEST_LINE = 2000
QUOTED = "mcp_resources"
_ALIASES = {"server_name": "server", "tool_name": "tool"}


class AccessMcpResourceArgs(msgspec.Struct, forbid_unknown_fields=True):
    server: Annotated[str, msgspec.Meta(description="The server's name.")]
    uri: Annotated[
        str | None, msgspec.Meta(description="What to read; without it the resources are listed.")
    ] = None


class AccessMcpResource:
    name: ClassVar[str] = ACCESS_MCP
    description: ClassVar[str] = (
        "Read a resource of one of the user's MCP servers. With server alone you get the "
        "resources it has."
    )
    arguments: ClassVar[type[msgspec.Struct]] = AccessMcpResourceArgs
    group: ClassVar[ToolGroup] = ToolGroup.MCP

    def __init__(self, hub: McpHub) -> None:
        self._hub = hub

    async def prepare(self, args: AccessMcpResourceArgs, ctx: ToolContext) -> Action:
        name, uri = startable(self._hub, args.server, ctx), args.uri
        if uri is None:
            return self._list(name, ctx)

        async def perform(permit: Permit) -> Outcome:
            check_permit(permit, action, self._hub, name)
            return resource_outcome(await self._hub.server(name).read(uri), ctx)

        action = Action(
            title=f"Read {visible_line(uri, 200)} of the MCP server {name}",
            perform=perform,
            external=f"mcp {name} {uri}",
            ask_as=AskKind.USE_MCP_SERVER,
            notes=[f"uri: {uri}"],
            payload={"type": "access_mcp_resource", "serverName": name, "uri": uri},
        )
        return action

    def _list(self, name: str, ctx: ToolContext) -> Action:
        running = self._hub.server(name).is_connected

        async def listing() -> str:
            server = self._hub.server(name)  # as it is configured now
            catalogue = await (server.current() if running else server.catalogue())
            if catalogue is None:
                raise ToolError(LOST.format(name))
            return _list_text(name, catalogue.resources)

        return list_action(self._hub, name, ctx, self.name, listing, running=running)


def mcp_tools(hub: McpHub) -> dict[str, Tool[Any]]:
    """The tools by name; none if no server is usable."""
    if not hub.offered:
        return {}
    tools: list[Tool[Any]] = [UseMcpTool(hub), AccessMcpResource(hub)]
    return {tool.name: tool for tool in tools}


def resolve_call(call: ToolCall, hub: McpHub) -> ToolCall:
    """Rewrite a call of `mcp--server--tool` to `use_mcp_tool`; other calls are returned
    unchanged."""
    if call.name in (UseMcpTool.name, AccessMcpResource.name):
        return replace(call, arguments=_rename_arguments(call.arguments))
    resolved = hub.resolve(call.name)
    if resolved is None:
        return call
    server, tool = resolved
    arguments = {"server": server, "tool": tool, "arguments": dict(call.arguments)}
    return replace(call, name=UseMcpTool.name, arguments=arguments)


def prompt_action(hub: McpHub, line: str) -> Action:
    """The action for `/mcp:server:prompt words`. Raises `ToolError` if there is no such server,
    or it must not be started."""
    server = hub.server(server_prompt(line))
    server.check_allowed()
    name = server.definition.name

    async def perform(permit: Permit) -> Outcome:
        check_permit(permit, action, hub, name)
        await hub.server(name).tools()  # connects, since its prompts may not be cached
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


def _list_text(server: str, resources: tuple[ResourceOffer, ...]) -> str:
    if not resources:
        return f"The MCP server {server} offers no resources."
    lines = []
    for each in resources:
        kind = " (template: fill in the places in braces)" if each.template else ""
        lines.append(f"- {each.uri}{kind}: {each.name} {each.description}".rstrip())
    head = f"Resources of the MCP server {server}, as it describes them:"
    return "\n".join([head, quoted(QUOTED, "\n".join(lines))])


def _rename_arguments(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Rename arguments that models know from other agents, unless ours are given."""
    ours = dict(arguments)
    for theirs, name in _ALIASES.items():
        if theirs in ours and name not in ours:
            ours[name] = ours.pop(theirs)
    if isinstance(text := ours.get("arguments"), str):
        with suppress(ValueError):  # validation rejects a plain string
            ours["arguments"] = json.loads(text)
    return ours


LONGEST_PLACE = 1000
LONGEST_PATH = 200
MAY_LOAD = (
    "The server runs outside the sandbox and may load {}, which changed since the "
    "start of this run."
)


class ServerGuard(Hook):
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

    async def _on_start(self, server: str) -> Ruling:
        one = self._hub.server(server)
        if one.is_connected:
            return Ruling()
        definition = one.definition
        what_starts = Ruling(notes=tuple(_what_starts(definition)))
        if why := one.missing_approval:
            what_starts = joined([ask(f"{why} {how_to_agree(definition.name)}"), what_starts])
        changed = await one.changed_code()
        if changed is None:
            return what_starts
        file = visible_line(changed, LONGEST_PATH)
        return joined([ask(MAY_LOAD.format(file)), what_starts])


class AlwaysAllowed(Hook):
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
            return allow() if mine and self._hub.server(server).always_allows(tool) else Ruling()
        mine = action.external == f"mcp {server}"
        whole = mine and self._hub.server(server).definition.allows(EVERY_TOOL)
        return allow() if whole else Ruling()


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
    if server.oauth.client_id:
        yield f"signs in as the client: {visible_line(server.oauth.client_id, LONGEST_PLACE)}"
    if server.headers:
        yield f"headers: {', '.join(name for name, _ in server.headers)}"


def _pairs(env: Pairs) -> str:
    """The values are shown because they may load other code; secret ones are masked."""
    return " ".join(f"{name}={'***' if is_secret_name(name) else text}" for name, text in env)
