"""What sessions made, through `rookery sessions`: worktrees, versions, undo, forks; real git."""

from support.sessions_shell import Shell


def test_versions_leave_the_project_unchanged_until_one_is_applied(shell: Shell):
    started = shell.told("start", "Do it", "--versions", "2")["session_ids"]
    assert len(started) == 2
    assert shell.run("wait", *started)[0] == 0
    assert not (shell.path / "made.txt").exists()
    versions = shell.told("compare", started[0])
    assert {each["session_id"] for each in versions} == set(started)
    assert [each["stats"]["files"] for each in versions] == [1, 1]
    rows = shell.told("worktrees", "list")
    assert sorted(row["sessions"] for row in rows) == sorted([each] for each in started)
    assert all(row["branch"].startswith("agent/") for row in rows)

    session_id = started[0]
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
    assert [row["sessions"] for row in shell.told("worktrees", "list")] == [[started[1]]]
    assert len(shell.told("worktrees", "kept")) == 1


def test_a_session_can_be_forked_exported_and_undone(shell: Shell):
    session_id = shell.start()
    shell.run("wait", session_id)
    (fork,) = shell.told("fork", session_id)["session_ids"]
    assert set(shell.states()) == {session_id, fork}
    code, out, _ = shell.run("export", session_id)
    assert code == 0
    assert "## Result\n\nDone." in out
    first = shell.told("checkpoints", session_id)[0]["seq"]
    rehearsal = shell.told("restore", session_id, "--to", str(first), "--dry-run")
    assert rehearsal["removed"] == ["made.txt"]
    assert (shell.path / "made.txt").exists()
    assert shell.run("restore", session_id, "--to", str(first))[0] == 0
    assert not (shell.path / "made.txt").exists()


def test_commands_show_branches_modes_paths_intents_and_settings(shell: Shell):
    (shell.path / "notes.txt").write_text("x")
    assert shell.told("branches") == ["main"]
    assert {"code", "ask"} <= {each["slug"] for each in shell.told("modes")}
    assert [each["path"] for each in shell.told("paths", "notes")] == ["notes.txt"]
    assert shell.told("intents") == []
    assert shell.run("settings", "manager.running_limit", "2")[0] == 0
    (row,) = shell.told("settings", "manager.running_limit")
    assert row["value"] == "2"
    assert shell.told("do", '{"kind": "list_sessions"}')["overview"]["running_limit"] == 2
