"""K1, K3, K5: commands hidden where a shell finds them and a reader does not, put to the real
command with `-y` in a folder that is trusted. Nobody is there to be asked, so what is grave is
not run; if it were, the folder would show it.
"""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec import Struct

from support.canaries import Visit, World, remove, run, tree
from support.hostile_repositories import git

NOT_ALLOWED = "Not interactive: this needs approval"
LONG = "w" * 9_000

GRAVE = {
    "K1 CMD-2 redirection behind a document": "cat <<'E' > .git/HEAD\nnew\nE",
    "K1 PROT-1 protected file behind a document": "cat <<'E' > .envrc\nnew\nE",
    "K1 PATH-8 home behind a document": "cat <<'E' >> ~/.bashrc\nnew\nE",
    "K1 CMD-2 group with a document": "{ cat; } <<E > .git/HEAD\nnew\nE",
    "K1 CMD-2 loop with a document": "while read x; do echo $x; done <<E > .git/HEAD\nnew\nE",
    "K1 CMD-2 pipe behind a document": "cat <<E | sh\nrm -rf .git\nE",
    "K1 CMD-2 list behind a document": "cat <<E && rm -rf .git\nx\nE",
    "K1 CMD-2 backticks in a document": "cat <<E\n`rm -rf .git`\nE",
    "K1 CMD-2 backticks in backticks": 'echo "`echo \\`rm -rf .git\\``"',
    "K1 CMD-2 no document at all": 'echo "<<\'E\'\n"; rm -rf .git src; : "\nE\n"\ncat <<F\nx\nF',
    "K21 CMD-2 no document in a long text": (
        f'echo "<<\'E\'\n"; rm -rf .git src; : "{LONG}\nE\n"\ncat <<F\nx\nF'
    ),
    "K21 CMD-2 everything behind a long document": f"cat > new.txt <<E\n{LONG}\nE\nrm -rf ./*",
    "K21 CMD-2 a variable behind a long document": (f'cat > new.txt <<E\n{LONG}\nE\nrm -rf "$PWD"'),
    "K21 CMD-2 a file behind a long document": f"cat > new.txt <<E\n{LONG}\nE\n: > .git/HEAD",
    "K21 CMD-2 a long text": f"echo {LONG}; rm -rf ./*",
    "K1 CMD-2 index in a test": "[[ 'a[$(rm -rf .git)]' -eq 0 ]]",
    "K1 CMD-2 name in a test": "[ -v 'a[$(rm -rf .git)]' ]",
    "K1 CMD-2 index in a list": "for i in 'a[$(rm -rf .git)]'; do [[ $i -eq 0 ]]; done",
    "K1 CMD-2 index of a format": "printf -v 'a[$(rm -rf .git)]' x",
    "K1 CMD-2 index that is read": "read 'a[$(rm -rf .git)]' <<<x",
    "K1 CMD-2 index that is computed": "x='a[$(rm -rf .git)]'; echo $((x))",
    "K1 PATH-8 folder of a process": "rm -rf /proc/self/cwd/.git",
    "K1 PATH-8 descriptor that is a folder": "echo x > /dev/fd/../cwd/.git/HEAD",
    "K3 CMD-8 words behind a redirection": "rm >/dev/null -rf .git",
    "K3 CMD-8 shell in a variable": "$BASH -c 'rm -rf .git'",
    "K3 CMD-8 trap": "trap -- 'rm -rf .git' EXIT",
    "K3 GATE-12 xargs": "find . -type f | xargs rm -f",
    "K3 GATE-12 find truncates": "find . -type f -exec truncate -s 0 {} +",
    "K3 GATE-12 gzip": "gzip -r .",
    "K3 GATE-12 git restores": "git restore --staged --worktree .",
    "K3 GATE-12 git restores here": "git restore $PWD",
    "K3 GATE-12 git restores the folder": "git checkout HEAD -- $PWD",
    "K3 GATE-12 git cleans": "git -c clean.requireForce=false clean -dx",
    "K3 GATE-12 git rebases": "git rebase --exec='rm -rf .git' --root",
    "K3 GATE-12 git moves a branch": "git update-ref refs/heads/main HEAD~1",
    "K3 GATE-12 tar removes": "tar cf /dev/null .git --remove-f",
}
DENIED = {
    "K5 CMD-8 backticks in a document": "cat <<E\n`touch M`\nE",
    "K5 CMD-8 backticks in backticks": "cat <<E\n`echo \\`touch M\\``\nE",
    "K5 CMD-8 list behind a document": "cat <<E && touch M\nx\nE",
    "K5 CMD-8 behind a long document": f"cat <<E\n{LONG}\nE\ntouch M",
    "K5 CMD-8 a long text": f"echo {LONG}; touch M",
    "K5 CMD-8 index": "[[ 'a[$(touch M)]' -eq 0 ]]",
    "K5 CMD-8 words behind a redirection": "touch >/dev/null M",
    "K5 CMD-8 shell in a variable": "$BASH -c 'touch M'",
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
def grave(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Asked]:
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


@pytest.mark.parametrize("which", GRAVE)
def test_GATE_12_what_destroys_is_asked_about_whatever_the_settings_say(grave: Asked, which: str):
    assert NOT_ALLOWED in grave.results[which]


def test_K1_K3_GATE_12_nothing_in_the_folder_or_at_home_was_changed(grave: Asked):
    assert grave.after == grave.before
    assert grave.harm == []


@pytest.mark.parametrize("which", DENIED)
def test_GATE_2_a_denied_command_is_denied_wherever_it_is_hidden(denied: Asked, which: str):
    assert "deny" in denied.results[which]


def test_K5_CMD_8_no_denied_command_was_run(denied: Asked):
    assert denied.harm == []


def test_GATE_2_files_are_still_written_by_large_documents(tmp_path: Path):
    """As models write them; nothing grave in it, so `-y` is enough."""
    if not shutil.which("bash"):
        pytest.skip("there is no bash")
    world = project(tmp_path)
    body = "It says: rm -rf / and `rm -rf ~` and $(rm -rf .) isn't run > .git/HEAD\n" * 400
    done = asked(world, {"write": f"cat > new.txt <<'EOF'\n{body}EOF\nwc -l new.txt"})
    assert (world.workspace / "new.txt").read_text() == body
    assert "400 new.txt" in done.results["write"]
    assert done.harm == []
    remove(world)
