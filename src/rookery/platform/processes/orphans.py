"""What a command leaves to us if it kills its warden.

Who loses its parent goes to the nearest ancestor that takes orphans in. That is the warden as
long as it lives, and after it us: then they are ended here.
"""

import os
import signal
from collections.abc import Collection, Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

from rookery.platform.processes.warden import PR_SET_CHILD_SUBREAPER, prctl

_ROUNDS = 1000
"""How often the children of those who were killed are looked for: some fork without end."""


class _Process(NamedTuple):
    parent: int
    session: int
    born: int


@cache
def take_orphans_in() -> None:
    prctl(PR_SET_CHILD_SUBREAPER, 1)


def birth(pid: int) -> int:
    """When a process began, in ticks since the system did; 0 where that cannot be known."""
    process = _process(pid)
    return process.born if process else 0


def end_orphans(since: int, wardens: Collection[int]) -> None:
    """Kill every child of ours that we did not start ourselves, if it began after `since`.

    Of those we start only wardens have a session of their own, and all that descends from a
    warden has another than we: nobody can come back to one that was left.
    """
    for _ in range(_ROUNDS):
        orphans = [pid for pid in _orphans(since) if pid not in wardens]
        if not any([_end(pid) for pid in orphans]):
            return


def _end(pid: int) -> bool:
    try:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    except (PermissionError, ChildProcessError):
        return False  # it has become another user's, or is reaped by somebody else
    return True


def _orphans(since: int) -> Iterator[int]:
    us, here = os.getpid(), os.getsid(0)
    for entry in Path("/proc").glob("[0-9]*"):
        process = _process(int(entry.name))
        if process and process.parent == us and process.session != here and process.born >= since:
            yield int(entry.name)


def _process(pid: int) -> _Process | None:
    try:
        said = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
    except OSError:
        return None  # it is gone, or this system has no /proc
    return _Process(parent=int(said[1]), session=int(said[3]), born=int(said[19]))
