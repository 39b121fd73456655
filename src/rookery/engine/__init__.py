"""The kernel: a loop per task, a gate for every action, and the log.

`Engine` holds the tasks of a process, `Task` runs the loop, `Gate` decides whether a tool call may
take effect, and `EventLog` is the only state. The engine reaches the world through `engine.ports`
and imports only `core`.
"""
