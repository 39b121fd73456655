"""States computed from a task's facts.

`TaskState` for the loop, `history` for the model, `View` and `Transcript` for clients. A fold takes
a state and a fact, returns a state, and depends on nothing else.
"""
