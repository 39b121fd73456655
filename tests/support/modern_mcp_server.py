"""A server made with the SDK, which uses the newest protocol; its tools change on request."""

from mcp.server.mcpserver import Context, MCPServer
from mcp_types import (
    ElicitRequest,
    ElicitRequestFormParams,
    ElicitResult,
    InputRequiredResult,
)

server = MCPServer("modern")


@server.tool()
def add(a: int, b: int) -> int:
    """Adds two numbers."""
    return a + b


@server.tool()
async def grow(ctx: Context) -> str:
    """Offers one more tool from now on."""
    server.add_tool(lambda: "new", name="another", description="Another one.")
    await ctx.notify_tools_changed()
    return "grown"


@server.tool()
async def greet(ctx: Context) -> str | InputRequiredResult:
    """Asks for a name."""
    answer = (ctx.input_responses or {}).get("who")
    if not isinstance(answer, ElicitResult):
        schema = {"type": "object", "properties": {"name": {"type": "string"}}}
        wanted = ElicitRequestFormParams(message="Who are you?", requested_schema=schema)
        return InputRequiredResult(input_requests={"who": ElicitRequest(params=wanted)})
    return f"Hello {answer.content['name']}" if answer.content else answer.action


if __name__ == "__main__":
    server.run(transport="stdio")
