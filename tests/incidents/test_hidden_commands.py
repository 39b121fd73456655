"""Commands hidden where a shell finds them and a reader does not, put to the real
command with `-y` in a folder that is trusted. Nobody is there to be asked, so what is dangerous is
not run; if it were, the folder would show it.
"""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec import Struct

from support.canaries import Visit, World, remove, run, tree
from support.each_row import each_row
from support.hostile_repositories import git

NOT_ALLOWED = "Not interactive: this needs approval"
LONG = "w" * 9_000

GRAVE = {
    "redirection behind a document": "cat <<'E' > .git/HEAD\nnew\nE",
    "protected file behind a document": "cat <<'E' > .envrc\nnew\nE",
    "home behind a document": "cat <<'E' >> ~/.bashrc\nnew\nE",
    "group with a document": "{ cat; } <<E > .git/HEAD\nnew\nE",
    "loop with a document": "while read x; do echo $x; done <<E > .git/HEAD\nnew\nE",
    "everything behind a long document": f"cat > new.txt <<E\n{LONG}\nE\nrm -rf ./*",
    "a variable behind a long document": (f'cat > new.txt <<E\n{LONG}\nE\nrm -rf "$PWD"'),
    "a file behind a long document": f"cat > new.txt <<E\n{LONG}\nE\n: > .git/HEAD",
    "index that is read": "read 'a[$(rm -rf .git)]' <<<x",
    "folder of a process": "rm -rf /proc/self/cwd/.git",
    "descriptor that is a folder": "echo x > /dev/fd/../cwd/.git/HEAD",
    "words behind a redirection": "rm >/dev/null -rf .git",
    "find truncates": "find . -type f -exec truncate -s 0 {} +",
    "git restores the folder": "git checkout HEAD -- $PWD",
    "git moves a branch": "git update-ref refs/heads/main HEAD~1",
    "tar removes": "tar cf /dev/null .git --remove-f",
}
DENIED = {
    "backticks in a document": "cat <<E\n`touch M`\nE",
    "backticks in backticks": "cat <<E\n`echo \\`touch M\\``\nE",
    "list behind a document": "cat <<E && touch M\nx\nE",
    "behind a long document": f"cat <<E\n{LONG}\nE\ntouch M",
    "a long text": f"echo {LONG}; touch M",
    "index": "[[ 'a[$(touch M)]' -eq 0 ]]",
    "words behind a redirection": "touch >/dev/null M",
    "shell in a variable": "$BASH -c 'touch M'",
}


class Asked(Struct):
    before: dict[str, tuple[int, str]]
    after: dict[str, tuple[int, str]]
    harm: list[str]
    results: dict[str, str]


def project(folder: Path) -> World:
    world = World(folder)
    root = world.workspace
    git(root, "init", "-q", "-b", "main")
    for count in (1, 2):
        world.put("src/app.py", f"value = {count}\n")
        git(root, "add", ".")
        git(root, "commit", "-qm", f"number {count}")
    world.put("src/app.py", "value = 3\n")
    world.put("untracked.txt", "mine\n")
    return world


def asked(world: World, lines: dict[str, str]) -> Asked:
    before = tree(world.workspace)
    visit: Visit = world.visit(
        *[[run(line)] for line in lines.values()], flags=("-p", "-y", "--sandbox", "off")
    )
    results = dict(zip(lines, visit.results, strict=True))
    return Asked(before, tree(world.workspace), world.harm(visit), results)


@pytest.fixture(scope="module")
def dangerous(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Asked]:
    world = project(tmp_path_factory.mktemp("hidden"))
    yield asked(world, GRAVE)
    remove(world)


@pytest.fixture(scope="module")
def denied(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Asked]:
    world = project(tmp_path_factory.mktemp("denied"))
    (world.home / "config" / "settings.toml").write_text('[commands]\ndeny = ["touch"]\n')
    lines = {name: line.replace("M", f"{world.marks}/mark") for name, line in DENIED.items()}
    yield asked(world, lines)
    remove(world)


@each_row("which", GRAVE)
def test_destructive_commands_need_approval_under_any_settings(dangerous: Asked, which: str):
    assert NOT_ALLOWED in dangerous.results[which]


def test_destructive_commands_without_approval_change_nothing(dangerous: Asked):
    assert dangerous.after == dangerous.before
    assert dangerous.harm == []


@each_row("which", DENIED)
def test_a_hidden_denied_command_is_denied(denied: Asked, which: str):
    assert "deny" in denied.results[which]


def test_no_denied_command_was_run(denied: Asked):
    assert denied.harm == []


def test_large_here_documents_still_write_files(tmp_path: Path):
    """As models write them; nothing dangerous in it, so `-y` is enough."""
    if not shutil.which("bash"):
        pytest.skip("there is no bash")
    world = project(tmp_path)
    body = "It says: rm -rf / and `rm -rf ~` and $(rm -rf .) isn't run > .git/HEAD\n" * 400
    done = asked(world, {"write": f"cat > new.txt <<'EOF'\n{body}EOF\nwc -l new.txt"})
    assert (world.workspace / "new.txt").read_text() == body
    assert "400 new.txt" in done.results["write"]
    assert done.harm == []
    remove(world)
