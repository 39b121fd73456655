"""A server made with the SDK, which uses the newest protocol; its tools change on request."""

from mcp.server.mcpserver import Context, MCPServer

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


if __name__ == "__main__":
    server.run(transport="stdio")
