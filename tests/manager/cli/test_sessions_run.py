"""`rookery sessions` at the shell: real processes, a scripted model."""

import fcntl
import json
import os
import time
from collections.abc import Callable
from pathlib import Path

from rookery.manager.sessions.session_store import manager_folder
from rookery.platform.user_folders import find_places
from rookery.storage.journal_lines import JOURNAL
from rookery.storage.sessions import TaskStore
from support.manager_project import SPEAKS_LONG
from support.sessions_shell import PATIENCE, Shell
from support.warm_start import start_warm

WAITS = """\
- say: I will wait.
  calls:
  - {tool: execute_command, arguments: {command: "while [ ! -e go.txt ]; do sleep 0.1; done"}}
- calls:
  - {tool: attempt_completion, arguments: {result: "Done."}}
"""
"""A model whose command runs until there is a file."""
FAILS = """\
- fail: {kind: bad_key, message: "401 The key has expired.", status: 401}
"""


def test_start_prints_the_id_and_the_session_keeps_running(shell: Shell):
    code, out, hints = shell.run("start", "Do it")
    assert code == 0
    session_id = out.removesuffix("\n")
    assert hints == f"To watch it: rookery sessions follow {session_id[:8]}\n"
    code, out, err = shell.run("wait", session_id[:8])
    assert (code, out, err) == (0, f"{session_id[:8]} is done.\n", "")
    assert shell.run("wait", session_id, "--timeout", "0")[0] == 0
    assert (shell.path / "made.txt").read_text() == "one\n"
    assert shell.states() == {session_id: "completed"}


def test_follow_shows_an_approval_and_the_session_continues_after_it(shell: Shell):
    session_id = shell.start("--ask")
    short = session_id[:8]
    code, out, err = shell.run("follow", short)
    assert (code, err) == (6, "")
    assert out.startswith("\n> Do it\n\nI will write it.\n")
    assert out.index("● ") < out.index("  +one")
    assert f"rookery sessions approve {short}" in out
    code, out, _ = shell.run("follow", session_id, "--json")
    assert code == 6
    assert json.loads(out.splitlines()[-1])["session"]["state"] == "waiting_approval"
    (row,) = shell.reported("inbox")
    assert (row["session_id"], row["ask"]) == (session_id, "tool")
    assert row["digest"]
    code, _, complaint = shell.run("approve", session_id, "--digest", "0" * len(row["digest"]))
    assert code == 2
    assert "nothing was approved" in complaint
    assert not (shell.path / "made.txt").exists()
    code, out, _ = shell.run("approve", session_id, "--digest", row["digest"])
    assert code == 0
    assert "made.txt" in out
    assert "+one" in out
    assert shell.run("wait", session_id)[0] == 0
    assert (shell.path / "made.txt").read_text() == "one\n"

    assert shell.run("send", session_id, "and more")[0] == 0
    code, out, _ = shell.run("follow", session_id)
    assert code == 0
    assert "> and more" in out
    assert "✔ Done again." in out


def test_start_at_a_terminal_asks_whether_to_trust_the_project(shell: Shell):
    shell.environ["ROOKERY_HOME"] = str(shell.folder / "another home")
    for answer, code in (b"n\n", 2), (b"y\n", 0):
        ours, theirs = os.openpty()
        reads, stdout = os.pipe()
        with start_warm(
            ["sessions", "start", "Do it"],
            shell.environ,
            str(shell.path),
            streams=[theirs, stdout, theirs],
            terminal=True,
            manages=True,
        ) as process:
            os.close(theirs)
            os.close(stdout)
            asked = b""
            while b"[y/n]" not in asked:
                asked += os.read(ours, 1024)
            assert b"Do you trust this folder?" in asked
            os.write(ours, answer)
            with open(reads, "rb") as out:
                assert bool(out.read()) == (code == 0)
            assert process.wait(60) == code
        os.close(ours)
    assert shell.reported("list")["overview"]["trusted"] is True


def test_a_failed_session_gives_the_reason_and_is_in_the_inbox(shell: Shell):
    shell.plays(FAILS)
    session_id = shell.start()
    code, out, _ = shell.run("wait", session_id)
    assert code == 3
    assert "failed (401 The key has expired.)" in out
    assert f"rookery sessions retry {session_id[:8]}" in shell.run("inbox")[1]


def test_sessions_can_be_stopped_and_resumed(shell: Shell):
    shell.plays(SPEAKS_LONG)
    first, second = shell.start(), shell.start()
    assert shell.run("send", first, "and more")[0] == 0
    assert shell.run("queue", first)[1].endswith("  queued  and more\n")
    assert shell.run("stop-all") == (0, "Stopped all sessions.\n", "")
    assert shell.states() == {first: "stopped", second: "stopped"}
    assert shell.left() == []
    assert shell.run("resume", first)[0] == 0
    assert shell.states()[first] == "streaming"
    assert shell.run("wait", first, "--timeout", "0.2")[0] == 124
    assert shell.run("wait", second, "--timeout", "0")[0] == 1, "it is idle already"
    assert shell.run("cancel", first)[0] == 0
    assert shell.run("wait", first)[0] == 1


def test_versions_leave_the_project_unchanged_until_one_is_applied(shell: Shell):
    started = shell.reported("start", "Do it", "--versions", "2")["session_ids"]
    assert len(started) == 2
    assert shell.run("wait", *started)[0] == 0
    assert not (shell.path / "made.txt").exists()
    rows = shell.reported("worktrees", "list")
    assert sorted(row["sessions"] for row in rows) == sorted([each] for each in started)
    assert shell.run("apply", started[0])[0] == 0
    assert (shell.path / "made.txt").read_text() == "one\n"
    assert shell.run("worktrees", "remove", started[0], "-y")[0] == 0
    assert [row["sessions"] for row in shell.reported("worktrees", "list")] == [[started[1]]]
    assert len(shell.reported("worktrees", "kept")) == 1


def test_queued_sessions_run_without_an_open_manager(shell: Shell):
    shell.plays(WAITS)
    shell.environ["ROOKERY_MANAGER_RUNNING_LIMIT"] = "1"
    ids = [shell.start() for _ in range(2)]
    places = find_places(shell.environ)
    tasks = TaskStore(places)
    assert not tasks.exists(ids[-1])
    (shell.path / "go.txt").touch()

    def done(session_id: str) -> bool:
        return tasks.exists(session_id) and "Done." in (
            tasks.folder(session_id) / JOURNAL
        ).read_text("utf-8")

    until(lambda: all(map(done, ids)), "the end of the last session")
    lock = manager_folder(places, shell.path) / "queue.lock"
    until(lambda: _is_free(lock), "the end of the queue's manager")
    assert set(shell.states().values()) == {"completed"}


def test_the_queue_survives_a_killed_manager(shell: Shell):
    shell.plays(WAITS)
    shell.environ["ROOKERY_MANAGER_RUNNING_LIMIT"] = "1"
    places = find_places(shell.environ)
    tasks = TaskStore(places)
    with shell.manager() as manager:
        ids = [shell.start() for _ in range(2)]
        lock = manager_folder(places, shell.path) / "queue.lock"
        until(lambda: lock.exists() and not _is_free(lock), "a manager for the queue")
        manager.kill()
    assert not tasks.exists(ids[1])
    (shell.path / "go.txt").touch()
    until(lambda: tasks.exists(ids[1]), "the beginning of the second session")


def until(holds: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < deadline, what
        time.sleep(0.1)


def _is_free(lock: Path) -> bool:
    """Takes it for an instant; who wants it tries again."""
    with lock.open("rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
    return True
