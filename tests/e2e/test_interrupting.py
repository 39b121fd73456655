"""Ctrl-C: once stops the task and keeps it, twice leaves."""

import json
from collections.abc import Callable
from typing import TypeAlias

import pytest

from llm_server import Answer, LlmServer, call, finish, gate, say
from support.terminal_session import (
    CTRL_C,
    CTRL_D,
    Installed,
    TerminalSession,
    a_pause,
    at,
    processes_with,
)

GO_ON = "Continue? [Y/n, or say what to do instead] "
DONE = "Done. [Enter accepts, or say what else to do] "


def streaming() -> list[Answer]:
    return [[say("Thinking about ", gate(), "it.")], [finish()]]


def running() -> list[Answer]:
    begin = "echo begun; sleep 60"
    return [[call("execute_command", command=begin, cwd=None, timeout=None)], [finish()]]


def asking() -> list[Answer]:
    return [[call("write_to_file", path="a.txt", content="hi\n")], [finish()]]


MOMENTS = pytest.mark.parametrize(
    ("script", "flags", "sign"),
    [
        pytest.param(streaming, [], "Thinking about ", id="while-the-model-streams"),
        pytest.param(running, ["-y"], "  begun\n", id="while-a-command-runs"),
        pytest.param(asking, [], "Approve? ", id="at-a-question"),
    ],
)
Script: TypeAlias = Callable[[], list[Answer]]


def stop(terminal: TerminalSession, sign: str) -> None:
    terminal.wait_for(sign)
    terminal.press(CTRL_C)
    terminal.wait_for("Stopped. Press Ctrl-C again to exit.\n")
    assert terminal.wait_for(GO_ON) == ""


@MOMENTS
def test_once_stops_the_task_which_then_does_something_else(
    rookery: Installed, script: Script, flags: list[str], sign: str
):
    with (
        LlmServer(*script()) as server,
        rookery.terminal(*flags, *at(server), "go") as terminal,
    ):
        stop(terminal, sign)
        terminal.type("just finish")
        terminal.wait_for(DONE)
        terminal.type("")
        assert terminal.exit_code() == 0
    assert "just finish" in json.dumps(server.requests[1].body["messages"][-1])
    assert not (rookery.workspace / "a.txt").exists()


@MOMENTS
def test_twice_leaves_and_the_task_is_there_for_the_next_run(
    rookery: Installed, script: Script, flags: list[str], sign: str
):
    with LlmServer(*script()) as server:
        with rookery.terminal(*flags, *at(server), "go") as terminal:
            stop(terminal, sign)
            terminal.press(CTRL_C)
            terminal.wait_for("Continue with: rookery ")
            assert terminal.exit_code() == 130
        done = rookery.run("-p", "-c", *at(server), "just finish")
        assert (done.returncode, done.stdout) == (0, "Done.\n")


def test_the_whole_command_is_gone_when_the_task_was_stopped(rookery: Installed):
    pause = a_pause()
    noisy = f"trap '' INT; echo begun; sleep {pause}"
    with (
        LlmServer([call("execute_command", command=noisy, cwd=None, timeout=None)]) as server,
        rookery.terminal("-y", *at(server), "go") as terminal,
    ):
        terminal.wait_for("  begun\n")
        assert processes_with(pause)
        stop(terminal, "")
        terminal.type("n")
        assert terminal.exit_code() == 1
    assert not processes_with(pause)


def test_one_that_comes_after_the_task_went_on_is_the_first_again(rookery: Installed):
    script = [streaming()[0], [say("Once ", gate(), "more.")]]
    with LlmServer(*script) as server, rookery.terminal(*at(server), "go") as terminal:
        stop(terminal, "Thinking about ")
        terminal.type("")
        stop(terminal, "Once ")
        terminal.type("n")
        assert terminal.exit_code() == 1


def test_end_of_input_instead_of_a_task_starts_nothing(rookery: Installed):
    with LlmServer() as server, rookery.terminal(*at(server)) as terminal:
        terminal.wait_for("What should I do? ")
        terminal.press(CTRL_D)
        assert terminal.exit_code() == 0
    assert rookery.sessions() == []
