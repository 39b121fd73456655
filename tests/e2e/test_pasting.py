"""Text typed or pasted at the plain client arrives complete and as one message."""

import json
import os
import signal

from llm_server import LlmServer, Recorded, call, finish, gate, say
from support.model_words import ALLOW, DONE, shell
from support.terminal_session import CTRL_C, CTRL_D, Installed, at

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


def test_a_paste_is_one_message_and_none_of_its_lines_approves(
    rookery: Installed,
):
    write = call("write_to_file", path="a.txt", content="hi\n")
    with (
        LlmServer(*[[finish(f"{n}.")] for n in range(5)], [write], [finish()]) as server,
        rookery.terminal(*at(server)) as terminal,
    ):
        terminal.wait_for("What should I do? (Ctrl-D exits) ")
        terminal.type(LONG)  # longer than a terminal keeps by itself
        terminal.wait_for(DONE)
        terminal.type(LONG.upper())
        terminal.wait_for(DONE)
        terminal.press(pasted(*LINES) + b" and more\r")
        terminal.wait_for(DONE)
        assert "200~" not in terminal.screen
        assert "second line\n\ny\nfourth line and more\n" in terminal.screen
        terminal.press("no wrong\x17\x17grüße\x1b[A\x7fe, 日本\r".encode())
        terminal.wait_for(DONE)
        terminal.press(b"half a li")
        terminal.wait_for("half a li")
        terminal.press(CTRL_C)
        terminal.wait_for("Nothing is running. Press Ctrl-C again to exit.\n")
        terminal.wait_for(DONE)
        terminal.type("do more")
        terminal.wait_for(DONE)
        assert "Stopped." not in terminal.screen
        terminal.type("write")
        terminal.wait_for("Approve? ")
        terminal.press(pasted("y", "y", "y") + b"\r")
        terminal.wait_for(DONE)
        terminal.type("")
        assert terminal.exit_code() == 0
    assert not (rookery.workspace / "a.txt").exists()
    received = [last_turn(request) for request in server.requests]
    assert LONG in received[0]
    assert LONG.upper() in received[1]
    assert "\n".join(LINES) + " and more" in received[2]
    assert "grüße, 日本" in received[3]
    assert "wrong" not in received[3]
    assert "do more" in received[4]
    assert "half" not in received[4]


def test_paste_markers_are_not_part_of_a_queued_message(rookery: Installed):
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
    received = json.dumps(server.requests[1].body["messages"])
    assert "200~" not in received
    assert json.dumps("\n".join(LINES))[1:-1] in received


def test_terminal_settings_are_restored_after_a_suspend(rookery: Installed):
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


def test_switching_approval_at_a_question_repeats_it_once(rookery: Installed):
    write = call("write_to_file", path="a.txt", content="hi\n")
    with (
        LlmServer([write], [finish()]) as server,
        rookery.terminal(*at(server), "go") as terminal,
    ):
        terminal.wait_for(ALLOW)
        terminal.type("/approve on")
        terminal.wait_for("  level auto: acts without asking.")
        terminal.wait_for(ALLOW)
        terminal.type("y")
        terminal.wait_for(DONE)
        terminal.type("")
        assert terminal.exit_code() == 0
    assert terminal.screen.count("Approve?") == 2


def test_the_location_of_a_command_wraps_between_words(rookery: Installed):
    run = shell("touch a")
    with (
        LlmServer([run]) as server,
        rookery.terminal(*at(server), "go", columns=40) as terminal,
    ):
        shown = terminal.wait_for("ask · Approve? ")
        terminal.press(CTRL_D)
        assert terminal.exit_code() == 1
    about = shown[shown.index("Run this command") :].splitlines()[2:]
    assert len(about) > 1
    assert all(line.startswith("  ") and len(line) < 40 for line in about)
    banner = shown[shown.index("rookery 0.") :].splitlines()[:3]
    assert all(len(line) < 40 for line in banner)
