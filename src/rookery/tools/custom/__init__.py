"""Tools that users and projects define: programs with declared arguments.

`ToolDefinition` is a parsed definition file, `CustomTool` runs it as a command, `CustomToolGuard`
asks about a project's tools. The rules for commands apply to them.
"""
