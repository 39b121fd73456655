"""MCP servers as tools: configuration, approval, connections, calls.

`McpHub` has the servers of a workspace, `McpServer` is one of them, `ServerGuard` is the hook. A
project's server starts only after the user has approved its definition.
"""
