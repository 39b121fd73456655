"""What a command line has to do with git, as far as the judge has read it."""

from pathlib import Path

import pytest

from rookery.engine.ports.actions import GitUse, Judgement
from support.command_project import Bench, bench
from support.each_row import each_row

NONE, PART, ONLY = GitUse.NONE, GitUse.PART, GitUse.ONLY
LINES = [
    ("git merge feature", ONLY, True),
    ("git checkout -q x && ls", ONLY, True),
    ("cd src && git pull | tail -3", ONLY, True),
    ("FOO=1 git stash pop", ONLY, True),
    ("git status", NONE, True),
    ("GIT_EXEC_PATH=. git evil", PART, False),
    ("git --exec-path=. pull", PART, False),
    ("git --exec-path . pull", PART, False),
    ("git clone --config core.fsmonitor=./evil . new", PART, True),
    ("git log -3 && git diff", NONE, True),
    ("python3 -c 'import shutil'; git status", NONE, False),
    ("git commit -qm x; npm test", PART, False),
    ("sh -c 'git commit -m x'", PART, False),
    ("git rebase -x make main", PART, False),
    ("git submodule foreach make", PART, False),
    ("git merge x; cp -r a b", PART, True),
    ("mv .git gitold", NONE, True),
    ("tar xf a.tar", NONE, True),
    ("make commit", NONE, False),
    ("git-evil commit", NONE, False),
    ("PATH=. git commit", PART, False),
    ("PATH=.:$PATH; git commit", PART, False),
    ("env PATH=. git commit", PART, False),
    ("export PATH=.; git commit", PART, False),
    ("for PATH in .; do git commit; done", PART, False),
    ("PATH=. ls && git commit", PART, False),
    ("git commit -m `PATH=. git add x`", PART, False),
    ("GIT_EXEC_PATH=. git commit", PART, False),
    ("GIT_CONFIG_COUNT=1 git commit", PART, False),
    ("LD_PRELOAD=./x.so git commit", PART, False),
    ("HOME=. git commit", PART, False),
    ("BASH_ALIASES[git]=./evil; git commit", PART, False),
    ("alias git=./evil; git commit", PART, False),
    ("git() { git add .; }; git commit", PART, False),
    ("hash -p ./evil git; git commit", PART, False),
    ("echo evil > file; git add file", PART, True),
    ("git add file > /dev/null 2>&1", ONLY, True),
    ("GIT_EDITOR=true git rebase --continue", ONLY, True),
    ("GIT_EDITOR=./evil git rebase --continue", PART, False),
    ("GIT_AUTHOR_DATE='2026-01-01' git commit -m x", ONLY, True),
    ("MSG=x; git commit -m $MSG", ONLY, True),
    ("/usr/bin/git commit -m x", ONLY, True),
    ("./git commit", NONE, False),
    ("/tmp/git commit", NONE, False),
    ("/usr/bin/../../tmp/git commit", NONE, False),
    ("./echo x; git commit", PART, False),
    ("./mv a b", NONE, False),
]


@pytest.fixture(scope="module")
def judging(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    return bench(tmp_path_factory.mktemp("judging"))


@pytest.mark.parametrize(("line", "use", "moves"), LINES, ids=[row[0] for row in LINES])
def test_the_use_of_git_in_a_line_is_recognised(
    judging: Bench, line: str, use: GitUse, moves: bool
):
    judged = judging.judge(line, ".")
    assert (judged.git, judged.only_moves_files) == (use, moves)


def test_an_empty_judgement_claims_nothing():
    unknown = Judgement()
    assert (unknown.git, unknown.only_moves_files, unknown.meant_to_read) == (NONE, False, False)


def test_a_planted_git_earlier_on_the_path_is_not_trusted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    judging = bench(tmp_path)
    planted = tmp_path / "ws" / "tools" / "git"
    planted.parent.mkdir()
    planted.write_text("#!/bin/sh\n")
    planted.chmod(0o755)
    monkeypatch.setenv("PATH", f"{planted.parent}:/usr/bin:/bin")
    judged = judging.judge("git commit -m x", ".")
    assert (judged.git, judged.only_moves_files) == (PART, False)


@each_row(
    ("line", "kept"),
    [
        ("python3 x", True),
        ("git add -A; git commit -m x; python3 x", True),
        ("git log && python3 x", True),
        ("git branch -d x; python3 x", False),
        ("git stash pop && make", False),
        ("git evil", False),
        ("./git branch -d x", True),
    ],
)
def test_lines_that_could_delete_a_branch_are_recognised(judging: Bench, line: str, kept: bool):
    assert judging.judge(line, ".").keeps_references is kept
