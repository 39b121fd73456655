"""The guided profile: small models solve tasks in fixed steps.

A model of one or two billion parameters gets lost in a conversation with tools. So the program
lists, reads and checks; the model only names the problem and its place, and writes one file at a
time. `provider.GuidedProvider` stands between the engine and the real provider. The engine gets its
decisions as ordinary tool calls, so log, gate, undo and clients are the same. Its state is the
conversation, so a killed task continues where it was.
"""
