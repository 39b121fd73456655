"""Git worktrees of a project, each with a branch of its own.

`WorktreeOperations` is the interface; `Git` runs git without filters, drivers and hooks. Work is
saved under a git reference before anything is removed.
"""
