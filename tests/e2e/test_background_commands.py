"""A command that is not waited for: it is seen from outside, ended, and never left behind."""

import json
import time

import pytest

from llm_server import LlmServer, call, finish, gate, say
from support.model_words import DONE, last_turn, shell
from support.terminal_session import (
    PATIENCE,
    Installed,
    a_pause,
    at,
    processes_with,
)

pytestmark = pytest.mark.usefixtures("unconfined")


@pytest.fixture
def pause() -> str:
    return a_pause()


def long_one(pause: str) -> object:
    return call("execute_command", command=f"echo up; sleep {pause}", cwd=None, timeout=1)


def waited_for(pause: str) -> object:
    return shell(f"echo up; sleep {pause}")


def running(rookery: Installed) -> list[dict[str, object]]:
    commands: list[dict[str, object]] = json.loads(rookery.run("ps", "--json").stdout)["commands"]
    return commands


def wait_until_it_is_listed(rookery: Installed) -> None:
    """Once a command has run for a moment it is listed and can be detached or ended."""
    deadline = time.monotonic() + PATIENCE
    while not running(rookery):
        assert time.monotonic() < deadline


def test_background_commands_are_listed_and_ending_one_reaches_the_model(
    rookery: Installed,
):
    """After a second, by `/bg`, or never: each time another command is ended in another way."""
    pauses = [a_pause() for _ in range(4)]
    slow, more, sent, waits = pauses
    script = [
        [long_one(slow)],
        [finish("First.")],
        [long_one(more)],
        [finish("Second.")],
        [waited_for(sent)],
        [finish("Third.")],
        [waited_for(waits)],
        [finish("Fourth.")],
        [long_one(slow)],
        [finish("Fifth.")],
    ]
    with LlmServer(*script) as server, rookery.terminal("-y", *at(server), "go") as terminal:

        def wait_for_the_background(pause: str) -> None:
            terminal.wait_for(f"still running: echo up; sleep {pause} (/stop ends it)\n")
            terminal.wait_for(DONE)

        def wait_until_it_has_ended(pause: str) -> None:
            terminal.wait_for("note: [automatic] The command that ran in the background has ended")
            terminal.wait_for(DONE)
            assert processes_with(pause) == []
            assert running(rookery) == []

        wait_for_the_background(slow)
        assert "It continues in the background" in last_turn(server.requests[1])
        assert "Output so far:\\nup" in last_turn(server.requests[1])
        [row] = running(rookery)
        assert (row["state"], row["command"]) == ("background", f"echo up; sleep {slow}")
        assert row["session"] == rookery.sessions()[0]["id"]
        assert str(row["id"]) in rookery.run("ps").stdout
        assert processes_with(slow)
        assert rookery.run("ps", "--stop", str(row["id"])).stdout == "Ended 1 command.\n"
        wait_until_it_has_ended(slow)
        terminal.type("and now?")
        wait_for_the_background(more)
        received = json.dumps(server.requests[2].body["messages"], ensure_ascii=False)
        assert "The command that ran in the background has ended" in received
        assert rookery.run("ps", "--stop", "all").stdout == "Ended 1 command.\n"
        wait_until_it_has_ended(more)
        terminal.type("once more")
        terminal.wait_for("  up\n")
        wait_until_it_is_listed(rookery)
        terminal.type("/bg")
        wait_for_the_background(sent)
        terminal.type("/stop")
        wait_until_it_has_ended(sent)
        terminal.type("/stop")
        terminal.wait_for("No command is running.\n")
        terminal.wait_for(DONE)
        terminal.type("and again")
        terminal.wait_for("  up\n")
        wait_until_it_is_listed(rookery)
        terminal.type("/stop")  # one that is waited for
        terminal.wait_for(DONE)
        assert "Ended by the user before it was done." in last_turn(server.requests[7])
        assert processes_with(waits) == []
        terminal.type("the last")
        wait_for_the_background(slow)
        terminal.type("")
        assert terminal.exit_code() == 0
    assert processes_with(slow) == []
    assert rookery.run("ps").stdout == "No command is running.\n"


def test_no_background_command_survives_the_session(rookery: Installed, pause: str):
    with (
        LlmServer([long_one(pause)], [say("Hm. ", gate())]) as server,
        rookery.terminal("-y", *at(server), "go") as terminal,
    ):
        terminal.wait_for("still running: ")
        terminal.wait_for("Hm. ")
        assert processes_with(pause)
        assert terminal.hang_up() == 129
        assert processes_with(pause) == []
    assert running(rookery) == []


def test_no_background_command_survives_a_piped_run(rookery: Installed, pause: str):
    with LlmServer([long_one(pause)], [finish("Done.")]) as server:
        done = rookery.run("-p", *at(server), "go")
    assert (done.returncode, done.stdout) == (0, "Done.\n")
    assert processes_with(pause) == []
    assert running(rookery) == []
