"""Creating, resuming, listing and importing worktrees."""

import os
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rookery.manager.worktrees.create import (
    automatic_branch,
    folder_name,
    free_branch,
    free_for_versions,
    own_branch,
    version_branches,
)
from rookery.platform.worktree_git import InTheWay
from rookery.platform.worktree_values import (
    Code,
    Created,
    Importable,
    Listed,
    Worktree,
    WorktreeState,
)
from support.warm_programs import start_program
from support.worktree_folders import (
    PROJECT_FILES,
    WorktreeBench,
    code_of,
    git,
    operations,
    put,
    result,
)


@pytest.mark.parametrize(
    ("text", "branch"),
    [
        ("Fix the Parser!", "fix-the-parser"),
        ("feature/New UI", "feature/new-ui"),
        ("--force", "force"),
        ("a..b//c.lock", "a-b/c-lock"),
        ("@{-1}", "1"),
        ("x" * 80, "x" * 50),
        ("été", "t"),
        ("!!!", ""),
    ],
)
def test_a_user_given_name_becomes_a_valid_branch(text: str, branch: str):
    assert own_branch(text) == branch


def test_an_automatic_name_is_made_from_the_prompt():
    assert automatic_branch("Fix login: it  hangs") == "agent/fix-login-it-hangs"
    assert automatic_branch("修复", chance=12) == "agent/brisk-field"
    assert automatic_branch("x", prefix="bot-") == "bot-x"


@pytest.mark.parametrize(
    ("branches", "folders", "free"),
    [
        ([], [], "agent/x"),
        (["agent/x"], [], "agent/x-2"),
        ([], ["agent-x"], "agent/x-2"),
        (["agent/x"], ["agent-x-2"], "agent/x-3"),
        (["agent"], [], "agent-x"),
        (["agent/x/y"], [], "agent/x-2"),
    ],
)
def test_branch_and_folder_must_both_be_free(branches: list[str], folders: list[str], free: str):
    assert free_branch("agent/x", branches, folders) == free


@given(st.text(max_size=120))
def test_any_text_becomes_a_valid_branch(text: str):
    for branch in (own_branch(text), automatic_branch(text)):
        assert re.fullmatch(r"(?:[a-z0-9_]+(?:-+[a-z0-9_]+)*(?:/|$))*", branch)
        assert not branch.endswith(("/", "-"))
        assert len(branch) <= 56
        assert "/" not in folder_name(branch)


def test_one_to_four_versions_share_a_free_name():
    assert version_branches("fix", 3) == ["fix", "fix_v2", "fix_v3"]
    assert [len(version_branches("fix", asked)) for asked in (0, 1, 4, 9)] == [1, 1, 4, 4]
    assert free_for_versions("agent/x", 3, ["agent/x_v3"], []) == "agent/x-2"
    assert free_for_versions("agent/x", 2, ["agent/x_v3"], []) == "agent/x"
    assert free_for_versions("agent/x", 2, ["agent/x", "agent/x-2_v2"], []) == "agent/x-3"


def test_a_worktree_is_inside_the_project_and_git_ignores_it(bench: WorktreeBench):
    worktree = bench.made("agent/fix-it")
    assert worktree.path == str(bench.place / "agent-fix-it")
    assert (worktree.branch, worktree.parent_branch) == ("agent/fix-it", "main")
    assert (Path(worktree.path) / "picture.bin").read_bytes() == PROJECT_FILES["picture.bin"]
    assert git(bench.folder, "status", "--porcelain") == b""
    assert git(Path(worktree.path), "status", "--porcelain") == b""


def test_taken_names_get_a_number_and_nothing_is_overwritten(bench: WorktreeBench):
    git(bench.folder, "branch", "agent/work")
    git(bench.folder, "branch", "other")
    put(bench.place / "agent-work-2", {"mine.txt": b"mine"})
    put(bench.place / "local", {"mine": b"m"})
    assert bench.made().branch == "agent/work-3"
    assert (bench.place / "agent-work-2/mine.txt").read_bytes() == b"mine"
    assert bench.made("other/work").branch == "other-work", "a branch has the name of the prefix"
    git(bench.folder, "branch", "local")
    assert code_of(bench.handler.import_branch("local")) is Code.PATH_EXISTS
    assert (bench.place / "local/mine").read_bytes() == b"m"


def test_the_base_is_given_or_the_current_commit(bench: WorktreeBench):
    git(bench.folder, "checkout", "-q", "-b", "other")
    put(bench.folder, {"b.txt": b"other\n"})
    git(bench.folder, "commit", "-q", "-am", "other")
    by_default, explicit = bench.handler.create("one"), bench.handler.create("two", base="main")
    assert isinstance(by_default, Created)
    assert isinstance(explicit, Created)
    bases = [each.worktree.parent_branch for each in (by_default, explicit)]
    assert bases == ["other", "main"]
    assert (Path(explicit.worktree.path) / "b.txt").read_bytes() == b"bee\n"
    assert code_of(bench.handler.create("four", base="nowhere")) is Code.BASE_NOT_FOUND


def test_branches_start_at_the_remote_state_and_can_be_imported_from_it(
    bench: WorktreeBench, tmp_path: Path
):
    remote, colleague = tmp_path / "remote", tmp_path / "colleague"
    git(tmp_path, "clone", "-q", "--bare", str(bench.folder), str(remote))
    git(bench.folder, "remote", "add", "origin", str(remote))
    git(bench.folder, "fetch", "-q", "origin")
    git(tmp_path, "clone", "-q", str(remote), "colleague")
    put(colleague, {"a.txt": b"news\n"})
    git(colleague, "commit", "-q", "-am", "news")
    git(colleague, "push", "-q", "origin", "HEAD", "HEAD:theirs/feature")
    created = result(Created, bench.handler.create("agent/new"))
    assert created.worktree.remote == "origin"
    assert created.notes == ()
    assert (Path(created.worktree.path) / "a.txt").read_bytes() == b"news\n"
    assert b"[" not in git(bench.folder, "branch", "-vv", "--list", "agent/new").split(b"news")[0]
    git(bench.folder, "branch", "local")
    for branch in ("local", "theirs/feature"):
        created = result(Created, bench.handler.import_branch(branch))
        assert created.worktree.branch == branch
        assert not created.worktree.branch_owned
        again = result(Created, bench.handler.import_branch(branch))
        assert again.worktree == created.worktree
    assert code_of(bench.handler.import_branch("nowhere")) is Code.BRANCH_NOT_FOUND
    assert code_of(bench.handler.import_branch("main")) is Code.BRANCH_CHECKED_OUT
    remote.rename(tmp_path / "gone")
    stale = result(Created, WorktreeBench(bench.folder).handler.create("agent/stale"))
    assert stale.notes == ("origin did not answer; main may be out of date.",)


def test_a_remote_that_is_a_program_is_not_run(bench: WorktreeBench, tmp_path: Path):
    git(bench.folder, "remote", "add", "origin", f"ext::sh -c 'touch {tmp_path}/sprung'")
    git(bench.folder, "config", "remote.origin.uploadpack", f"touch {tmp_path}/sprung;")
    assert isinstance(bench.handler.create("one"), Created)
    git(bench.folder, "remote", "set-url", "origin", str(bench.folder))
    assert isinstance(bench.handler.create("two"), Created)
    assert not (tmp_path / "sprung").exists()


def test_invalid_branch_names_are_refused(bench: WorktreeBench):
    handler = bench.handler
    for name in ("", "-b", "a..b", "a b", "@{-1}", "x.lock", "../x", "HEAD~1", "--force"):
        assert code_of(handler.import_branch(name)) is Code.BAD_NAME, name
    for name in ("", "-b", "../x"):
        assert code_of(handler.create(name)) is Code.BAD_NAME, name
        assert code_of(handler.create_versions(name, label="x", versions=2)) is Code.BAD_NAME, name


def test_a_forged_or_torn_note_does_not_redirect_a_worktree(bench: WorktreeBench, tmp_path: Path):
    worktree = bench.begun()
    note = bench.folder / ".git/worktrees/agent-work/rookery-worktree.json"
    note.write_text(note.read_text().replace(worktree.path, str(tmp_path)))
    assert bench.found("agent-work").path == worktree.path
    note.write_text("{ torn")
    found = bench.found("agent-work")
    assert (found.branch, found.path) == (worktree.branch, worktree.path)


def test_a_folder_without_repository_or_commit_is_reported(tmp_path: Path):
    handler = operations(tmp_path)
    assert code_of(handler.create("x")) is Code.NOT_GIT_REPO
    git(tmp_path, "init", "-q")
    assert code_of(handler.create("x")) is Code.NO_COMMITS


def test_lfs_files_without_git_lfs_are_reported(bench: WorktreeBench):
    put(bench.folder, {".gitattributes": b"*.bin filter=lfs diff=lfs merge=lfs -text\n"})
    git(bench.folder, "commit", "-q", "-am", "large")
    if shutil.which("git-lfs"):
        created = result(Created, bench.handler.create("x"))
        assert "git lfs pull" in created.notes[0]
    else:
        assert code_of(bench.handler.create("x")) is Code.LFS_MISSING
        assert b"x" not in git(bench.folder, "branch", "--list", "x")


def test_a_link_in_place_of_the_worktree_folder_is_refused(bench: WorktreeBench, tmp_path: Path):
    (tmp_path / "elsewhere").mkdir()
    (bench.folder / ".roo").symlink_to(tmp_path / "elsewhere")
    assert code_of(bench.handler.create("x")) is Code.OUTSIDE
    assert os.listdir(tmp_path / "elsewhere") == []


def test_versions_get_parallel_worktrees(bench: WorktreeBench):
    git(bench.folder, "branch", "agent/try_v2")
    made: dict[int, object] = {}
    obstacle = bench.handler.create_versions(
        "agent/try", label="Try", versions=3, on_ready=made.__setitem__
    )
    assert (obstacle, list(made)) == (None, [1, 2, 3])
    created = [each for each in made.values() if isinstance(each, Created)]
    trees = [each.worktree for each in created]
    assert [each.branch for each in trees] == ["agent/try-2", "agent/try-2_v2", "agent/try-2_v3"]
    assert [each.label for each in trees] == ["Try", "Try v2", "Try v3"]
    assert len({each.group_id for each in trees}) == 1
    assert len({git(Path(each.worktree.path), "rev-parse", "HEAD") for each in created}) == 1
    assert len({each.ports for each in trees}) == 3


CREATE_SAME = """
import sys
from pathlib import Path
from rookery.platform.worktree_values import Created
from support.worktree_folders import WorktreeBench
created = WorktreeBench(Path(sys.argv[1])).handler.create("same")
assert isinstance(created, Created), created
"""


def test_concurrent_creations_get_separate_worktrees(bench: WorktreeBench):
    both = [start_program(CREATE_SAME, str(bench.folder)) for _ in range(2)]
    assert [each.wait() for each in both] == [0, 0]
    listed = bench.handler.all_listed()
    assert not isinstance(listed, InTheWay)
    assert sorted(each.worktree.branch for each in listed) == ["same", "same-2"]
    assert len({each.worktree.ports for each in listed}) == 2


def test_all_worktrees_are_listed_with_their_states(bench: WorktreeBench):
    ready, missing, lost, broken = (bench.made(name) for name in ("r", "m", "l", "b"))
    shutil.rmtree(missing.path)
    shutil.rmtree(lost.path)
    git(bench.folder, "update-ref", "-d", "refs/heads/l")
    (Path(broken.path) / ".git").write_text("gitdir: /nowhere\n")
    listed = bench.handler.all_listed()
    assert listed == [
        Listed(worktree=ready, state=WorktreeState.READY),
        Listed(worktree=missing, state=WorktreeState.MISSING),
        Listed(worktree=lost, state=WorktreeState.LOST),
        Listed(worktree=broken, state=WorktreeState.BROKEN),
    ]


def test_an_existing_worktree_is_reused_and_a_missing_one_recreated(
    bench: WorktreeBench,
):
    worktree = bench.begun()
    put(Path(worktree.path), {"new": b"n"})
    assert bench.handler.resume(worktree) == Created(worktree=worktree)
    assert (Path(worktree.path) / "new").exists()
    put(Path(worktree.path), {"a.txt": b"committed\n"})
    git(Path(worktree.path), "commit", "-q", "-am", "work")
    put(Path(worktree.path), {"b.txt": b"only staged\n"})
    git(Path(worktree.path), "add", "b.txt")
    shutil.rmtree(worktree.path)
    assert code_of(bench.handler.finish(worktree)) is Code.MISSING
    resumed = result(Created, bench.handler.resume(worktree))
    assert resumed.worktree == worktree
    assert (Path(worktree.path) / "a.txt").read_bytes() == b"committed\n"
    assert ("b.txt", b"only staged\n") in bench.held()
    assert "is saved as refs/rookery/keep/" in resumed.notes[0]


def gone_with_branch(bench: WorktreeBench, worktree: Worktree) -> None:
    shutil.rmtree(worktree.path)
    git(bench.folder, "update-ref", "-d", f"refs/heads/{worktree.branch}")


def checked_out_elsewhere(bench: WorktreeBench, worktree: Worktree) -> None:
    shutil.rmtree(worktree.path)
    git(bench.folder, "worktree", "prune")
    git(bench.folder, "checkout", "-q", worktree.branch)


def another_repository(bench: WorktreeBench, worktree: Worktree) -> None:
    shutil.rmtree(worktree.path)
    git(bench.folder, "init", "-q", worktree.path)


def a_file(bench: WorktreeBench, worktree: Worktree) -> None:
    shutil.rmtree(worktree.path)
    Path(worktree.path).write_text("mine")


def a_link_to_the_project(bench: WorktreeBench, worktree: Worktree) -> None:
    shutil.rmtree(worktree.path)
    Path(worktree.path).symlink_to(bench.folder)


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (gone_with_branch, Code.MISSING),
        (checked_out_elsewhere, Code.BRANCH_CHECKED_OUT),
        (another_repository, Code.BROKEN),
        (a_file, Code.BROKEN),
        (a_link_to_the_project, Code.BROKEN),
    ],
)
def test_a_worktree_that_cannot_be_resumed_is_not_replaced(
    bench: WorktreeBench, change: Callable[[WorktreeBench, Worktree], None], code: Code
):
    worktree = bench.begun()
    change(bench, worktree)
    before = git(bench.folder, "worktree", "list")
    assert code_of(bench.handler.resume(worktree)) is code
    assert isinstance(bench.handler.finish(worktree, "x"), InTheWay)
    assert git(bench.folder, "worktree", "list") == before


def test_removing_an_imported_worktree_keeps_its_files(bench: WorktreeBench, tmp_path: Path):
    mine = tmp_path / "mine"
    git(bench.folder, "worktree", "add", "-q", "-b", "mine", str(mine))
    git(bench.folder, "branch", "free")
    assert bench.handler.importable() == Importable(branches=("free",), worktrees=(str(mine),))
    created = result(Created, bench.handler.import_worktree(mine))
    assert created.worktree.imported
    assert bench.handler.importable() == Importable(branches=("free",), worktrees=())
    put(mine, {"a.txt": b"mine\n"})
    assert bench.handler.remove(bench.planned(created.worktree)) is None
    assert (mine / "a.txt").read_bytes() == b"mine\n"
    assert bench.handler.all_listed() == []
    assert code_of(bench.handler.import_worktree(tmp_path)) is Code.BROKEN


def test_a_project_that_is_itself_a_worktree_can_have_worktrees(
    bench: WorktreeBench, tmp_path: Path
):
    git(bench.folder, "worktree", "add", "-q", "-b", "mine", str(tmp_path / "mine"))
    inner = WorktreeBench((tmp_path / "mine").resolve())
    worktree = inner.made()
    assert worktree.parent_branch == "mine"
    assert git(tmp_path / "mine", "status", "--porcelain") == b""
    assert inner.handler.resume(worktree) == Created(worktree=worktree)


def test_an_unfinished_worktree_is_not_used(bench: WorktreeBench):
    worktree = bench.begun()
    (bench.folder / ".git/worktrees/agent-work/locked").write_text("initializing")
    assert bench.handler.state_of(worktree) is WorktreeState.UNFINISHED
    assert code_of(bench.handler.resume(worktree)) is Code.UNFINISHED
    assert not isinstance(bench.handler.remove(bench.planned(worktree)), InTheWay)
    with pytest.raises(subprocess.CalledProcessError):
        git(bench.folder, "rev-parse", "--verify", "refs/worktree/none")
    assert bench.handler.all_listed() == []
