"""Approved git changes stay, in the real product and with any sandbox."""

import subprocess
from pathlib import Path

import pytest

from incidents.test_git_history import commit, git
from rookery.core.facts import Noted
from support.governed_session import Followed, Governed, run
from support.repositories import copy_of
from support.terminal_session import Installed

NO_SANDBOX = '[sandbox]\nuse = "off"\n'
WORK = {
    "merge": ("git merge -q feature", "sandbox"),
    "move": ("git mv pkg pkg2", "none"),
    "unpack": ("tar xf files.tar", "sandbox"),
}


@pytest.fixture
def project(tmp_path: Path, request: pytest.FixtureRequest) -> Governed:
    stage = Governed(Installed(tmp_path), None)
    if request.param == "none":
        stage.settings(NO_SANDBOX)
    copy_of(_make_repository, stage.root)
    return stage


def _make_repository(root: Path) -> None:
    git(root, "init", "-q", "-b", "main")
    for name in ("user.name", "user.email"):
        git(root, "config", name, "a@example.org")
    first = {"AGENTS.md": "ours\n", "pkg__conftest.py": "a\n", "pkg__setup.py": "b\n"}
    commit(root, "first", **first, **{".gitignore": "files.tar\n"})
    git(root, "checkout", "-qb", "feature")
    new = {".github__workflows__ci.yml": "on: push\n", "conftest.py": "x = 1\n"}
    commit(root, "second", **new, **{".env.example": "A=\n", "AGENTS.md": "theirs\n"})
    subprocess.run(["tar", "cf", "files.tar", "conftest.py", ".github"], cwd=root, check=True)
    git(root, "checkout", "-q", "main")


def approved(stage: Governed, *commands: str) -> Followed:
    reported = stage.play(
        *[[run(each)] for each in commands], book=["yes"] * len(commands), flags=()
    )
    assert not any("put back" in each.text for each in reported.of(Noted)), reported.of(Noted)
    return reported


@pytest.mark.parametrize(("command", "project"), WORK.values(), ids=WORK, indirect=["project"])
def test_an_approved_command_leaves_the_same_files_as_typing_it(
    project: Governed, command: str, tmp_path: Path
):
    typed = tmp_path / "typed"
    subprocess.run(["cp", "-a", str(project.root), str(typed)], check=True)
    subprocess.run(["bash", "-c", command], cwd=typed, check=True, capture_output=True)
    approved(project, command)
    assert files(project.root) == files(typed)
    assert git(project.root, "status", "--short") == git(typed, "status", "--short")


def files(root: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(root)): path.read_bytes()
        for path in root.rglob("*")
        if path.is_file() and ".git" not in path.parts
    }
