"""The process that starts queued sessions while no manager is open.

A manager with a queue starts this process, which outlives it. While the queue is not empty, it
connects to the manager every few seconds, or opens one for a moment, which starts sessions as there
is room. The lock of the session list allows only one manager to start sessions, and a second lock
only one such process. The project is read from standard input.
"""

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import anyio

from rookery.errors import RookeryError
from rookery.manager.cli.sessions_common import ProjectDependencies
from rookery.manager.dependencies import Dependencies
from rookery.manager.manager import QUEUE_PROCESS
from rookery.manager.manager_socket import connect_manager
from rookery.manager.requests import ListSessions
from rookery.manager.sessions.session_store import manager_folder
from rookery.platform.disk import private_folder
from rookery.platform.locks import open_lock, try_lock
from rookery.platform.user_folders import Places, find_places
from rookery.protocol.jsonrpc import Disconnected

SECONDS_BETWEEN_VISITS = 3.0
MAX_FAILURES = 20
"""Failed visits in a row after which the queue is left to the next manager."""
SECONDS_FOR_OTHER_PROCESS = 10.0
"""Seconds to wait for another such process, which may be about to end."""


def main() -> None:
    project = Path(os.fsdecode(sys.stdin.buffer.read()))
    places = find_places(os.environ)
    deps = ProjectDependencies(project, places)
    anyio.run(keep_queue, project, places, os.environ, deps)


async def keep_queue(
    project: Path, places: Places, environ: Mapping[str, str], dependencies: Dependencies
) -> None:
    """Visit the manager until the queue is empty."""
    with _queue_lock(manager_folder(places, project)) as lock:
        if not await _acquire(lock):
            return
        failures = 0
        while failures < MAX_FAILURES:
            try:
                async with connect_manager(
                    project, places, environ, dependencies, called=QUEUE_PROCESS, stays=True
                ) as manager:
                    listed = await manager.do(ListSessions(archived=True))
                if not any(row.queued for row in listed.sessions):
                    return
                failures = 0
            except (RookeryError, Disconnected, OSError):
                failures += 1
            await anyio.sleep(SECONDS_BETWEEN_VISITS)


@contextmanager
def _queue_lock(folder: Path) -> Iterator[int]:
    private_folder(folder)
    lock = open_lock(folder / "queue.lock")
    try:
        yield lock
    finally:
        os.close(lock)


async def _acquire(lock: int) -> bool:
    with anyio.move_on_after(SECONDS_FOR_OTHER_PROCESS):
        while True:
            if try_lock(lock):
                return True
            await anyio.sleep(0.5)
    return False


if __name__ == "__main__":
    main()
