"""What a command destroys in a repository comes back, or a copy of it is kept."""

import os
import shlex
import subprocess
from pathlib import Path

import pytest

from rookery.checkpoints import git_copies
from rookery.checkpoints.git_repair import GitRepair
from support.repositories import IDENTITY, copy_of, git


def make(root: Path) -> None:
    git(root, "init", "-q", "-b", "main")
    for number in range(3):
        (root / "a.txt").write_text(f"{number}\n")
        git(root, "add", "a.txt")
        git(root, "commit", "-qm", str(number))
    git(root, "branch", "other")
    git(root, "tag", "one")
    git(root, "pack-refs", "--all")
    git(root, "branch", "loose")


class Bench:
    def __init__(self, folder: Path) -> None:
        self.root = folder / "work"
        self.aside = folder / "aside"
        self.store = folder / "store"
        copy_of(make, self.root)
        self.repair = GitRepair(self.root, self.store, self.aside)

    def after(
        self, deed: str, *, thorough: bool = True, approved: bool = False, alone: bool = False
    ) -> list[str]:
        assert self.repair.save([".git"], alone=alone) == ""
        subprocess.run(["sh", "-c", deed], cwd=self.root, check=True)
        reported = self.repair.repair(thorough=thorough, approved=approved, alone=alone)
        self.repair.close()
        return reported

    def is_whole(self, repository: Path | None = None) -> bool:
        at = [f"--git-dir={repository}"] if repository else []
        git(self.root, *at, "fsck", "--full", "--strict")
        branches = git(self.root, *at, "branch", "--format=%(refname:short)").split()
        log = git(self.root, *at, "log", "--format=%s").split()
        return (branches, log) == (["loose", "main", "other"], ["2", "1", "0"])


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


FIRST = "set -- .git/objects/??/*"
DESTROYED = {
    "objects": "rm -rf .git/objects",
    "one object": f'{FIRST}; rm -f "$1"',
    "references": "rm -rf .git/refs .git/packed-refs",
    "packed references": ": > .git/packed-refs",
    "a reference": "printf nonsense > .git/refs/heads/loose",
    "what is checked out": "printf nonsense > .git/HEAD",
    "the index": "printf nonsense > .git/index",
    "half of the index": "truncate -s 40 .git/index",
    "packed references for words": "echo '# x' > .git/packed-refs",
    "a commit of a reference": f"echo {'1' * 40} > .git/refs/heads/loose",
    "objects by emptying them": (
        'chmod 600 .git/objects/??/*; for each in .git/objects/??/*; do : > "$each"; done'
    ),
    "objects by overwriting them": (
        f'{FIRST}; touch -r "$1" ../then; chmod 600 "$1"; '
        'printf zz | dd of="$1" conv=notrunc status=none; touch -r ../then "$1"'
    ),
    "all of it": "rm -rf .git",
    "all of it for a file": "rm -rf .git; : > .git",
    "by moving it": "mkdir x; mv .git x/gitold",
    "by moving it away": "mv .git ../gone",
    "a link for objects": "rm -rf .git/objects; mkdir ../e; ln -s ../../e .git/objects",
}


JUDGED_LESS = [name for name in DESTROYED if "reference" in name or name == "all of it"]
"""Damage that is judged less strictly after a git command, which may change references."""
REPAIRED = [*((name, True) for name in DESTROYED), *((name, False) for name in JUDGED_LESS)]


@pytest.mark.parametrize(("name", "thorough"), REPAIRED)
def test_a_destroyed_repository_is_repaired(bench: Bench, name: str, thorough: bool):
    (reported,) = bench.after(DESTROYED[name], thorough=thorough)
    assert reported.startswith("A command ")
    if thorough:
        assert bench.is_whole()
    assert git(bench.root, "log", "--format=%s", "main").split() == ["2", "1", "0"]
    assert git(bench.root, "status", "--short", "-uno") == ""
    assert list((bench.root.parent / "e").glob("*")) == []


@pytest.mark.parametrize("name", ["objects", "a reference", "all of it", "by moving it"])
def test_after_approval_nothing_is_repaired_but_a_copy_is_kept(bench: Bench, name: str):
    (reported,) = bench.after(DESTROYED[name], approved=True)
    (kept,) = bench.aside.iterdir()
    assert str(kept) in reported
    assert bench.is_whole(kept)


EMPTIED = {
    "a log": ": > .git/logs/HEAD",
    "the log of the stash": ": > .git/logs/refs/stash",
    "what is checked out": "printf 'ref: refs/heads/nowhere' > .git/HEAD",
    "packed references": "echo '# pack-refs with: peeled ' > .git/packed-refs",
}


@pytest.mark.parametrize("deed", EMPTIED.values(), ids=EMPTIED.keys())
def test_logs_and_references_emptied_by_a_program_are_restored(bench: Bench, deed: str):
    (bench.root / "a.txt").write_text("stashed")
    git(bench.root, "stash")
    before = git(bench.root, "reflog"), git(bench.root, "stash", "list")
    (reported,) = bench.after(deed)
    assert reported.startswith("A command destroyed parts of .git")
    assert bench.is_whole()
    assert (git(bench.root, "reflog"), git(bench.root, "stash", "list")) == before


def test_references_moved_by_git_in_a_script_stay(bench: Bench):
    commit = ORDINARY["commit -q --allow-empty -m x"]
    pack = f"git {shlex.join(IDENTITY)} pack-refs --all --prune"
    assert bench.after(f"{commit}; {pack}") == []
    assert git(bench.root, "log", "--format=%s").split() == ["x", "2", "1", "0"]


def test_earlier_damage_is_not_repaired(bench: Bench):
    (bench.root / ".git" / "refs" / "heads" / "broken").write_text("nonsense")
    assert bench.after("") == []


ORDINARY = {
    words: f"git {shlex.join(IDENTITY)} {words}"
    for words in (
        "commit -q --allow-empty -m x",
        "gc -q --prune=now",
        "checkout -q other",
        "branch -q -D loose",
        "stash clear",
    )
} | {"nothing": ""}


@pytest.mark.parametrize("line", ORDINARY.values(), ids=ORDINARY)
def test_ordinary_git_commands_need_no_repair(bench: Bench, line: str):
    assert bench.after(line, thorough=False, alone=True) == []


@pytest.mark.parametrize("words", [words for words in ORDINARY if "-D" not in words])
def test_references_moved_by_git_next_to_another_program_are_not_reported(bench: Bench, words: str):
    assert bench.after(ORDINARY[words], thorough=False) == []


LOST = {
    "a branch": "rm .git/refs/heads/loose",
    "a branch and its log": "rm .git/refs/heads/loose .git/logs/refs/heads/loose",
    "a packed branch": (
        "grep -v heads/other .git/packed-refs > ../some; cat ../some > .git/packed-refs"
    ),
    "where a branch was": (
        "git rev-parse main~1 > .git/refs/heads/own; : > .git/logs/refs/heads/own"
    ),
}


@pytest.mark.parametrize("approved", [True, False])
@pytest.mark.parametrize("deed", LOST.values(), ids=LOST.keys())
def test_a_removed_branch_is_reported_and_kept_in_a_copy(bench: Bench, deed: str, approved: bool):
    git(bench.root, "checkout", "-q", "--orphan", "own")
    git(bench.root, "commit", "-q", "--allow-empty", "-m", "own")
    git(bench.root, "checkout", "-q", "main")
    (bench.root / ".git" / "logs" / "HEAD").write_text("")
    (reported,) = bench.after(deed, thorough=False, approved=approved)
    name = next(each for each in ("loose", "other", "own") if f"refs/heads/{each} (" in reported)
    (kept,) = bench.aside.iterdir()
    assert str(kept) in reported
    commit = git(bench.root, f"--git-dir={kept}", "rev-parse", name)
    assert commit[:12] in reported


def test_changes_between_commands_are_not_repaired(bench: Bench):
    bench.after("")
    git(bench.root, "branch", "-D", "loose")
    assert bench.after("") == []
    assert "loose" not in git(bench.root, "branch")


def test_damage_by_a_killed_command_is_repaired_later(bench: Bench):
    assert bench.repair.save([".git"]) == ""
    subprocess.run(["rm", "-rf", ".git/objects"], cwd=bench.root, check=True)
    os.mkdir(bench.root / ".git" / "objects")
    later = GitRepair(bench.root, bench.store, bench.aside)
    assert later.save([".git"]) == ""
    assert later.repair(thorough=True, approved=False)
    assert bench.is_whole()


def test_copies_are_dropped_unless_a_command_may_need_them(bench: Bench):
    assert bench.repair.save([".git"]) == ""
    git_copies.drop_copies(bench.store)
    assert list(bench.store.glob("*/HEAD"))
    bench.repair.close()
    git_copies.drop_copies(bench.store)
    assert list(bench.store.iterdir()) == []


def test_a_repository_removed_with_its_folder_is_kept_aside(bench: Bench):
    copy_of(make, bench.root / "lib")
    bench.repair.save([".git", "lib/.git"])
    subprocess.run(["rm", "-rf", "lib"], cwd=bench.root, check=True)
    (reported,) = bench.repair.repair(thorough=True, approved=False)
    (kept,) = bench.aside.iterdir()
    assert str(kept) in reported
    assert bench.is_whole(kept)


@pytest.mark.parametrize("more", ["true", "rm -rf moved/.git/objects"])
def test_a_repository_moved_with_its_folder_is_repaired_in_place(bench: Bench, more: str):
    copy_of(make, bench.root / "lib")
    bench.repair.save([".git", "lib/.git"])
    subprocess.run(["sh", "-c", f"mv lib moved; {more}"], cwd=bench.root, check=True)
    reported = bench.repair.repair(thorough=True, approved=False)
    assert bool(reported) is (more != "true")
    assert not bench.aside.exists()
    assert not (bench.root / "lib").exists()
    assert bench.is_whole(bench.root / "moved/.git")


def test_another_folder_is_not_mistaken_for_a_removed_repository(bench: Bench):
    bench.repair.save([".git"])
    subprocess.run(["sh", "-c", "rm -rf .git; mkdir a b c d"], cwd=bench.root, check=True)
    (reported,) = bench.repair.repair(thorough=True, approved=False)
    assert "restored" in reported
    assert bench.is_whole()


def test_the_repository_of_a_linked_worktree_is_repaired(bench: Bench):
    git(bench.root, "worktree", "add", "-q", str(bench.root.parent / "linked"), "other")
    repair = GitRepair(bench.root.parent / "linked", bench.store, bench.aside)
    assert repair.save([".git"]) == ""
    subprocess.run(["rm", "-rf", ".git/objects"], cwd=bench.root, check=True)
    assert repair.repair(thorough=True, approved=False)
    assert bench.is_whole()


def test_a_repository_too_large_to_copy_is_reported_before_the_command(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(git_copies, "MAX_COPIED", 10)
    assert "too large" in bench.repair.save([".git"])


EMPTIED_PACKS = 'cd .git/objects/pack; chmod 600 *; for each in *; do : > "$each"; done'


def test_objects_of_any_size_are_copied_before_a_non_git_program(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(git_copies, "MAX_DUPLICATED", 10)
    git(bench.root, "gc", "-q")
    bench.after("", alone=True)  # git alone needs no more than second names of them
    assert bench.after(EMPTIED_PACKS)
    assert bench.is_whole()


def test_missing_space_for_a_copy_is_reported_before_a_non_git_program(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(git_copies, "SHARE_OF_FREE_ROOM", 0)
    assert bench.repair.save([".git"], alone=True) == ""
    assert "no space for a copy" in bench.repair.save([".git"], alone=False)
