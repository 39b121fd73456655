"""What is typed or pasted at the plain client arrives whole, and as one message."""

import json
import os
import signal

import pytest

from llm_server import LlmServer, Recorded, call, finish, gate, say
from support.terminal_session import CTRL_C, CTRL_D, Installed, at

DONE = "Done. [Enter accepts, or say what else to do] "
ALLOW = "Approve? [y/n/a, or say why not] "
LONG = "a word " * 2000 + "and the last one"
LINES = ["first line", "\tsecond line", "", "y", "fourth line"]


def pasted(*lines: str) -> bytes:
    return b"\x1b[200~" + "\r".join(lines).encode() + b"\x1b[201~"


def last_turn(request: Recorded) -> str:
    return "".join(
        block["text"]
        for block in request.body["messages"][-1]["content"]
        if block["type"] == "text"
    )


def test_a_line_longer_than_a_terminal_keeps_is_heard_whole(rookery: Installed):
    with (
        LlmServer([finish()], [finish()]) as server,
        rookery.terminal(*at(server)) as terminal,
    ):
        terminal.wait_for("What should I do? (Ctrl-D exits) ")
        terminal.type(LONG)
        terminal.wait_for(DONE)
        terminal.type(LONG.upper())
        terminal.wait_for(DONE)
        terminal.type("")
        assert terminal.exit_code() == 0
    assert LONG in json.dumps(server.requests[0].body["messages"][0])
    assert LONG.upper() in last_turn(server.requests[1])


def test_what_is_pasted_is_one_message(rookery: Installed):
    with (
        LlmServer([finish()], [finish()]) as server,
        rookery.terminal(*at(server)) as terminal,
    ):
        terminal.wait_for("What should I do? (Ctrl-D exits) ")
        terminal.press(pasted(*LINES) + b"\r")
        terminal.wait_for(DONE)
        terminal.press(pasted(*LINES) + b" and more\r")
        terminal.wait_for(DONE)
        terminal.type("")
        assert terminal.exit_code() == 0
    assert len(server.requests) == 2
    assert "\n".join(LINES) in last_turn(server.requests[0])
    assert "\n".join(LINES) + " and more" in last_turn(server.requests[1])
    assert "200~" not in terminal.screen
    assert "second line\n\ny\nfourth line and more\n" in terminal.screen


def test_what_is_pasted_never_allows_anything_by_one_of_its_lines(rookery: Installed):
    write = call("write_to_file", path="a.txt", content="hi\n")
    with (
        LlmServer([write], [finish()]) as server,
        rookery.terminal(*at(server), "go") as terminal,
    ):
        terminal.wait_for("Approve? ")
        terminal.press(pasted("y", "y", "y") + b"\r")
        terminal.wait_for(DONE)
        terminal.type("")
        assert terminal.exit_code() == 0
    assert not (rookery.workspace / "a.txt").exists()


def test_marks_of_a_paste_while_nothing_is_asked_are_not_words(rookery: Installed):
    pause = gate()
    with (
        LlmServer([say("Let me ", pause, "see.")], [finish()]) as server,
        rookery.terminal(*at(server), "go") as terminal,
    ):
        terminal.wait_for("Let me ")
        terminal.press(pasted(*LINES) + b"\r")
        terminal.wait_for("  queued for the model")
        pause.open()
        terminal.wait_for(DONE)
        terminal.type("")
        assert terminal.exit_code() == 0
    heard = json.dumps(server.requests[1].body["messages"])
    assert "200~" not in heard
    assert json.dumps("\n".join(LINES))[1:-1] in heard


def test_keys_edit_the_line_and_special_ones_are_no_words(rookery: Installed):
    with (
        LlmServer([finish()]) as server,
        rookery.terminal(*at(server)) as terminal,
    ):
        terminal.wait_for("What should I do? (Ctrl-D exits) ")
        terminal.press("no wrong\x17\x17grüße\x1b[A\x7fe, 日本\r".encode())
        terminal.wait_for(DONE)
        terminal.type("")
        assert terminal.exit_code() == 0
    assert "grüße, 日本" in last_turn(server.requests[0])
    assert "wrong" not in last_turn(server.requests[0])


def test_ctrl_c_takes_back_what_was_typed(rookery: Installed):
    with (
        LlmServer([finish()], [finish()]) as server,
        rookery.terminal(*at(server), "go") as terminal,
    ):
        terminal.wait_for(DONE)
        terminal.press(b"half a li")
        terminal.wait_for("half a li")
        terminal.press(CTRL_C)
        terminal.wait_for("Nothing is running. Press Ctrl-C again to exit.\n")
        terminal.wait_for(DONE)
        terminal.type("do more")
        terminal.wait_for(DONE)
        terminal.type("")
        assert terminal.exit_code() == 0
    assert "Stopped." not in terminal.screen
    assert "do more" in last_turn(server.requests[1])
    assert "half" not in json.dumps(server.requests[1].body)


@pytest.mark.parametrize("keys", [CTRL_C, CTRL_D], ids=["ctrl-c", "ctrl-d"])
def test_whoever_leaves_is_told_that_the_task_is_kept(rookery: Installed, keys: bytes):
    write = call("write_to_file", path="a.txt", content="hi\n")
    with LlmServer([write]) as server, rookery.terminal(*at(server), "go") as terminal:
        terminal.wait_for("Approve? ")
        if keys == CTRL_C:
            terminal.press(CTRL_C)
            terminal.wait_for("Continue? ")
        terminal.press(keys)
        terminal.wait_for("\nThe session is kept.\nContinue with: rookery ")
        assert terminal.exit_code() in (1, 130)


def test_a_terminal_is_set_again_for_whoever_comes_back_to_it(rookery: Installed):
    """A shell sets the terminal for itself when we are stopped."""
    import termios

    def is_set_for_keys() -> bool:
        return not termios.tcgetattr(terminal._master)[3] & termios.ICANON

    with (
        LlmServer([finish()], [finish()]) as server,
        rookery.terminal(*at(server), "go") as terminal,
    ):
        usual = termios.tcgetattr(terminal._master)
        terminal.wait_for(DONE)
        terminal.wait_until_it_listens()
        assert is_set_for_keys()
        usual[3] |= termios.ICANON | termios.ECHO
        termios.tcsetattr(terminal._master, termios.TCSANOW, usual)
        os.kill(terminal.process.pid, signal.SIGCONT)
        terminal.wait_until_it_listens()
        terminal.type("do more")
        terminal.wait_for(DONE)
        terminal.type("")
        assert terminal.exit_code() == 0
        assert not is_set_for_keys()
    assert terminal.screen.count("do more") == 1


def test_switching_approval_at_a_question_puts_it_again_once(rookery: Installed):
    write = call("write_to_file", path="a.txt", content="hi\n")
    with (
        LlmServer([write], [finish()]) as server,
        rookery.terminal(*at(server), "go") as terminal,
    ):
        terminal.wait_for(ALLOW)
        terminal.type("/approve on")
        terminal.wait_for("  now: auto-approve\n")
        terminal.wait_for(ALLOW)
        terminal.type("y")
        terminal.wait_for(DONE)
        terminal.type("")
        assert terminal.exit_code() == 0
    assert terminal.screen.count("Approve?") == 2


def test_where_a_command_runs_is_said_in_lines_that_end_between_words(rookery: Installed):
    run = call("execute_command", command="touch a", cwd=None, timeout=None)
    with (
        LlmServer([run]) as server,
        rookery.terminal(*at(server), "go", columns=40) as terminal,
    ):
        shown = terminal.wait_for("Approve? ")
        terminal.press(CTRL_D)
        assert terminal.exit_code() == 1
    about = shown[shown.index("Run this command") :].splitlines()[2:]
    assert len(about) > 1
    assert all(line.startswith("  ") and len(line) < 40 for line in about)
    banner = shown.splitlines()[:3]
    assert all(len(line) < 40 for line in banner)
