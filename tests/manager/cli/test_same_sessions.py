"""`rookery list` and `rookery sessions list` show the same sessions: real processes, no mocks."""

import json
import os
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path

import pytest

from rookery.permissions.trust import TrustStore
from rookery.platform.user_folders import find_places
from rookery.storage.sessions import TaskStore
from support.manager_project import WRITES
from support.sessions_shell import PATIENCE, Shell, opened_shell
from support.text_process import start_text

MANAGED = pytest.mark.parametrize("managed", [True, False], ids=["manager runs", "no manager"])


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    with opened_shell(tmp_path, WRITES) as shell:
        yield shell


def rookery(shell: Shell, *words: str, code: int = 0) -> str:
    """What a command prints that has nothing to do with the manager."""
    with start_text(words, shell.environ, shell.path) as process:
        out, err = process.communicate(timeout=PATIENCE)
    assert process.wait() == code, err
    return out


def listed(shell: Shell, *words: str) -> list[str]:
    """The sessions of the project, by both commands."""
    rows = json.loads(rookery(shell, "list", "sessions", *words))["sessions"]
    ours = [row["id"] for row in rows if "parent" not in row]
    theirs = [row["session_id"] for row in shell.told("list", *words)["sessions"]]
    assert sorted(ours) == sorted(theirs)
    return ours


def in_a_terminal(shell: Shell) -> str:
    before = set(listed(shell))
    rookery(shell, "-p", "-y", "In a terminal")
    (session_id,) = set(listed(shell)) - before
    return session_id


@MANAGED
def test_both_lists_show_what_a_terminal_and_the_manager_have_run(shell: Shell, managed: bool):
    with shell.manager() if managed else nullcontext():
        ours = in_a_terminal(shell)
        theirs, apart = shell.start(), shell.start("--worktree")
        assert shell.run("wait", theirs, apart)[0] == 0
        assert set(listed(shell)) == {ours, theirs, apart}
        assert shell.states() == dict.fromkeys((ours, theirs, apart), "completed")
        rows = json.loads(rookery(shell, "list", "sessions"))["sessions"]
        assert [row["id"] for row in rows if "branch" in row] == [apart]


@MANAGED
def test_a_removed_session_is_in_no_list_and_never_comes_back(shell: Shell, managed: bool):
    with shell.manager() if managed else nullcontext():
        ours, theirs = in_a_terminal(shell), shell.start()
        assert shell.run("wait", theirs)[0] == 0
        for session_id in (ours, theirs):
            assert shell.run("remove", session_id)[0] == 0
        assert listed(shell) == []
        assert listed(shell, "--archived") == []
    assert listed(shell) == []
    for session_id in (ours, theirs):
        assert "Written." in rookery(shell, "show", session_id)
        rookery(shell, "delete", "-y", session_id)


@MANAGED
def test_an_archived_session_is_in_both_lists_if_asked_for(shell: Shell, managed: bool):
    with shell.manager() if managed else nullcontext():
        ours = in_a_terminal(shell)
        assert shell.run("archive", ours)[0] == 0
        assert listed(shell) == []
        assert listed(shell, "--archived") == [ours]
        assert shell.run("archive", ours, "--undo")[0] == 0
        assert listed(shell) == [ours]


@MANAGED
def test_a_deleted_session_is_in_no_list(shell: Shell, managed: bool):
    with shell.manager() if managed else nullcontext():
        ours, theirs = in_a_terminal(shell), shell.start()
        assert shell.run("wait", theirs)[0] == 0
        shell.run("stop-all")
        rookery(shell, "delete", "-y", ours, theirs)
        assert listed(shell, "--archived") == []


def test_a_session_of_a_terminal_is_continued_and_asks_as_it_did(shell: Shell):
    ours = in_a_terminal(shell)
    (row,) = shell.told("list")["sessions"]
    assert (row["state"], row["auto_approve"], row["unread"]) == ("completed", False, False)
    assert shell.told("inbox") == []
    assert shell.run("send", ours, "And now?")[0] == 0
    assert shell.run("wait", ours)[0] == 0
    assert listed(shell) == [ours]
    assert shell.told("show", ours)["auto_approve"] is False


def test_a_session_that_a_terminal_works_on_is_left_to_it(shell: Shell):
    ours = in_a_terminal(shell)
    journal = TaskStore(find_places(shell.environ)).open(ours)
    try:
        code, _, said = shell.run("send", ours, "Mine")
        assert (code, listed(shell)) == (2, [ours])
        assert "Another process is working on session" in said
        assert shell.run("remove", ours)[0] == 2
    finally:
        journal.close()
    assert shell.run("remove", ours)[0] == 0


def test_the_manager_acts_in_an_untrusted_folder_no_more_than_a_terminal(shell: Shell):
    shell.script.write_text(f"- say: Hello.\n{WRITES}", encoding="utf-8")
    trust = TrustStore(find_places(shell.environ).trust_file)
    trust.forget(shell.path)
    rookery(shell, "-p", "Look around")
    (ours,) = listed(shell)
    before = sorted(shell.path.iterdir())
    with shell.manager():
        assert shell.run("send", ours, "Go on")[0] == 0
        assert shell.run("wait", ours)[0] == 0
        shell.run("stop-all")
        assert shell.run("switch", ours, "--auto")[0] == 0
        code, _, said = shell.run("send", ours, "Go on")
        assert (code, sorted(shell.path.iterdir())) == (2, before)
        assert "is not trusted, so no session runs in it with auto-approve" in said
        trust.trust(shell.path)
        assert shell.run("send", ours, "Go on")[0] == 0
        assert shell.run("wait", ours)[0] == 0


def test_a_session_of_a_terminal_stays_what_it_was_when_it_is_taken_over(shell: Shell):
    ours = in_a_terminal(shell)
    with shell.manager():
        (before,) = shell.told("list")["sessions"]
        assert shell.run("mark-read", ours)[0] == 0
        (after,) = shell.told("list")["sessions"]
        assert {name for name in before if before[name] != after.get(name)} == {"model"}


def test_a_request_may_name_a_session_that_was_never_listed(shell: Shell):
    with shell.manager():
        assert shell.told("list")["sessions"] == []
        rookery(shell, "-p", "-y", "In a terminal")
        (ours,) = json.loads(rookery(shell, "list", "sessions"))["sessions"]
        renamed = {"kind": "rename_session", "session_id": ours["id"], "label": "Mine"}
        assert shell.run("do", json.dumps(renamed))[0] == 0
        assert [row["name"] for row in shell.told("list")["sessions"]] == ["Mine"]


def test_a_session_that_went_back_to_a_terminal_is_left_to_it(shell: Shell):
    ours = in_a_terminal(shell)
    with shell.manager():
        assert shell.run("mark-read", ours)[0] == 0
        journal = TaskStore(find_places(shell.environ)).open(ours)
        try:
            assert shell.run("remove", ours)[0] == 2
            assert listed(shell) == [ours]
        finally:
            journal.close()
        assert shell.run("remove", ours)[0] == 0
        assert listed(shell) == []


def test_what_others_left_among_the_sessions_keeps_no_list_from_being_shown(shell: Shell):
    ours = in_a_terminal(shell)
    tasks = TaskStore(find_places(shell.environ)).folder(ours).parent
    for name in ("pipe", "closed", "garbage"):
        (tasks / name).mkdir()
    os.mkfifo(tasks / "pipe" / "journal.jsonl")
    (tasks / "garbage" / "journal.jsonl").write_bytes(b"\x00" * 100_000)
    (tasks / "garbage" / "hidden").symlink_to("hidden")
    (tasks / "link").symlink_to(ours)
    (tasks / "closed" / "hidden").touch()
    (tasks / "closed").chmod(0)
    try:
        assert listed(shell) == [ours]
        with shell.manager():
            assert listed(shell) == [ours]
    finally:
        (tasks / "closed").chmod(0o700)


def test_a_session_that_a_terminal_has_continued_is_continued_here(shell: Shell):
    ours = in_a_terminal(shell)
    with shell.manager():
        assert shell.run("mark-read", ours)[0] == 0
        rookery(shell, "-p", "-c", "In the terminal again")
        assert shell.run("send", ours, "And here")[0] == 0
        assert shell.run("wait", ours)[0] == 0
        assert "And here" in rookery(shell, "show", ours)
