"""Ctrl-C: once stops the task and keeps it, twice leaves."""

import json
from collections.abc import Callable

import pytest

from llm_server import Answer, LlmServer, call, finish, gate, say
from support.model_words import DONE, shell
from support.terminal_session import (
    CTRL_C,
    CTRL_D,
    Installed,
    TerminalSession,
    a_pause,
    at,
    processes_with,
)

pytestmark = pytest.mark.usefixtures("unconfined")

PAUSE = a_pause()
GO_ON = "Continue? [Y/n, or say what to do instead] "


def streaming() -> list[Answer]:
    return [[say("Thinking about ", gate(), "it.")], [finish()]]


def running() -> list[Answer]:
    begin = f"trap '' INT; echo begun; sleep {PAUSE}"
    return [[shell(begin)], [finish()]]


def asking() -> list[Answer]:
    return [[call("write_to_file", path="a.txt", content="hi\n")], [finish()]]


def stop(terminal: TerminalSession, sign: str) -> None:
    terminal.wait_for(sign)
    terminal.press(CTRL_C)
    terminal.wait_for("Stopped. Press Ctrl-C again to exit.\n")
    assert terminal.wait_for(GO_ON) in ("ask · ", "auto · ")


@pytest.mark.parametrize(
    ("script", "flags", "sign"),
    [
        pytest.param(streaming, [], "Thinking about ", id="while-the-model-streams"),
        pytest.param(running, ["-y"], "  begun\n", id="while-a-command-runs"),
        pytest.param(asking, [], "Approve? ", id="at-a-question"),
    ],
)
def test_one_interrupt_stops_the_task_and_takes_a_new_message(
    rookery: Installed, script: Callable[[], list[Answer]], flags: list[str], sign: str
):
    with (
        LlmServer(*script()) as server,
        rookery.terminal(*flags, *at(server), "go") as terminal,
    ):
        stop(terminal, sign)
        assert not processes_with(PAUSE)
        terminal.type("just finish")
        terminal.wait_for(DONE)
        terminal.type("")
        assert terminal.exit_code() == 0
    assert "just finish" in json.dumps(server.requests[1].body["messages"][-1])
    assert not (rookery.workspace / "a.txt").exists()


def test_two_interrupts_exit_and_keep_the_task(rookery: Installed):
    with LlmServer(*running()) as server:
        with rookery.terminal("-y", *at(server), "go") as terminal:
            stop(terminal, "  begun\n")
            terminal.press(CTRL_C)
            terminal.wait_for("Continue with: rookery ")
            assert terminal.exit_code() == 130
        done = rookery.run("-p", "-c", *at(server), "just finish")
        assert (done.returncode, done.stdout) == (0, "Done.\n")


def test_an_interrupt_after_continuing_counts_as_the_first(rookery: Installed):
    script = [streaming()[0], [say("Once ", gate(), "more.")]]
    with LlmServer(*script) as server, rookery.terminal(*at(server), "go") as terminal:
        stop(terminal, "Thinking about ")
        terminal.type("")
        stop(terminal, "Once ")
        terminal.type("n")
        assert terminal.exit_code() == 1


def test_end_of_input_without_a_task_starts_nothing(rookery: Installed):
    with LlmServer() as server, rookery.terminal(*at(server)) as terminal:
        terminal.wait_for("What should I do? ")
        terminal.press(CTRL_D)
        assert terminal.exit_code() == 0
    assert rookery.sessions() == []
