"""Starts queued sessions even though no manager is open.

A manager with a queue starts a process that outlives it. While the queue is not empty, that process
connects to the manager every few seconds, or opens one for a moment, which starts sessions as there
is room. The lock of the session list allows only one manager to start sessions, and a second lock
only one such process.
"""

import os
import subprocess
import sys
from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import aclosing, contextmanager, suppress
from pathlib import Path
from typing import cast

import anyio
import anyio.to_thread

from rookery.errors import RookeryError
from rookery.manager.dependencies import Dependencies
from rookery.manager.manager_socket import connect_manager
from rookery.manager.requests import (
    ListSessions,
)
from rookery.manager.sessions.session_store import manager_folder
from rookery.manager.sessions.supervisor import Supervisor
from rookery.platform.disk import private_folder
from rookery.platform.locks import open_lock, try_lock
from rookery.platform.user_folders import Places
from rookery.protocol.jsonrpc import Disconnected

PROGRAM = "rookery.manager.cli.queue_process"
HOLDER_NAME = "queue"
SECONDS_BETWEEN_VISITS = 3.0
MAX_FAILURES = 20
"""Failed visits in a row after which the queue is left to the next manager."""
SECONDS_FOR_OTHER_KEEPER = 10.0
"""Seconds to wait for another keeper, which may be about to end."""
_DETACH = """\
import os, sys
os.setsid()
if os.fork():
    os._exit(0)
os.execv(sys.argv[1], sys.argv[1:])
"""


async def start_keepers(supervisor: Supervisor, environ: Mapping[str, str]) -> None:
    """Start a keeper whenever the queue becomes non-empty; it exits if another one runs."""
    had_queue = False
    changes = cast(AsyncGenerator[object, None], supervisor.changes())
    async with aclosing(changes):
        async for _ in changes:
            has_queue = supervisor.has_queue
            if has_queue and not had_queue:
                with anyio.CancelScope(shield=True):
                    await anyio.to_thread.run_sync(start_keeper, supervisor.project, environ)
            had_queue = has_queue


def start_keeper(project: Path, environ: Mapping[str, str]) -> None:
    """Start a detached keeper process. If that fails, the queue is left to the next manager."""
    program = [sys.executable, "-P", "-m", PROGRAM]
    with suppress(OSError):
        subprocess.run(
            [sys.executable, "-I", "-S", "-c", _DETACH, *program],
            env=dict(environ),
            input=os.fsencode(project),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd="/",
            check=False,
        )


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
                if not await _has_queue(project, places, environ, dependencies):
                    return
                failures = 0
            except (RookeryError, Disconnected, OSError):
                failures += 1
            await anyio.sleep(SECONDS_BETWEEN_VISITS)


async def _has_queue(
    project: Path, places: Places, environ: Mapping[str, str], dependencies: Dependencies
) -> bool:
    """Open the manager, which starts queued sessions; return whether some are still queued."""
    async with connect_manager(
        project, places, environ, dependencies, called=HOLDER_NAME, stays=True
    ) as manager:
        listed = await manager.do(ListSessions(archived=True))
    return any(row.queued for row in listed.sessions)


@contextmanager
def _queue_lock(folder: Path) -> Iterator[int]:
    private_folder(folder)
    lock = open_lock(folder / "queue.lock")
    try:
        yield lock
    finally:
        os.close(lock)


async def _acquire(lock: int) -> bool:
    with anyio.move_on_after(SECONDS_FOR_OTHER_KEEPER):
        while True:
            if try_lock(lock):
                return True
            await anyio.sleep(0.5)
    return False
