"""Lines that run without approval in a rewritten form: what runs, and its output."""

import hashlib
import os
import subprocess
from pathlib import Path

import pytest

from rookery.sandbox.launcher import plain_argv
from support.command_project import Bench, bench

KEPT_BACK = ("secret.txt", "link_secret", "link_out", "link_keys", "dangling", "with space.txt")


@pytest.fixture
def clean(tmp_path: Path) -> Bench:
    """Nothing in the workspace is kept from the agent."""
    made = bench(tmp_path)
    for name in KEPT_BACK:
        (made.root / name).unlink()
    return made


def spelled(made: Bench, line: str) -> list[list[str]]:
    """The words of each command that would be run, with programs by their names."""
    plain = made.judge(line, "").plain
    assert plain is not None, line
    commands = [one.words for pipeline in plain for one in pipeline.commands]
    folder = f"{made.programs}/"
    return [[word.removeprefix(folder) for word in words] for words in commands]


def ran(made: Bench, line: str) -> str:
    plain = made.judge(line, "").plain
    assert plain is not None, line
    argv = plain_argv(plain, root=str(made.root))
    done = subprocess.run(argv, cwd=made.root, capture_output=True, text=True, check=False)
    return done.stdout


SPELLED = {
    "less -N README.md notes.txt": [["cat", "README.md", "notes.txt"]],
    "python3 -m json.tool data.json": [["python3", "-I", "-m", "json.tool", "data.json"]],
    "type -a ls": [["which", "-a", "ls"]],
    "rg -l foo src | xargs wc": [["rg", "-0", "-l", "foo", "src"], ["xargs", "-0", "wc", "--"]],
    "grep -rl foo src | head -5 | xargs -n 1 wc -l": [
        ["grep", "-Z", "-rl", "foo", "src"],
        ["head", "-z", "-n", "5"],
        ["xargs", "-0", "-n", "1", "wc", "-l", "--"],
    ],
}


def test_a_read_only_command_runs_with_read_only_options(
    clean: Bench, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("PATH", str(clean.programs))
    assert {line: spelled(clean, line) for line in SPELLED} == SPELLED
    plain = clean.judge("find src -name '*.py' -exec wc -l {} +", "").plain
    assert plain is not None
    assert plain[0].commands[0].words[5] == str(clean.programs / "wc"), "by its path"


def test_a_missing_read_only_command_needs_no_approval(
    clean: Bench, monkeypatch: pytest.MonkeyPatch
):
    (clean.programs / "tree").unlink()
    monkeypatch.setenv("PATH", str(clean.programs))
    assert spelled(clean, "tree -L 2") == [["tree", "-L", "2"]]
    assert clean.judge("deploy --dry-run", "").plain is None
    own = clean.root / "bin"
    own.mkdir()
    (own / "tree").write_text("#!/bin/sh\n", encoding="utf-8")
    (own / "tree").chmod(0o755)
    monkeypatch.setenv("PATH", f"{own}:{clean.programs}")
    assert clean.judge("tree -L 2", "").plain is None, "there is one, in the workspace"


def test_listing_an_archive_needs_approval_if_the_path_is_writable(
    clean: Bench, monkeypatch: pytest.MonkeyPatch
):
    (clean.programs / "tar").write_bytes(b"\x7fELF")
    monkeypatch.setenv("PATH", str(clean.programs))
    assert clean.judge("tar tzf x.tgz", "").plain
    monkeypatch.setenv("PATH", f"{clean.root}/bin:{clean.programs}")
    assert clean.judge("tar tzf x.tgz", "").plain is None


def test_a_file_is_passed_as_standard_input(clean: Bench, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    assert ran(clean, "wc -l < README.md").strip() == "2"
    assert ran(clean, "cd src && sort < app.py | head -1") == "    return foo()\n"
    assert ran(clean, "cat < gone.txt || echo none") == "none\n"


def test_index_names_do_not_make_xargs_read_outside(clean: Bench, monkeypatch: pytest.MonkeyPatch):
    names = ["--files0-from=x", "a b.txt", "QQ/outside/marker.txt"]
    for name in names:
        (clean.root / name).parent.mkdir(parents=True, exist_ok=True)
        (clean.root / name).write_text(f"{name}\n", encoding="utf-8")
    subprocess.run(["git", "add", "-A"], cwd=clean.root, check=True, env=os.environ)
    index = clean.root / ".git" / "index"
    entries = index.read_bytes()[:-20].replace(b"QQ/outside", b"../outside")
    index.write_bytes(entries + hashlib.sha1(entries).digest())
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    assert "../outside/marker.txt" in ran(clean, "git ls-files")
    given = ran(clean, "git ls-files | xargs cat")
    assert "--files0-from=x" in given
    assert "a b.txt" in given
    assert "def main" in given
    assert "outside\n" not in given
