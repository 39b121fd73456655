"""Intents, their scope and criteria, the ledger, and the user's own hooks.

The engine calls `Oversight`. `GovernanceHook` rules on calls, `Recorder` writes them to the ledger,
`GovernedProject` holds the intents of a workspace. Governance denies, asks and records; it changes
only files of its own.
"""
