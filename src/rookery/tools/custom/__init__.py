"""Tools that users and projects define: programs with declared arguments.

`ToolDefinition` is what a file says, `CustomTool` runs it as a command, `CustomToolGuard` asks
about a project's tools. They run under the same rules as commands.
"""
