"""Files that match git's version, so that they do not count as planted."""

import time
from pathlib import Path

import pytest

from rookery.checkpoints.file_restore import version_at
from rookery.platform.git_index import checked_out
from support.repositories import git


@pytest.fixture
def work(tmp_path: Path) -> Path:
    git(tmp_path, "init", "-q", "-b", "main")
    (tmp_path / "conftest.py").write_text("old\n")
    git(tmp_path, "add", "-A")
    git(tmp_path, "commit", "-qm", "old")
    (tmp_path / "conftest.py").write_text("new\n")
    git(tmp_path, "commit", "-qam", "new")
    return tmp_path


def known(root: Path, path: str, *, anywhere: bool) -> bool:
    now = version_at(root, path, 1000)
    return path in checked_out(root, {path: now.blob if now else ""}, anywhere=anywhere)


def test_a_file_that_matches_the_index_is_recognised(work: Path):
    assert known(work, "conftest.py", anywhere=False)
    (work / "setup.py").write_text("new\n")
    assert not known(work, "setup.py", anywhere=False)


@pytest.mark.parametrize("packed", [False, True])
def test_any_content_in_the_repository_is_recognised_if_only_git_ran(work: Path, packed: bool):
    if packed:
        git(work, "gc", "-q")
    (work / "setup.py").write_text("old\n")
    assert known(work, "setup.py", anywhere=True)
    (work / "setup.py").write_text("planted\n")
    assert not known(work, "setup.py", anywhere=True)


def test_next_to_other_programs_only_older_repository_content_is_recognised(work: Path):
    now = version_at(work, "conftest.py", 1000)
    assert now
    made = {"conftest.py": now.blob}
    later = time.time_ns() + 10**9
    assert checked_out(work, made, before=later) == {"conftest.py"}
    assert checked_out(work, made, before=1) == set()
    assert checked_out(work, {"gone.py": ""}, before=later) == set()


def test_a_file_removed_by_git_is_recognised(work: Path):
    git(work, "rm", "-q", "conftest.py")
    (work / "a").touch()
    git(work, "add", "a")
    assert checked_out(work, {"conftest.py": ""}, anywhere=False) == {"conftest.py"}


@pytest.mark.parametrize("where", ["module", "linked"])
def test_nested_repositories_and_linked_worktrees_are_checked_separately(work: Path, where: str):
    if where == "linked":
        git(work, "worktree", "add", "-q", str(work / "linked"))
    else:
        git(work, "clone", "-q", ".", "module")
    assert known(work, f"{where}/conftest.py", anywhere=False)
    (work / where / "setup.py").write_text("old\n")
    assert known(work, f"{where}/setup.py", anywhere=True)


def test_without_a_repository_nothing_is_recognised(tmp_path: Path):
    (tmp_path / "conftest.py").touch()
    assert not known(tmp_path, "conftest.py", anywhere=True)
    assert checked_out(tmp_path, {"a": ""}, anywhere=True) == set()
