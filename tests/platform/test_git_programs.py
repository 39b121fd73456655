"""Programs that git would run are named before the approval."""

from pathlib import Path

import pytest

from rookery.commands.judge import CommandJudge
from rookery.core.limits import Limits
from rookery.platform.git_programs import git_programs
from rookery.workspace.files import WorkspaceFiles
from support.repositories import git


def hook(folder: Path, name: str) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n", encoding="utf-8")
    path.chmod(0o755)
    return path


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    root = tmp_path / "work"
    root.mkdir()
    git(root, "init", "-q", "-b", "main")
    (root / "a.txt").write_text("a\n", encoding="utf-8")
    git(root, "add", "-A")
    git(root, "commit", "-qm", "one")
    return root.resolve()


def reported(root: Path, line: str) -> list[str]:
    return git_programs(root, str(root), line.split())


def test_hooks_are_named_for_the_commands_that_run_them(repository: Path):
    hooks = repository / ".git" / "hooks"
    commit, push = hook(hooks, "pre-commit"), hook(hooks, "pre-push")
    hook(hooks, "post-merge.sample")
    (hooks / "commit-msg").write_text("not executable", encoding="utf-8")
    assert reported(repository, "git commit -m x") == [f"runs the git hook pre-commit: {commit}"]
    assert reported(repository, "git push") == [f"runs the git hook pre-push: {push}"]
    assert reported(repository, "git add a.txt") == []
    assert len(reported(repository, "git unheard-of")) == 2


def test_hooks_in_another_folder_are_named(repository: Path):
    git(repository, "config", "core.hooksPath", "tools/hooks")
    path = hook(repository / "tools" / "hooks", "pre-commit")
    (repository / "sub").mkdir()
    named = [f"runs the git hook pre-commit: {path}"]
    assert reported(repository, "git commit") == named
    assert git_programs(repository, str(repository / "sub"), ["git", "commit"]) == named


@pytest.mark.parametrize(
    ("key", "command"),
    [
        ("filter.x.clean", "git add ."),
        ("filter.x.smudge", "git checkout main"),
        ("filter.x.process", "git commit -a"),
        ("merge.x.driver", "git merge other"),
        ("core.sshCommand", "git fetch"),
        ("credential.helper", "git push"),
        ("credential.https://h.helper", "git push"),
        ("core.fsmonitor", "git add ."),
        ("core.editor", "git commit"),
        ("sequence.editor", "git rebase -i HEAD~1"),
        ("gpg.program", "git commit -S"),
        ("gpg.ssh.program", "git tag -s v1"),
        ("submodule.x.update", "git submodule update"),
        ("trailer.x.cmd", "git commit"),
        ("diff.x.textconv", "git diff --textconv"),
        ("mergetool.x.cmd", "git mergetool"),
        ("remote.x.uploadpack", "git pull"),
        ("alias.ship", "git ship"),
    ],
)
def test_programs_in_the_settings_of_the_repository_are_named(
    repository: Path, key: str, command: str
):
    assert reported(repository, command) == []
    git(repository, "config", key, "!./evil --now")
    [note] = reported(repository, command)
    assert note.endswith("./evil --now")


def test_the_lines_that_a_rebase_would_still_run_are_named(repository: Path):
    todo = repository / ".git" / "rebase-merge" / "git-rebase-todo"
    todo.parent.mkdir()
    todo.write_text("pick abc one\nexec make   deploy\nx ./evil\n# exec no\n", encoding="utf-8")
    named = [f"the rebase runs: {each}" for each in ("make deploy", "./evil")]
    assert reported(repository, "git rebase --continue") == named
    assert reported(repository, "git rebase --abort") == []


def test_a_question_about_a_git_command_names_what_it_runs(repository: Path, tmp_path: Path):
    path = hook(repository / ".git" / "hooks", "pre-commit")
    (repository / "sub").mkdir()
    files = WorkspaceFiles(repository, Limits(), home=tmp_path)
    judge = CommandJudge(
        files,
        repository,
        home=tmp_path,
        hiding=files.boundaries.hiding,
        git_programs=lambda folder, words: git_programs(repository, folder, words),
    )
    note = f"runs the git hook pre-commit: {path}"
    for line in ("git commit -m x", "cd sub && git commit", "bash -c 'git -C sub commit -m x'"):
        assert note in judge(line, "").notes
    assert judge("git status", "").notes == ()


def test_outside_of_a_repository_nothing_is_named(tmp_path: Path):
    assert git_programs(tmp_path, str(tmp_path), ["git", "commit"]) == []
    assert git_programs(tmp_path, str(tmp_path / "gone"), ["git", "commit"]) == []
