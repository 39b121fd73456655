"""Call a tool of an MCP server, or learn which it has.

There is one tool for all servers, whose words never change, so that prompts can be cached. What
a server's tools take is told when it is asked for, or when a call of one went wrong.
"""

import json
from collections.abc import Sequence
from typing import Annotated, Any, ClassVar

import anyio
import msgspec

from rookery.core.facts import Noted, OutputStreamed
from rookery.engine.ports import Action, Outcome, Permit, ToolContext, ToolGroup
from rookery.errors import BadArguments, Denied
from rookery.mcp.catalogue import ToolOffer
from rookery.mcp.hub import McpHub
from rookery.mcp.results import capped, tool_outcome
from rookery.mcp.schemas import normalised, problems
from rookery.mcp.server import LATE, WrongArguments
from rookery.mcp.untrusted import visible_line

LONGEST_PROGRESS = 300
LONGEST_LISTING = 12_000
"""Characters of schemas that are told at once; of more only the names and first words."""
CHANGED = "The server describes this tool otherwise than when it was last allowed."


class UseMcpToolArgs(msgspec.Struct, forbid_unknown_fields=True):
    server: Annotated[str, msgspec.Meta(description="The server's name.")]
    tool: Annotated[
        str | None, msgspec.Meta(description="The tool to call; without it the tools are listed.")
    ] = None
    arguments: Annotated[
        dict[str, Any] | None, msgspec.Meta(description="The tool's own arguments, as an object.")
    ] = None


class UseMcpTool:
    name: ClassVar[str] = "use_mcp_tool"
    arguments: ClassVar[type[msgspec.Struct]] = UseMcpToolArgs
    group: ClassVar[ToolGroup] = ToolGroup.ALWAYS

    def __init__(self, hub: McpHub) -> None:
        self._hub = hub
        self.description = "\n".join(
            [
                "Call a tool of one of the user's MCP servers. With server alone you get the tools "
                "it has and the arguments they take; do that before you first call one. Servers, "
                "with the tools known so far:",
                *(f"- {line}" for line in hub.offered),
            ]
        )

    async def prepare(self, args: UseMcpToolArgs, ctx: ToolContext) -> Action:
        server = self._hub.server(args.server).definition.name
        if args.tool is None:
            return self._listing(server, ctx)
        tools = await self._tools(server, ctx)
        tool = await self._hub.tool(server, args.tool)
        if tool is None:
            wrong = f"{server} has no tool {visible_line(args.tool, 100)!r}, or it is switched off."
            raise BadArguments(f"{wrong}\n{described(server, tools)}")
        arguments = args.arguments or {}
        if wrongs := problems(arguments, tool.schema):
            raise BadArguments(f"{' '.join(wrongs)}\n{described(server, [tool])}")
        return self._call(server, tool, arguments, ctx)

    def _listing(self, server: str, ctx: ToolContext) -> Action:
        async def perform(permit: Permit) -> Outcome:
            tools = await self._tools(server, ctx)
            return Outcome(text=capped(described(server, tools), ctx))

        return Action(
            title=f"List the tools of the MCP server {server}",
            perform=perform,
            payload={"type": "use_mcp_tool", "serverName": server},
        )

    def _call(
        self, server: str, tool: ToolOffer, arguments: dict[str, Any], ctx: ToolContext
    ) -> Action:
        exact = json.dumps(arguments, sort_keys=True, ensure_ascii=False)

        def show(done: float, total: float | None, message: str | None) -> None:
            of = f"/{total:g}" if total is not None else ""
            said = f" {visible_line(message, LONGEST_PROGRESS)}" if message else ""
            ctx.append(OutputStreamed(call_id=ctx.call_id, text=f"{done:g}{of}{said}\n"))

        async def perform(permit: Permit) -> Outcome:
            insist(permit, action)
            try:
                result = await self._hub.call(server, tool.name, arguments, show)
            except WrongArguments as error:
                raise BadArguments(f"{error}\n{described(server, [tool])}") from error
            return tool_outcome(result, ctx)

        changed = self._hub.memory.changed(self._hub.server(server).definition, tool)
        action = Action(
            title=f"Call {tool.name} of the MCP server {server}",
            perform=perform,
            external=f"mcp {server} {tool.name}",
            notes=[f"arguments: {exact}", *([CHANGED] if changed else [])],
            payload={
                "type": "use_mcp_tool",
                "serverName": server,
                "toolName": tool.name,
                "arguments": exact,
            },
        )
        return action

    async def _tools(self, server: str, ctx: ToolContext) -> list[ToolOffer]:
        """The tools, connecting if need be. Whoever waits is told what for."""
        with anyio.move_on_after(LATE):
            return await self._hub.tools(server)
        waiting = self._hub.server(server).health()
        ctx.append(Noted(text=f"The MCP server {server}: {waiting.error or waiting.state}"))
        return await self._hub.tools(server)


def insist(permit: Permit, action: Action) -> None:
    """Raises `Denied` if the permit is for something else."""
    if permit.digest != action.digest:
        raise Denied("This call was not permitted, so it was not made.")


def described(server: str, tools: Sequence[ToolOffer]) -> str:
    """Tools and their arguments, in the server's own words, which are nobody's instructions."""
    if not tools:
        return f"The MCP server {server} offers no tools."
    head = f"Tools of the MCP server {server}, as it describes them:"
    whole = "\n\n".join([head, *map(_described, tools)])
    if len(whole) <= LONGEST_LISTING or len(tools) == 1:
        return whole
    brief = [f"- {tool.name}: {visible_line(tool.description, 100)}" for tool in tools]
    more = "Call one without arguments to be told which it takes, if it needs any."
    return "\n".join([head, *brief, more])


def _described(tool: ToolOffer) -> str:
    schema = json.dumps(normalised(tool.schema), ensure_ascii=False)
    return f"{tool.name}\n{tool.description}\narguments: {schema}"
