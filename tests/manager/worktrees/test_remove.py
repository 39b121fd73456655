"""Removing a worktree loses no byte."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from rookery.manager.worktrees.remove import clear
from rookery.platform.worktree_git import InTheWay
from rookery.platform.worktree_values import (
    BranchFate,
    Code,
    Created,
    KeptWork,
    RecoveredWork,
    Removed,
    WorktreeState,
)
from support.worktree_folders import WorktreeBench, code_of, git, put, result


def test_everything_that_is_not_committed_is_kept(bench: WorktreeBench):
    worktree = bench.begun()
    put(bench.folder, {".env": b"KEY=project\n"})
    folder = Path(worktree.path)
    put(folder, {"b.txt": b"staged\n"})
    git(folder, "add", "b.txt")
    put(
        folder,
        {
            "b.txt": b"after staging\n",
            "a.txt": b"changed\n",
            "new/file.txt": b"untracked\n",
            "debug.log": b"ignored one by one\n",
            ".env": b"KEY=worktree\n",
            "cache/kept.db": b"included\n",
            "cache/other": b"not included\n",
            "packages/big/x.js": b"can be installed again\n",
            "packages/closed/x": b"can be deleted all the same\n",
            "crlf.txt": b"first\r\nsecond\r\n",
        },
    )
    (folder / "src/deep/c.py").unlink()
    (folder / "packages/closed").chmod(0o500)
    treasure = bench.treasure(folder)
    plan = bench.planned(worktree)
    assert plan.left_out == ("cache/", "packages/")
    removed = result(Removed, bench.handler.remove(plan))
    assert isinstance(removed.keep, KeptWork)
    assert not folder.exists()
    clear(removed)
    assert os.listdir(bench.place) == []
    assert treasure - bench.held() == set()
    assert b"after staging" in git(bench.folder, "show", f"{removed.keep.ref}:b.txt")
    assert git(bench.folder, "show", f"{removed.keep.ref}^2:b.txt") == b"staged\n"
    assert bench.handler.state_of(worktree) is WorktreeState.MISSING


def test_a_clean_worktree_leaves_its_branch_and_no_reference(bench: WorktreeBench):
    """A file of the project itself is not added to the repository.

    The rest of an interrupted deletion is removed at the next start.
    """
    worktree = bench.begun()
    put(bench.folder, {".env": b"KEY=secret\n"})
    assert bench.handler.copy_included(worktree)
    plan = bench.planned(worktree)
    assert plan.to_keep == ()
    removed = result(Removed, bench.handler.remove(plan))
    assert removed.keep is None
    assert bench.handler.keeps() == ()
    assert b"agent/work" in git(bench.folder, "branch", "--list", "agent/work")
    assert b".roo" not in git(bench.folder, "worktree", "list")
    recovered = result(RecoveredWork, bench.handler.recover())
    assert (recovered.deleted, recovered.trouble) == ((removed.leftover,), ())


def overlooked(bench: WorktreeBench, folder: Path) -> None:
    git(folder, "update-index", "--assume-unchanged", "a.txt")
    git(folder, "update-index", "--skip-worktree", "b.txt")
    put(folder, {"a.txt": b"overlooked\n", "b.txt": b"skipped\n"})


def on_a_branch_without_a_commit(bench: WorktreeBench, folder: Path) -> None:
    git(folder, "checkout", "-q", "--orphan", "fresh")
    put(folder, {"b.txt": b"fresh\n"})


def in_conflict(bench: WorktreeBench, folder: Path) -> None:
    put(folder, {"a.txt": b"theirs\n"})
    git(folder, "commit", "-q", "-am", "theirs")
    put(bench.folder, {"a.txt": b"ours\n"})
    git(bench.folder, "commit", "-q", "-am", "ours")
    with pytest.raises(subprocess.CalledProcessError):
        git(folder, "merge", "main")


@pytest.mark.parametrize("work", [overlooked, on_a_branch_without_a_commit, in_conflict])
def test_unusual_work_is_kept_completely(
    bench: WorktreeBench, work: Callable[[WorktreeBench, Path], None]
):
    worktree = bench.begun()
    work(bench, Path(worktree.path))
    treasure = {data for _, data in bench.treasure(Path(worktree.path))}
    removed = result(Removed, bench.handler.remove(bench.planned(worktree)))
    assert removed.keep
    clear(removed)
    assert treasure - {data for _, data in bench.held()} == set()
    if work is in_conflict:
        assert {b"ours\n", b"theirs\n"} <= treasure
        assert git(bench.folder, "show", f"{removed.keep.ref}^3:2/a.txt") == b"theirs\n"


def test_commits_on_no_branch_are_kept(bench: WorktreeBench):
    worktree = bench.begun()
    folder = Path(worktree.path)
    put(folder, {"lone.txt": b"on no branch\n"})
    git(folder, "checkout", "-q", "--detach")
    git(folder, "add", "lone.txt")
    git(folder, "commit", "-q", "-m", "lone")
    lone = git(folder, "rev-parse", "HEAD").decode().strip()
    git(folder, "checkout", "-q", "agent/work")
    assert isinstance(bench.handler.remove(bench.planned(worktree)), Removed)
    git(bench.folder, "reflog", "expire", "--expire=now", "--all")
    git(bench.folder, "gc", "-q", "--prune=now")
    assert ("lone.txt", b"on no branch\n") in bench.held()
    assert lone in git(bench.folder, "rev-list", "--all").decode().split()


def test_a_deleted_unmerged_branch_is_kept_as_a_reference(bench: WorktreeBench):
    worktree = bench.begun()
    folder = Path(worktree.path)
    put(folder, {"a.txt": b"committed\n"})
    git(folder, "commit", "-q", "-am", "work")
    plan = bench.planned(worktree)
    assert plan.unmerged_commits == 1
    removed = result(Removed, bench.handler.remove(plan, BranchFate.DELETE))
    assert removed.branch_deleted
    clear(removed)
    assert git(bench.folder, "branch", "--list", "agent/*") == b""
    assert ("a.txt", b"committed\n") in bench.held()


def nested(folder: Path) -> None:
    git(folder, "init", "-q", "vendor/inner")
    put(folder, {"vendor/inner/x": b"x"})


def nested_and_ignored(folder: Path) -> None:
    git(folder, "init", "-q", "packages/inner")


def unreadable_file(folder: Path) -> None:
    put(folder, {"closed": b"x"})
    (folder / "closed").chmod(0)


def unreadable_folder(folder: Path) -> None:
    put(folder, {"closed/x": b"x"})
    (folder / "closed").chmod(0)


def locked(folder: Path) -> None:
    git(folder, "worktree", "lock", str(folder))


def changed_since(folder: Path) -> None:
    """More would be lost than the plan showed."""
    put(folder, {"packages/x": b"x"})


HINDRANCES = {
    nested: (Code.NOT_KEPT, ("vendor/inner",)),
    nested_and_ignored: (Code.NOT_KEPT, ("packages/inner",)),
    unreadable_file: (Code.NOT_KEPT, ("closed",)),
    unreadable_folder: (Code.NOT_KEPT, ("closed/",)),
    locked: (Code.LOCKED, ()),
    changed_since: (Code.CHANGED, ("packages/",)),
}


@pytest.mark.parametrize("hinder", HINDRANCES)
def test_a_worktree_that_cannot_be_kept_is_not_removed(
    bench: WorktreeBench, hinder: Callable[[Path], None]
):
    worktree = bench.begun()
    folder = Path(worktree.path)
    plan = bench.planned(worktree)
    hinder(folder)
    obstacle = bench.handler.remove(plan)
    assert isinstance(obstacle, InTheWay)
    assert (obstacle.code, obstacle.paths) == HINDRANCES[hinder]
    assert [each.name for each in bench.place.iterdir()] == [folder.name]
    assert (folder / "a.txt").exists()
    if (folder / "closed").exists():
        (folder / "closed").chmod(0o700)


def test_folders_outside_the_project_are_refused(bench: WorktreeBench, tmp_path: Path):
    git(bench.folder, "worktree", "add", "-q", "-b", "mine", str(tmp_path / "mine"))
    imported = bench.handler.import_worktree(tmp_path / "mine")
    assert not isinstance(imported, InTheWay)
    plan = bench.planned(imported.worktree)
    as_if_ours = replace(plan, worktree=replace(imported.worktree, imported=False))
    assert code_of(bench.handler.remove(as_if_ours)) is Code.OUTSIDE
    assert (tmp_path / "mine" / "a.txt").exists()


def test_kept_work_can_be_restored_exactly(bench: WorktreeBench):
    worktree = bench.begun()
    folder = Path(worktree.path)
    put(folder, {"b.txt": b"staged\n"})
    git(folder, "add", "b.txt")
    put(folder, {"b.txt": b"after\n", "crlf.txt": b"a\r\nb\r\n", "x.log": b"log\n", "new/n": b"n"})
    (folder / "run.sh").chmod(0o644)
    (folder / "a.txt").unlink()
    (folder / "a.txt").symlink_to("b.txt")
    (folder / "src/deep/c.py").unlink()
    before, status = bench.treasure(folder), git(folder, "status", "--porcelain")
    removed = result(Removed, bench.handler.remove(bench.planned(worktree)))
    assert removed.keep
    assert bench.handler.keeps() == (removed.keep,)
    back = result(Created, bench.handler.bring_back(removed.keep.ref, "agent/again"))
    again = Path(back.worktree.path)
    assert bench.treasure(again) == before
    assert git(again, "status", "--porcelain") == status
    assert not os.access(again / "run.sh", os.X_OK)


def test_an_interrupted_removal_is_not_taken_for_a_missing_worktree(bench: WorktreeBench):
    worktree = bench.begun()
    put(Path(worktree.path), {"new": b"n"})
    Path(worktree.path).rename(bench.place / ".removing-agent-work-00000000")
    for obstacle in (bench.handler.resume(worktree), bench.handler.remove(bench.planned(worktree))):
        assert isinstance(obstacle, InTheWay)
        assert obstacle.code is Code.UNFINISHED
    recovered = result(RecoveredWork, bench.handler.recover())
    assert len(recovered.keeps) == 1
    assert ("new", b"n") in bench.held()


def test_a_checked_out_branch_is_not_deleted(bench: WorktreeBench):
    worktree = bench.begun()
    git(Path(worktree.path), "checkout", "-q", "--detach")
    git(bench.folder, "checkout", "-q", "agent/work")
    removed = result(Removed, bench.handler.remove(bench.planned(worktree), BranchFate.DELETE))
    assert not removed.branch_deleted
    assert git(bench.folder, "rev-parse", "--verify", "refs/heads/agent/work")


@pytest.mark.parametrize(
    "writes",
    ["open('log', 'a').write('more')", "open(f'f{at}', 'w').write('x')"],
    ids=["into a file", "new files"],
)
def test_writes_during_a_removal_stop_it(bench: WorktreeBench, writes: str):
    worktree = bench.begun()
    plan = bench.planned(worktree)
    folder = Path(worktree.path)
    code = f"import itertools, time\nfor at in itertools.count():\n {writes}; time.sleep(0.001)"
    code += "\n at or print('begun', flush=True)"
    writer = subprocess.Popen([sys.executable, "-ISc", code], cwd=folder, stdout=subprocess.PIPE)
    assert writer.stdout
    try:
        assert writer.stdout.readline() == b"begun\n"
        obstacle = bench.handler.remove(plan)
    finally:
        writer.kill()
        writer.wait()
        writer.stdout.close()
    assert isinstance(obstacle, InTheWay)
    assert obstacle.code is Code.CHANGED
    assert folder.is_dir()
    assert [each.name for each in bench.place.iterdir()] == [folder.name]
