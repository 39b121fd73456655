"""The sessions of a project: their states, records and processes.

`machine` is the pure state machine, `SupervisedSession` one session under supervision,
`SessionStore` the list on disk. A state changes only by an event through the machine.
"""
