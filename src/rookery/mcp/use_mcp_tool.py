"""Call a tool of an MCP server, or list its tools.

One tool serves all servers, and its description never changes, so that prompts can be cached. The
schemas of a server's tools are sent on request, or after a wrong call. A server starts only after
approval; until then its cached tools are used.
"""

import json
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from typing import Annotated, Any, ClassVar

import anyio
import msgspec

from rookery.core.asks import AskKind
from rookery.core.facts import Noted
from rookery.core.instructions import quoted
from rookery.core.limits import KIB
from rookery.core.tool_traits import USE_MCP, ToolGroup
from rookery.engine.ports.actions import Action, Outcome, Permit
from rookery.engine.ports.tool import ToolContext
from rookery.errors import BadArguments, Denied, SettingsError, ToolError
from rookery.mcp.catalogue import ToolOffer, named, same_name
from rookery.mcp.connection import LONGEST_NAME
from rookery.mcp.hub import McpHub
from rookery.mcp.results import capped, tool_outcome, visible_line
from rookery.mcp.server import SLOW_SECONDS, WrongArguments
from rookery.mcp.server_programs import ChangedFiles
from rookery.mcp.server_sign_in import ServerSignInNeeded

LARGEST = 64 * KIB
DEEPEST = 32
"""Levels of JSON; a schema nests two for each level of the data it describes."""
ANYTHING: Mapping[str, Any] = {"type": "object"}

_FORMATS = (
    *("date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"),
)
_CHOICES = ("anyOf", "oneOf", "allOf")
_SCHEMAS_BY_NAME = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")
_LISTS_OF_SCHEMAS = (*_CHOICES, "prefixItems")
_TYPES: Mapping[str, type | tuple[type, ...]] = {
    "string": str,
    "number": (int, float),
    "integer": (int, float),
    "boolean": bool,
    "array": list,
    "object": dict,
}


def normalised(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """The schema in the dialect that all providers accept; `ANYTHING` if it is too large or too
    deep."""
    if _depth(schema, DEEPEST) > DEEPEST or len(msgspec.json.encode(schema)) > LARGEST:
        return ANYTHING
    top = dict(schema)
    for key in _CHOICES:
        variants = top.pop(key, None)
        if isinstance(variants, list):
            top = {**next(filter(_is_object, variants), {}), **top}
    return {"type": "object", **_plain({**top, "type": "object"})}


def problems(arguments: Mapping[str, Any], schema: Mapping[str, Any]) -> Iterator[str]:
    """Obvious errors in the arguments; the server checks the rest."""
    properties = schema.get("properties")
    fields = properties if isinstance(properties, dict) else {}
    required = schema.get("required")
    for name in required if isinstance(required, list) else ():
        if isinstance(name, str) and name not in arguments:
            yield f"{name} is missing."
    for name, given in arguments.items():
        if name not in fields:
            if schema.get("additionalProperties") is False:
                yield f"Unknown argument: {name[:100]!r}."
            continue
        kind = fields[name].get("type") if isinstance(fields[name], dict) else None
        if isinstance(kind, str) and kind in _TYPES and not _is(given, kind):
            yield f"{name} must be of type {kind}."


def _is(given: Any, kind: str) -> bool:
    if isinstance(given, bool):
        return kind == "boolean"
    if kind == "integer":
        return isinstance(given, int) or (isinstance(given, float) and given.is_integer())
    return isinstance(given, _TYPES[kind])


def _plain(schema: Any) -> Any:
    if not isinstance(schema, dict):
        return schema
    fields = {key: value for key, value in schema.items() if key != "$schema"}
    if fields.get("format") not in _FORMATS:
        fields.pop("format", None)
    if isinstance(kinds := fields.get("type"), list):
        del fields["type"]
        fields["anyOf"] = [{"type": kind} for kind in kinds]
    for key in _SCHEMAS_BY_NAME:
        if isinstance(named := fields.get(key), dict):
            fields[key] = {name: _plain(each) for name, each in named.items()}
    for key in _LISTS_OF_SCHEMAS:
        if isinstance(listed := fields.get(key), list):
            fields[key] = [_plain(each) for each in listed]
    if "items" in fields:
        fields["items"] = _plain(fields["items"])
    if fields.get("type") == "object" and "additionalProperties" not in fields:
        fields["additionalProperties"] = False
    return fields


def _is_object(schema: Any) -> bool:
    return isinstance(schema, dict) and schema.get("type", "object") == "object"


def _depth(value: Any, left: int) -> int:
    """Nesting depth of a value, or `left` + 1 if it is deeper."""
    if left < 0:
        return 1
    if isinstance(value, dict):
        return 1 + max((_depth(each, left - 1) for each in value.values()), default=0)
    if isinstance(value, list):
        return 1 + max((_depth(each, left - 1) for each in value), default=0)
    return 0


QUOTED = "mcp_tools"
LONGEST_LISTING = 12_000
"""Characters of schemas to list; of more tools, only names and summaries are listed."""
CHANGED = "The server's description of this tool changed since it was last approved."
LOST = "The connection to the MCP server {} was lost. Call again to restart it."
NOT_CALLED = "It was not called. Call it again to ask for approval of the new description."


class UseMcpToolArgs(msgspec.Struct, forbid_unknown_fields=True):
    server: Annotated[str, msgspec.Meta(description="The server's name.")]
    tool: Annotated[
        str | None, msgspec.Meta(description="The tool to call; without it the tools are listed.")
    ] = None
    arguments: Annotated[
        dict[str, Any] | None, msgspec.Meta(description="The tool's own arguments, as an object.")
    ] = None


class UseMcpTool:
    name: ClassVar[str] = USE_MCP
    arguments: ClassVar[type[msgspec.Struct]] = UseMcpToolArgs
    group: ClassVar[ToolGroup] = ToolGroup.MCP

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
        server = startable(self._hub, args.server, ctx)
        one = self._hub.server(server)
        catalogue = await one.current()
        if args.tool is None:
            return self._list(server, ctx, running=catalogue is not None)
        arguments = args.arguments or {}
        known = one.enabled(catalogue or one.known)
        tool = _find_tool(args.tool, known)
        if tool is not None:
            _check(server, tool, arguments)
        elif catalogue is not None or one.is_off(args.tool):
            raise _no_tool(server, args.tool, known)
        name = tool.name if tool else visible_line(args.tool, LONGEST_NAME)
        return self._call(server, name, tool, arguments, ctx)

    def _list(self, server: str, ctx: ToolContext, *, running: bool) -> Action:
        async def listing() -> str:
            if not running:
                return describe(server, await self._tools(server, ctx))
            one = self._hub.server(server)
            catalogue = await one.current()
            if catalogue is None:
                raise ToolError(LOST.format(server))
            return describe(server, one.enabled(catalogue))

        return list_action(self._hub, server, ctx, self.name, listing, running=running)

    def _call(
        self,
        server: str,
        name: str,
        known: ToolOffer | None,
        arguments: dict[str, Any],
        ctx: ToolContext,
    ) -> Action:
        """`known` is the cached description, if the server is not connected."""
        exact = json.dumps(arguments, sort_keys=True, ensure_ascii=False)

        async def perform(permit: Permit) -> Outcome:
            check_permit(permit, action, self._hub, server)
            tools = await self._tools(server, ctx)
            tool = named(tools).get(name)
            if tool is None:
                raise _no_tool(server, name, tools)
            another = known is not None and tool.digest != known.digest
            one = self._hub.server(server)
            if another or (not changed and one.has_changed(tool)):
                raise ToolError(f"{CHANGED} {NOT_CALLED}\n{describe(server, [tool])}")
            _check(server, tool, arguments)
            if changed:
                one.allow(tool)
            try:
                result = await one.call(name, arguments, ctx)
            except WrongArguments as error:
                raise BadArguments(f"{error}\n{describe(server, [tool])}") from error
            return tool_outcome(result, ctx)

        changed = known is not None and self._hub.server(server).has_changed(known)
        action = Action(
            title=f"Call {name} of the MCP server {server}",
            perform=perform,
            external=f"mcp {server} {name}",
            ask_as=AskKind.USE_MCP_SERVER,
            notes=[f"arguments: {exact}", *([CHANGED] if changed else [])],
            payload={
                "type": "use_mcp_tool",
                "serverName": server,
                "toolName": name,
                "arguments": exact,
            },
        )
        return action

    async def _tools(self, server: str, ctx: ToolContext) -> list[ToolOffer]:
        """The tools, connecting if needed; reports a slow start, and offers to sign in."""
        try:
            return await self._listed(server, ctx)
        except ServerSignInNeeded:
            if not await signed_in(self._hub, server, ctx):
                raise
        return await self._listed(server, ctx)

    async def _listed(self, server: str, ctx: ToolContext) -> list[ToolOffer]:
        with anyio.move_on_after(SLOW_SECONDS):
            return await self._hub.server(server).tools()
        waiting = self._hub.server(server).health()
        ctx.append(Noted(text=f"The MCP server {server}: {waiting.error or waiting.state}"))
        return await self._hub.server(server).tools()


async def signed_in(hub: McpHub, server: str, ctx: ToolContext) -> bool:
    """Whether the user agreed to sign in, and did. Raises `ToolError` if that failed."""
    if not hub.attended:
        return False
    answer = await ctx.ask(
        AskKind.USE_MCP_SERVER,
        json.dumps({"type": "use_mcp_tool", "serverName": server}),
        title=f"Sign in to the MCP server {server}?",
        notes=("The sign-in page's address is shown, and opened if this machine has a browser.",),
    )
    if answer.reply != "yes" or answer.by != "user":
        return False

    def tell(text: str) -> None:
        ctx.append(Noted(text=text))

    try:
        await hub.server(server).sign_in(tell)
    except SettingsError as error:
        raise ToolError(str(error)) from error
    return True


def startable(hub: McpHub, name: str, ctx: ToolContext) -> str:
    """The name of the server with this name or a similar one; records configuration problems.
    Raises `ToolError` if there is no such server, or it must not be started."""
    for each in hub.news():
        ctx.append(Noted(text=each))
    server = hub.server(name)
    try:
        server.check_allowed()
    except ChangedFiles as error:
        ctx.append(Noted(text=str(error)))
        raise
    return server.definition.name


def list_action(
    hub: McpHub,
    server: str,
    ctx: ToolContext,
    tool: str,
    listing: Callable[[], Awaitable[str]],
    *,
    running: bool,
) -> Action:
    """List the tools or resources of a server. If it is not running it is started, which needs
    approval."""

    async def perform(permit: Permit) -> Outcome:
        if not running:
            check_permit(permit, action, hub, server)
        return Outcome(text=capped(await listing(), ctx))

    what = "tools" if tool == USE_MCP else "resources"
    payload = {"type": tool, "serverName": server}
    if running:
        title = f"List the {what} of the MCP server {server}"
        return Action(title=title, perform=perform, payload=payload)
    action = Action(
        title=f"Start the MCP server {server} and list its {what}",
        perform=perform,
        external=f"mcp {server}",
        ask_as=AskKind.USE_MCP_SERVER,
        payload=payload,
    )
    return action


def check_permit(permit: Permit, action: Action, hub: McpHub, server: str) -> None:
    """Raises `Denied` if the permit is for another action. If a person approved this one, they
    saw the definition of the server, so it counts as approved."""
    if permit.digest != action.digest:
        raise Denied("This call was not permitted, so it was not made.")
    one = hub.server(server)
    if permit.by_hand and not one.is_connected:
        one.agree()


def describe(server: str, tools: Sequence[ToolOffer]) -> str:
    """Tools with their arguments as the server describes them, quoted as data."""
    if not tools:
        return f"The MCP server {server} offers no tools."
    head = f"Tools of the MCP server {server}, as it describes them:"
    whole = "\n\n".join(map(_describe_one, tools))
    if len(whole) <= LONGEST_LISTING or len(tools) == 1:
        return f"{head}\n{quoted(QUOTED, whole)}"
    brief = [f"- {tool.name}: {visible_line(tool.description, 100)}" for tool in tools]
    more = "Call a tool without arguments to see which ones it needs."
    return "\n".join([head, quoted(QUOTED, "\n".join(brief)), more])


def _find_tool(name: str, tools: Sequence[ToolOffer]) -> ToolOffer | None:
    by_name = named(tools)
    found = same_name(name, by_name)
    return by_name[found] if found else None


def _no_tool(server: str, name: str, tools: Sequence[ToolOffer]) -> BadArguments:
    wrong = f"{server} has no tool {visible_line(name, 100)!r}, or it is switched off."
    return BadArguments(f"{wrong}\n{describe(server, tools)}" if tools else wrong)


def _check(server: str, tool: ToolOffer, arguments: dict[str, Any]) -> None:
    if wrongs := " ".join(problems(arguments, tool.schema)):
        raise BadArguments(f"{wrongs}\n{describe(server, [tool])}")


def _describe_one(tool: ToolOffer) -> str:
    schema = json.dumps(normalised(tool.schema), ensure_ascii=False)
    return f"{tool.name}\n{tool.description}\narguments: {schema}"
