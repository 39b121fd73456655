from collections.abc import Iterator
from pathlib import Path

import pytest

from support.manager_project import Project
from support.warm_start import warm_sessions
from support.worktree_folders import WorktreeBench


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Project]:
    """No test leaves a process behind."""
    project = Project(tmp_path)
    with warm_sessions():
        yield project
    assert project.is_left_quiet()


@pytest.fixture
def bench(tmp_path: Path) -> WorktreeBench:
    return WorktreeBench.new(tmp_path / "project")
