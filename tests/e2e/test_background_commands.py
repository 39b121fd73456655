"""A command that is not waited for: it is seen from outside, ended, and never left behind."""

import json
import time

import pytest

from llm_server import LlmServer, Recorded, call, finish, gate, say
from support.terminal_session import (
    CTRL_C,
    PATIENCE,
    Installed,
    TerminalSession,
    a_pause,
    at,
    processes_with,
)

DONE = "Done. [Enter accepts, or say what else to do] "


@pytest.fixture
def pause() -> str:
    return a_pause()


def long_one(pause: str) -> object:
    return call("execute_command", command=f"echo up; sleep {pause}", cwd=None, timeout=1)


def last_turn(request: Recorded) -> str:
    return json.dumps(request.body["messages"][-1], ensure_ascii=False)


def running(rookery: Installed) -> list[dict[str, object]]:
    commands: list[dict[str, object]] = json.loads(rookery.run("ps", "--json").stdout)["commands"]
    return commands


def wait_until_it_is_listed(rookery: Installed) -> None:
    """A command is listed, and can be let go or ended, once it has run for a moment."""
    deadline = time.monotonic() + PATIENCE
    while not running(rookery):
        assert time.monotonic() < deadline


def wait_for_the_background(terminal: TerminalSession, pause: str) -> None:
    terminal.wait_for(f"still running: echo up; sleep {pause} (/stop ends it)\n")
    terminal.wait_for(DONE)


def test_what_takes_longer_than_its_time_runs_on_and_is_listed(rookery: Installed, pause: str):
    with (
        LlmServer([long_one(pause)], [finish()]) as server,
        rookery.terminal("-y", *at(server), "go") as terminal,
    ):
        wait_for_the_background(terminal, pause)
        assert "It goes on in the background" in last_turn(server.requests[1])
        assert "Output so far:\\nup" in last_turn(server.requests[1])
        [row] = running(rookery)
        assert (row["state"], row["command"]) == ("background", f"echo up; sleep {pause}")
        assert row["session"] == rookery.sessions()[0]["id"]
        assert str(row["id"]) in rookery.run("ps").stdout
        assert processes_with(pause)
        terminal.type("")
        assert terminal.exit_code() == 0
    assert processes_with(pause) == []
    assert rookery.run("ps").stdout == "No command is running.\n"


@pytest.mark.parametrize("by", ["/stop", "ps --stop ID", "ps --stop all"])
def test_it_can_be_ended_and_the_model_hears_of_it(rookery: Installed, pause: str, by: str):
    with (
        LlmServer([long_one(pause)], [finish("First.")], [finish("Second.")]) as server,
        rookery.terminal("-y", *at(server), "go") as terminal,
    ):
        wait_for_the_background(terminal, pause)
        if by == "/stop":
            terminal.type("/stop")
        else:
            wanted = by.split()[-1].replace("ID", str(running(rookery)[0]["id"]))
            assert rookery.run("ps", "--stop", wanted).stdout == "Ended 1 command.\n"
        terminal.wait_for("note: [automatic] The command that ran in the background has ended")
        terminal.wait_for(DONE)
        assert processes_with(pause) == []
        assert running(rookery) == []
        terminal.type("and now?")
        terminal.wait_for("✔ Second.\n" + DONE)
        terminal.type("")
        assert terminal.exit_code() == 0
    told = json.dumps(server.requests[2].body["messages"], ensure_ascii=False)
    assert "The command that ran in the background has ended" in told


def test_a_command_that_is_waited_for_is_sent_to_the_background_or_ended(
    rookery: Installed, pause: str
):
    waits = call("execute_command", command=f"echo up; sleep {pause}", cwd=None, timeout=None)
    with (
        LlmServer([waits], [finish("First.")]) as server,
        rookery.terminal("-y", *at(server), "go") as terminal,
    ):
        terminal.wait_for("  up\n")
        wait_until_it_is_listed(rookery)
        terminal.type("/bg")
        wait_for_the_background(terminal, pause)
        assert processes_with(pause)
        terminal.type("/stop")
        terminal.wait_for("has ended")
        terminal.wait_for(DONE)
        assert processes_with(pause) == []
        terminal.type("/stop")
        terminal.wait_for("No command is running.\n")
        terminal.wait_for(DONE)
        terminal.type("")
        assert terminal.exit_code() == 0


def test_a_command_that_is_waited_for_is_ended(rookery: Installed, pause: str):
    waits = call("execute_command", command=f"echo up; sleep {pause}", cwd=None, timeout=None)
    with (
        LlmServer([waits], [finish("First.")]) as server,
        rookery.terminal("-y", *at(server), "go") as terminal,
    ):
        terminal.wait_for("  up\n")
        wait_until_it_is_listed(rookery)
        terminal.type("/stop")
        terminal.wait_for(DONE)
        assert processes_with(pause) == []
        terminal.type("")
        assert terminal.exit_code() == 0
    assert "Ended by the user before it was done." in last_turn(server.requests[1])


@pytest.mark.parametrize("way", ["accepted", "left", "hung up"])
def test_nothing_survives_the_end_of_the_session(rookery: Installed, pause: str, way: str):
    with (
        LlmServer([long_one(pause)], [say("Hm. ", gate())]) as server,
        rookery.terminal("-y", *at(server), "go") as terminal,
    ):
        terminal.wait_for("still running: ")
        terminal.wait_for("Hm. ")
        assert processes_with(pause)
        if way == "hung up":
            assert terminal.hang_up() == 129
        else:
            terminal.press(CTRL_C)
            terminal.wait_for("Continue? ")
            if way == "left":
                terminal.press(CTRL_C)
            else:
                terminal.type("n")
            assert terminal.exit_code() == (130 if way == "left" else 1)
        assert processes_with(pause) == []
    assert running(rookery) == []


def test_in_a_pipe_nothing_survives_either(rookery: Installed, pause: str):
    with LlmServer([long_one(pause)], [finish("Done.")]) as server:
        done = rookery.run("-p", *at(server), "go")
    assert (done.returncode, done.stdout) == (0, "Done.\n")
    assert processes_with(pause) == []
    assert running(rookery) == []
