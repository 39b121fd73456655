"""The tools a model may call, one file each.

A module with a `TOOL` is found by `registry`. `prepare` reads and returns an `Action`; only
`perform`, behind the gate, changes anything.
"""
