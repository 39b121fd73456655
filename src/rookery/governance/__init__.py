"""Intents, their scope and criteria, the ledger, and the user's own hooks.

The engine calls `Oversight`. `GovernanceHook` rules on calls, `Recorder` notes each in the journal
before it and in the ledger after it, and `Recording.recover` adds to the ledger what a crash left
out. `GovernedProject` holds the intents of a workspace. Governance denies, asks and records; it
changes only files of its own.
"""
