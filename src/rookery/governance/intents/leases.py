"""Who works under which intent at this moment: one small file per task.

A lease counts while its process runs and shows that it does. What a crash left is removed when a
later task takes its first lease.
"""

import json
import os
import re
import socket
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import Path
from typing import Any

from msgspec import Struct

from rookery.core.limits import KIB
from rookery.governance.layout import Layout
from rookery.governance.scope.name_patterns import PatternError
from rookery.governance.scope.scope_patterns import overlaps
from rookery.platform.disk import Unreadable, put, small_file

HEARTBEAT_SECONDS = 30.0
DEAD_AFTER = timedelta(minutes=5)
REMOVED_AFTER = timedelta(days=1)
"""Long enough that nobody is just about to take up the task again."""
LARGEST = 256 * KIB

_TASK = re.compile(r"[A-Za-z0-9_-]{1,100}", re.ASCII)


class Lease(Struct, frozen=True, kw_only=True):
    task: str
    intent_id: str
    scope: tuple[str, ...]
    pid: int
    started: str
    host: str
    heartbeat: datetime


class Neighbours(Struct, frozen=True, kw_only=True):
    """The other tasks that are at work: under the same intent, and where they could meet."""

    same_intent: tuple[Lease, ...] = ()
    overlapping: tuple[Lease, ...] = ()


class Leases:
    """Of one governance root. No folder is made for them before there is a lease."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._folder = layout.leases

    def take(self, task: str, intent_id: str, scope: Sequence[str], *, now: datetime) -> Lease:
        """Also what a heartbeat does: the newest lease of a task is the one that counts."""
        pid = os.getpid()
        lease = Lease(
            task=task,
            intent_id=intent_id,
            scope=tuple(scope),
            pid=pid,
            started=_started(pid),
            host=socket.gethostname(),
            heartbeat=now,
        )
        if not self._path(task).exists():
            self._remove_dead(now)
        self._write(lease)
        return lease

    def release(self, task: str) -> None:
        self._path(task).unlink(missing_ok=True)

    def living(self, *, now: datetime) -> tuple[Lease, ...]:
        return tuple(lease for _, lease in self._all() if alive(lease, now=now))

    def neighbours(
        self, task: str, intent_id: str, scope: Sequence[str], *, now: datetime
    ) -> Neighbours:
        others = [lease for lease in self.living(now=now) if lease.task != task]
        return Neighbours(
            same_intent=tuple(each for each in others if each.intent_id == intent_id),
            overlapping=tuple(
                each
                for each in others
                if each.intent_id != intent_id and _may_meet(scope, each.scope)
            ),
        )

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
                continue  # released meanwhile, or not ours
            if lease := _read(data):
                yield path, lease

    def _write(self, lease: Lease) -> None:
        self._layout.own_folder(self._folder)
        said = {
            "task": lease.task,
            "intent_id": lease.intent_id,
            "scope": list(lease.scope),
            "pid": lease.pid,
            "started": lease.started,
            "host": lease.host,
            "heartbeat": lease.heartbeat.astimezone(UTC).isoformat(),
        }
        put(self._path(lease.task), [json.dumps(said).encode()], durable=False)


def alive(lease: Lease, *, now: datetime) -> bool:
    if now - lease.heartbeat > DEAD_AFTER:
        return False
    return lease.host != socket.gethostname() or _runs(lease.pid, lease.started)


def _runs(pid: int, started: str) -> bool:
    """Whether that very process runs: numbers are given again."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return _started(pid) == started


def _started(pid: int) -> str:
    """When a process began, in the system's own count; empty where it does not say."""
    try:
        said = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    return said.rpartition(")")[2].split()[19]


def _may_meet(mine: Sequence[str], its: Sequence[str]) -> bool:
    try:
        return overlaps(mine, its)
    except PatternError:
        return True


def _read(data: bytes) -> Lease | None:
    """What a file says; None if it is no lease."""
    try:
        said: Any = json.loads(data)
        heartbeat = datetime.fromisoformat(said["heartbeat"])
        if heartbeat.tzinfo is None or int(said["pid"]) <= 0:
            return None
        return Lease(
            task=str(said["task"]),
            intent_id=str(said["intent_id"]),
            scope=tuple(map(str, said["scope"])),
            pid=int(said["pid"]),
            started=str(said["started"]),
            host=str(said["host"]),
            heartbeat=heartbeat,
        )
    except (ValueError, KeyError, TypeError, RecursionError, OverflowError):
        return None
