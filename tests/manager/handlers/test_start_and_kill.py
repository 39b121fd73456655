"""A manager killed while it prepares sessions leaves no misplaced session, process or worktree."""

import os
from pathlib import Path

import pytest

from rookery.manager.requests import PlanRemoval, RemoveWorktree, StartSessions
from rookery.manager.sessions.session_states import PREPARATION_INTERRUPTED
from support.manager_project import Project
from support.worktree_requests import DONE, killed, with_repository, worktree_manager, write

pytestmark = pytest.mark.anyio

SHORT = ("worktree.made:1", "manager.worktree_set_up:1")
LONG = (
    *("manager.saved:1", "worktree.made:2", "worktree.noted:1", "manager.worktree_made:1"),
    *("manager.worktree_made:2", "manager.spawned:1", "manager.marked:1", "manager.let_go:2"),
    "manager.announced:1",
)
POINTS = (*SHORT, *LONG) if os.environ.get("ROOKERY_TORTURE") else SHORT


@pytest.mark.parametrize("point", POINTS)
async def test_a_kill_during_preparation_loses_and_misplaces_nothing(project: Project, point: str):
    with_repository(project)
    write(project, "setup-script", "echo set up > set-up.txt\n")
    model = f"scripted/{project.start_options(DONE).model}"
    request = StartSessions(prompt="Write it now", where="worktree", versions=2, model=model)
    killed(project, request, point)
    async with worktree_manager(project) as at:
        for shown in at.supervisor.all():
            rests = await at.watched.until(
                shown.record.session_id, lambda now: now.record.state in ("completed", "error")
            )
            if rests.record.failure == PREPARATION_INTERRUPTED:
                assert not at.supervisor.folder(shown.record.session_id).launch()
            elif rests.record.state == "error":
                await at.supervisor.retry(shown.record.session_id)
                rests = await at.watched.until(
                    shown.record.session_id, lambda now: now.record.state in ("completed", "error")
                )
                assert rests.record.state == "completed", rests.record.failure
            if rests.record.state == "completed":
                assert at.place(rests).parent == project.path / ".roo/worktrees"
                assert (at.place(rests) / "set-up.txt").exists()
        assert not (project.path / "set-up.txt").exists()
        rows = await at.worktrees()
        there = {*(project.path / ".roo/worktrees").glob("*")}
        assert {Path(row.path) for row in rows} == there
        for row in rows:
            plan = await at.do(PlanRemoval(worktree_id=row.id))
            await at.do(RemoveWorktree(worktree_id=row.id, token=plan.token, delete_branch=True))
        assert await at.worktrees() == ()
        again = await at.do(request)
        assert len(again.session_ids) == 2
