"""What a command line has to do with git, as far as the judge has read it."""

from pathlib import Path

import pytest

from command_bench import Bench, bench
from rookery.core.shell.git_lines import GitUse, git_use, keeps_references, only_moves_files

NONE, PART, ONLY = GitUse.NONE, GitUse.PART, GitUse.ONLY
LINES = [
    ("git merge feature", ONLY, True),
    ("git checkout -q x && ls", ONLY, True),
    ("cd src && git pull | tail -3", ONLY, True),
    ("FOO=1 git stash pop", ONLY, True),
    ("git status", NONE, True),
    ("GIT_EXEC_PATH=. git evil", PART, True),
    ("git --exec-path=. pull", PART, True),
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
]


@pytest.fixture(scope="module")
def judging(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    return bench(tmp_path_factory.mktemp("judging"))


@pytest.mark.parametrize(("line", "use", "moves"), LINES, ids=[row[0] for row in LINES])
def test_what_a_line_does_with_git(judging: Bench, line: str, use: GitUse, moves: bool):
    judged = judging.judge(line, ".")
    assert (git_use(judged), only_moves_files(judged)) == (use, moves)


def test_of_what_nobody_judged_nothing_is_believed(tmp_path: Path):
    assert (git_use(None), only_moves_files(None)) == (NONE, False)


@pytest.mark.parametrize(
    ("line", "kept"),
    [
        ("python3 x", True),
        ("git add -A; git commit -m x; python3 x", True),
        ("git log && python3 x", True),
        ("git branch -d x; python3 x", False),
        ("git stash pop && make", False),
        ("git evil", False),
    ],
)
def test_whether_git_could_take_a_branch_away(judging: Bench, line: str, kept: bool):
    assert keeps_references(judging.judge(line, ".")) is kept
