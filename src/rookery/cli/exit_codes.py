"""How a run ends, as a number for whoever started it. Every number means one thing."""

from enum import IntEnum

from rookery.app.model_choice import NoKey
from rookery.errors import (
    CommandRejected,
    IntentNotSelectable,
    RookeryError,
    SettingsError,
    StorageError,
)
from rookery.protocol.client.attend import Fate, RunEnd


class Exit(IntEnum):
    DONE = 0
    FAILED = 1
    """The task ended without success, or something broke."""
    USAGE = 2
    """The command line, the settings or the input make no sense; nothing was started."""
    AUTH = 3
    """There is no key, or the provider does not take it."""
    BUDGET = 4
    """A limit of money, tokens, requests or minutes is reached, or the provider wants money."""
    DENIED = 5
    """What the task needs is forbidden here."""
    NEEDS_HUMAN = 6
    """A question is open that only a person can answer."""
    STALLED = 7
    """The model walks in circles, or nothing comes from it any more."""
    RATE_LIMITED = 8
    """The provider asks to wait, again and again."""
    STORAGE = 9
    """What must be kept cannot be read or written, or another process has it."""
    GOVERNANCE = 20
    """What the task wanted is outside its intent, or a command wrote there."""
    LEDGER = 21
    """What was done could not be recorded, so nothing more was done."""
    INTENT = 22
    """The intent that the run was to work for cannot be selected; nothing was started."""
    TIMED_OUT = 124
    HUNG_UP = 129
    INTERRUPTED = 130
    TERMINATED = 143


BY_CODE = {
    "task_failed": Exit.FAILED,
    "task_aborted": Exit.FAILED,
    "auth_failed": Exit.AUTH,
    "limit_reached": Exit.BUDGET,
    "no_credit": Exit.BUDGET,
    "policy_denied": Exit.DENIED,
    "needs_human": Exit.NEEDS_HUMAN,
    "stalled": Exit.STALLED,
    "rate_limited": Exit.RATE_LIMITED,
    "storage_failed": Exit.STORAGE,
    "governance_refused": Exit.GOVERNANCE,
    "criteria_failed": Exit.GOVERNANCE,
    "trace_failed": Exit.LEDGER,
    "timeout": Exit.TIMED_OUT,
    "usage": Exit.USAGE,
}
"""Exit codes by the `code` of a result, as structured output tells it."""


def exit_code_of(error: RookeryError) -> int:
    """For what went wrong before there was a run."""
    match error:
        case StorageError():
            return Exit.STORAGE
        case NoKey():
            return Exit.AUTH
        case IntentNotSelectable():
            return Exit.INTENT
        case SettingsError() | CommandRejected():
            return Exit.USAGE
        case _:
            return Exit.FAILED


def exit_code(end: RunEnd) -> int:
    if end.fate is Fate.COMPLETED and not end.code:
        return Exit.DONE
    return BY_CODE.get(end.code, Exit.FAILED)
