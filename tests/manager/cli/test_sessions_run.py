"""`rookery sessions` as it is typed: real processes, a scripted model."""

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
from support.text_process import PLAINLY
from support.warm_start import start_warm

ASKS = """\
- calls:
  - tool: ask_followup_question
    arguments: {question: Which colour, follow_up: [{text: red}, {text: blue}]}
- calls:
  - {tool: attempt_completion, arguments: {result: "Painted."}}
"""
SLOW = f"""\
- say: {" ".join(["word"] * 30)}
  pause: 0.05
  calls:
  - {{tool: attempt_completion, arguments: {{result: "Done."}}}}
"""
FAILS = """\
- fail: {kind: bad_key, message: "401 The key has expired.", status: 401}
"""
EVIL = """\
- say: "\\e]0;owned\\a\\u202eword\\nline two"
  calls:
  - {tool: attempt_completion, arguments: {result: "\\e[2Jgone"}}
"""


def test_start_prints_the_id_and_the_session_keeps_running(shell: Shell):
    shell.environ |= PLAINLY
    code, out, hints = shell.run("start", "Do it")
    for name in PLAINLY:
        del shell.environ[name]
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
    assert shell.run("wait", session_id)[0] == 6
    (row,) = shell.told("inbox")
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

    shell.run("rename", short, "Mine")
    shell.run("mark-read", short)
    assert shell.told("list", "mine")["sessions"][0]["name"] == "Mine"
    assert shell.told("list", "yours")["sessions"] == []
    shell.run("archive", short)
    assert shell.states() == {}
    (row,) = shell.told("list", "--archived")["sessions"]
    assert row["archived"] is True
    shell.run("archive", short, "--undo")
    assert shell.run("remove", short)[0] == 0
    assert shell.told("list", "--archived")["sessions"] == []
    assert shell.run("cancel", short) == (
        *(2, ""),
        f"Error: No session begins with {short}. See rookery sessions.\n",
    )


def test_a_rejected_action_is_not_performed(shell: Shell):
    session_id = shell.start("--ask")
    shell.run("wait", session_id)
    assert shell.run("reject", session_id, "not there")[0] == 0
    code, told, _ = shell.run("follow", session_id)
    assert code == 0
    assert "\n✗ rejected: Create made.txt\n  @@ -0,0 +1 @@\n  +one" in told
    assert "\n> not there\n" in told
    assert "● Create made.txt" not in told
    assert not (shell.path / "made.txt").exists()


def test_a_question_is_answered_by_the_number_of_a_suggestion(shell: Shell):
    shell.plays(ASKS)
    session_id = shell.start("--ask")
    assert shell.run("wait", session_id)[0] == 6
    code, out, _ = shell.run("answer", session_id, "2")
    assert (code, out) == (0, "Answered: blue\n")
    code, out, _ = shell.run("follow", session_id)
    assert code == 0
    assert "? Which colour" in out
    assert "> blue" in out
    assert "✔ Painted." in out
    assert out.endswith(f"{session_id[:8]} is done.\n")


def test_start_in_an_untrusted_project_explains_how_to_trust_it(shell: Shell):
    shell.environ["ROOKERY_HOME"] = str(shell.folder / "another home")
    code, out, err = shell.run("start", "Do it")
    assert (code, out) == (2, "")
    assert "is not trusted, so nothing was started. Look through it, then run: " in err
    assert shell.run("trust")[0] == 0
    assert shell.run("start", "Do it")[0] == 0


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
    assert shell.told("list")["overview"]["trusted"] is True


def test_a_failed_session_gives_the_reason_and_is_in_the_inbox(shell: Shell):
    shell.plays(FAILS)
    session_id = shell.start()
    code, out, _ = shell.run("wait", session_id)
    assert code == 3
    assert "failed (401 The key has expired.)" in out
    assert f"rookery sessions retry {session_id[:8]}" in shell.run("inbox")[1]
    shell.run("remove", session_id)

    del shell.environ["ROOKERY_PROVIDER"], shell.environ["ROOKERY_MODEL"]
    session_id = shell.start()
    code, out, _ = shell.run("wait", session_id)
    assert code == 3
    assert f"{session_id[:8]} failed (No model available: no key is set" in out
    (row,) = shell.told("inbox")
    assert (row["ask"], row["state"]) == ("", "error")
    assert row["text"].startswith("No model available")
    listing = shell.told("list")
    assert listing["sessions"][0]["failure"]["kind"] == "auth"
    assert listing["overview"]["counts"]["attention"] == 1


def test_control_characters_from_the_model_are_escaped(shell: Shell):
    shell.plays(EVIL)
    _, out, _ = shell.run("follow", shell.start())
    assert "␛]0;owned␇<U+202E>word\nline two\n" in out
    assert "✔ ␛[2Jgone" in out


def test_sessions_queue_messages_and_can_be_stopped_and_resumed(shell: Shell):
    shell.plays(SPEAKS_LONG)
    first, second = shell.start(), shell.start()
    assert shell.run("mail", first) == (0, "No queued messages.\n", "")
    assert shell.run("send", first, "and more")[0] == 0
    code, out, _ = shell.run("mail", first)
    assert code == 0
    assert out.endswith("  queued  and more\n")
    (queued,) = shell.told("mail", "list", first)["queue"]
    assert shell.run("mail", "edit", first, queued["message_id"])[0] == 0
    assert shell.run("mail", first)[1] == "No queued messages.\n"

    assert shell.run("stop-all") == (0, "Stopped all sessions.\n", "")
    assert shell.states() == {first: "stopped", second: "stopped"}
    assert shell.left() == []
    assert shell.run("resume", first)[0] == 0
    assert shell.states()[first] == "streaming"
    assert shell.run("wait", first, "--timeout", "0.2")[0] == 124
    assert shell.run("wait", second, "--timeout", "0")[0] == 1, "it rests already"
    assert shell.run("cancel", first)[0] == 0
    assert shell.run("wait", first)[0] == 1


def test_queued_sessions_run_without_an_open_manager(shell: Shell):
    shell.plays(SLOW)
    shell.environ["ROOKERY_MANAGER_RUNNING_LIMIT"] = "1"
    ids = [shell.start() for _ in range(2)]
    places = find_places(shell.environ)
    tasks = TaskStore(places)
    assert not tasks.exists(ids[-1])

    def done(session_id: str) -> bool:
        return tasks.exists(session_id) and "Done." in (
            tasks.folder(session_id) / JOURNAL
        ).read_text("utf-8")

    until(lambda: all(map(done, ids)), "the end of the last session")
    lock = manager_folder(places, shell.path) / "queue.lock"
    until(lambda: _is_free(lock), "the end of whoever kept the queue")
    assert set(shell.states().values()) == {"completed"}


def test_the_queue_survives_a_killed_manager(shell: Shell):
    shell.plays(SLOW)
    shell.environ["ROOKERY_MANAGER_RUNNING_LIMIT"] = "1"
    places = find_places(shell.environ)
    tasks = TaskStore(places)
    with shell.manager() as manager:
        ids = [shell.start() for _ in range(2)]
        lock = manager_folder(places, shell.path) / "queue.lock"
        until(lambda: lock.exists() and not _is_free(lock), "somebody who keeps the queue")
        manager.kill()
    until(lambda: tasks.exists(ids[1]), "the beginning of the second session")


def until(holds: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < deadline, what
        time.sleep(0.1)


def _is_free(lock: Path) -> bool:
    with lock.open("rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
    return True
