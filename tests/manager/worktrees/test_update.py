"""Updating a worktree from its parent branch: completely, or not at all."""

from pathlib import Path

import pytest

from rookery.platform.worktree_git import InTheWay
from rookery.platform.worktree_values import Code, KeptWork, Worktree
from support.worktree_folders import WorktreeBench, code_of, files_in, git, put


def moved(bench: WorktreeBench, content: bytes) -> Worktree:
    """A worktree with a commit, whose parent has got another one."""
    worktree = bench.made()
    folder = Path(worktree.path)
    put(folder, {"a.txt": b"OURS\n"})
    git(folder, "commit", "-q", "-am", "ours")
    put(bench.folder, {"a.txt" if content else "b.txt": content or b"theirs\n"})
    git(bench.folder, "commit", "-q", "-am", "theirs")
    return worktree


@pytest.mark.parametrize("rebase", [False, True])
def test_the_parents_commits_are_merged_or_the_own_ones_rebased(bench: WorktreeBench, rebase: bool):
    worktree = moved(bench, b"")
    folder = Path(worktree.path)
    before = git(folder, "rev-parse", "HEAD").decode().strip()
    kept: KeptWork | None = bench.handler.update(worktree, rebase=rebase)
    assert not isinstance(kept, InTheWay)
    assert (folder / "a.txt").read_bytes() == b"OURS\n"
    assert (folder / "b.txt").read_bytes() == b"theirs\n"
    assert git(folder, "status", "--porcelain") == b""
    parents = git(folder, "rev-list", "--parents", "-n1", "HEAD").split()[1:]
    assert len(parents) == (1 if rebase else 2)
    assert (kept.commit if kept else "") == (before if rebase else "")
    assert code_of(bench.handler.update(worktree, rebase=rebase)) is Code.NOTHING_TO_DO


@pytest.mark.parametrize("rebase", [False, True])
def test_a_conflict_is_reported_and_changes_nothing(bench: WorktreeBench, rebase: bool):
    worktree = moved(bench, b"THEIRS\n")
    folder = Path(worktree.path)
    before = (git(folder, "rev-parse", "HEAD"), files_in(folder))
    found = bench.handler.update(worktree, rebase=rebase)
    assert code_of(found) is Code.CONFLICT
    assert found.paths == ("a.txt",)
    assert (git(folder, "rev-parse", "HEAD"), files_in(folder)) == before
    assert git(folder, "status", "--porcelain") == b""


def test_uncommitted_work_is_not_touched(bench: WorktreeBench):
    worktree = moved(bench, b"")
    put(Path(worktree.path), {"new.txt": b"mine\n"})
    assert code_of(bench.handler.update(worktree)) is Code.UNCOMMITTED
    assert (Path(worktree.path) / "new.txt").read_bytes() == b"mine\n"
