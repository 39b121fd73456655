"""`rookery delete`: sessions that go, and those that stay."""

import json
import subprocess
import time
from pathlib import Path

import pytest

from rookery.cli.main import run
from rookery.core.facts import TaskOpened
from rookery.storage.journal import TaskLock
from support.stored_sessions import CHILD, GRANDCHILD, OTHER, PARENT, keep, keep_family, store
from support.terminal_session import COMMAND, Installed, TerminalSession

Captured = pytest.CaptureFixture[str]
YOUNG = "eeeeeeee-0000-4000-8000-000000000005"


@pytest.fixture(autouse=True)
def family() -> None:
    keep_family(Path.cwd())
    now = time.time_ns() // 1_000_000
    keep(YOUNG, TaskOpened(text="New", workspace=str(Path.cwd())), ts=now)


def left() -> set[str]:
    return {session.id for session in store().list()}


def test_a_session_is_deleted_with_its_sub_tasks(capsys: Captured):
    assert run(["delete", "-y", PARENT[:8]]) == 0
    assert capsys.readouterr().out == "Deleted 3 sessions.\n"
    assert left() == {OTHER, YOUNG}
    assert not store().folder(CHILD).exists()


def test_a_child_is_deleted_without_its_parent():
    assert run(["delete", "-y", CHILD]) == 0
    assert left() == {PARENT, OTHER, YOUNG}


def test_a_session_named_twice_or_with_its_child_is_deleted_once(capsys: Captured):
    assert run(["delete", "-y", PARENT, CHILD, PARENT, "--format", "json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said == {"deleted": [PARENT, CHILD, GRANDCHILD], "refused": []}


@pytest.mark.parametrize("running", [PARENT, GRANDCHILD])
def test_a_session_in_use_is_kept_and_the_others_are_deleted(running: str, capsys: Captured):
    lock = TaskLock(store().folder(running))
    try:
        assert run(["delete", "-y", PARENT, YOUNG]) == 9
    finally:
        lock.release()
    assert left() == {PARENT, CHILD, GRANDCHILD, OTHER}
    said = capsys.readouterr()
    assert said.out == "Deleted 1 session.\n"
    assert f"Not deleted: Session {running} is open in process" in said.err


def test_older_than_deletes_old_sessions_of_this_folder():
    assert run(["delete", "-y", "--older-than", "30d"]) == 0
    assert left() == {OTHER, YOUNG}
    assert run(["delete", "-y", "--older-than", "30 d", "--everywhere"]) == 0
    assert left() == {YOUNG}


def test_a_session_is_as_young_as_its_youngest_sub_task():
    child = TaskOpened(text="x", workspace=str(Path.cwd()), parent=GRANDCHILD)
    keep("late", child, ts=time.time_ns() // 1_000_000)
    assert run(["delete", "-y", "--older-than", "30d"]) == 0
    assert left() == {PARENT, CHILD, GRANDCHILD, "late", OTHER, YOUNG}


def test_an_old_child_stays_with_a_young_parent():
    keep("old", TaskOpened(text="x", workspace=str(Path.cwd()), parent=YOUNG))
    assert run(["delete", "-y", "--older-than", "30d"]) == 0
    assert left() == {"old", OTHER, YOUNG}


def test_all_deletes_the_sessions_of_this_folder(capsys: Captured):
    assert run(["delete", "-y", "--all"]) == 0
    assert left() == {OTHER}
    capsys.readouterr()
    assert run(["delete", "-y", "--all"]) == 0
    assert capsys.readouterr().out == "No matching sessions.\n"


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["-y"],
        ["-y", PARENT, "--all"],
        ["-y", "--all", "--older-than", "1d"],
        ["-y", "--older-than", "soon"],
        ["-y", "--older-than", "-1d"],
        ["-y", "--everywhere", PARENT],
        ["-y", "zzzzzzzz"],
        ["-y", "../../etc"],
        [PARENT],
    ],
    ids=" ".join,
)
def test_bad_input_deletes_nothing_and_gives_a_one_sentence_error(
    arguments: list[str], capsys: Captured
):
    assert run(["delete", *arguments]) == 2
    assert left() == {PARENT, CHILD, GRANDCHILD, OTHER, YOUNG}
    assert capsys.readouterr().err.count("\n") == 1


def test_delete_asks_at_a_terminal_and_names_the_sessions(tmp_path: Path):
    (tmp_path / "installed").mkdir()
    rookery = Installed(tmp_path / "installed")
    script = rookery.script("- calls: [{tool: attempt_completion, arguments: {result: Done.}}]")
    assert rookery.run("-p", *script, "Fix the cache").returncode == 0
    [session] = rookery.sessions()
    arguments = ("delete", session["id"][:8])
    for answer, code, kept in (("n", 1, 1), ("y", 0, 0)):
        with TerminalSession(
            [COMMAND, *arguments], cwd=rookery.workspace, environ=rookery.environ
        ) as terminal:
            terminal.wait_for(f"{session['id'][:8]}  Fix the cache")
            terminal.wait_for("Delete 1 session permanently? [y/N]")
            terminal.type(answer)
            assert terminal.exit_code() == code
        assert len(rookery.sessions()) == kept


WRITES = """
- calls: [{{tool: write_to_file, arguments: {{path: {path}, content: "{text} once\\n"}}}}]
- calls: [{{tool: execute_command, arguments: {{command: "echo {text} twice > {path}"}}}}]
- calls: [{{tool: attempt_completion, arguments: {{result: Done.}}}}]
"""


def worked(rookery: Installed, path: str, text: str) -> str:
    """A session that wrote a file; its id."""
    before = {session["id"] for session in rookery.sessions()}
    script = rookery.script(WRITES.format(path=path, text=text))
    assert rookery.run("-p", *script, f"write {path}").returncode == 0
    [new] = {session["id"] for session in rookery.sessions()} - before
    return new


def stored(rookery: Installed) -> bytes:
    """All that the checkpoints hold."""
    [folder] = (rookery.home / "data" / "checkpoints").glob("*.git")
    command = ["git", f"--git-dir={folder}", "cat-file", "--batch", "--batch-all-objects"]
    return subprocess.run(command, check=True, capture_output=True).stdout


def test_checkpoints_of_deleted_sessions_only_are_removed(tmp_path: Path):
    """While another session runs, its checkpoints stay too."""
    (tmp_path / "installed").mkdir()
    rookery = Installed(tmp_path / "installed")
    first = worked(rookery, "a.txt", "first")
    second = worked(rookery, "b.txt", "second")
    assert b"first once" in stored(rookery)
    lock = TaskLock(rookery.home / "data" / "tasks" / second)
    try:
        assert rookery.run("delete", "-y", first).returncode == 0
    finally:
        lock.release()
    assert b"first once" not in stored(rookery)
    assert b"second once" in stored(rookery)
    undone = rookery.run("rewind", second, "--last", "-y")
    assert "Restored 1 file: b.txt." in undone.stdout
    assert (rookery.workspace / "b.txt").read_text() == "second once\n"
    assert rookery.run("delete", "-y", second).returncode == 0
    assert stored(rookery) == b""
    third = worked(rookery, "c.txt", "third")
    assert "Restored 1 file: c.txt." in rookery.run("rewind", third, "--last", "-y").stdout
