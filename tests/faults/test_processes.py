"""The real command among other processes: a second one on its task, and signals."""

import json
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import pytest

from rookery.core.facts import Asked, Event, TaskClosed, TaskReopened, ToolFinished
from rookery.core.replies import STOPPED_BY_USER
from rookery.storage.verify import verify
from support.command_server import CommandServer
from support.text_process import Started, processes_with
from support.twelve_turns import SESSION, Playground

SECONDS = 120
STREAM = ("--output-format", "stream-json", "--timeout", str(SECONDS))
WAITING = """\
- calls:
    - tool: execute_command
      arguments: {{command: 'sleep {mark} & echo ready; read line < go; kill $!'}}
- calls:
    - tool: attempt_completion
      arguments: {{result: Done.}}
"""
"""A command that runs until `go` is written, and a child of it."""


@pytest.fixture
def ground(tmp_path: Path, mark: str) -> Playground:
    script = tmp_path / "waiting.yaml"
    script.write_text(WAITING.format(mark=mark))
    ground = Playground(tmp_path / "run", script=script)
    os.mkfifo(ground.work / "go")
    return ground


@contextmanager
def rookery(ground: Playground, *arguments: str) -> Iterator[Started]:
    with ground.start([*arguments]) as process:
        try:
            yield process
        finally:
            process.kill()


def until_it_runs(output: IO[str] | None) -> None:
    """Read output until the command has printed this."""
    assert output
    shown = ""
    for line in output:
        shown += json.loads(line).get("tool_result", {}).get("output", "")
        if "ready\n" in shown:
            return
    raise AssertionError("the command never ran")


def events_but_offers(ground: Playground) -> list[Event]:
    """Without the question whether to wait for the command, which comes when it has run a while."""
    return [event for event in ground.events() if not isinstance(event.fact, Asked)]


# ── two processes, one task ─────────────────────────────────────────────────────────────


def test_a_second_process_on_a_session_is_refused_without_disturbance(
    ground: Playground, server: CommandServer
):
    with rookery(ground, *STREAM, *ground.first) as first:
        until_it_runs(first.stdout)
        before = events_but_offers(ground)
        for arguments in (ground.again, ground.latest):
            second = ground.run(server, arguments)
            assert (second.code, second.out) == (9, "")
            [reported] = second.err.splitlines()
            assert reported.startswith(f"Error: Session {SESSION} is open in process ")
            assert f"process {first.pid} on " in reported
        second = ground.run(server, ground.first)
        assert (second.code, second.out) == (2, "")
        assert second.err == (
            f"Error: Session {SESSION} already exists. Continue it with --session-id {SESSION}.\n"
        )
        assert events_but_offers(ground) == before
        (ground.work / "go").write_text("go\n")
        first.communicate(timeout=SECONDS)
        assert first.returncode == 0
    facts = [event.fact for event in ground.events()]
    assert facts[-1] == TaskClosed()
    assert TaskReopened() not in facts
    assert verify(ground.task) == []


# ── signals ─────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP], ids=lambda number: number.name
)
def test_a_signal_ends_the_run_and_its_command_and_the_session_resumes(
    number: signal.Signals, ground: Playground, mark: str, server: CommandServer
):
    with rookery(ground, *STREAM, *ground.first) as process:
        until_it_runs(process.stdout)
        assert processes_with(mark) != []
        process.send_signal(number)
        out, err = process.communicate(timeout=SECONDS)
        assert process.returncode == 128 + number, err
    assert "Traceback" not in err
    assert processes_with(mark) == []
    result = json.loads(out.splitlines()[-1])
    assert (result["type"], result["success"]) == ("result", False)
    assert verify(ground.task) == []

    again = ground.run(server, ground.again)
    assert (again.code, again.out) == (0, "Done.\n"), again.err
    ends = [e.fact.text for e in ground.events() if isinstance(e.fact, ToolFinished)]
    assert ends[0] == STOPPED_BY_USER
    assert verify(ground.task) == []
