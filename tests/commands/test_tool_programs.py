"""Which files the program line of a tool loads, and when that cannot be known."""

import shlex
from pathlib import Path

import pytest

from rookery.commands import nested_commands
from rookery.commands.nested_commands import Loaded, files_in, loaded_by


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name in ("run.py", "run.sh", "tool.js", "sub/run.sh", "pkg/__main__.py", "pkg/a/b.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")
    return tmp_path


@pytest.mark.parametrize(
    ("line", "paths"),
    [
        ("./run.sh", []),
        ("jq .name package.json", []),
        ("cat -", []),
        ("python3 run.py sub", ["run.py"]),
        ("python3 -B -u run.py", ["run.py"]),
        ("python3 pkg", ["pkg"]),
        ("python3 -m pkg", ["pkg"]),
        ("python3.12 -mpkg.a.b", ["pkg"]),
        ("/usr/bin/python3 -B -m run", ["run.py"]),
        ("bash -eu run.sh", ["run.sh"]),
        ("node tool.js --all", ["tool.js"]),
        ("timeout 60 python3 -m pkg", ["pkg"]),
        ("sh -c 'cat | sh run.sh; python3 -m pkg'", ["run.sh", "pkg"]),
        ("sh -c 'cat *.txt > out.txt; if true; then sh run.sh; fi'", ["run.sh"]),
    ],
)
def test_workspace_files_that_a_command_loads_are_found(root: Path, line: str, paths: list[str]):
    assert loaded_by(shlex.split(line), str(root)) == Loaded(tuple(paths))


@pytest.mark.parametrize(
    "line",
    [
        *("make lint", "npm run lint", "/usr/bin/git status", "python3 -m pytest", "python3 -m ''"),
        *("python3 -m .", "python3 .", "python3 -c 'import pkg'", "python3 -W ignore run.py"),
        *("python3 gone.py", "python3", "python3 -", "node -r ./tool tool.js", "perl -e 1", "bash"),
        *("bash --rcfile run.sh -i", "sh -c 'cd sub && ./run.sh'", "sh -c '. ./run.sh'"),
        *("sh -c 'A=1 ./run.sh'", "sh -c '$TOOL'", "sh -c 'echo \"$(cd sub; ./run.sh)\"'"),
        *("sh -c 'if true; then cd sub; fi'", "sh -c '{ cd sub; }'", "sh -c 'python3 $X'"),
        *("sh -c './*.sh'", "sh -c 'sh <<E\\n./run.sh\\nE'", "sh -c 'f() { ./run.sh; }; f'"),
        *("sh -c 'cat <(./run.sh)'", "sh -c 'cat `./run.sh`'", 'sh -c "it\'s"'),
        *("env -C sub ./run.sh", "env PYTHONPATH=sub python3 run.py", "PATH=sub tool"),
        *("xargs python3", "find . -exec make ;"),
    ],
)
def test_commands_with_unpredictable_loads_are_marked_unknown(root: Path, line: str):
    assert loaded_by(shlex.split(line), str(root)).unknown


def test_a_program_on_the_path_in_the_workspace_is_loaded(
    root: Path, monkeypatch: pytest.MonkeyPatch
):
    (root / "sub/tool").write_text("#!/bin/sh\n")
    (root / "sub/tool").chmod(0o755)
    monkeypatch.setenv("PATH", f"/usr/bin:{root}/sub")
    assert loaded_by(["tool"], str(root)) == Loaded(("sub/tool",))


def test_a_folder_with_too_many_files_is_marked_unknown(
    root: Path, monkeypatch: pytest.MonkeyPatch
):
    assert sorted(files_in("pkg", str(root)) or ()) == ["pkg/__main__.py", "pkg/a/b.py"]
    monkeypatch.setattr(nested_commands, "MOST_FILES", 1)
    assert loaded_by(["python3", "-m", "pkg"], str(root)).unknown == "python3"
