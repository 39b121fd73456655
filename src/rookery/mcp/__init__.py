"""MCP servers as tools: configuration, agreement, connection, calls.

`McpHub` has the servers of a workspace, `McpServer` one of them, `ServerGuard` is the hook. A
project's server starts only after the user agreed to its definition.
"""
