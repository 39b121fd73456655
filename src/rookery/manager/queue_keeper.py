"""Sees to it that queued sessions get their turn although no manager is open.

A manager with a queue starts a process that outlives it. That process visits the sessions every
few seconds for as long as the queue is not empty: through the manager that runs, or by opening one
for a moment. The lock of the sessions lets only one manager start anything, and a lock of its own
lets only one such process be.
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
CALLED = "queue"
SECONDS_BETWEEN_VISITS = 3.0
MOST_FAILURES = 20
"""Visits in a row that failed, after which the next manager has to see to the queue."""
SECONDS_FOR_ANOTHER = 10.0
"""For which a keeper waits that finds another one: that may just be about to end."""
_DETACH = """\
import os, sys
os.setsid()
if os.fork():
    os._exit(0)
os.execv(sys.argv[1], sys.argv[1:])
"""


async def start_keepers(supervisor: Supervisor, environ: Mapping[str, str]) -> None:
    """Starts one whenever sessions begin to wait for their turn; it ends if one runs. For ever."""
    waited = False
    changes = cast(AsyncGenerator[object, None], supervisor.changes())
    async with aclosing(changes):
        async for _ in changes:
            waits = supervisor.has_queue
            if waits and not waited:
                with anyio.CancelScope(shield=True):
                    await anyio.to_thread.run_sync(start_keeper, supervisor.project, environ)
            waited = waits


def start_keeper(project: Path, environ: Mapping[str, str]) -> None:
    """In a process apart from us. If there can be none, the next manager sees to the queue."""
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
    """Until no session waits for its turn."""
    with _only_one(manager_folder(places, project)) as lock:
        if not await _is_ours(lock):
            return
        failures = 0
        while failures < MOST_FAILURES:
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
    """Whether sessions still wait, after those that can have got their turn."""
    async with connect_manager(
        project, places, environ, dependencies, called=CALLED, stays=True
    ) as manager:
        listed = await manager.do(ListSessions(archived=True))
    return any(row.queued for row in listed.sessions)


@contextmanager
def _only_one(folder: Path) -> Iterator[int]:
    private_folder(folder)
    lock = open_lock(folder / "queue.lock")
    try:
        yield lock
    finally:
        os.close(lock)


async def _is_ours(lock: int) -> bool:
    with anyio.move_on_after(SECONDS_FOR_ANOTHER):
        while True:
            if try_lock(lock):
                return True
            await anyio.sleep(0.5)
    return False
