"""Reverting one file keeps its content, and a kill at any point loses nothing."""

import os
import shutil
import signal
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from rookery.manager.review.checkout_changes import GitScope, checkout_of
from rookery.manager.review.reviews import revert
from rookery.manager.shown_rows import Review
from rookery.platform.worktree_git import Git, InTheWay
from rookery.platform.worktree_project import Project
from rookery.platform.worktree_values import Code, KeptWork, Worktree
from support.access_lists import restrict, still_restricted
from support.warm_programs import run_program
from support.worktree_folders import (
    PROJECT_FILES,
    Operations,
    WorktreeBench,
    code_of,
    files_in,
    git,
    put,
    result,
    review_operations,
)

TORTURE = bool(os.environ.get("ROOKERY_TORTURE"))


@pytest.fixture
def handler(bench: WorktreeBench) -> Operations:
    return review_operations(bench.folder)


def digests(
    handler: Operations, worktree: Worktree | None, scope: GitScope = "branch"
) -> dict[str, str]:
    found = result(Review, handler.changes(worktree, scope))
    return {each.path: each.digest for each in found.files}


def reverted(
    handler: Operations, worktree: Worktree | None, path: str, scope: GitScope = "branch"
) -> KeptWork | None:
    done: KeptWork | None = handler.revert(worktree, path, digests(handler, worktree, scope)[path])
    assert not isinstance(done, InTheWay)
    return done


def revert_if_shown(handler: Operations, worktree: Worktree) -> None:
    if digest := digests(handler, worktree).get("a.txt"):
        assert not isinstance(handler.revert(worktree, "a.txt", digest), InTheWay)


def kept(bench: WorktreeBench, done: KeptWork | None, path: str) -> bytes:
    assert done
    return git(bench.folder, "show", f"{done.ref}:{path}")


def changed(bench: WorktreeBench) -> Worktree:
    worktree = bench.made()
    folder = Path(worktree.path)
    put(folder, {"a.txt": b"committed\n"})
    git(folder, "commit", "-q", "-am", "mine")
    put(folder, {"a.txt": b"changed\n", "new/deep/file": b"new\n", "b.txt": b"bee\nmore\n"})
    (folder / "run.sh").unlink()
    (folder / "src/deep/c.py").rename(folder / "moved.py")
    return worktree


def test_each_kind_of_change_is_reverted_and_its_content_kept(
    bench: WorktreeBench, handler: Operations
):
    worktree = bench.begun(changed)
    folder = Path(worktree.path)
    (folder / "b.txt").chmod(0o600)
    restrict(folder / "a.txt")
    reverted(handler, worktree, "a.txt", "unstaged")
    assert (folder / "a.txt").read_bytes() == b"committed\n"
    put(folder, {"a.txt": b"changed\n"})
    assert kept(bench, reverted(handler, worktree, "a.txt"), "a.txt") == b"changed\n"
    assert (folder / "a.txt").read_bytes() == PROJECT_FILES["a.txt"]
    assert still_restricted(folder / "a.txt")
    assert kept(bench, reverted(handler, worktree, "new/deep/file"), "new/deep/file") == b"new\n"
    assert not (folder / "new").exists()
    assert reverted(handler, worktree, "run.sh") is not None
    assert os.access(folder / "run.sh", os.X_OK)
    assert kept(bench, reverted(handler, worktree, "moved.py"), "moved.py") == b"print('c')\n"
    assert (folder / "src/deep/c.py").read_bytes() == b"print('c')\n"
    assert not (folder / "moved.py").exists()
    reverted(handler, worktree, "b.txt")
    assert (folder / "b.txt").stat().st_mode & 0o777 == 0o600
    assert digests(handler, worktree) == {}
    assert files_in(folder) == set(PROJECT_FILES.items())


def test_links_are_restored_as_links(bench: WorktreeBench, handler: Operations, tmp_path: Path):
    (bench.folder / "link").symlink_to("a.txt")
    git(bench.folder, "add", "link")
    git(bench.folder, "commit", "-q", "-m", "link")
    worktree = bench.made()
    folder = Path(worktree.path)
    (tmp_path / "outside").write_bytes(b"outside\n")
    (folder / "link").unlink()
    (folder / "link").symlink_to(tmp_path / "outside")
    done = reverted(handler, worktree, "link")
    assert os.readlink(folder / "link") == "a.txt"
    assert kept(bench, done, "link") == str(tmp_path / "outside").encode()
    assert (tmp_path / "outside").read_bytes() == b"outside\n"


def test_changed_staged_or_outside_files_are_not_reverted(
    bench: WorktreeBench, handler: Operations
):
    worktree = bench.begun(changed)
    folder = Path(worktree.path)
    shown = digests(handler, worktree)
    git(folder, "add", "b.txt")
    put(folder, {"a.txt": b"CHANGED\n"})
    before = files_in(folder)
    for digest in (shown["a.txt"], "", shown["b.txt"]):
        assert code_of(handler.revert(worktree, "a.txt", digest)) is Code.CHANGED
    staged = digests(handler, worktree, "staged")["b.txt"]
    assert isinstance(handler.revert(worktree, "b.txt", staged), InTheWay)
    for path in ("../a.txt", "/etc/passwd", "", ".git", "new/../a.txt"):
        assert isinstance(handler.revert(worktree, path, shown["b.txt"]), InTheWay), path
    assert files_in(folder) == before
    assert git(bench.folder, "for-each-ref", "refs/rookery/") == b""


def test_a_link_in_place_of_a_folder_is_not_followed(
    bench: WorktreeBench, handler: Operations, tmp_path: Path
):
    worktree = bench.begun()
    folder = Path(worktree.path)
    outside = tmp_path / "outside"
    put(outside, {"c.py": b"outside\n"})
    (folder / "src/deep/c.py").unlink()
    (folder / "src/deep").rmdir()
    (folder / "src/deep").symlink_to(outside)
    digest = digests(handler, worktree)["src/deep/c.py"]
    refused = handler.revert(worktree, "src/deep/c.py", digest)
    assert isinstance(refused, InTheWay)
    assert (outside / "c.py").read_bytes() == b"outside\n"
    assert (folder / "src/deep").is_symlink()


def test_files_of_the_project_itself_can_be_reverted(bench: WorktreeBench, handler: Operations):
    put(bench.folder, {"a.txt": b"local\n"})
    assert kept(bench, reverted(handler, None, "a.txt"), "a.txt") == b"local\n"
    assert (bench.folder / "a.txt").read_bytes() == PROJECT_FILES["a.txt"]


CONTENTS = st.one_of(st.none(), st.binary(max_size=30), st.just(PROJECT_FILES["a.txt"]))


@settings(
    max_examples=100 if TORTURE else 4,  # a quarter of a second each
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
@given(committed=CONTENTS, there=CONTENTS, staged=st.booleans())
def test_after_any_edits_a_file_is_reverted_and_nothing_is_lost(
    tmp_path_factory: pytest.TempPathFactory,
    committed: bytes | None,
    there: bytes | None,
    staged: bool,
):
    bench = WorktreeBench.new(tmp_path_factory.mktemp("any") / "project")
    worktree = bench.begun()
    folder = Path(worktree.path)
    for data, commits in ((committed, True), (there, False)):
        (folder / "a.txt").unlink(missing_ok=True)
        if data is not None:
            put(folder, {"a.txt": data})
        if commits or staged:
            git(folder, "add", "-A")
        if commits:
            git(folder, "commit", "-q", "--allow-empty", "-m", "step")
    treasure = bench.treasure(folder)
    revert_if_shown(review_operations(bench.folder), worktree)
    assert (folder / "a.txt").read_bytes() == PROJECT_FILES["a.txt"]
    assert treasure - bench.held() == set()


KILLER = """\
import sys
from pathlib import Path
from support.worktree_folders import WorktreeBench, review_operations
bench = WorktreeBench(Path(sys.argv[1]))
handler = review_operations(bench.folder)
worktree = bench.found("agent-work")
path = sys.argv[2]
digest = next(f.digest for f in handler.changes(worktree, "branch").files if f.path == path)
print(handler.revert(worktree, path, digest))
"""
POINTS = (
    *("worktree.kept", "review.kept", "restore.before_file", "restore.temp_written"),
    *("restore.file_done", "review.reverted"),
)


@pytest.mark.parametrize("point", POINTS)
def test_a_kill_at_any_point_loses_nothing_and_the_revert_can_be_repeated(
    bench: WorktreeBench, handler: Operations, point: str
):
    worktree = bench.begun(changed)
    folder = Path(worktree.path)
    treasure = bench.treasure(folder)
    done = run_program(KILLER, str(bench.folder), "a.txt", ROOKERY_KILLPOINT=point)
    assert done.returncode == -signal.SIGKILL, done
    assert treasure - bench.held() == set()
    revert_if_shown(handler, worktree)
    assert (folder / "a.txt").read_bytes() == PROJECT_FILES["a.txt"]
    assert treasure - bench.held() == set()


@pytest.mark.parametrize("moved", [False, True])
def test_an_ignored_file_is_not_overwritten_without_being_shown(
    bench: WorktreeBench, handler: Operations, moved: bool
):
    worktree = bench.begun()
    folder = Path(worktree.path)
    if moved:
        git(folder, "mv", "src/deep/c.py", "moved.py")
    else:
        git(folder, "rm", "-q", "--cached", "src/deep/c.py")
    put(folder, {".gitignore": b"c.py\n", "src/deep/c.py": b"private\n"})
    shown = "moved.py" if moved else "src/deep/c.py"
    refused = handler.revert(worktree, shown, digests(handler, worktree)[shown])
    assert isinstance(refused, InTheWay)
    assert (folder / "src/deep/c.py").read_bytes() == b"private\n"
    assert (folder / "moved.py").exists() is moved


def test_a_file_that_changes_during_its_revert_stays(bench: WorktreeBench, tmp_path: Path):
    """The user saves the file between two commands of the revert."""
    worktree = bench.begun(changed)
    digest = digests(review_operations(bench.folder), worktree)["a.txt"]
    file = Path(worktree.path) / "a.txt"
    saves = f'case "$*" in *check-attr*filter*) echo saved > "{file}";; esac'
    put(tmp_path, {"git": f'#!/bin/sh\n{saves}\nexec {shutil.which("git")} "$@"\n'.encode()})
    (tmp_path / "git").chmod(0o755)
    checkout = checkout_of(Project(bench.folder), worktree)
    own = checkout.git
    slow = Git(str(tmp_path / "git"), own.git_folder, own.folder, own.common)
    with pytest.raises(InTheWay, match="changed since you saw it"):
        revert(replace(checkout, git=slow), "a.txt", digest)
    assert file.read_bytes() == b"saved\n"
