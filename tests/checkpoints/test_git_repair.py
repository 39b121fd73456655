"""What a command destroys in a repository comes back, or a copy of it is kept."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from rookery.checkpoints import git_copies
from rookery.checkpoints.git_repair import GitMending
from support.repositories import copy_of

WHO = ("-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "gc.auto=0")


def git(folder: Path, *arguments: str) -> str:
    done = subprocess.run(
        ["git", *WHO, *arguments], cwd=folder, check=True, capture_output=True, text=True
    )
    return done.stdout.strip()


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
        self.mending = GitMending(self.root, self.store, self.aside)

    def after(
        self, deed: str, *, thorough: bool = True, approved: bool = False, alone: bool = False
    ) -> list[str]:
        assert self.mending.save([".git"], alone=alone) == ""
        subprocess.run([sys.executable, "-c", deed], cwd=self.root, check=True)
        told = self.mending.mend(thorough=thorough, approved=approved, alone=alone)
        self.mending.close()
        return told

    def is_whole(self, repository: Path | None = None) -> bool:
        at = [f"--git-dir={repository}"] if repository else []
        git(self.root, *at, "fsck", "--full", "--strict")
        branches = git(self.root, *at, "branch", "--format=%(refname:short)").split()
        log = git(self.root, *at, "log", "--format=%s").split()
        return (branches, log) == (["loose", "main", "other"], ["2", "1", "0"])


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


DESTROYED = {
    "objects": "import shutil; shutil.rmtree('.git/objects')",
    "one object": "import os, glob; os.remove(glob.glob('.git/objects/??/*')[0])",
    "references": "import shutil, os; shutil.rmtree('.git/refs'); os.remove('.git/packed-refs')",
    "packed references": "open('.git/packed-refs', 'w')",
    "a reference": "open('.git/refs/heads/loose', 'w').write('nonsense')",
    "what is checked out": "open('.git/HEAD', 'w').write('nonsense')",
    "the index": "open('.git/index', 'w').write('nonsense')",
    "half of the index": "open('.git/index', 'r+').truncate(40)",
    "packed references for words": "open('.git/packed-refs', 'w').write('# x\\n')",
    "a commit of a reference": "open('.git/refs/heads/loose', 'w').write('1' * 40 + '\\n')",
    "objects by emptying them": (
        "import os, glob\nfor found in glob.glob('.git/objects/??/*'):\n"
        "    os.chmod(found, 0o600)\n    open(found, 'w')"
    ),
    "objects by overwriting them": (
        "import os, glob; o = glob.glob('.git/objects/??/*')[0]; then = os.stat(o).st_mtime; "
        "os.chmod(o, 0o600); open(o, 'r+').write('zz'); os.utime(o, (then, then))"
    ),
    "all of it": "import shutil; shutil.rmtree('.git')",
    "all of it for a file": "import shutil; shutil.rmtree('.git'); open('.git', 'w')",
    "by moving it": "import os; os.mkdir('x'); os.rename('.git', 'x/gitold')",
    "by moving it away": "import os; os.rename('.git', '../gone')",
    "a link for objects": (
        "import os, shutil; shutil.rmtree('.git/objects'); os.mkdir('../e'); "
        "os.symlink('../../e', '.git/objects')"
    ),
}


@pytest.mark.parametrize("thorough", [True, False])
@pytest.mark.parametrize("deed", DESTROYED.values(), ids=DESTROYED.keys())
def test_what_was_destroyed_comes_back(bench: Bench, deed: str, thorough: bool):
    (told,) = bench.after(deed, thorough=thorough)
    assert told.startswith("A command ")
    assert bench.is_whole() or not thorough
    assert git(bench.root, "log", "--format=%s", "main").split() == ["2", "1", "0"]
    assert git(bench.root, "status", "--short", "-uno") == ""
    assert list((bench.root.parent / "e").glob("*")) == []


@pytest.mark.parametrize("deed", DESTROYED.values(), ids=DESTROYED.keys())
def test_after_a_yes_nothing_is_undone_and_a_copy_is_kept(bench: Bench, deed: str):
    (told,) = bench.after(deed, approved=True)
    (kept,) = bench.aside.iterdir()
    assert str(kept) in told
    assert bench.is_whole(kept)


EMPTIED = {
    "a log": "open('.git/logs/HEAD', 'w')",
    "the log of the stash": "open('.git/logs/refs/stash', 'w')",
    "what is checked out": "open('.git/HEAD', 'w').write('ref: refs/heads/nowhere')",
    "packed references": "open('.git/packed-refs', 'w').write('# pack-refs with: peeled \\n')",
}


@pytest.mark.parametrize("deed", EMPTIED.values(), ids=EMPTIED.keys())
def test_a_program_that_is_not_git_has_no_reason_to_do_this(bench: Bench, deed: str):
    (bench.root / "a.txt").write_text("stashed")
    git(bench.root, "stash")
    before = git(bench.root, "reflog"), git(bench.root, "stash", "list")
    (told,) = bench.after(deed)
    assert told.startswith("A command destroyed parts of .git")
    assert bench.is_whole()
    assert (git(bench.root, "reflog"), git(bench.root, "stash", "list")) == before


def test_references_that_a_script_had_git_move_and_pack_stay(bench: Bench):
    words = [["commit", "-q", "--allow-empty", "-m", "3"], ["pack-refs", "--all", "--prune"]]
    line = "import subprocess" + "".join(
        f"; subprocess.run(['git', *{WHO!r}, *{each!r}])" for each in words
    )
    assert bench.after(line) == []
    assert git(bench.root, "log", "--format=%s").split() == ["3", "2", "1", "0"]


def test_what_was_broken_before_the_command_is_left_alone(bench: Bench):
    (bench.root / ".git" / "refs" / "heads" / "broken").write_text("nonsense")
    assert bench.after("") == []


ORDINARY = {
    "nothing": [],
    "commit": ["commit", "-q", "--allow-empty", "-m", "x"],
    "packing": ["gc", "-q", "--prune=now"],
    "another branch": ["checkout", "-q", "other"],
    "no branch": ["branch", "-D", "loose"],
    "stash": ["stash", "clear"],
}


@pytest.mark.parametrize("words", ORDINARY.values(), ids=ORDINARY.keys())
def test_what_git_does_is_nothing_to_be_mended(bench: Bench, words: list[str]):
    line = f"import subprocess; subprocess.run(['git', *{WHO!r}, *{words!r}], check=True)"
    assert bench.after(line if words else "", thorough=False, alone=True) == []


@pytest.mark.parametrize(
    "words", [w for w in ORDINARY.values() if "-D" not in w], ids=lambda words: " ".join(words)
)
def test_references_that_git_moved_beside_another_program_are_nothing_to_be_told_of(
    bench: Bench, words: list[str]
):
    line = f"import subprocess; subprocess.run(['git', *{WHO!r}, *{words!r}], check=True)"
    assert bench.after(line if words else "", thorough=False) == []


LOST = {
    "a branch": "import os; os.remove('.git/refs/heads/loose')",
    "a branch and its log": (
        "import os; os.remove('.git/refs/heads/loose'); os.remove('.git/logs/refs/heads/loose')"
    ),
    "a packed branch": (
        "p = '.git/packed-refs'; lines = open(p).readlines(); "
        "open(p, 'w').writelines(each for each in lines if 'heads/other' not in each)"
    ),
    "where a branch was": (
        "import glob, subprocess; "
        "old = subprocess.run(['git', 'rev-parse', 'main~1'], capture_output=True).stdout; "
        "open('.git/refs/heads/own', 'wb').write(old); open('.git/logs/refs/heads/own', 'w')"
    ),
}


@pytest.mark.parametrize("approved", [True, False])
@pytest.mark.parametrize("deed", LOST.values(), ids=LOST.keys())
def test_a_branch_that_git_may_have_removed_is_named_and_kept_in_a_copy(
    bench: Bench, deed: str, approved: bool
):
    git(bench.root, "checkout", "-q", "--orphan", "own")
    git(bench.root, "commit", "-q", "--allow-empty", "-m", "own")
    git(bench.root, "checkout", "-q", "main")
    (bench.root / ".git" / "logs" / "HEAD").write_text("")
    (told,) = bench.after(deed, thorough=False, approved=approved)
    name = next(each for each in ("loose", "other", "own") if f"refs/heads/{each} (" in told)
    (kept,) = bench.aside.iterdir()
    assert str(kept) in told
    commit = git(bench.root, f"--git-dir={kept}", "rev-parse", name)
    assert commit[:12] in told


def test_what_is_gone_before_the_next_command_is_not_brought_back(bench: Bench):
    bench.after("")
    git(bench.root, "branch", "-D", "loose")
    assert bench.after("") == []
    assert "loose" not in git(bench.root, "branch")


def test_what_a_command_destroyed_that_was_killed_is_still_kept(bench: Bench):
    assert bench.mending.save([".git"]) == ""
    subprocess.run(["rm", "-rf", ".git/objects"], cwd=bench.root, check=True)
    os.mkdir(bench.root / ".git" / "objects")
    later = GitMending(bench.root, bench.store, bench.aside)
    assert later.save([".git"]) == ""
    assert later.mend(thorough=True, approved=False)
    assert bench.is_whole()


def test_copies_are_dropped_unless_a_command_may_still_need_them(bench: Bench):
    assert bench.mending.save([".git"]) == ""
    git_copies.drop_copies(bench.store)
    assert list(bench.store.glob("*/HEAD"))
    bench.mending.close()
    git_copies.drop_copies(bench.store)
    assert list(bench.store.iterdir()) == []


def test_a_repository_whose_folder_is_gone_is_kept_aside(bench: Bench):
    copy_of(make, bench.root / "lib")
    bench.mending.save([".git", "lib/.git"])
    subprocess.run(["rm", "-rf", "lib"], cwd=bench.root, check=True)
    (told,) = bench.mending.mend(thorough=True, approved=False)
    (kept,) = bench.aside.iterdir()
    assert str(kept) in told
    assert bench.is_whole(kept)


@pytest.mark.parametrize("more", ["true", "rm -rf moved/.git/objects"])
def test_a_repository_that_was_moved_with_its_folder_is_mended_where_it_is(bench: Bench, more: str):
    copy_of(make, bench.root / "lib")
    bench.mending.save([".git", "lib/.git"])
    subprocess.run(["sh", "-c", f"mv lib moved; {more}"], cwd=bench.root, check=True)
    told = bench.mending.mend(thorough=True, approved=False)
    assert bool(told) is (more != "true")
    assert not bench.aside.exists()
    assert not (bench.root / "lib").exists()
    assert bench.is_whole(bench.root / "moved/.git")


def test_another_folder_is_not_taken_for_a_repository_that_was_removed(bench: Bench):
    bench.mending.save([".git"])
    subprocess.run(["sh", "-c", "rm -rf .git; mkdir a b c d"], cwd=bench.root, check=True)
    (told,) = bench.mending.mend(thorough=True, approved=False)
    assert "restored" in told
    assert bench.is_whole()


def test_the_repository_of_a_linked_worktree_is_mended(bench: Bench):
    git(bench.root, "worktree", "add", "-q", str(bench.root.parent / "linked"), "other")
    mending = GitMending(bench.root.parent / "linked", bench.store, bench.aside)
    assert mending.save([".git"]) == ""
    subprocess.run(["rm", "-rf", ".git/objects"], cwd=bench.root, check=True)
    assert mending.mend(thorough=True, approved=False)
    assert bench.is_whole()


def test_what_cannot_be_copied_is_said_before_the_command(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(git_copies, "MOST_COPIED", 10)
    assert "too large" in bench.mending.save([".git"])


EMPTIED_PACKS = (
    "import os, glob\nfor found in glob.glob('.git/objects/pack/*'):\n"
    "    os.chmod(found, 0o600)\n    open(found, 'w')"
)


def test_objects_of_any_size_are_copied_before_another_program_runs(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(git_copies, "MOST_DUPLICATED", 10)
    git(bench.root, "gc", "-q")
    bench.after("", alone=True)  # git alone needs no more than second names of them
    assert bench.after(EMPTIED_PACKS)
    assert bench.is_whole()


def test_objects_that_find_no_room_are_told_of_before_another_program_runs(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(git_copies, "SHARE_OF_FREE_ROOM", 0)
    assert bench.mending.save([".git"], alone=True) == ""
    assert "no space for a copy" in bench.mending.save([".git"], alone=False)
