"""Named points at which a test may want the process to die.

`kp` does nothing unless the environment names a point (`ROOKERY_KILLPOINT=journal.synced:3`:
the third time that point is reached). It is called around everything that must be
durable, so that "a kill at any instant loses nothing" can be tried instant by instant.
`ROOKERY_KILLPOINT_LOG` names a file that takes the name of every point as it is reached, so
that a first run can tell which instants there are.
"""

import os
import signal
from functools import cache


def kp(point: str) -> None:
    plan = _plan()
    if plan:
        plan.reach(point)


class _Plan:
    def __init__(self, killpoint: str, log: str) -> None:
        self._wanted, _, nth = killpoint.partition(":")
        self._remaining = int(nth or 1)
        self._log = log

    def reach(self, point: str) -> None:
        if self._log:
            with open(self._log, "a", encoding="utf-8") as log:
                log.write(f"{point}\n")
        if point == self._wanted:
            self._remaining -= 1
            if self._remaining == 0:
                os.kill(os.getpid(), signal.SIGKILL)


@cache
def _plan() -> _Plan | None:
    killpoint = os.environ.get("ROOKERY_KILLPOINT", "")
    log = os.environ.get("ROOKERY_KILLPOINT_LOG", "")
    return _Plan(killpoint, log) if killpoint or log else None
