"""A command in the background of the real product, seen and ended from other processes."""

import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from select import select

import pytest

from rookery.core.facts import CommandDetached, CommandEnded
from rookery.storage.verify import verify
from support.command_server import CommandServer
from support.text_process import Started, processes_with
from support.twelve_turns import SESSION, Playground

SECONDS = 120
SCRIPT = """\
- calls:
    - tool: execute_command
      arguments: {{command: 'echo up; (setsid sleep {mark} &); sleep {mark}; true', timeout: 0.3}}
- calls:
    - tool: execute_command
      arguments: {{command: 'read line < go'}}
- calls:
    - tool: attempt_completion
      arguments: {{result: Done.}}
"""


@pytest.fixture
def ground(tmp_path: Path, mark: str) -> Playground:
    script = tmp_path / "script.yaml"
    script.write_text(SCRIPT.format(mark=mark))
    ground = Playground(tmp_path / "run", script=script)
    os.mkfifo(ground.work / "go")
    return ground


@contextmanager
def session(ground: Playground) -> Iterator[Started]:
    """A run whose first command is in the background and whose second waits for `go`."""
    with ground.start(ground.first) as process:
        try:
            gate = gate_with_a_waiter(ground, process)
            yield process
            with suppress(BrokenPipeError):
                os.write(gate, b"go\n")
            os.close(gate)
            process.communicate(timeout=SECONDS)
        finally:
            process.kill()


def gate_with_a_waiter(ground: Playground, process: Started) -> int:
    """`go`, opened as soon as the second command reads it."""
    running = os.pidfd_open(process.pid)
    try:
        while not select([running], [], [], 0.02)[0]:
            with suppress(OSError):  # no reader yet
                return os.open(ground.work / "go", os.O_WRONLY | os.O_NONBLOCK)
    finally:
        os.close(running)
    raise AssertionError(process.communicate(timeout=SECONDS)[1])


Ps = Callable[..., str]


@pytest.fixture
def ps(ground: Playground, server: CommandServer) -> Ps:
    """The commands as another process lists them."""

    def ps(*arguments: str) -> str:
        done = ground.run(server, ["ps", *arguments])
        assert (done.code, done.err) == (0, "")
        return done.out

    return ps


def in_background(ps: Ps) -> dict[str, object]:
    """The listed background command."""
    listed = json.loads(ps("--json"))["commands"]
    [one] = [command for command in listed if command["state"] != "running"]
    return one


def appeared(mark: str) -> bool:
    """Whether the command and both that it starts are there, or soon will be."""
    until = time.monotonic() + SECONDS
    while len(processes_with(mark)) < 3 and time.monotonic() < until:
        time.sleep(0.02)
    return len(processes_with(mark)) > 2


def vanished(mark: str) -> bool:
    """Whether all that have the mark are gone, or soon will be."""
    for pid in processes_with(mark):
        with suppress(ProcessLookupError):
            watched = os.pidfd_open(pid)
            select([watched], [], [], SECONDS)
            os.close(watched)
    return processes_with(mark) == []


def none_is_listed(ps: Ps) -> bool:
    """Whether no command is listed, or soon will be."""
    until = time.monotonic() + SECONDS
    while (listed := ps()) != "No command is running.\n" and time.monotonic() < until:
        time.sleep(0.02)
    return listed == "No command is running.\n"


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM], ids=lambda number: number.name)
def test_background_commands_end_with_the_product(
    ground: Playground, mark: str, ps: Ps, number: signal.Signals
):
    with session(ground) as process:
        assert appeared(mark)
        process.send_signal(number)
        process.wait(timeout=SECONDS)
    assert vanished(mark)
    assert none_is_listed(ps)
    assert verify(ground.task) == []


def test_background_commands_end_with_the_session(ground: Playground, mark: str):
    with session(ground):
        pass
    assert processes_with(mark) == []
    assert verify(ground.task) == []


def test_another_process_can_stop_a_command_and_the_session_is_notified(
    ground: Playground, mark: str, ps: Ps
):
    with session(ground) as process:
        one = in_background(ps)
        assert (one["session"], one["state"]) == (SESSION, "background")
        assert mark in str(one["command"])
        assert str(one["id"]) in ps()
        assert ps("--stop", str(one["id"])) == "Ended 1 command.\n"
        assert processes_with(mark) == []
    assert process.returncode == 0
    facts = [event.fact for event in ground.events()]
    [detached] = [fact for fact in facts if isinstance(fact, CommandDetached)]
    [ended] = [fact for fact in facts if isinstance(fact, CommandEnded)]
    assert detached.call_id == ended.call_id == one["callId"]
    assert "killed by SIGTERM" in ended.text
    assert verify(ground.task) == []


@pytest.mark.parametrize("end", ["by itself", "by a kill"])
def test_kept_commands_run_until_they_are_stopped(ground: Playground, mark: str, ps: Ps, end: str):
    with session(ground) as process:
        number = str(in_background(ps)["id"])
        assert f"ps --stop {number}" in ps("--keep", number)
        if end == "by a kill":
            process.kill()
    assert appeared(mark)
    assert in_background(ps)["state"] == "kept"
    assert ps("--stop", number) == "Ended 1 command.\n"
    assert processes_with(mark) == []
