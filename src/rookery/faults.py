"""Named points at which a test may want the process to die.

`kp` does nothing unless the environment names a point (`ROOKERY_KILLPOINT=journal.synced:3`:
the third time that point is reached). It is called around everything that must be
durable, so that "a kill at any instant loses nothing" can be tried instant by instant.
"""

import os
import signal

_WANTED, _, _NTH = os.environ.get("ROOKERY_KILLPOINT", "").partition(":")
_remaining = int(_NTH or 1) if _WANTED else 0


def kp(point: str) -> None:
    global _remaining
    if point != _WANTED:
        return
    _remaining -= 1
    if _remaining == 0:
        os.kill(os.getpid(), signal.SIGKILL)
