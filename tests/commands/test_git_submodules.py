"""Git commands around a nested repository whose filter must not run."""

import shutil
import subprocess
from pathlib import Path

import pytest

from rookery.commands.program_tables import readers
from rookery.commands.programs import reading
from rookery.commands.words import words
from rookery.engine.ports.actions import Pipeline, PlainCommand
from rookery.sandbox.launcher import plain_argv
from support.repositories import git

GIT = shutil.which("git") or "/usr/bin/git"
TRUE = shutil.which("true") or "/bin/true"


@pytest.fixture(scope="module")
def looked_at(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository with another in it, whose filter leaves a mark when it is asked for changes;
    the settings of the outer one ask for them wherever that is possible."""
    folder = tmp_path_factory.mktemp("submodules")
    root, sub = folder / "project", folder / "project" / "sub"
    sub.mkdir(parents=True)
    git(root, "init", "-q", "-b", "main")
    (root / "file").write_text("one\n")
    git(root, "add", "file")
    git(root, "commit", "-qm", "first")
    git(sub, "init", "-q", "-b", "main")
    (sub / "inner").write_text("one\n")
    (sub / ".gitattributes").write_text("* filter=evil diff=evil\n")
    for count in (1, 2):
        (sub / "inner").write_text(f"{count}\n")
        git(sub, "add", ".")
        git(sub, "commit", "-qm", f"inner {count}")
        git(root, "add", "sub")
        git(root, "commit", "-qm", f"sub {count}")
    mark = f"touch '{folder}/mark'; cat"
    for key in ("filter.evil.clean", "diff.evil.textconv", "core.fsmonitor", "diff.external"):
        git(sub, "config", key, mark)
    (sub / "inner").write_text("three\n")
    git(root, "config", "diff.submodule", "diff")
    git(root, "config", "status.submoduleSummary", "true")
    git(root, "config", "diff.ignoreSubmodules", "none")
    git(root, "config", "submodule.sub.ignore", "none")
    git(root, "config", "submodule.sub.active", "true")
    return root


@pytest.fixture
def project(looked_at: Path) -> Path:
    """All tests only look at it."""
    (looked_at.parent / "mark").unlink(missing_ok=True)
    return looked_at


LINES = [
    *("git status", "git status -s", "git diff", "git diff HEAD", "git diff --stat"),
    *("git diff HEAD~1 HEAD", "git log -p", "git log --stat", "git show", "git show HEAD~1"),
    *("git diff-tree -p HEAD", "git blame file", "git ls-files -m", "git grep one"),
    *("git stash list", "git describe --always", "git rev-list --objects HEAD"),
]


def run(lines: list[str], project: Path) -> str:
    commands = [PlainCommand((GIT, *line.split()[1:])) for line in lines]
    plain = tuple(Pipeline((command,), "succeeded") for command in commands)
    argv = plain_argv((Pipeline((PlainCommand((TRUE,)),)), *plain), root=str(project))
    done = subprocess.run(argv, cwd=project, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_the_filter_of_a_submodule_is_not_run(project: Path):
    for line in LINES:
        assert reading(words(line.split())).reads_only, "otherwise it is asked about"
    run(LINES, project)
    assert not (project.parent / "mark").exists()


@pytest.mark.parametrize("line", ["git describe --always --dirty", "git status", "git log -p"])
def test_the_submodule_filter_runs_under_plain_git(project: Path, line: str):
    git(project, *line.split()[1:])
    assert (project.parent / "mark").exists()


def test_git_commands_that_enter_submodules_are_not_read_only():
    assert not reading(words(["git", "describe", "--dirty"])).reads_only
    assert not reading(words(["git", "describe", "--broken"])).reads_only
    assert "git whatchanged" not in readers()


def test_git_show_still_shows_submodule_changes(project: Path):
    assert "+Subproject commit" in run(["git show"], project)
