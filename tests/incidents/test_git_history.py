"""Nothing that a command does, and nothing that is done after it, loses what git knows."""

import subprocess
from pathlib import Path

import pytest

from llm_server import call
from support.canaries import World
from support.repositories import copy_of

CONFINED = ("-p", "-y")
UNCONFINED = ("-p", "-y", "--sandbox", "off")
WHO = ("-c", "user.name=a", "-c", "user.email=a@example.org")


def run(command: str) -> dict:
    return call("execute_command", command=command, cwd=None, timeout=None)


def git(folder: Path, *arguments: str) -> str:
    done = subprocess.run(
        ["git", *WHO, *arguments], cwd=folder, check=True, capture_output=True, text=True
    )
    return done.stdout.strip()


def commit(folder: Path, message: str, **files: str) -> None:
    for name, text in files.items():
        path = folder / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", message)


@pytest.fixture
def project(world: World) -> World:
    """A repository with two commits on main, and a branch with protected files."""
    copy_of(_make_repository, world.workspace)
    return world


def _make_repository(root: Path) -> None:
    git(root, "init", "-q", "-b", "main")
    for name in ("user.name", "user.email"):
        git(root, "config", name, "a@example.org")
    files = {"a.txt": "1\n", "AGENTS.md": "ours\n", "pkg__conftest.py": "", "pkg__setup.py": ""}
    commit(root, "first", **files)
    git(root, "checkout", "-qb", "feature")
    new = {".github__workflows__ci.yml": "on: push\n", "conftest.py": "x = 1\n", ".env.example": ""}
    commit(root, "second", **new, **{"AGENTS.md": "theirs\n"})
    git(root, "checkout", "-q", "main")


PLANT = "python3 -c \"open('AGENTS.md', 'w').write('evil'); open('conftest.py', 'w')\""
PLANTS = (
    f"{PLANT}; git add -A",
    f"{PLANT}; git commit -qam x",
    "git rm -q AGENTS.md; python3 -c 'print(1)'",
)


@pytest.mark.parametrize("command", PLANTS)
def test_protected_files_are_restored_even_if_a_command_commits_them(project: World, command: str):
    project.visit([run(command)], flags=CONFINED)
    assert (project.workspace / "AGENTS.md").read_text() == "ours\n"
    assert not (project.workspace / "conftest.py").exists()


MERGES = {
    "git merge -q feature": UNCONFINED,
    "git checkout -q feature && python3 -c 'print(1)'": CONFINED,
    "git stash -q; git stash pop -q": CONFINED,
}


@pytest.mark.parametrize(("command", "flags"), MERGES.items())
def test_protected_files_that_git_checks_out_stay(
    project: World, command: str, flags: tuple[str, ...]
):
    (project.workspace / "AGENTS.md").write_text("edited\n" if "stash" in command else "ours\n")
    reported = project.visit([run(command)], flags=flags)
    root = project.workspace
    left = git(root, "status", "--short")
    assert left == ("M AGENTS.md" if "stash" in command else ""), (reported.results, reported.err)
    assert (root / ".github/workflows/ci.yml").exists() or "stash" in command


OBJECTS = "python3 -c \"import shutil; shutil.rmtree('.git/objects')\""
RENAMING = "python3 -c \"import os; os.rename('.git', 'gitold')\""
BESIDE_GIT = f"{OBJECTS}; git add a.txt"
OPAQUE = {
    "objects": (OBJECTS, UNCONFINED),
    "renaming": (RENAMING, UNCONFINED),
    "beside git": (BESIDE_GIT, CONFINED),
}


@pytest.mark.parametrize(("command", "flags"), OPAQUE.values(), ids=OPAQUE)
def test_commands_without_approval_cannot_destroy_git_history(
    project: World, command: str, flags: tuple[str, ...]
):
    reported = project.visit([run(command)], flags=flags)
    assert git(project.workspace, "log", "--all", "--format=%s") == "second\nfirst", (
        reported.results
    )
    git(project.workspace, "fsck", "--full")
    assert git(project.workspace, "status", "--short") == ""
