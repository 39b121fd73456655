"""Git worktrees of a project, each with a branch of its own.

An operation is a function of the project that raises `InTheWay`; `on_project` calls it. `Git` runs
git without filters, drivers and hooks. Work is saved under a git reference before anything is
removed.
"""
