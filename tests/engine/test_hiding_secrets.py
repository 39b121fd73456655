"""The key in use, in everything that a task puts on record and shows."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from rookery.core.facts import Asked, CommandEnded, Ending, Fact, OutputStreamed, ToolFinished
from rookery.core.limits import Limits
from rookery.core.text.terminal_text import HIDDEN, Hiding
from rookery.engine.event_log import EventLog
from rookery.engine.task import Task
from rookery.engine.task_deps import Family, HidingShell, TaskDeps
from rookery.tools.commands import ExecuteCommand
from support.stage import Stage, call, finish, run, write
from support.tool_workspace import Bench

pytestmark = pytest.mark.anyio

TOOL = ExecuteCommand()

KEY = "sk-ant-0123456789abcdef"
HALVES = f"printf 'A={KEY[:9]}'; sleep 0.1; printf '{KEY[9:]} end'"


class HidingStage(Stage):
    def make_task(self, task_id: str, log: EventLog, family: Family) -> Task:
        task = super().make_task(task_id, log, family)
        deps: TaskDeps = task._deps
        hide, shell = Hiding([KEY]), deps.shell
        deps = replace(deps, hide=hide, shell=HidingShell(lambda: shell, hide))
        return Task(task_id, log, deps, family)


def kept_on_disk(folder: Path) -> str:
    files = [path for path in folder.rglob("*") if path.is_file()]
    return "\n".join(path.read_bytes().decode("utf-8", "replace") for path in files)


def finished(facts: list[Fact]) -> list[ToolFinished]:
    return [fact for fact in facts if isinstance(fact, ToolFinished)]


async def test_secrets_are_in_no_result_question_or_journal(tmp_path: Path):
    stage = HidingStage(
        tmp_path,
        [call("read_file", path=".env")],
        [call("edit", file_path=".env", old_string="B=1", new_string="B=2")],
        [finish()],
    )
    (stage.root / ".env").write_text(f"A={KEY}\nB=1\n")
    await stage.play("yes", "yes")
    assert f"A={HIDDEN}" in finished(stage.facts)[0].text
    (asked,) = [f for f in stage.facts if isinstance(f, Asked) and f.diff]
    assert f" A={HIDDEN}" in asked.diff
    assert not [event for event in stage.events if KEY in repr(event)]
    assert (stage.root / ".env").read_text() == f"A={KEY}\nB=2\n"


async def test_a_placeholder_is_never_written_over_the_secret(tmp_path: Path):
    stage = HidingStage(tmp_path, [write(".env", f"A={HIDDEN}\nB=2\n")], [finish()])
    (stage.root / ".env").write_text(f"A={KEY}\n")
    await stage.play("yes")
    (end, _) = finished(stage.facts)
    assert (end.ending, HIDDEN in end.text) == (Ending.FAILED, True)
    assert (stage.root / ".env").read_text() == f"A={KEY}\n"


async def test_secrets_in_streamed_output_are_hidden_and_not_stored(tmp_path: Path):
    bench = Bench(tmp_path, Limits(command_grace=0.2, output_for_model=64, output_head=32))
    inner = bench.context.shell
    shell = HidingShell(lambda: inner, Hiding([KEY]))
    bench.context = replace(bench.context, shell=shell)
    outcome = await bench.call(TOOL, command=f"{HALVES}; seq 100")
    shown = "".join(fact.text for fact in bench.facts if isinstance(fact, OutputStreamed))
    assert shown.startswith(f"A={HIDDEN} end")
    assert KEY[:12] not in outcome.text
    kept = kept_on_disk(tmp_path)
    assert f"A={HIDDEN} end" in kept
    assert KEY not in kept


async def test_secrets_in_background_output_are_hidden(tmp_path: Path):
    stage = HidingStage(
        tmp_path,
        [call("execute_command", command=f"sleep 0.3; {HALVES}", cwd=None, timeout=0.1)],
        [run("sleep 1")],
        [finish()],
    )
    await stage.play("yes", "yes", "yes")
    ends = [fact for fact in stage.facts if isinstance(fact, CommandEnded)]
    assert [HIDDEN in end.text for end in ends] == [True]
    assert KEY not in "".join(end.text for end in ends)
