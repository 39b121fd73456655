"""Programs that tools run, loaded with the first of them.

`CommandWatch` watches a running command. Users and projects define tools that are programs with
declared arguments: `ToolDefinition` is a parsed definition file, `CustomTool` runs it as a command,
`CustomToolGuard` asks about a project's tools. The rules for commands apply to them.
"""
