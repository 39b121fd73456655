"""The kernel: one loop for each task, one gate for each action, one log.

`Engine` has the tasks of a process, `Task` runs the loop, `Gate` stands between a tool call and
its effect, `EventLog` is the only state. It reaches the world through `engine.ports` and
imports only `core`.
"""
