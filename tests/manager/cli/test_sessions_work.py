"""What sessions made, through `rookery sessions`: worktrees, versions, undo, forks; real git."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.manager_project import WRITES
from support.sessions_shell import Shell, opened_shell


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    with opened_shell(tmp_path, WRITES) as shell:
        yield shell


def test_a_session_in_a_worktree_changes_nothing_here_until_it_is_applied(shell: Shell):
    session_id = shell.start("--worktree")
    assert shell.run("wait", session_id)[0] == 0
    assert not (shell.path / "made.txt").exists()
    (row,) = shell.told("worktrees", "list")
    assert row["sessions"] == [session_id]
    assert row["branch"].startswith("agent/")
    review = shell.told("diff", session_id)
    assert [each["path"] for each in review["files"]] == ["made.txt"]
    _, out, _ = shell.run("diff", session_id, "made.txt")
    assert "+    1 one" in out
    plan = shell.told("apply", session_id, "--dry-run")
    assert plan["paths"] == ["made.txt"]
    assert not (shell.path / "made.txt").exists()
    assert shell.run("apply", session_id)[0] == 0
    assert (shell.path / "made.txt").read_text() == "one\n"
    code, _, complaint = shell.run("worktrees", "remove", session_id)
    assert (code, complaint) == (2, "Error: Not interactive: use -y to approve.\n")
    assert shell.run("worktrees", "remove", session_id, "-y")[0] == 0
    assert shell.told("worktrees", "list") == []
    assert len(shell.told("worktrees", "kept")) == 1


def test_versions_of_one_prompt_are_compared(shell: Shell):
    started = shell.told("start", "Do it", "--versions", "2")["session_ids"]
    assert len(started) == 2
    assert shell.run("wait", *started)[0] == 0
    versions = shell.told("compare", started[0])
    assert {each["session_id"] for each in versions} == set(started)
    assert [each["stats"]["files"] for each in versions] == [1, 1]


def test_what_a_session_did_is_undone(shell: Shell):
    session_id = shell.start()
    shell.run("wait", session_id)
    moments = shell.told("checkpoints", session_id)
    first = moments[0]["seq"]
    rehearsal = shell.told("restore", session_id, "--to", str(first), "--dry-run")
    assert rehearsal["removed"] == ["made.txt"]
    assert (shell.path / "made.txt").exists()
    assert shell.run("restore", session_id, "--to", str(first))[0] == 0
    assert not (shell.path / "made.txt").exists()


def test_a_session_is_forked_and_exported(shell: Shell):
    session_id = shell.start()
    shell.run("wait", session_id)
    (fork,) = shell.told("fork", session_id)["session_ids"]
    assert set(shell.states()) == {session_id, fork}
    code, out, _ = shell.run("export", session_id)
    assert code == 0
    assert "## Result\n\nDone." in out


def test_what_is_known_of_the_project_is_told(shell: Shell):
    (shell.path / "notes.txt").write_text("x")
    assert shell.told("branches") == ["main"]
    assert {"code", "ask"} <= {each["slug"] for each in shell.told("modes")}
    assert [each["path"] for each in shell.told("paths", "notes")] == ["notes.txt"]
    assert shell.told("intents") == []
    assert shell.run("settings", "manager.running_limit", "2")[0] == 0
    (row,) = shell.told("settings", "manager.running_limit")
    assert row["value"] == "2"
    assert shell.told("do", '{"kind": "list_sessions"}')["overview"]["running_limit"] == 2
