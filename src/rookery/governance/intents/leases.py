"""Which task works under which intent: one small file per task.

A lease is valid while its process runs and renews it. Leases of crashed processes are removed when
another task takes its first lease.
"""

import json
import os
import re
import socket
from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from hashlib import sha256
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from rookery.core.limits import KIB
from rookery.first_use import prepared
from rookery.governance.layout import Layout
from rookery.governance.scope.name_patterns import PatternError
from rookery.governance.scope.scope_patterns import overlaps
from rookery.platform.disk import Unreadable, put, small_file
from rookery.platform.wardens import process_state

HEARTBEAT_SECONDS = 30.0
DEAD_AFTER = timedelta(minutes=5)
REMOVED_AFTER = timedelta(days=1)
"""Long enough that the task is not about to be resumed."""
LARGEST = 256 * KIB

_TASK = re.compile(r"[A-Za-z0-9_-]{1,100}", re.ASCII)


class Lease(Struct, frozen=True, kw_only=True):
    task: str
    intent_id: str
    scope: tuple[str, ...]
    pid: Annotated[int, Meta(gt=0)]
    started: str
    host: str
    heartbeat: Annotated[datetime, Meta(tz=True)]


class Leases:
    """The leases of a governance root. The folder is created with the first lease."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._folder = layout.leases

    def take(self, task: str, intent_id: str, scope: Sequence[str], *, now: datetime) -> Lease:
        """Write the lease of a task; also called as heartbeat."""
        pid = os.getpid()
        lease = Lease(
            task=task,
            intent_id=intent_id,
            scope=tuple(scope),
            pid=pid,
            started=_start_time(pid),
            host=socket.gethostname(),
            heartbeat=now,
        )
        if not self._path(task).exists():
            self._remove_dead(now)
        self._write(lease)
        return lease

    def release(self, task: str) -> None:
        self._path(task).unlink(missing_ok=True)

    def active(self, *, now: datetime) -> tuple[Lease, ...]:
        return tuple(lease for _, lease in self._all() if is_alive(lease, now=now))

    def neighbours(
        self, task: str, intent_id: str, scope: Sequence[str], *, now: datetime
    ) -> tuple[Lease, ...]:
        """Other running tasks: those under the same intent, then those whose scope overlaps."""
        others = [lease for lease in self.active(now=now) if lease.task != task]
        same = (each for each in others if each.intent_id == intent_id)
        apart = (each for each in others if each.intent_id != intent_id)
        return (*same, *(each for each in apart if _may_overlap(scope, each.scope)))

    def _remove_dead(self, now: datetime) -> None:
        for path, lease in self._all():
            if now - lease.heartbeat > REMOVED_AFTER:
                path.unlink(missing_ok=True)

    def _path(self, task: str) -> Path:
        name = task if _TASK.fullmatch(task) else sha256(task.encode()).hexdigest()
        return self._folder / f"{name}.json"

    def _all(self) -> Iterator[tuple[Path, Lease]]:
        for path in sorted(self._folder.glob("*.json")):
            try:
                data = small_file(path, self._folder, largest=LARGEST)
            except (FileNotFoundError, Unreadable):
                continue  # released meanwhile, or unreadable
            with suppress(ValueError, RecursionError):  # not a lease
                yield path, msgspec.convert(json.loads(data), prepared(Lease))

    def _write(self, lease: Lease) -> None:
        self._layout.own_folder(self._folder)
        put(
            self._path(lease.task), [json.dumps(msgspec.to_builtins(lease)).encode()], durable=False
        )


def is_alive(lease: Lease, *, now: datetime) -> bool:
    if now - lease.heartbeat > DEAD_AFTER:
        return False
    return lease.host != socket.gethostname() or _is_running(lease.pid, lease.started)


def _is_running(pid: int, started: str) -> bool:
    """Whether this process still runs. The start time detects a reused PID."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return _start_time(pid) == started


def _start_time(pid: int) -> str:
    """Start time of a process in clock ticks; empty if /proc does not have it."""
    state = process_state(pid)
    return str(state.began) if state else ""


def _may_overlap(mine: Sequence[str], its: Sequence[str]) -> bool:
    try:
        return overlaps(mine, its)
    except PatternError:
        return True
