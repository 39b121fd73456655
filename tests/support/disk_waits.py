"""Turn off fsync in tests: data that a process wrote survives its kill, synced or not.

Only a power failure makes a difference. `faults/test_journal_faults.py` traces a plain process, and
checks that it syncs every fact before the next step. `make torture` syncs everything.
"""

import os

TORTURE = "ROOKERY_TORTURE"


def skip_disk_waits() -> None:
    """Turn off fsync for this process and its forks."""
    if not os.environ.get(TORTURE):
        os.fsync = os.fdatasync = os.fstat  # type: ignore[assignment]
