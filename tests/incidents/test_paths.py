"""Paths that only look as if they were inside, and files by which text becomes
execution. All calls are put to the real command, which acts without asking (-y).
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec import Struct

from llm_server import call
from support.canaries import Visit, World, remove, run, tree
from support.hostile_repositories import git

OUTSIDE = "the value outside"


def read(path: str) -> Any:
    return call("read_file", path=path)


def write(path: str) -> Any:
    return call("write_to_file", path=path, content="evil\n")


def search(path: str) -> Any:
    return call("search_files", path=path, regex="value", file_pattern=None)


READS = {
    "sibling with the same beginning": "../work-evil/secret.txt",
    "dots behind a folder": "src/../../work-evil/secret.txt",
    "absolute": "{base}/work-evil/secret.txt",
    "home": "~/secret.txt",
    "variable": "$HOME/secret.txt",
    "address": "file://{base}/work-evil/secret.txt",
    "backslashes": "..\\work-evil\\secret.txt",
    "nul": "README.md\0/../../work-evil/secret.txt",
    "link": "link",
    "absolute link": "absolute",
    "link to a link": "chain",
    "folder link": "folder/secret.txt",
    "loop": "loop",
    "process": "/proc/self/environ",
    "pipe": "pipe",
    "credentials": "../decoy/.ssh/id_ed25519",
    "credentials by a link": "key",
    "ignored": "ignored.txt",
    "ignored by a link": "to-ignored",
    "ignored in other case": "IGNORED.TXT",
    "ignored behind dots": "src/../ignored.txt",
}
SEARCHES = ("sibling with the same beginning", "link", "credentials", "ignored by a link")
WRITES = {
    "sibling": "../work-evil/new.txt",
    "absolute": "{base}/outside.txt",
    "through a folder link": "folder/new.txt",
    "dangling": "dangling",
    "ignored": "ignored.txt",
    "git hook": ".git/hooks/pre-commit",
    "letter case": ".GIT/hooks/post-commit",
    "composed": ".vscode\u0307/../.VSCode/tasks.json",
    "own rules": ".rookeryignore",
    "completes a bare repository": "almost/refs",
    "through a link": "editor/settings.json",
}
MOVES = {
    "patch moves in": (
        "*** Begin Patch\n*** Update File: README.md\n*** Move to: .vscode/tasks.json\n@@\n"
        "-needle\n+evil\n*** End Patch"
    ),
    "patch adds beside a harmless file": (
        "*** Begin Patch\n*** Add File: fine.txt\n+x\n*** Add File: .git/hooks/pre-push\n+x\n"
        "*** End Patch"
    ),
    "patch deletes": ("*** Begin Patch\n*** Delete File: .rookeryignore\n*** End Patch"),
}


class Tried(Struct):
    world: World
    visit: Visit
    results: dict[str, str]
    unchanged: bool


@pytest.fixture(scope="module")
def tried(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tried]:
    world = World(tmp_path_factory.mktemp("paths"))
    base, root = world.workspace.parent, world.workspace
    lay_out(world)
    at = {name: path.format(base=base) for name, path in (READS | WRITES).items()}
    calls = {f"read {name}": read(at[name]) for name in READS}
    calls |= {f"search {name}": search(at[name]) for name in SEARCHES}
    calls |= {f"write {name}": write(at[name]) for name in WRITES}
    calls |= {f"patch {name}": call("apply_patch", patch=text) for name, text in MOVES.items()}
    before = tree(root) | tree(base / "work-evil")
    visit = world.visit(*[[each] for each in calls.values()], flags=("-p", "-y"))
    unchanged = tree(root) | tree(base / "work-evil") == before
    yield Tried(world, visit, dict(zip(calls, visit.results, strict=True)), unchanged)
    remove(world)


def lay_out(world: World) -> None:
    base, root = world.workspace.parent, world.workspace
    (base / "work-evil").mkdir()
    (base / "work-evil" / "secret.txt").write_text(OUTSIDE)
    git(root, "init", "-q")
    world.put("README.md", "needle\n")
    world.put("src/app.py", "pass\n")
    world.put(".rookeryignore", "ignored.txt\n")
    world.put("ignored.txt", OUTSIDE)
    world.put("almost/HEAD", "ref: refs/heads/main\n")
    (root / "almost/objects").mkdir()
    (root / ".idea").mkdir()
    for name, target in {
        "link": "../work-evil/secret.txt",
        "absolute": f"{base}/work-evil/secret.txt",
        "chain": "link",
        "folder": "../work-evil",
        "loop": "loop",
        "dangling": "../work-evil/not-there",
        "key": "../decoy/.ssh/id_ed25519",
        "to-ignored": "ignored.txt",
        "editor": ".idea",
    }.items():
        os.symlink(target, root / name)
    os.mkfifo(root / "pipe")


def test_outside_and_hidden_files_are_not_read(tried: Tried):
    for name in (*(f"read {which}" for which in READS), *(f"search {which}" for which in SEARCHES)):
        assert OUTSIDE not in tried.results[name], name
        assert "canary" not in tried.results[name], name


def test_writing_outside_and_protected_files_needs_approval(tried: Tried):
    """Which names are protected: tests/core/test_protected_paths.py."""
    for name in (*(f"write {which}" for which in WRITES), *(f"patch {which}" for which in MOVES)):
        assert "Created" not in tried.results[name], name
        assert "Replaced" not in tried.results[name], name


def test_refused_paths_change_and_leak_nothing(tried: Tried):
    assert tried.visit.code == 5
    assert tried.world.harm(tried.visit) == []
    assert OUTSIDE not in str([request.body for request in tried.visit.requests])
    assert tried.unchanged
    assert not (tried.world.workspace.parent / "outside.txt").exists()


def test_an_edit_does_not_write_through_a_hard_link(world: World):
    other = world.workspace.parent / "elsewhere.txt"
    other.write_text("one\n")
    os.link(other, world.workspace / "a.txt")
    visit = world.visit(
        [read("a.txt")],
        [call("edit", file_path="a.txt", old_string="one", new_string="two")],
        flags=("-p", "-y"),
    )
    assert (world.workspace / "a.txt").read_text() == "two\n", visit.results
    assert other.read_text() == "one\n"


# ── what a command plants ───────────────────────────────────────────────────────────────


def planting(path: str, before: str = "") -> str:
    code = (
        f"import os; os.makedirs(os.path.dirname({path!r}) or '.', exist_ok=True); "
        f"open({path!r}, 'w').write('evil')"
    )
    return f'{before}python3 -c "{code}"'


PLANTED = {
    "editor": planting(".vscode/tasks.json"),
    "nested editor": planting("a/b/.vscode/tasks.json"),
    "hook": planting(".git/hooks/pre-commit"),
    "servers": planting(".mcp.json"),
    "own settings": planting(".rookery/settings.toml"),
    "instructions": planting("AGENTS.md"),
    "python": planting("sitecustomize.py"),
    "read before": planting(".idea/tasks.xml", "cat .idea/tasks.xml; "),
    "hook of a nested repository": planting("sub/.git/hooks/pre-commit"),
    "ignored by git": planting(".zed/settings.json"),
    "in an ignored folder": planting("build/a/.rookery/settings.toml"),
    "hook in an ignored folder": planting("build/b/.git/hooks/pre-commit"),
    "bare repository": (
        planting("lib/HEAD") + " && mkdir lib/objects lib/refs && " + planting("lib/config")
    ),
}


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    world = World(tmp_path_factory.mktemp("planted"))
    git(world.workspace, "init", "-q")
    world.put(".gitignore", ".zed/\nbuild/\n")
    world.visit(*[[run(command)] for command in PLANTED.values()], flags=("-p", "-y"))
    yield world
    remove(world)


def test_protected_files_planted_by_a_command_are_removed(planted: World):
    left = {
        os.path.relpath(os.path.join(place, name), planted.workspace)
        for place, _, files in os.walk(planted.workspace)
        for name in files
        if Path(place, name).read_bytes() == b"evil"
    }
    assert left == set()


def test_a_command_cannot_turn_the_workspace_into_a_repository(world: World):
    """The next git command of the user would run what that repository says."""
    world.put(
        "plant.py",
        "import os\n"
        "for part in ('objects', 'refs'): os.makedirs(f'e/{part}')\n"
        "open('e/HEAD', 'w').write('ref: refs/heads/main')\n"
        "open('e/config', 'w').write('[core]\\nfsmonitor = evil')\n"
        "open('.git', 'w').write('gitdir: e')\n",
    )
    world.visit([run("python3 plant.py")], flags=("-p", "-y"))
    assert not (world.workspace / ".git").exists()


def test_files_are_protected_without_checkpoints_too(world: World):
    (world.home / "config" / "settings.toml").write_text("[checkpoints]\nuse = false\n")
    visit = world.visit([run(planting(".vscode/tasks.json"))], flags=("-p", "-y"))
    gone = not (world.workspace / ".vscode/tasks.json").exists()
    assert gone or "protected" in visit.err, "reverted, or at least reported"
