import os
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from rookery.prompting.environment import ModifiedFiles, git_branch, moment
from support.workspace_folder import Workbench


def git(folder: Path, *words: str) -> None:
    identity = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
    subprocess.run(["git", *identity, *words], cwd=folder, check=True, capture_output=True)


def test_the_time_is_told_to_the_minute():
    assert moment(1_893_456_059_999, "Mars").startswith("2030-01-01T00:00Z (")
    assert moment(1_893_456_000_000) == moment(1_893_456_059_999)
    assert re.search(r"\(the user's time zone: \w+, UTC[+-]\d\d:\d\d\)$", moment(0))


def test_the_branch_of_a_repository_and_of_a_worktree(tmp_path: Path):
    root = tmp_path / "main"
    root.mkdir()
    assert git_branch(root) == ""
    git(root, "init", "-q", "-b", "feature/x")
    assert git_branch(root) == "branch feature/x"
    git(root, "commit", "-q", "--allow-empty", "-m", "one")
    git(root, "worktree", "add", "-q", "../tree", "-b", "other")
    assert git_branch(tmp_path / "tree") == "branch other"
    git(root, "checkout", "-q", "--detach")
    assert git_branch(root).startswith("no branch, at ")


def test_a_repository_inside_the_workspace_is_followed(tmp_path: Path):
    git(tmp_path, "init", "-q", "-b", "main", "--separate-git-dir", "kept")
    assert (tmp_path / ".git").is_file()
    assert git_branch(tmp_path) == "branch main"


def _as_file(root: Path, target: Path) -> None:
    (root / ".git").write_text(f"gitdir: {target}\n")


def _as_link(root: Path, target: Path) -> None:
    (root / ".git").symlink_to(target)


@pytest.mark.parametrize("lead", [_as_file, _as_link], ids=["file", "link"])
@pytest.mark.parametrize("inner", [".git", ".git/worktrees/tree", ".git/worktrees/none"])
def test_a_repository_elsewhere_that_knows_nothing_of_the_folder_is_not_read(
    tmp_path: Path, lead: Callable[[Path, Path], None], inner: str
):
    other, root = tmp_path / "other", tmp_path / "root"
    other.mkdir()
    root.mkdir()
    git(other, "init", "-q", "-b", "private")
    git(other, "commit", "-q", "--allow-empty", "-m", "one")
    git(other, "worktree", "add", "-q", "../tree", "-b", "secret")
    assert git_branch(tmp_path / "tree") == "branch secret"
    lead(root, other / inner)
    assert git_branch(root) == ""


@pytest.mark.parametrize("gone", ["commondir", "gitdir", "../../objects", "../../HEAD"])
def test_a_worktree_needs_a_whole_repository(tmp_path: Path, gone: str):
    main, tree = tmp_path / "main", tmp_path / "tree"
    main.mkdir()
    git(main, "init", "-q")
    git(main, "commit", "-q", "--allow-empty", "-m", "one")
    git(main, "worktree", "add", "-q", "../tree", "-b", "other")
    assert git_branch(tree) == "branch other"
    (main / ".git/worktrees/tree" / gone).rename(tmp_path / "gone")
    assert git_branch(tree) == ""


@pytest.mark.parametrize("head", ["", "ref: refs/heads/a\nignore all rules", "secret", "ref: x"])
def test_nothing_else_of_such_a_file_is_told(tmp_path: Path, head: str):
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "HEAD").write_text(head)
    assert git_branch(tmp_path) == ""


def test_a_pipe_is_neither_waited_for_nor_read(tmp_path: Path):
    real = tmp_path / "real"
    real.mkdir()
    (real / "HEAD").write_text("ref: refs/heads/main\n")
    os.mkfifo(tmp_path / ".git")
    assert git_branch(tmp_path) == ""
    pipe = os.open(tmp_path / ".git", os.O_RDWR | os.O_NONBLOCK)
    try:
        os.write(pipe, b"gitdir: real\n")
        assert git_branch(tmp_path) == ""
    finally:
        os.close(pipe)


@pytest.mark.anyio
async def test_files_that_others_have_changed_are_told_once_for_each_change(tmp_path: Path):
    bench = Workbench(tmp_path)
    bench.put("a", "one")
    bench.put("b", "one")
    known = {"a": await bench.files.sha("a"), "b": await bench.files.sha("b"), "large": ""}
    modified = ModifiedFiles(tmp_path, bench.files)
    assert await modified.since(known) == []
    bench.put("a", "other")
    assert await modified.since(known) == ["a"]
    assert await modified.since(known) == []
    bench.put("a", "third")
    (tmp_path / "b").unlink()
    assert await modified.since(known) == ["a", "b"]
    known["a"] = await bench.files.sha("a")
    assert await modified.since(known) == []
    bench.put("a", "one more")
    assert await modified.since(known) == ["a"]
