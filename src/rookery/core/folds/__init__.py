"""States computed from a task's facts.

`TaskState` for the loop, `history` for the model, `View` and `Transcript` for clients. A fold
takes a state and a fact and returns a state; it never looks at anything else.
"""
