"""What can go wrong while something is recorded."""

from rookery.errors import StorageError


class LedgerUnreadable(StorageError):
    """A file of the ledger is none that a ledger has. It may have come with a clone."""

    code = "TRC-001"

    def __init__(self, why: str) -> None:
        super().__init__(f"The ledger could not be read: {why}. Nothing in it was changed.")
        self.why = why


class LedgerUnwritable(StorageError):
    """Nothing could be recorded now. The task's journal still says what was to be recorded."""

    code = "TRC-001"
    error_type = "trace_write_failed"


class LedgerBusy(LedgerUnwritable):
    """Another process held the lock for too long."""


def unwritable(why: str) -> LedgerUnwritable:
    return LedgerUnwritable(_sentence(why))


def busy(why: str) -> LedgerBusy:
    return LedgerBusy(_sentence(why))


def _sentence(why: str) -> str:
    return (
        f"The ledger could not be written ({why}). What the call did is kept in the task's journal "
        "and will be recorded as soon as the ledger can be written again."
    )
