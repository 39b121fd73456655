"""Processes that leave nothing behind.

`GuardedProcess` runs a command under a `warden`, which ends everything the command started;
`orphans` ends what escapes it. Every program we start for commands goes through here.
"""
