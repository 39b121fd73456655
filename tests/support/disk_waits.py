"""Tests do not wait for the disk: what a process wrote outlives its kill, synced or not.

Only a power cut tells the difference. That every fact is synced before the next step is tested by
tracing a plain process (`faults/test_journal_faults.py`), and `make torture` syncs everything.
"""

import os

TORTURE = "ROOKERY_TORTURE"


def skip_disk_waits() -> None:
    """For this process and those that it forks."""
    if not os.environ.get(TORTURE):
        os.fsync = os.fdatasync = os.fstat  # type: ignore[assignment]
