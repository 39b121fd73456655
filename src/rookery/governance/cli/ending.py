"""The exit codes of `intents` and `trace`. docs/exit-codes.md lists them beside those of runs."""

from enum import IntEnum


class Ending(IntEnum):
    FINE = 0
    FINDINGS = 1
    USAGE = 2
    WARNINGS = 3
    """Warnings only, with `--strict`."""
    NOT_FOUND = 4
    BUSY = 5
    """Another process holds the file."""
    NOT_INITIALISED = 6
    """No intents govern the folder, or it has no ledger."""
    STORAGE = 9
