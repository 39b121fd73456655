"""Limits of a task: its mode, its budgets, and its sub-tasks."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, ClassVar

import msgspec
import pytest
from msgspec.structs import replace

from rookery.core.blocks import Text
from rookery.core.facts import (
    Asked,
    CheckpointSaved,
    Condensed,
    Ending,
    FilesChanged,
    Gathered,
    ModeSwitched,
    ToolFinished,
)
from rookery.core.limits import Limits
from rookery.core.modes import BUILT_IN, Group, Mode
from rookery.core.text.terminal_text import HIDDEN, Hiding
from rookery.core.tool_traits import ToolGroup
from rookery.engine.engine import Engine
from rookery.engine.event_log import EventLog
from rookery.engine.ports.actions import Action, Outcome, Permit
from rookery.engine.ports.tool import ToolContext
from rookery.engine.task import Task
from rookery.engine.task_deps import Act, Family
from rookery.tools.conversation import NewTask, SwitchModeTool
from support.stage import TASK, Stage, StageClock, call, finish, write

pytestmark = pytest.mark.anyio

KEY = "sk-ant-0123456789abcdef"
CEILING = "auto_approval_max_req_reached"


class StageWithDeps(Stage):
    """A stage with some dependencies replaced."""

    deps: ClassVar[dict[str, Any]] = {}

    def make_task(self, task_id: str, log: EventLog, family: Family) -> Task:
        usual = super().make_task(task_id, log, family)._deps
        tools = {**usual.tools(), **self.deps.get("tools", {})}
        return Task(task_id, log, replace(usual, **{**self.deps, "tools": lambda: tools}), family)


class Work:
    """A tool that does nothing but take its time."""

    name: ClassVar[str] = "work"
    description: ClassVar[str] = "Work."
    group: ClassVar[ToolGroup] = ToolGroup.ALWAYS

    class Args(msgspec.Struct):
        seconds: int

    arguments: ClassVar[type[msgspec.Struct]] = Args

    def __init__(
        self, pass_time: Callable[[int], None] = lambda seconds: None, *, result: str = "Worked."
    ) -> None:
        self._pass_time = pass_time
        self._result = result
        self.prepared = 0

    async def prepare(self, args: Any, ctx: ToolContext) -> Action:
        self.prepared += 1

        async def perform(permit: Permit) -> Outcome:
            self._pass_time(args.seconds)
            return Outcome(text=self._result)

        return Action(title="Work", perform=perform)


class PassingClock(StageClock):
    def __init__(self) -> None:
        super().__init__()
        self._passed = 0

    def now(self) -> int:
        return super().now() + self._passed

    def passing(self, seconds: int) -> None:
        self._passed += seconds * 1000


class LateUser(StageWithDeps):
    """The user takes `thinking` seconds to answer, and work takes the time it names."""

    def __init__(self, folder: Path, *scenes: Any, thinking: int = 0, **more: Any) -> None:
        super().__init__(folder, *scenes, **more)
        self.clock = PassingClock()
        self._thinking = thinking
        self.deps = {"tools": {"work": Work(self.clock.passing)}, "clock": self.clock}

    async def _act(self, engine: Engine, task_id: str, asked: Asked, entry: str) -> None:
        self.clock.passing(self._thinking)
        await super()._act(engine, task_id, asked, entry)


def work(seconds: int) -> object:
    return call("work", seconds=seconds)


async def test_work_since_the_last_request_counts(tmp_path: Path):
    limits = Limits(seconds=100)
    stage = LateUser(tmp_path, [work(60)], [work(61)], [finish()], automatic=True, limits=limits)
    await stage.play("yes", "yes")
    assert stage.asks == [CEILING, "completion_result"]
    assert len(stage.model.requests) == 3


async def test_work_before_a_restart_counts(tmp_path: Path):
    scenes = [[work(60)], [write("a", "1")], [work(61)], [finish()]]
    stage = LateUser(tmp_path, *scenes, limits=Limits(seconds=100))
    await stage.play("crash")
    stage.events.clear()
    await stage.play("yes", "yes", "yes", "yes", reopen=True)
    assert stage.asks == ["resume_task", "tool", CEILING, "completion_result"]


async def test_waiting_for_the_user_is_not_counted(tmp_path: Path):
    scenes = [[write("a", "1")], [write("b", "1")], [finish()]]
    stage = LateUser(tmp_path, *scenes, thinking=1000, limits=Limits(seconds=100))
    await stage.play("yes", "yes", "yes")
    assert stage.asks == ["tool", "tool", "completion_result"]


async def test_work_of_a_sub_task_is_counted_once(tmp_path: Path):
    part = call("new_task", mode="code", message="Work.")
    scenes = [[part], [work(60)], [finish("ok")], [work(1)], [finish()]]
    stage = LateUser(tmp_path, *scenes, automatic=True, limits=Limits(seconds=100))
    await stage.play("yes")
    assert stage.asks == ["completion_result"]


async def test_work_of_parent_and_sub_task_is_added_up(tmp_path: Path):
    part = call("new_task", mode="code", message="Work.")
    scenes = [[work(60)], [part], [work(61)], [finish("ok")], [finish()]]
    stage = LateUser(tmp_path, *scenes, automatic=True, limits=Limits(seconds=100))
    await stage.play("yes", "yes")
    assert stage.asks == [CEILING, "completion_result"]


async def test_calls_that_the_mode_forbids_are_not_prepared(tmp_path: Path):
    stage = StageWithDeps(tmp_path, [work(1)], [finish()])
    tool = Work()

    def barred(mode: str, name: str) -> str:
        return f"Mode {mode} has no {name}." if name == "work" else ""

    stage.deps = {"tools": {"work": tool}, "barred": barred}
    await stage.play("yes")
    first = next(fact for fact in stage.facts if isinstance(fact, ToolFinished))
    assert first.ending is Ending.MISTAKEN
    assert "Mode code has no work." in first.text
    assert tool.prepared == 0


@pytest.mark.parametrize("answer", ["yes", "no Stay here."])
async def test_the_model_switches_mode_only_with_approval(tmp_path: Path, answer: str):
    switch = call("switch_mode", mode_slug="ask", reason="to explain")
    stage = StageWithDeps(tmp_path, [switch], [finish()])
    stage.deps = {"tools": {"switch_mode": SwitchModeTool(lambda: BUILT_IN)}}
    await stage.play(answer, "yes")
    assert stage.asks == ["tool", "completion_result"]
    switched = [fact.mode for fact in stage.facts if isinstance(fact, ModeSwitched)]
    assert switched == (["ask"] if answer == "yes" else [])


async def test_the_question_says_what_a_sub_task_may_do_more(tmp_path: Path):
    read, command = Group("read"), Group("command")
    modes = [
        Mode(slug="code", name="Code", role="r", groups=(read,)),
        Mode(slug="big", name="Big", role="r", groups=(read, command)),
    ]
    parts = [call("new_task", mode=mode.slug, message="Do it.") for mode in modes]
    stage = StageWithDeps(tmp_path, [parts[0]], [parts[1]], [finish()])
    stage.deps = {"tools": {"new_task": NewTask(lambda: modes)}}
    await stage.play("no", "no", "yes")
    equal, more, _ = [fact for fact in stage.facts if isinstance(fact, Asked)]
    assert equal.notes == ()
    assert more.notes == ("Mode big may do more than mode code: command.",)


async def test_resolved_mentions_contain_no_secret(tmp_path: Path):
    async def gather(text: str, ctx: ToolContext, act: Act) -> Gathered:
        return Gathered(text=f"A={KEY}")

    stage = StageWithDeps(tmp_path, [finish()], [finish()])
    stage.deps = {"gather": gather, "hide": Hiding([KEY])}
    await stage.play("message Look at @/.env first.", "yes")
    assert [fact.text for fact in stage.facts if isinstance(fact, Gathered)] == [f"A={HIDDEN}"]
    assert KEY not in repr(stage.model.requests)


async def test_the_environment_is_sent_after_condensing_too(
    tmp_path: Path,
):
    async def details(log: EventLog) -> Mapping[str, str]:
        return {} if log.state.known_details else {"Time": "It is late."}

    scenes = [[work(1)], [work(2)], ["In short."], [finish()]]
    stage = StageWithDeps(tmp_path, *scenes)
    stage.model.model = replace(stage.model.model, window=20_000, max_output=2_000)
    stage.deps = {"tools": {"work": Work(result="word " * 5_000)}, "details": details}
    await stage.play("yes")
    assert [fact.summary for fact in stage.facts if isinstance(fact, Condensed)] == ["In short."]
    first, second, _, last = stage.model.requests
    late = Text(text="<environment_details>\n# Time\nIt is late.\n</environment_details>")
    assert [request.turns[0].blocks.count(late) for request in (first, second)] == [1, 1]
    assert [block for turn in last.turns for block in turn.blocks].count(late) == 1
    assert last.turns[-1].blocks[-1] == late


@pytest.mark.parametrize("answers", [["yes"], ["crash"], ["close"]], ids=["done", "crash", "close"])
async def test_clean_up_runs_however_the_task_ends(tmp_path: Path, answers: list[str]):
    """Browsers are closed, and what commands left behind is looked at."""
    done: list[str] = []

    async def settle() -> None:
        done.append("settle")

    async def on_task_closed() -> None:
        done.append("closed")

    stage = StageWithDeps(tmp_path, [finish()])
    stage.deps = {"settle": settle, "on_task_closed": on_task_closed}
    await stage.play(*answers)
    assert done == ["settle", "closed"]


class Elsewhere(Work):
    """An external tool; `spares_files` if it cannot reach local files."""

    def __init__(self, *, spares_files: bool) -> None:
        super().__init__()
        self._spares_files = spares_files

    async def prepare(self, args: Any, ctx: ToolContext) -> Action:
        work = await super().prepare(args, ctx)
        return replace(work, external="somewhere", spares_files=self._spares_files)


@pytest.mark.parametrize("spares_files", [True, False])
async def test_checkpoints_are_saved_only_before_calls_that_change_files(
    tmp_path: Path, spares_files: bool
):
    stage = StageWithDeps(tmp_path, [work(1)], [finish()], automatic=True, checkpoints=True)
    stage.deps = {"tools": {"work": Elsewhere(spares_files=spares_files)}}
    await stage.play("yes")
    saved = [fact for fact in stage.facts if isinstance(fact, CheckpointSaved)]
    assert bool(saved) is not spares_files


async def test_changes_of_a_resumed_sub_task_are_recorded_once(
    tmp_path: Path,
):
    part = call("new_task", mode="code", message="Write.")
    scenes = [[part], [write("a", "1")], [write("b", "1")], [finish("ok")], [finish()]]
    stage = Stage(tmp_path, *scenes, checkpoints=True)
    await stage.play("yes", "yes", "cancel", "yes", "yes", "yes")
    assert stage.asks == ["tool", "tool", "tool", "resume_task", "tool", "completion_result"]
    facts = [event.fact for event in stage.store.read(TASK)]
    changes = [(f.before, f.after) for f in facts if isinstance(f, FilesChanged)]
    assert len(changes) == len(set(changes)) == 2
