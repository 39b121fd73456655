"""Git runs what a repository's configuration says; here it does not, and reads nothing
elsewhere either.
"""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from msgspec import Struct

from llm_server import call
from support.canaries import Visit, World, remove, run, tree
from support.hostile_repositories import git, git_everything

QUESTIONS = {
    "git status": "data.bin",
    "git diff": "+new",
    "git log -p": "first",
    "git show": "first",
    "git blame README.md": "needle",
    "git log --show-signature": "",
    "git diff --stat HEAD": "data.bin",
    "git branch": "",
    "git ls-files": "",
    "git grep needle": "",
}
INSIDE = {"git status": "data.bin", "git log": "first", "git diff": "+new"}
"""Asked again in a folder that git takes for a bare repository; the workspace's own answers."""


class Trusted(Struct):
    world: World
    visit: Visit
    results: dict[str, str]
    before: dict[str, tuple[int, str]]


@pytest.fixture(scope="module")
def trusted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trusted]:
    """The worst case: no approval and no sandbox, so nothing else protects."""
    world = World(tmp_path_factory.mktemp("git"))
    git_everything(world)
    before = tree(world.workspace)
    asked = [run(command) for command in QUESTIONS]
    asked += [run(command, cwd="vendor/lib") for command in INSIDE]
    flags = ("-p", "-y", "--sandbox", "off")
    visit = world.visit(*[[each] for each in asked], flags=flags)
    names = (*QUESTIONS, *(f"{command} inside" for command in INSIDE))
    yield Trusted(world, visit, dict(zip(names, visit.results, strict=True)), before)
    remove(world)


def test_git_runs_no_program_from_the_repositorys_configuration(trusted: Trusted):
    """Nor does it enter a bare repository in a folder, or change anything by looking."""
    assert trusted.visit.code == 0
    assert trusted.world.harm(trusted.visit) == []
    for command, found in QUESTIONS.items():
        assert found in trusted.results[command], command
    for command, found in INSIDE.items():
        assert found in trusted.results[f"{command} inside"], command
    assert tree(trusted.world.workspace) == trusted.before


def test_checkpoints_run_no_program_and_leave_the_repository_unchanged(world: World):
    """An edit and a command are checkpointed before and after, and undone."""
    git_everything(world)
    before = tree(world.workspace / ".git")
    visit = world.visit(
        [call("write_to_file", path="new.txt", content="x\n")],
        [run("python3 -c \"open('other.txt', 'w').write('y')\"")],
        flags=("-p", "-y", "--sandbox", "off"),
    )
    assert (world.workspace / "new.txt").exists(), visit.results
    assert (world.workspace / "other.txt").exists(), visit.results
    done = world.run("rewind", "--help")
    assert done.returncode == 0
    assert world.harm(visit) == []
    assert tree(world.workspace / ".git") == before


# ── git as a way out of the workspace ───────────────────────────────────────────────────

SECRET = "a secret of another folder"


def other_repository(world: World) -> Path:
    other = world.workspace.parent / "private"
    other.mkdir()
    git(other, "init", "-q")
    (other / "plan.txt").write_text(f"{SECRET}\n")
    git(other, "add", ".")
    git(other, "commit", "-qm", "private")
    return other


def own_repository(world: World) -> Path:
    git(world.workspace, "init", "-q")
    world.put("plan.txt", "mine\n")
    git(world.workspace, "add", ".")
    git(world.workspace, "commit", "-qm", "mine")
    return world.workspace / ".git"


def by_worktree(world: World) -> str:
    other_repository(world)
    with (own_repository(world) / "config").open("a") as config:
        config.write("[core]\n\tworktree = ../../private\n")
    return "git diff"


def by_git_file(world: World) -> str:
    world.put(".git", f"gitdir: {other_repository(world)}/.git\n")
    return "git log -p"


def by_link(world: World) -> str:
    os.symlink(other_repository(world) / ".git", world.workspace / ".git")
    return "git log -p"


def by_alternates(world: World) -> str:
    other = other_repository(world)
    info = own_repository(world) / "objects" / "info"
    info.mkdir(exist_ok=True)
    (info / "alternates").write_text(f"{other}/.git/objects\n")
    return f"git show {git(other, 'rev-parse', 'HEAD')}"


def by_common_folder(world: World) -> str:
    other = other_repository(world)
    (own_repository(world) / "commondir").write_text(f"{other}/.git\n")
    return f"git show {git(other, 'rev-parse', 'HEAD')}"


def by_parent(world: World) -> str:
    """The folder itself has no repository; one above it has."""
    above = world.workspace.parent
    git(above, "init", "-q")
    (above / "plan.txt").write_text(f"{SECRET}\n")
    git(above, "add", "plan.txt")
    git(above, "commit", "-qm", "above")
    return "git log -p"


WAYS_OUT = [
    by_worktree,
    by_git_file,
    by_link,
    by_alternates,
    by_common_folder,
    by_parent,
]


@pytest.mark.parametrize("way", WAYS_OUT)
def test_a_repository_cannot_make_git_read_outside_files(world: World, way: Callable[[World], str]):
    command = way(world)
    visit = world.visit([run(command)], flags=("-p", "-a", "--sandbox", "off"))
    assert SECRET not in visit.results[0]
