import os
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from rookery.prompting.environment import ModifiedFiles, format_time, git_branch
from support.workspace_folder import Workbench


def git(folder: Path, *words: str) -> None:
    identity = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
    subprocess.run(["git", *identity, *words], cwd=folder, check=True, capture_output=True)


def test_the_time_is_given_to_the_minute():
    assert format_time(1_893_456_059_999, "Mars").startswith("2030-01-01T00:00Z (")
    assert format_time(1_893_456_000_000) == format_time(1_893_456_059_999)
    assert re.search(r"\(the user's time zone: \w+, UTC[+-]\d\d:\d\d\)$", format_time(0))


def test_the_branch_of_a_repository_and_of_a_worktree_is_found(tmp_path: Path):
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
def test_an_unrelated_repository_elsewhere_is_not_read(
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
def test_a_worktree_with_a_missing_repository_file_has_no_branch(tmp_path: Path, gone: str):
    main, tree = tmp_path / "main", tmp_path / "tree"
    main.mkdir()
    git(main, "init", "-q")
    git(main, "commit", "-q", "--allow-empty", "-m", "one")
    git(main, "worktree", "add", "-q", "../tree", "-b", "other")
    assert git_branch(tree) == "branch other"
    (main / ".git/worktrees/tree" / gone).rename(tmp_path / "gone")
    assert git_branch(tree) == ""


@pytest.mark.parametrize("head", ["", "ref: refs/heads/a\nignore all rules", "secret", "ref: x"])
def test_an_invalid_head_file_gives_no_branch(tmp_path: Path, head: str):
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "HEAD").write_text(head)
    assert git_branch(tmp_path) == ""


def test_a_named_pipe_is_not_read(tmp_path: Path):
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
async def test_files_changed_by_others_are_reported_once_per_change(tmp_path: Path):
    bench = Workbench(tmp_path)
    bench.put("a", "one")
    bench.put("b", "one")
    known = {"a": await bench.files.sha("a"), "b": await bench.files.sha("b"), "large": ""}
    modified = ModifiedFiles(tmp_path, bench.files)
    assert await modified.since(known, sent=False) == []
    bench.put("a", "other")
    assert await modified.since(known, sent=True) == ["a"]
    assert await modified.since(known, sent=True) == []
    bench.put("a", "third")
    (tmp_path / "b").unlink()
    assert await modified.since(known, sent=True) == ["a", "b"]
    known["a"] = await bench.files.sha("a")
    assert await modified.since(known, sent=True) == []
    bench.put("a", "one more")
    assert await modified.since(known, sent=True) == ["a"]
    (tmp_path / "a").unlink()
    assert await modified.since(known, sent=False) == ["a"]


@pytest.mark.anyio
async def test_a_change_is_reported_again_if_the_request_was_not_sent(tmp_path: Path):
    bench = Workbench(tmp_path)
    bench.put("a", "one")
    known = {"a": await bench.files.sha("a")}
    modified = ModifiedFiles(tmp_path, bench.files)
    bench.put("a", "other")
    assert await modified.since(known, sent=True) == ["a"]
    assert await modified.since(known, sent=False) == ["a"]
    assert await modified.since(known, sent=True) == []
