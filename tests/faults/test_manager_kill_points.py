"""Kill the manager at named points of its operations, and start another one.

An unfinished operation is then either shown or undone. An accepted request is carried out once.
`make test` uses some of the kill points, ROOKERY_TORTURE=1 all of them.
"""

import os
import signal
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import anyio
import pytest

from rookery.manager.manager_socket import RemoteManager
from rookery.manager.requests import (
    ApproveAction,
    CancelSession,
    ListQuestions,
    ListSessions,
    ListWorktrees,
    PlanRemoval,
    RemoveSession,
    RemoveWorktree,
    ResumeSession,
    RunScript,
    SendWords,
    StopScript,
)
from rookery.manager.shown_rows import SessionRow
from rookery.protocol.jsonrpc import Disconnected
from support.kill_actions import User
from support.kill_invariants import check_all
from support.killed_manager import Ground, ground_in
from support.manager_project import PATIENCE
from support.worktree_requests import write

pytestmark = pytest.mark.anyio

TORTURE = bool(os.environ.get("ROOKERY_TORTURE"))
INSTANTS = {
    "manager.saved": (1, 2, 3, 5, 8, 13, 21),
    "manager.spawned": (1, 2, 3),
    "manager.marked": (1, 2, 3),
    "manager.let_go": (1, 2, 3),
    "manager.opened": (1, 2, 3),
    "manager.announced": (1, 2, 3),
    "manager.delivered": (1,),
    "manager.answered": (1,),
    "manager.worktree_made": (1, 2),
    "manager.worktree_set_up": (1, 2),
    "manager.script_spawned": (1,),
    "manager.script_marked": (1,),
    "worktree.made": (1, 2),
    "worktree.noted": (1, 2),
    "worktree.kept": (1,),
    "worktree.renamed": (1,),
    "worktree.pruned": (1,),
    "worktree.deleting": (1,),
    "worktree.branch": (1,),
}
"""The kill points that the work below passes; a run without a kill checks the table."""
SOME = ("manager.delivered:1", "worktree.pruned:1")
"""When a message arrives and when a worktree is removed. Sessions that start are in
`manager/handlers/test_start_and_kill.py` and `manager/sessions/test_restart.py`."""
ALL = [f"{point}:{nth}" for point, times in INSTANTS.items() for nth in times]


async def test_an_uninterrupted_manager_reaches_every_kill_point(tmp_path: Path):
    with ground_in(tmp_path / "ground") as ground:
        log = tmp_path / "instants"
        user = User(ground, 0, pause=0.002)
        assert await worked(ground, user, ROOKERY_KILLPOINT_LOG=str(log)) == 0
        found = Counter(log.read_text().split())
        ours = {point for point in found if point.partition(".")[0] in ("manager", "worktree")}
        assert ours == INSTANTS.keys()
        assert [point for point, times in INSTANTS.items() if found[point] < max(times)] == []
        await check_all(ground, user)


@pytest.mark.parametrize("instant", ALL if TORTURE else SOME)
async def test_a_manager_killed_at_any_point_leaves_no_hidden_partial_state(
    instant: str, tmp_path: Path
):
    with ground_in(tmp_path / "ground") as ground:
        user = User(ground, 0, pause=0.002)
        assert await worked(ground, user, ROOKERY_KILLPOINT=instant) == -signal.SIGKILL
        await check_all(ground, user)


async def worked(ground: Ground, user: User, **environ: str) -> int:
    """All that a manager does, as far as it comes: how it ended, 0 if it was not killed."""
    write(ground.project, "setup-script", "echo set up > set-up.log\n")
    write(ground.project, "run-script", "exec sleep 60\n")
    with ground.manager(**environ) as process:
        try:
            async with ground.visited(process) as remote:
                await _work(user, remote)
                return 0
        except* Disconnected:
            pass
        return process.wait(PATIENCE)


async def _work(user: User, remote: RemoteManager) -> None:
    await _begin(user, remote)
    await _talk(user, remote)
    await _remove(user, remote)


async def _begin(user: User, remote: RemoteManager) -> None:
    async with anyio.create_task_group() as group:
        group.start_soon(user.start, remote, "asks")
        group.start_soon(lambda: user.start(remote, "apart", versions=2))
    await _until(remote, lambda rows: len(rows) == 3 and _at(rows, "waiting_approval"))


async def _talk(user: User, remote: RemoteManager) -> None:
    (asked,) = [
        each for each in await remote.do(ListQuestions()) if each.state == "waiting_approval"
    ]
    rows = (await remote.do(ListSessions())).sessions
    apart = next(row.session_id for row in rows if row.worktree_id)
    received, answer, again = (user.words.new(about) for about in ("Hear", "Answer", "Go on"))
    await user.say(remote, SendWords(session_id=apart, text=received), received)
    yes = ApproveAction(
        session_id=asked.session_id, ask_ts=asked.ts, digest=asked.digest, text=answer
    )
    await user.say(remote, yes, answer)
    await user.say(remote, CancelSession(session_id=asked.session_id))
    await _until(remote, lambda rows: _at(rows, "stopped"))
    resumed = ResumeSession(session_id=asked.session_id, text=again)
    await user.say(remote, resumed, again)
    await user.settle(remote)


async def _remove(user: User, remote: RemoteManager) -> None:
    worktree = (await remote.do(ListWorktrees()))[0]
    user.removing.add(worktree.path)
    await remote.do(RunScript(worktree_id=worktree.id))
    await remote.do(StopScript(worktree_id=worktree.id))
    plan = await remote.do(PlanRemoval(worktree_id=worktree.id))
    await remote.do(RemoveWorktree(worktree_id=worktree.id, token=plan.token, delete_branch=True))
    for session_id in worktree.sessions:
        await remote.do(RemoveSession(session_id=session_id))


def _at(rows: tuple[SessionRow, ...], state: str) -> bool:
    return any(row.state == state for row in rows)


async def _until(remote: RemoteManager, holds: Callable[[tuple[SessionRow, ...]], bool]) -> None:
    with anyio.fail_after(PATIENCE):
        while not holds((await remote.do(ListSessions())).sessions):  # noqa: ASYNC110
            await anyio.sleep(0.05)
