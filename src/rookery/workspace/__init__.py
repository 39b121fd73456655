"""The files of a workspace: found, read, searched, and changed with a permit.

`WorkspaceFiles` is the port for tools, `Boundaries` knows what is outside or protected,
`Terminal` runs commands. Nothing is written without a permit from the gate.
"""
