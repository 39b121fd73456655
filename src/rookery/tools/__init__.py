"""The tools a model may call, related ones in one file.

`registry` finds the `TOOLS` of each module. `prepare` reads and returns an `Action`; only `perform`
changes something, and only with a permit from the gate.
"""
