"""Eight sessions, their manager and their user, and kills at random moments.

Some stream, some ask, some run commands, some work in worktrees, some wait for their turn; the
manager and the processes of sessions are killed again and again. Afterwards a new manager
shows the true state, no acknowledged message is lost or handled twice, and nothing is left over.

`make test` does so once, ROOKERY_TORTURE=1 for ten minutes (or ROOKERY_KILL_SECONDS). Each round
has a seed, which it prints; to repeat one:

    ROOKERY_SEED=123 python -m pytest tests/faults/test_manager_kill.py -s -n 0
"""

import os
import random
import signal
import time
from contextlib import suppress
from pathlib import Path

import anyio
import pytest

from rookery.manager.manager_socket import RemoteManager
from rookery.manager.sessions.session_process import is_alive
from support.chance import new_seed
from support.kill_actions import User
from support.kill_invariants import check_all
from support.killed_manager import Ground, ground_in

pytestmark = pytest.mark.anyio

TORTURE = bool(os.environ.get("ROOKERY_TORTURE"))
SECONDS = float(os.environ.get("ROOKERY_KILL_SECONDS", "600")) if TORTURE else 0.0
KINDS = ("streams", "asks", "apart", "commands", "asks", "apart", "streams", "apart")
"""Eight, of which five may run at once."""
LIVES = 4 if TORTURE else 2
"""Of managers, before the last one."""


async def test_a_manager_killed_at_random_loses_nothing_and_shows_the_truth(tmp_path: Path):
    until, number = time.monotonic() + SECONDS, 0
    while number == 0 or time.monotonic() < until:
        with ground_in(tmp_path / str(number)) as ground:
            user = await torment(ground, new_seed())
        print(f"  {dict(sorted(user.done.items()))}", flush=True)
        number += 1


async def torment(ground: Ground, seed: int) -> User:
    chance, user = random.Random(seed), User(ground, seed)
    for life in range(LIVES):
        with ground.manager() as process:
            if life and chance.random() < 0.2:  # while it takes up what is left
                await anyio.sleep(chance.uniform(0.1, 0.8))
                continue
            async with ground.visited(process) as remote, anyio.create_task_group() as group:
                if life == 0:
                    group.start_soon(begin, user, remote)
                    await anyio.sleep(1.0)
                group.start_soon(user.go_on, remote)
                group.start_soon(user.go_on, remote)
                for _ in range(chance.randrange(4)):
                    await anyio.sleep(chance.uniform(0.0, 0.8))
                    kill_one(ground, chance)
                await anyio.sleep(chance.uniform(0.0, 0.8))
                if chance.random() < 0.3:  # both at once
                    kill_one(ground, chance)
                process.kill()
                group.cancel_scope.deadline = anyio.current_time() + 5
        if chance.random() < 0.3:
            kill_one(ground, chance)
    await check_all(ground, user)
    return user


async def begin(user: User, remote: RemoteManager) -> None:
    async with anyio.create_task_group() as group:
        for kind in KINDS:
            group.start_soon(user.start, remote, kind)


def kill_one(ground: Ground, chance: random.Random) -> None:
    """The process of a session, if one runs."""
    running = sorted(
        (session_id, mark.pid) for session_id, mark in ground.marks().items() if is_alive(mark)
    )
    if running:
        with suppress(ProcessLookupError):
            os.kill(chance.choice(running)[1], signal.SIGKILL)
