"""The end of a browser that does not end when it is asked to."""

import os
import signal
from contextlib import suppress
from pathlib import Path

_PROCESSES = Path("/proc")


class Force:
    """Everything of a browser is found by the `folder` that it was started with, and where
    processes cannot be looked through by its `pid`. Both are told as soon as they are known."""

    def __init__(self) -> None:
        self.folder: Path | None = None
        self.pid = 0
        self._drivers: set[int] = set()

    def use(self) -> None:
        """End the browser with all its processes."""
        pids = {*self._found(), *([self.pid] if self.pid else [])}
        self._drivers |= {parent for pid in pids if _parent(parent := _parent(pid)) == os.getpid()}
        for pid in pids:
            with suppress(ProcessLookupError, PermissionError):  # it has ended meanwhile
                _end_group(pid)

    def end_driver(self) -> None:
        """What the browser was started by. Before it was asked to stop, its end would be an
        error to playwright that nobody can catch."""
        for driver in self._drivers:
            with suppress(ProcessLookupError):
                os.kill(driver, signal.SIGKILL)

    def _found(self) -> list[int]:
        if self.folder is None:
            return []
        name = os.fsencode(self.folder)
        return [
            int(process.name)
            for process in _PROCESSES.glob("[0-9]*")
            if name in _command_line(process)
        ]


def _end_group(pid: int) -> None:
    group = os.getpgid(pid)
    if group == os.getpgrp():
        os.kill(pid, signal.SIGKILL)
    else:
        os.killpg(group, signal.SIGKILL)


def _command_line(process: Path) -> bytes:
    try:
        return (process / "cmdline").read_bytes()
    except OSError:  # it has ended
        return b""


def _parent(pid: int) -> int:
    """None has the number 0."""
    try:
        status = (_PROCESSES / str(pid) / "stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return 0
    return int(status.rpartition(")")[2].split()[1])
