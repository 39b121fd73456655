"""The files of a workspace: resolving, reading, searching and changing them, and running commands.

`WorkspaceFiles` is the port for tools, `Boundaries` knows what is outside or protected, `Terminal`
runs commands. Nothing is written without a permit from the gate.
"""
