"""How much each session changed, counted once somebody follows the list."""

import pytest

from support.manager_project import WRITES, Project
from support.worktree_requests import with_repository, worktree_manager

pytestmark = pytest.mark.anyio


@pytest.fixture
def project(project: Project) -> Project:
    return with_repository(project)


async def test_changes_are_counted_for_followers_in_worktrees_and_in_the_project(project: Project):
    async with worktree_manager(project) as at:
        before = await at.completed(WRITES)
        assert (before.changes.revision, before.changes.files) == (0, 0)
        at.supervisor.on_followed()
        (counted,) = await at.shows(lambda every: every[0].changes.files == 1)
        assert (counted.changes.added, counted.changes.removed) == (1, 0)
        local = await at.completed(WRITES, where="local")
        found = await at.shows(lambda every: all(each.changes.files == 1 for each in every))
        (again,) = [each for each in found if each.record.session_id == local.record.session_id]
        assert again.changes.added == 1
        assert again.changes.revision >= 1
