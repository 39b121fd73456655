"""`--add-dir`: a further folder for the agent, behind the same gate and sandbox."""

import json
import subprocess
from pathlib import Path

import pytest

from llm_server import LlmServer, call, finish
from support.model_words import last_turn
from support.terminal_session import Installed, at

SCRIPT = "#!/bin/sh\necho made > {folder}/made.txt\necho evil > {folder}/.git/hooks/pre-commit\n"


@pytest.fixture
def library(tmp_path: Path) -> Path:
    folder = tmp_path / "library"
    subprocess.run(["git", "init", "-q", folder], check=True)
    (folder / "kept.txt").write_text("kept\n")
    return folder


def use(rookery: Installed, folder: Path) -> list[str]:
    (rookery.workspace / "make.sh").write_text(SCRIPT.format(folder=folder))
    calls = [
        ("read_file", {"path": f"{folder}/kept.txt"}),
        ("write_to_file", {"path": f"{folder}/new.txt", "content": "new\n"}),
        ("execute_command", {"command": "sh make.sh"}),
        ("execute_command", {"command": f"rm -rf {folder}/kept.txt"}),
    ]
    answers = [{"calls": [{"tool": tool, "arguments": args}]} for tool, args in calls]
    return rookery.script(json.dumps([*answers, {"say": "Done."}]))


def test_an_added_folder_is_worked_in_but_not_destroyed(rookery: Installed, library: Path):
    done = rookery.run("-p", "go", *use(rookery, library), "--add-dir", str(library))
    assert done.returncode == 0, done.stderr
    assert f"● Read {library}/kept.txt" in done.stderr
    assert (library / "new.txt").read_text() == "new\n"
    assert (library / "made.txt").read_text() == "made\n"
    assert "outside the workspace, where it cannot be undone" in done.stderr
    assert (library / "kept.txt").exists()
    if "Read-only file system" in done.stderr:  # a sandbox with mounts
        assert not (library / ".git" / "hooks" / "pre-commit").exists()


def test_the_ignore_files_of_an_added_folder_hold_there(rookery: Installed, library: Path):
    (library / ".rookeryignore").write_text("private/\n")
    (library / "private").mkdir()
    (library / "private" / "notes.txt").write_text("kept secret\n")
    calls = [
        ("read_file", {"path": f"{library}/private/notes.txt"}),
        ("search_files", {"path": str(library), "regex": "kept"}),
        ("list_files", {"path": str(library), "recursive": True}),
        ("execute_command", {"command": f"cat {library}/private/notes.txt"}),
    ]
    with LlmServer(*([call(tool, **args)] for tool, args in calls), [finish()]) as server:
        rookery.run("-p", *at(server), "--add-dir", str(library), "go")
    results = [last_turn(request) for request in server.requests[1:]]
    assert "is hidden from you by the user" in results[0]
    assert "kept.txt" in results[1]
    assert "kept secret" not in " ".join(results)
    assert "notes.txt" not in results[2]


def test_without_the_flag_the_folder_stays_closed(rookery: Installed, library: Path):
    rookery.run("-p", "go", *use(rookery, library))
    assert sorted(path.name for path in library.iterdir()) == [".git", "kept.txt"]


def test_folders_that_hold_everything_cannot_be_added(rookery: Installed):
    for folder in ("/", rookery.environ["HOME"]):
        Path(folder).mkdir(exist_ok=True)
        done = rookery.run("-p", "go", "--add-dir", folder)
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr.startswith("Error: --add-dir: ")
