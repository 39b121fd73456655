"""`rookery sessions` as it is typed: real processes, a scripted model."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from manager.bench import SPEAKS_LONG, WRITES
from sessions_shell import Shell, opened_shell

ASKS = """\
- calls:
  - tool: ask_followup_question
    arguments: {question: Which colour, follow_up: [{text: red}, {text: blue}]}
- calls:
  - {tool: attempt_completion, arguments: {result: "Painted."}}
"""
FAILS = """\
- fail: {kind: bad_key, message: "401 The key has expired.", status: 401}
"""
EVIL = """\
- say: "\\e]0;owned\\a\\u202eword\\nline two"
  calls:
  - {tool: attempt_completion, arguments: {result: "\\e[2Jgone"}}
"""


@pytest.fixture
def shell(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Shell]:
    with opened_shell(tmp_path, getattr(request, "param", WRITES)) as shell:
        yield shell


def plays(script: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("shell", [script], indirect=True, ids=[""])


def test_a_session_runs_on_after_the_command_and_is_waited_for(shell: Shell):
    session_id = shell.start()
    code, out, err = shell.run("wait", session_id[:8])
    assert (code, out, err) == (0, f"{session_id[:8]} is completed.\n", "")
    assert (shell.path / "made.txt").read_text() == "one\n"
    assert shell.states() == {session_id: "completed"}


def test_what_is_asked_is_seen_and_allowed_by_its_digest(shell: Shell):
    session_id = shell.start("--ask")
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


def test_what_is_rejected_is_not_done(shell: Shell):
    session_id = shell.start("--ask")
    shell.run("wait", session_id)
    assert shell.run("reject", session_id, "not there")[0] == 0
    assert shell.run("wait", session_id)[0] == 0
    assert not (shell.path / "made.txt").exists()


@plays(ASKS)
def test_a_question_is_answered_by_the_number_of_what_it_offers(shell: Shell):
    session_id = shell.start("--ask")
    assert shell.run("wait", session_id)[0] == 6
    code, out, _ = shell.run("answer", session_id, "2")
    assert (code, out) == (0, "Answered: blue\n")
    code, out, _ = shell.run("follow", session_id)
    assert code == 0
    assert "? Which colour" in out
    assert "> blue" in out
    assert "✔ Painted." in out
    assert out.endswith(f"{session_id[:8]} is completed.\n")


def test_follow_tells_what_happens_until_the_session_rests(shell: Shell):
    session_id = shell.start("--ask")
    code, out, err = shell.run("follow", session_id[:8])
    assert (code, err) == (6, "")
    assert out.startswith("\n> Do it\n\nI will write it.\n")
    assert out.index("● ") < out.index("  +one")
    assert f"rookery sessions approve {session_id[:8]}" in out
    code, out, _ = shell.run("follow", session_id, "--json")
    assert code == 6
    assert json.loads(out.splitlines()[-1])["session"]["state"] == "waiting_approval"


def test_words_go_on_with_a_session_that_is_done(shell: Shell):
    session_id = shell.start()
    shell.run("wait", session_id)
    assert shell.run("send", session_id, "and more")[0] == 0
    assert shell.run("wait", session_id)[0] == 0
    _, out, _ = shell.run("follow", session_id)
    assert "> and more" in out
    assert "✔ Done again." in out


def test_a_session_is_renamed_put_away_and_removed(shell: Shell):
    session_id = shell.start()
    shell.run("wait", session_id)
    shell.run("rename", session_id[:8], "Mine")
    shell.run("mark-read", session_id[:8])
    assert shell.told("list", "mine")["sessions"][0]["name"] == "Mine"
    assert shell.told("list", "yours")["sessions"] == []
    shell.run("archive", session_id[:8])
    assert shell.states() == {}
    (row,) = shell.told("list", "--archived")["sessions"]
    assert row["archived"] is True
    shell.run("archive", session_id[:8], "--undo")
    assert shell.run("remove", session_id[:8])[0] == 0
    assert shell.told("list", "--archived")["sessions"] == []


def test_an_error_is_one_sentence(shell: Shell):
    code, out, err = shell.run("cancel", "ffffffff")
    assert (code, out) == (2, "")
    assert err == "Error: No session here begins with ffffffff. See rookery sessions.\n"


@plays(FAILS)
def test_a_session_that_fails_says_why_by_its_exit_code(shell: Shell):
    session_id = shell.start()
    code, out, _ = shell.run("wait", session_id)
    assert code == 3
    assert "has failed (401 The key has expired.)" in out
    assert f"rookery sessions retry {session_id[:8]}" in shell.run("inbox")[1]


@plays(EVIL)
def test_OUT_what_a_model_says_is_not_obeyed_by_the_terminal(shell: Shell):
    session_id = shell.start()
    _, out, _ = shell.run("follow", session_id)
    assert "␛]0;owned␇<U+202E>word\nline two\n" in out
    assert "✔ ␛[2Jgone" in out


@plays(SPEAKS_LONG)
def test_all_sessions_are_stopped_and_one_is_resumed(shell: Shell):
    first, second = shell.start(), shell.start()
    assert shell.run("stop-all") == (0, "All sessions are stopped.\n", "")
    assert shell.states() == {first: "stopped", second: "stopped"}
    assert shell.left() == []
    assert shell.run("resume", first)[0] == 0
    assert shell.states()[first] == "streaming"
    assert shell.run("wait", first, "--timeout", "0.2")[0] == 124
    assert shell.run("cancel", first)[0] == 0
    assert shell.run("wait", first)[0] == 1
