"""`rookery list` and `rookery sessions list` show the same sessions: real processes, no mocks."""

import json
import os

from rookery.permissions.trust import TrustStore
from rookery.platform.user_folders import find_places
from rookery.storage.sessions import TaskStore
from support.manager_project import WRITES
from support.sessions_shell import PATIENCE, Shell
from support.text_process import start_text


def rookery(shell: Shell, *words: str, code: int = 0) -> str:
    """The output of a command that does not use the manager."""
    with start_text(words, shell.environ, shell.path) as process:
        out, err = process.communicate(timeout=PATIENCE)
    assert process.wait() == code, err
    return out


def listed(shell: Shell, *words: str) -> set[str]:
    """The sessions of the project, by both commands."""
    rows = json.loads(rookery(shell, "list", "sessions", *words))["sessions"]
    ours = [row["id"] for row in rows if "parent" not in row]
    theirs = [row["session_id"] for row in shell.reported("list", *words)["sessions"]]
    assert sorted(ours) == sorted(theirs)
    return set(ours)


def tasks(shell: Shell) -> TaskStore:
    return TaskStore(find_places(shell.environ))


def in_a_terminal(shell: Shell) -> str:
    folder = tasks(shell).folder("x").parent
    before = set(folder.iterdir()) if folder.exists() else set()
    rookery(shell, "-p", "-y", "In a terminal")
    (made,) = set(folder.iterdir()) - before
    return made.name


def test_terminal_and_manager_list_the_same_sessions(shell: Shell):
    ours, other = in_a_terminal(shell), in_a_terminal(shell)
    theirs, apart = shell.start(), shell.start("--worktree")
    everything = {ours, other, theirs, apart}
    assert shell.run("wait", theirs, apart)[0] == 0
    assert listed(shell) == everything, "without a manager"
    with shell.manager():
        assert listed(shell) == everything
        assert shell.states() == dict.fromkeys(everything, "completed")
        rows = json.loads(rookery(shell, "list", "sessions"))["sessions"]
        assert [row["id"] for row in rows if "branch" in row] == [apart]

        assert shell.run("archive", ours)[0] == 0
        assert listed(shell) == everything - {ours}
        assert listed(shell, "--archived") == everything
        assert shell.run("archive", ours, "--undo")[0] == 0
        for session_id in (ours, theirs):
            assert shell.run("remove", session_id)[0] == 0
        assert listed(shell) == {other, apart}
        shell.run("stop-all")
        rookery(shell, "delete", "-y", other, apart)
        assert listed(shell, "--archived") == set()
    assert listed(shell) == set(), "a removed session never reappears"
    for session_id in (ours, theirs):
        assert "Written." in rookery(shell, "show", session_id)
        rookery(shell, "delete", "-y", session_id)


def test_a_manager_takes_over_a_terminal_session_and_returns_it(shell: Shell):
    with shell.manager():
        assert shell.reported("list")["sessions"] == []
        ours = in_a_terminal(shell)
        renamed = {"kind": "rename_session", "session_id": ours, "label": "Mine"}
        assert shell.run("do", json.dumps(renamed))[0] == 0  # although it was never listed
        assert [row["name"] for row in shell.reported("list")["sessions"]] == ["Mine"]
        assert shell.run("remove", ours)[0] == 0

        ours = in_a_terminal(shell)
        (before,) = shell.reported("list")["sessions"]
        known = (before["state"], before["auto_approve"], before["unread"])
        assert known == ("completed", False, False)
        assert shell.reported("inbox") == []
        assert shell.run("mark-read", ours)[0] == 0
        (after,) = shell.reported("list")["sessions"]
        assert {name for name in before if before[name] != after.get(name)} == {"model"}
        journal = tasks(shell).open(ours)
        try:
            code, _, said = shell.run("send", ours, "Mine")
            assert (code, listed(shell)) == (2, {ours})
            assert "Another process is working on session" in said
            assert shell.run("remove", ours)[0] == 2
        finally:
            journal.close()
        rookery(shell, "-p", "-c", "In the terminal again")
        assert shell.run("send", ours, "And here")[0] == 0
        assert shell.run("wait", ours)[0] == 0
        assert "And here" in rookery(shell, "show", ours)
        assert shell.reported("show", ours)["auto_approve"] is False
        assert shell.run("remove", ours)[0] == 0
        assert listed(shell) == set()


def test_the_manager_is_as_limited_in_an_untrusted_folder_as_a_terminal(shell: Shell):
    shell.plays(f"- say: Hello.\n{WRITES}")
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


def test_foreign_files_among_the_sessions_do_not_break_the_list(shell: Shell):
    ours = in_a_terminal(shell)
    folder = tasks(shell).folder(ours).parent
    for name in ("pipe", "closed", "garbage"):
        (folder / name).mkdir()
    os.mkfifo(folder / "pipe" / "journal.jsonl")
    (folder / "garbage" / "journal.jsonl").write_bytes(b"\x00" * 100_000)
    (folder / "garbage" / "hidden").symlink_to("hidden")
    (folder / "link").symlink_to(ours)
    (folder / "closed" / "hidden").touch()
    (folder / "closed").chmod(0)
    try:
        assert listed(shell) == {ours}
        with shell.manager():
            assert listed(shell) == {ours}
    finally:
        (folder / "closed").chmod(0o700)
