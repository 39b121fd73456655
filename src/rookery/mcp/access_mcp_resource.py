"""Read a resource of an MCP server, or learn which it has."""

from typing import Annotated, ClassVar

import msgspec

from rookery.core.asks import AskKind
from rookery.core.instructions import quoted
from rookery.engine.ports.actions import Action, Outcome, Permit
from rookery.engine.ports.tool import ToolContext, ToolGroup
from rookery.errors import ToolError
from rookery.mcp.hub import McpHub
from rookery.mcp.offers import ResourceOffer
from rookery.mcp.results import capped, resource_outcome
from rookery.mcp.server import State
from rookery.mcp.use_mcp_tool import LOST, insist, startable
from rookery.mcp.visible_text import visible_line

QUOTED = "mcp_resources"


class AccessMcpResourceArgs(msgspec.Struct, forbid_unknown_fields=True):
    server: Annotated[str, msgspec.Meta(description="The server's name.")]
    uri: Annotated[
        str | None, msgspec.Meta(description="What to read; without it the resources are listed.")
    ] = None


class AccessMcpResource:
    name: ClassVar[str] = "access_mcp_resource"
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
            running = self._hub.server(name).state is State.CONNECTED
            return self._listing(name, ctx) if running else self._starting(name, ctx)

        async def perform(permit: Permit) -> Outcome:
            insist(permit, action, self._hub, name)
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

    def _listing(self, name: str, ctx: ToolContext) -> Action:
        async def perform(permit: Permit) -> Outcome:
            catalogue = await self._hub.server(name).current()
            if catalogue is None:
                raise ToolError(LOST.format(name))
            return Outcome(text=capped(_listed(name, catalogue.resources), ctx))

        return Action(
            title=f"List the resources of the MCP server {name}",
            perform=perform,
            payload={"type": "access_mcp_resource", "serverName": name},
        )

    def _starting(self, name: str, ctx: ToolContext) -> Action:
        async def perform(permit: Permit) -> Outcome:
            insist(permit, action, self._hub, name)
            catalogue = await self._hub.server(name).catalogue()
            return Outcome(text=capped(_listed(name, catalogue.resources), ctx))

        action = Action(
            title=f"Start the MCP server {name} and list its resources",
            perform=perform,
            external=f"mcp {name}",
            ask_as=AskKind.USE_MCP_SERVER,
            payload={"type": "access_mcp_resource", "serverName": name},
        )
        return action


def _listed(server: str, resources: tuple[ResourceOffer, ...]) -> str:
    if not resources:
        return f"The MCP server {server} offers no resources."
    lines = []
    for each in resources:
        kind = " (template: fill in the places in braces)" if each.template else ""
        lines.append(f"- {each.uri}{kind}: {each.name} {each.description}".rstrip())
    head = f"Resources of the MCP server {server}, as it describes them:"
    return "\n".join([head, quoted(QUOTED, "\n".join(lines))])
