"""Hostile git files written by an agent in a worktree.

None of them makes git run a program or lets one worktree replace another.
"""

import os
import shutil
from pathlib import Path

import pytest
from msgspec.structs import replace

from rookery.manager.review.checkout_changes import checkout_of
from rookery.manager.review.file_diffs import TextDiff, changes_of
from rookery.manager.shown_rows import Review, WorktreeStats
from rookery.platform import worktree_git as named_git
from rookery.platform.worktree_git import InTheWay
from rookery.platform.worktree_project import Project, all_listed, registered_at
from rookery.platform.worktree_values import (
    AppliedWork,
    Code,
    Created,
    Finished,
    KeptWork,
    Listed,
    Removed,
    Worktree,
    WorktreeState,
)
from support.worktree_folders import (
    PROJECT_FILES,
    WorktreeBench,
    code_of,
    git,
    put,
    result,
    review_operations,
)

TRAPS = {
    "core": ("fsmonitor", "pager", "editor"),
    "diff": ("external",),
    'diff "x"': ("textconv", "command"),
    'filter "x"': ("clean", "smudge", "process"),
    'merge "x"': ("driver",),
    "pager": ("diff",),
    "gpg": ("program",),
}
HOOKS = (
    *("pre-commit", "commit-msg", "post-commit", "post-merge", "pre-merge-commit"),
    *("post-checkout", "post-index-change", "reference-transaction"),
)


def set_traps(bench: WorktreeBench, trap: Path) -> None:
    """Plant a program in every place where git looks for one."""
    program = f"touch {trap}; cat"
    with (bench.folder / ".git/config").open("a") as config:
        for section, keys in TRAPS.items():
            config.write(f"[{section}]\n" + "".join(f"\t{key} = {program}\n" for key in keys))
        config.write("[commit]\n\tgpgSign = true\n")
    put(bench.folder, {f".git/hooks/{name}": f"#!/bin/sh\n{program}\n".encode() for name in HOOKS})
    for name in HOOKS:
        (bench.folder / ".git/hooks" / name).chmod(0o755)
    (bench.folder / ".git/info/attributes").write_text("a.txt merge=x diff=x\n")


def test_programs_named_by_the_repository_are_not_run(bench: WorktreeBench, tmp_path: Path):
    """Not on creating, applying, finishing, merging, reviewing, reverting or removing one."""
    git(bench.folder, "branch", "meanwhile")
    put(bench.folder, {"b.txt": b"main\n"})
    git(bench.folder, "commit", "-q", "-am", "main")
    trap = tmp_path / "sprung"
    set_traps(bench, trap)
    created = result(Created, bench.handler.create("agent/work", base="meanwhile"))
    assert not trap.exists()
    worktree = replace(created.worktree, parent_branch="main")
    folder = Path(worktree.path)
    put(folder, {"a.txt": b"ONE\ntwo\nthree\nfour\nfive\n"})
    assert isinstance(bench.handler.apply(worktree), AppliedWork)
    assert not trap.exists()
    put(bench.folder, {"a.txt": PROJECT_FILES["a.txt"]})
    assert isinstance(bench.handler.finish(worktree), Finished)
    assert not isinstance(bench.handler.merge(worktree), InTheWay)
    assert not trap.exists()
    put(folder, {".gitattributes": b"* diff=x filter=x\n", "a.txt": b"changed\r\n", "new": b"n\n"})
    handler = review_operations(bench.folder)
    review = result(Review, handler.changes(worktree, "branch"))
    (file,) = [each for each in review.files if each.path == "a.txt"]
    diff = result(TextDiff, handler.diff(worktree, "branch", "a.txt"))
    assert diff.lines[-1].data == b"changed\r\n"
    assert isinstance(handler.diff(worktree, "branch", "new"), TextDiff)
    assert isinstance(handler.stats(worktree), WorktreeStats)
    assert code_of(handler.revert(worktree, "a.txt", file.digest)) is Code.FILTERED
    assert (folder / "a.txt").read_bytes() == b"changed\r\n"
    assert not trap.exists()
    assert isinstance(bench.handler.remove(bench.planned(worktree)), Removed)
    assert not trap.exists()


def impostor(bench: WorktreeBench, worktree: Worktree, *, common: str = "../..") -> Path:
    """An admin folder that claims a worktree's files and sorts before its own."""
    own = bench.folder / ".git/worktrees" / Path(worktree.path).name
    made = own.with_name("0")
    shutil.copytree(own, made)
    (made / "commondir").write_text(f"{common}\n")
    return made


def planted_repository(bench: WorktreeBench, worktree: Worktree, trap: Path) -> Path:
    theirs = Path(worktree.path) / "theirs"
    shutil.copytree(bench.folder / ".git", theirs, ignore=shutil.ignore_patterns("worktrees"))
    with (theirs / "config").open("a") as config:
        config.write(f'[user]\n\tname = theirs\n[filter "trap"]\n\tclean = touch {trap}; cat\n')
    put(Path(worktree.path), {".gitattributes": b"*.txt filter=trap\n", "a.txt": b"other\n"})
    return theirs


@pytest.mark.parametrize("place", ["worktree", "project"])
def test_no_file_leads_git_to_another_repository(bench: WorktreeBench, tmp_path: Path, place: str):
    worktree = bench.begun()
    theirs = planted_repository(bench, worktree, tmp_path / "trap")
    if place == "worktree":
        own = impostor(bench, worktree, common=str(theirs))
        shutil.copy(own / "commondir", own.with_name(Path(worktree.path).name) / "commondir")
    else:
        (bench.folder / ".git/commondir").write_text(f"{theirs}\n")
    project = Project(bench.folder)
    found = registered_at(project, Path(worktree.path))
    assert found
    at = project.git.at(found.admin, found.folder) if place == "worktree" else project.git
    assert at.output("rev-parse", "--git-common-dir") == str(bench.folder / ".git")
    assert at.ask("config", "--get", "filter.trap.clean").out == b""
    assert "theirs" not in at.environment["GIT_AUTHOR_NAME"]


def test_settings_that_change_while_they_are_read_run_nothing(bench: WorktreeBench, tmp_path: Path):
    """The settings are harmless when they are checked and harmful when git runs."""
    trap = tmp_path / "trap"
    worktree = bench.begun()
    theirs = planted_repository(bench, worktree, trap)
    harmful = (theirs / "config").read_text()
    (theirs / "config").write_text(harmful.partition("[user]")[0])
    impostor(bench, worktree, common=str(theirs))
    project = Project(bench.folder)
    checkout = checkout_of(project, worktree)
    assert checkout.git.environment
    (theirs / "config").write_text(harmful)
    assert "a.txt" in {each.path for each in changes_of(checkout, "branch").files}
    assert not trap.exists()


def test_an_impostor_admin_folder_does_not_replace_the_real_one(bench: WorktreeBench):
    worktree = bench.begun()
    folder = Path(worktree.path)
    put(folder, {"b.txt": b"only staged\n"})
    git(folder, "add", "b.txt")
    put(folder, {"b.txt": b"bee\n"})
    made = impostor(bench, worktree)
    shutil.copy(bench.folder / ".git/index", made / "index")
    project = Project(bench.folder)
    listed = all_listed(project)
    assert [(each.worktree, each.state) for each in listed] == [(worktree, WorktreeState.READY)]
    found = registered_at(project, folder)
    assert found
    assert found.admin.name == folder.name
    removed = result(Removed, bench.handler.remove(bench.planned(worktree)))
    assert isinstance(removed.keep, KeptWork)
    assert git(bench.folder, "show", f"{removed.keep.ref}^2:b.txt") == b"only staged\n"


def test_finished_work_is_committed_to_the_projects_own_repository(
    bench: WorktreeBench, tmp_path: Path
):
    worktree = bench.begun()
    theirs = planted_repository(bench, worktree, tmp_path / "trap")
    shutil.move(theirs, tmp_path / "theirs")
    (Path(worktree.path) / ".gitattributes").unlink()
    impostor(bench, worktree, common=str(tmp_path / "theirs"))
    result(Finished, bench.handler.finish(worktree, "All of it"))
    assert git(bench.folder, "show", f"{worktree.branch}:a.txt") == b"other\n"


@pytest.mark.parametrize("name", [".gitignore", ".gitattributes"])
def test_a_pipe_in_place_of_a_file_does_not_block(
    bench: WorktreeBench, monkeypatch: pytest.MonkeyPatch, name: str
):
    monkeypatch.setattr(named_git, "_LONGEST", 0.5)
    worktree = bench.begun()
    put(Path(worktree.path), {"a.txt": b"changed\n"})
    (Path(worktree.path) / name).unlink()
    os.mkfifo(Path(worktree.path) / name)
    done = bench.handler.finish(worktree)
    assert isinstance(done, InTheWay), done
    assert "within 0.5 s" in str(done)
    assert bench.handler.all_listed() == [Listed(worktree=worktree, state=WorktreeState.READY)]
