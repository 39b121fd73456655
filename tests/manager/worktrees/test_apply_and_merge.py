"""Finishing, applying and merging a worktree, completely or not at all."""

import os
from pathlib import Path

import pytest

from rookery.platform.worktree_git import InTheWay
from rookery.platform.worktree_values import (
    AppliedWork,
    ApplyPlan,
    Code,
    Finished,
    Worktree,
)
from support.access_lists import restrict, still_restricted
from support.worktree_folders import (
    PROJECT_FILES,
    WorktreeBench,
    code_of,
    files_in,
    git,
    put,
    result,
)


def worked(bench: WorktreeBench) -> Worktree:
    """Changes of every kind: committed, staged, unstaged, untracked, binary, gone, a mode."""
    worktree = bench.made()
    folder = Path(worktree.path)
    put(folder, {"a.txt": b"ONE\ntwo\nthree\nfour\nfive\n"})
    git(folder, "commit", "-q", "-am", "committed")
    put(folder, {"b.txt": b"staged\n"})
    git(folder, "add", "b.txt")
    put(folder, {"picture.bin": b"\0\1\2", "new/file": b"untracked\n", "x.log": b"ignored\n"})
    (folder / "src/deep/c.py").unlink()
    (folder / "run.sh").chmod(0o644)
    (folder / "link").symlink_to("a.txt")
    return worktree


def finished(bench: WorktreeBench) -> Worktree:
    worktree = worked(bench)
    assert isinstance(bench.handler.finish(worktree), Finished)
    return worktree


def test_apply_copies_chosen_or_all_changes_and_keeps_worktree_and_index(bench: WorktreeBench):
    worktree = bench.begun(worked)
    folder = Path(worktree.path)
    before, status = files_in(folder), git(folder, "status", "--porcelain")
    restrict(bench.folder / "a.txt")
    (bench.folder / "b.txt").chmod(0o600)
    for path in ("../x", "/etc/passwd", "a/../../x", "", "a\0b"):
        assert code_of(bench.handler.apply(worktree, [path])) is Code.OUTSIDE, path
    chosen = result(AppliedWork, bench.handler.apply(worktree, ["b.txt"]))
    assert chosen.paths == ("b.txt",)
    assert git(bench.folder, "status", "--porcelain") == b" M b.txt\n"
    result(AppliedWork, bench.handler.apply(worktree))
    expected = {each for each in files_in(folder) if each[0] != "x.log"}
    assert files_in(bench.folder) == expected
    assert not os.access(bench.folder / "run.sh", os.X_OK)
    assert still_restricted(bench.folder / "a.txt")
    assert (bench.folder / "b.txt").stat().st_mode & 0o777 == 0o600, "access rights are kept"
    assert git(bench.folder, "diff", "--cached", "--name-only") == b""
    assert (files_in(folder), git(folder, "status", "--porcelain")) == (before, status)
    assert code_of(bench.handler.apply(worktree)) is Code.NOTHING_TO_DO


def test_apply_merges_with_local_changes_of_the_project(bench: WorktreeBench):
    worktree = bench.begun(worked)
    put(bench.folder, {"a.txt": b"one\ntwo\nthree\nfour\nFIVE\n"})
    plan = result(ApplyPlan, bench.handler.plan_apply(worktree))
    assert "a.txt" in plan.paths
    applied = result(AppliedWork, bench.handler.apply(worktree))
    assert (bench.folder / "a.txt").read_bytes() == b"ONE\ntwo\nthree\nfour\nFIVE\n"
    assert applied.keep
    kept = git(bench.folder, "show", f"{applied.keep.ref}:a.txt")
    assert kept == b"one\ntwo\nthree\nfour\nFIVE\n"


LOCAL = {
    "changed": {"a.txt": b"uno\n"},
    "untracked": {"new/file": b"mine\n"},
    "ignored": {"b.txt": b"mine\n"},
    "binary": {"picture.bin": b"\0mine"},
    "gone there, changed here": {"src/deep/c.py": b"print('mine')\n"},
}


def test_on_a_conflict_nothing_is_changed(bench: WorktreeBench, tmp_path: Path):
    worktree = bench.begun(worked)
    for name, local in LOCAL.items():
        put(bench.folder, local)
        before, status = files_in(bench.folder), git(bench.folder, "status", "--porcelain")
        for obstacle in (bench.handler.plan_apply(worktree), bench.handler.apply(worktree)):
            assert isinstance(obstacle, InTheWay), name
            assert (obstacle.code, obstacle.paths) == (Code.CONFLICT, tuple(local)), name
        now = files_in(bench.folder), git(bench.folder, "status", "--porcelain")
        assert now == (before, status), name
        for path in local:
            (bench.folder / path).unlink()
            put(bench.folder, {path: PROJECT_FILES[path]} if path in PROJECT_FILES else {})
    (bench.folder / "new").rmdir()
    put(bench.folder, {"link/inside": b"a folder in the way of a link\n"})
    assert code_of(bench.handler.apply(worktree)) is Code.CONFLICT
    (bench.folder / "link/inside").unlink()
    (bench.folder / "link").rmdir()
    (tmp_path / "outside").mkdir()
    (bench.folder / "new").symlink_to(tmp_path / "outside")
    assert code_of(bench.handler.apply(worktree)) is Code.CONFLICT
    assert os.listdir(tmp_path / "outside") == []
    (bench.folder / "new").unlink()
    (bench.folder / "src/deep").chmod(0o500)
    before = files_in(bench.folder)
    obstacle = bench.handler.apply(worktree)
    (bench.folder / "src/deep").chmod(0o700)
    assert code_of(obstacle) is Code.CONFLICT, "a folder that cannot be written"
    assert files_in(bench.folder) == before


def test_an_ignored_file_of_the_project_is_not_overwritten(bench: WorktreeBench):
    worktree = bench.begun()
    put(Path(worktree.path), {".gitignore": b"nothing\n", "x.log": b"theirs\n"})
    put(bench.folder, {"x.log": b"mine\n"})
    assert code_of(bench.handler.apply(worktree)) is Code.CONFLICT
    assert isinstance(bench.handler.finish(worktree), Finished)
    assert code_of(bench.handler.merge(worktree)) is Code.PATH_EXISTS
    assert (bench.folder / "x.log").read_bytes() == b"mine\n"


def test_finishing_commits_everything_and_keeps_the_worktree_usable(bench: WorktreeBench):
    worktree = bench.begun(worked)
    git(Path(worktree.path), "init", "-q", "inner")
    put(Path(worktree.path), {"inner/x": b"x"})
    done = result(Finished, bench.handler.finish(worktree, "feat: do it"))
    assert done.files == 6
    assert done.notes == ("inner is a nested repository and was left out.",)
    assert b"inner" not in git(bench.folder, "ls-tree", "--name-only", "agent/work")
    assert git(Path(worktree.path), "status", "--porcelain") == b"?? inner/\n"
    assert git(bench.folder, "log", "-1", "--format=%s", "agent/work") == b"feat: do it\n"
    assert code_of(bench.handler.finish(worktree)) is Code.NOTHING_TO_DO
    put(Path(worktree.path), {"a.txt": b"more\n"})
    assert isinstance(bench.handler.finish(worktree), Finished)
    assert git(bench.folder, "log", "-1", "--format=%s", "agent/work") == b"chore: Work\n"


def test_staging_for_the_agent_keeps_earlier_staged_content(bench: WorktreeBench):
    worktree = bench.begun()
    folder = Path(worktree.path)
    put(folder, {"b.txt": b"first version\n"})
    git(folder, "add", "b.txt")
    put(folder, {"b.txt": b"second version\n"})
    staged = result(Finished, bench.handler.stage(worktree))
    assert staged.keep
    assert bench.handler.staged(worktree) == ["b.txt"]
    assert ("b.txt", b"first version\n") in bench.held()
    git(folder, "commit", "-q", "-m", "by the agent")
    assert bench.handler.staged(worktree) == []


def test_nothing_is_finished_on_another_branch_in_conflict_or_locked(bench: WorktreeBench):
    worktree = bench.begun(worked)
    folder = Path(worktree.path)
    lock = bench.folder / ".git/worktrees/agent-work/index.lock"
    lock.touch()
    obstacle = bench.handler.finish(worktree)
    assert isinstance(obstacle, InTheWay)
    assert (obstacle.code, "index.lock" in str(obstacle)) == (Code.LOCKED, True)
    lock.unlink()
    git(folder, "checkout", "-q", "-b", "elsewhere")
    assert code_of(bench.handler.finish(worktree)) is Code.CHANGED
    git(folder, "checkout", "-q", "agent/work")
    put(bench.folder, {"a.txt": b"uno\n"})
    git(bench.folder, "commit", "-q", "-am", "main")
    git(folder, "stash", "-q", "-u")
    with pytest.raises(Exception, match="merge"):
        git(folder, "merge", "main")
    assert code_of(bench.handler.finish(worktree)) is Code.UNFINISHED
    assert code_of(bench.handler.apply(worktree)) is Code.UNFINISHED


def test_files_that_need_a_filter_are_not_committed_without_it(bench: WorktreeBench):
    worktree = bench.begun()
    put(Path(worktree.path), {".gitattributes": b"*.dat filter=lfs\n", "x.dat": b"large"})
    for obstacle in (bench.handler.finish(worktree), bench.handler.apply(worktree)):
        assert isinstance(obstacle, InTheWay)
        assert (obstacle.code, obstacle.paths) == (Code.FILTERED, ("x.dat",))


def test_a_finished_worktree_is_merged_into_a_clean_parent(bench: WorktreeBench):
    worktree = bench.begun(worked)
    assert code_of(bench.handler.merge(worktree)) is Code.UNCOMMITTED
    assert isinstance(bench.handler.finish(worktree), Finished)
    put(bench.folder, {"crlf.txt": b"meanwhile\n"})
    assert code_of(bench.handler.merge(worktree)) is Code.UNCOMMITTED
    git(bench.folder, "commit", "-q", "-am", "meanwhile")
    assert not isinstance(bench.handler.merge(worktree), InTheWay)
    assert (bench.folder / "new/file").read_bytes() == b"untracked\n"
    assert (bench.folder / "crlf.txt").read_bytes() == b"meanwhile\n"
    assert code_of(bench.handler.merge(worktree)) is Code.NOTHING_TO_DO


def test_an_impossible_merge_changes_nothing_and_gives_the_reason(bench: WorktreeBench):
    worktree = bench.begun(finished)
    git(bench.folder, "checkout", "-q", "-b", "other")
    obstacle = bench.handler.merge(worktree)
    assert isinstance(obstacle, InTheWay)
    assert "check out main there, then run `git merge agent/work`" in str(obstacle)
    git(bench.folder, "checkout", "-q", "main")
    git(bench.folder, "update-index", "--assume-unchanged", "a.txt")
    put(bench.folder, {"a.txt": b"mine, overlooked\n"})
    obstacle = bench.handler.merge(worktree)
    assert isinstance(obstacle, InTheWay)
    assert str(obstacle).startswith("agent/work was not merged: Your local changes")
    assert (bench.folder / "a.txt").read_bytes() == b"mine, overlooked\n"
    git(bench.folder, "update-index", "--no-assume-unchanged", "a.txt")
    git(bench.folder, "commit", "-q", "-am", "main")
    before = (files_in(bench.folder), git(bench.folder, "rev-parse", "HEAD"))
    obstacle = bench.handler.merge(worktree)
    assert isinstance(obstacle, InTheWay)
    assert (obstacle.code, obstacle.paths) == (Code.CONFLICT, ("a.txt",))
    assert (files_in(bench.folder), git(bench.folder, "rev-parse", "HEAD")) == before
    assert git(bench.folder, "status", "--porcelain") == b""


def test_differences_that_git_does_not_see_are_kept_before_a_merge(bench: WorktreeBench):
    worktree = bench.begun()
    put(Path(worktree.path), {"crlf.txt": b"first\nother\n"})
    assert isinstance(bench.handler.finish(worktree), Finished)
    put(bench.folder, {"crlf.txt": b"first\r\nsecond\r\n"})
    git(bench.folder, "add", "crlf.txt")
    assert git(bench.folder, "status", "--porcelain") == b""
    assert not isinstance(bench.handler.merge(worktree), InTheWay)
    assert ("crlf.txt", b"first\r\nsecond\r\n") in bench.held()


def test_a_file_moved_in_the_project_is_changed_where_it_is_now(bench: WorktreeBench):
    worktree = bench.begun()
    put(Path(worktree.path), {"a.txt": b"ONE\ntwo\nthree\nfour\nfive\n"})
    git(bench.folder, "mv", "a.txt", "moved.txt")
    git(bench.folder, "commit", "-q", "-m", "moved")
    put(bench.folder, {"moved.txt": b"one\ntwo\nTHREE\nfour\nfive\n"})
    result(AppliedWork, bench.handler.apply(worktree))
    assert (bench.folder / "moved.txt").read_bytes() == b"ONE\ntwo\nTHREE\nfour\nfive\n"
    assert not (bench.folder / "a.txt").exists()


def test_merge_options_of_the_branch_do_not_change_the_merge(bench: WorktreeBench):
    worktree = bench.begun()
    for options in ("--squash", "--no-commit --no-ff", "-s ours"):
        new = f"{options}.txt"
        put(Path(worktree.path), {new: b"new\n"})
        assert isinstance(bench.handler.finish(worktree), Finished)
        git(bench.folder, "config", "branch.main.mergeOptions", options)
        merged = bench.handler.merge(worktree)
        assert not isinstance(merged, InTheWay), (options, merged)
        assert git(bench.folder, "show", f"main:{new}") == b"new\n", options
        assert git(bench.folder, "branch", "--merged", "main", "--list", worktree.branch), options
        assert (bench.folder / new).read_bytes() == b"new\n", options
