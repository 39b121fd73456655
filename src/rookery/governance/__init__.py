"""Intents, their scope and criteria, the ledger, and the user's own hooks.

`Oversight` is what the engine calls. `GovernanceHook` rules on calls, `Recorder` puts them into the
ledger, `GovernedProject` holds the intents of a workspace. It may deny, ask and record; it does
not act on files that are not its own.
"""
