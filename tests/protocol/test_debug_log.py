"""The debug log: every fact and every change of state, one line each."""

import json
import logging
import re
from datetime import datetime
from pathlib import Path

import pytest

from rookery.core.asks import AskKind
from rookery.core.facts import (
    Answered,
    Asked,
    AssistantSpoke,
    CompletionOffered,
    Event,
    Fact,
    RequestStarted,
    TaskOpened,
)
from rookery.core.text.terminal_text import Hiding
from rookery.protocol.debug_log import open_debug_log


def shown(file: Path, *facts: Fact) -> list[str]:
    with open_debug_log(file) as log:
        for seq, fact in enumerate(facts, 1):
            log.show(Event(seq, 0, 1000 + seq, fact))
    return file.read_text(encoding="utf-8").splitlines()


def test_each_fact_is_a_line_with_the_client_state(tmp_path: Path):
    file = tmp_path / "deep" / "debug.log"
    asked = Asked(ask_id="q", ask=AskKind.FOLLOWUP, text="Which?")
    lines = shown(
        file, TaskOpened(text="Grüße " * 20), RequestStarted(request_id="r", model="m"), asked
    )
    facts = [line for line in lines if "[Facts]" in line]
    assert [line.split("[Facts] ")[1].split(":")[0] for line in facts] == [
        "TaskOpened",
        "RequestStarted",
        "Asked",
    ]
    noted = json.loads(facts[0].split(": ", 1)[1])
    assert (noted["seq"], noted["last"], len(noted["preview"])) == (1, "say:text", 50)
    states = [line.split("[State] ")[1] for line in lines if "[State]" in line]
    assert states[-1].startswith("streaming → waiting_for_input")
    assert json.loads(states[-1].split(": ", 1)[1])["waiting"] is True


def test_a_fact_is_one_line_whatever_its_text(tmp_path: Path):
    lines = shown(tmp_path / "debug.log", TaskOpened(text="a\nb\x1b[31m"))
    assert all(line.startswith("[") for line in lines)
    assert "\x1b" not in "".join(lines)


def test_nothing_is_logged_after_the_run(tmp_path: Path):
    file = tmp_path / "debug.log"
    before = logging.getLogger("rookery").level
    lines = shown(file, TaskOpened(text="Hello"))
    logging.getLogger("rookery.engine").debug("late")
    assert file.read_text(encoding="utf-8").splitlines() == lines
    assert logging.getLogger("rookery").level == before


def test_only_loggers_of_the_product_write_to_the_debug_log(tmp_path: Path):
    file = tmp_path / "debug.log"
    with open_debug_log(file):
        logging.getLogger("rookery.engine.engine").debug("task %s failed", "t1")
        logging.getLogger("other").warning("not ours")
    assert "task t1 failed" in file.read_text(encoding="utf-8")
    assert "not ours" not in file.read_text(encoding="utf-8")


@pytest.mark.parametrize("again", [1, 2])
def test_the_next_run_appends(tmp_path: Path, again: int):
    for _ in range(again):
        lines = shown(tmp_path / "debug.log", TaskOpened(text="Hello"))
    assert len([line for line in lines if "TaskOpened" in line]) == again


def test_every_line_has_its_time_component_text_and_json(tmp_path: Path):
    lines = shown(tmp_path / "debug.log", TaskOpened(text="Hello"))
    for line in lines:
        found = re.fullmatch(r"\[(\S+)\] \[(\w+)\] ([^:]+): (\{.*\})", line)
        assert found, line
        assert datetime.fromisoformat(found[1]).tzinfo
        assert isinstance(json.loads(found[4]), dict)


def test_each_client_event_is_a_line(tmp_path: Path):
    facts = [
        TaskOpened(text="Hello"),
        RequestStarted(request_id="r", model="m"),
        AssistantSpoke(request_id="r", blocks=()),
        Asked(ask_id="q", ask=AskKind.FOLLOWUP, text="Which?"),
        Answered(ask_id="q", ask=AskKind.FOLLOWUP, reply="message", text="this"),
        CompletionOffered(result="Done."),
        Asked(ask_id="z", ask=AskKind.COMPLETION_RESULT),
    ]
    lines = shown(tmp_path / "debug.log", *facts)
    emitted = [line.split("EMIT ")[1] for line in lines if "[Client] EMIT " in line]
    assert 'waitingForInput: {"ask": "followup"}' in emitted
    assert "resumedRunning: {}" in emitted
    assert "streamingStarted: {}" in emitted
    assert emitted[-1] == 'taskCompleted: {"success": true}'
    assert emitted.count('waitingForInput: {"ask": "completion_result"}') == 1
    noted = json.loads(next(line for line in lines if "[Facts] Asked" in line).split(": ", 1)[1])
    assert noted["ask"] == "followup"
    assert [noted[name] for name in ("waiting", "running", "streaming")] == [True, False, False]


def test_a_typed_key_is_not_logged(tmp_path: Path):
    file = tmp_path / "debug.log"
    with open_debug_log(file, Hiding(["sk-0123456789abcdef"])) as log:
        log.show(Event(1, 0, 1, TaskOpened(text="use sk-0123456789abcdef")))
    assert "sk-0123" not in file.read_text(encoding="utf-8")


def test_a_full_disk_does_not_stop_the_run(capfd: pytest.CaptureFixture[str]):
    with open_debug_log(Path("/dev/full")) as log:
        log.show(Event(1, 0, 1, TaskOpened(text="x" * 100)))
        for _ in range(3):
            log.show(Event(2, 0, 2, RequestStarted(request_id="r", model="m")))
    assert capfd.readouterr() == ("", "")
