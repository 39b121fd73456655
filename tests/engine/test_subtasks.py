"""Sub-tasks, also across a crash."""

from collections.abc import Sequence
from pathlib import Path

import anyio
import pytest

from rookery.checkpoints.checkpoints import ShadowCheckpoints
from rookery.core.asks import AskKind
from rookery.core.blocks import Text
from rookery.core.facts import (
    Asked,
    ChildBegan,
    Effect,
    Event,
    Reminded,
    Spent,
    TaskOpened,
    ToolFinished,
    ToolStarted,
    Usage,
)
from rookery.core.limits import Limits
from rookery.core.undo_plan import steps_since
from rookery.engine.ports.workspace import Checkpoint
from rookery.errors import StorageError
from support.stage import TASK, Stage, call, finish, run, write

pytestmark = pytest.mark.anyio


def delegate(message: str, mode: str = "code") -> object:
    return call("new_task", mode=mode, message=message)


def results(stage: Stage, task_id: str = TASK) -> list[str]:
    facts = [event.fact for event in stage.store.read(task_id)]
    return [fact.text for fact in facts if isinstance(fact, ToolFinished)]


def children(stage: Stage, task_id: str = TASK) -> list[str]:
    facts = [event.fact for event in stage.store.read(task_id)]
    return [fact.child for fact in facts if isinstance(fact, ToolStarted) and fact.child]


def log_of(stage: Stage, task_id: str) -> list[Event]:
    return list(stage.store.read(task_id))


async def test_a_child_does_the_work_and_its_result_is_the_result_of_the_call(tmp_path: Path):
    stage = Stage(
        tmp_path,
        [delegate("Write a.", "ask")],
        [write("a", "1")],
        [finish("a is there")],
        [finish()],
        automatic=True,
    )
    await stage.play("yes")
    assert (stage.root / "a").read_text() == "1"
    assert results(stage)[0] == "The sub-task is done. Its result:\na is there"
    (child,) = children(stage)
    opened = log_of(stage, child)[0].fact
    assert isinstance(opened, TaskOpened)
    assert (opened.text, opened.mode, opened.parent) == ("Write a.", "ask", TASK)
    assert stage.asks == ["completion_result"]


async def test_the_parent_names_the_child_before_the_child_writes_anything(tmp_path: Path):
    stage = Stage(tmp_path, [delegate("x")], [finish()], [finish()], automatic=True)
    await stage.play("yes")
    (child,) = children(stage)
    named = next(e for e in log_of(stage, TASK) if isinstance(e.fact, ToolStarted))
    assert named.ts < log_of(stage, child)[0].ts


async def test_starting_a_sub_task_asks_and_can_be_refused(tmp_path: Path):
    stage = Stage(tmp_path, [delegate("x")], [finish()])
    await stage.play("no not now", "yes")
    assert stage.asks == ["tool", "completion_result"]
    assert "not now" in results(stage)[0]
    assert not children(stage)


async def test_after_a_restart_the_same_sub_task_is_the_same_question(tmp_path: Path):
    """An answer that is held for the next process counts only if the digest is the same."""
    stage = Stage(tmp_path, [delegate("x")], [finish()], [finish()])
    await stage.play("crash")
    await stage.play("yes", "yes", "yes", reopen=True)
    asked = [e.fact for e in log_of(stage, TASK) if isinstance(e.fact, Asked)]
    before, after = [fact.digest for fact in asked if fact.ask is AskKind.TOOL]
    assert before == after != ""


@pytest.mark.parametrize(
    "arguments", [{"mode": "poet", "message": "x"}, {"mode": "code", "message": " "}]
)
async def test_an_invalid_call_starts_no_sub_task(tmp_path: Path, arguments: dict[str, str]):
    stage = Stage(tmp_path, [call("new_task", **arguments)], [finish()], automatic=True)
    await stage.play("yes")
    assert not children(stage)


async def test_a_sub_task_starts_with_the_todo_list_it_was_given(tmp_path: Path):
    given = call("new_task", mode="code", message="x", todos="[ ] one\n[x] two")
    stage = Stage(tmp_path, [given], [finish()], [finish()], automatic=True)
    await stage.play("yes")
    opened = log_of(stage, children(stage)[0])[0].fact
    assert isinstance(opened, TaskOpened)
    assert [todo.content for todo in opened.todos] == ["one", "two"]


async def test_the_depth_of_sub_tasks_is_limited(tmp_path: Path):
    deeper = [[delegate(str(number))] for number in range(3)]
    stage = Stage(
        tmp_path,
        *deeper,
        *([finish()] for _ in range(3)),
        automatic=True,
        limits=Limits(task_depth=2),
    )
    await stage.play("yes")
    (one,) = children(stage)
    (two,) = children(stage, one)
    assert not children(stage, two)
    assert "Do this part yourself" in results(stage, two)[0]


async def test_after_a_crash_the_whole_tree_continues_and_each_result_comes_once(tmp_path: Path):
    script = [
        [delegate("one")],
        [delegate("two")],
        [write("a", "1")],
        [finish("two is done")],
        [finish("one is done")],
        [finish()],
    ]
    stage = Stage(tmp_path, *script)
    await stage.play("yes", "yes", "crash")
    assert stage.asks == ["tool", "tool", "tool"]
    stage.events.clear()
    await stage.play("yes", "yes", "yes", reopen=True)
    assert stage.asks == ["resume_task", "tool", "completion_result"]
    (one,) = children(stage)
    assert [text.rpartition("\n")[2] for text in results(stage)][:1] == ["one is done"]
    assert [text.rpartition("\n")[2] for text in results(stage, one)][:1] == ["two is done"]
    assert (stage.root / "a").read_text() == "1"


async def test_a_child_that_had_ended_when_the_process_died_is_not_run_again(tmp_path: Path):
    stage = Stage(tmp_path, [delegate("one")], [finish("done once")], [finish()], automatic=True)
    await stage.play("crash")
    folder = stage.store.folder(TASK) / "journal.jsonl"
    lines = folder.read_bytes().splitlines(keepends=True)
    started = next(i for i, line in enumerate(lines) if b'"kind":"tool_started"' in line)
    folder.write_bytes(b"".join(lines[: started + 1]))
    stage.events.clear()
    again = Stage(tmp_path, [finish()], automatic=True)
    await again.play("yes", "yes", reopen=True)
    assert results(again)[0].endswith("done once")
    assert len(again.model.requests) == 1


async def test_a_child_whose_journal_fails_ends_the_run_and_its_result_is_not_lost(
    tmp_path: Path,
):
    replaced = "for d in id*; do cp $d/journal.jsonl $d/new; mv $d/new $d/journal.jsonl; done"
    scenes = [
        [delegate("one")],
        [run(f"cd {tmp_path}/home/data/tasks && {replaced}")],
        [finish("ok")],
        [finish()],
    ]
    stage = Stage(tmp_path, *scenes, automatic=True)
    with pytest.RaisesGroup(StorageError, flatten_subgroups=True, allow_unwrapped=True):
        await stage.play()
    assert results(stage) == []
    again = Stage(tmp_path, *scenes[2:], automatic=True)
    await again.play("yes", "yes", reopen=True)
    assert results(again)[0].endswith("ok")


async def test_a_limit_applies_to_the_whole_tree_and_asks_once(tmp_path: Path):
    stage = Stage(
        tmp_path,
        [delegate("one")],
        [call("list_files", path=".", recursive=False)],
        [call("list_files", path=".", recursive=True)],
        [finish("ok")],
        [finish()],
        automatic=True,
        limits=Limits(requests=3),
    )
    await stage.play("yes", "yes")
    assert stage.asks == ["auto_approval_max_req_reached", "completion_result"]
    asked = [
        e for e in stage.events if getattr(e.fact, "ask", "") == "auto_approval_max_req_reached"
    ]
    (child,) = children(stage)
    assert asked[0].fact in [event.fact for event in log_of(stage, child)]
    ended = next(e.fact for e in log_of(stage, TASK) if isinstance(e.fact, ToolFinished))
    assert ended.spent == Spent(requests=1, seconds=ended.spent.seconds if ended.spent else 0)


async def test_the_cost_of_a_sub_task_counts_for_its_parent(tmp_path: Path):
    stage = Stage(
        tmp_path,
        [delegate("one"), Usage(tokens_in=10, tokens_out=1, cost=0.5)],
        [finish("ok"), Usage(tokens_in=20, tokens_out=2, cost=0.75)],
        [finish()],
        automatic=True,
        limits=Limits(cost=1.0),
    )
    await stage.play("yes", "yes")
    assert stage.asks == ["auto_approval_max_req_reached", "completion_result"]


async def test_undoing_a_call_undoes_its_sub_task(tmp_path: Path):
    stage = Stage(
        tmp_path,
        [delegate("one")],
        [write("a", "child"), run("echo more > b")],
        [finish("ok")],
        [finish()],
        automatic=True,
        checkpoints=True,
    )
    (stage.root / "a").write_text("before")
    await stage.play("restore 1", "yes")
    assert (stage.root / "a").read_text() == "before"
    assert not (stage.root / "b").exists()


class SlowAfterwards(ShadowCheckpoints):
    """Records the changes of the first call late: after another call has changed files, if that
    is not prevented."""

    def __init__(self, root: Path, home: Path) -> None:
        super().__init__(root, home, Limits())
        self._number = 0
        self._changed_again = anyio.Event()

    async def save(self, paths: Sequence[str] | None) -> Checkpoint:
        await self._wait()
        return await super().save(paths)

    async def save_after(
        self, before: str, paths: Sequence[str] | None
    ) -> tuple[Checkpoint, Sequence[Effect]]:
        await self._wait()
        return await super().save_after(before, paths)

    async def _wait(self) -> None:
        self._number += 1
        if self._number == 4:
            self._changed_again.set()
        if self._number == 2:
            with anyio.move_on_after(0.5):
                await self._changed_again.wait()


async def undone(stage: Stage) -> tuple[Sequence[str], list[str]]:
    """What an undo of everything keeps, and the files after it."""
    steps = steps_since(log_of(stage, TASK), 0)
    restored = await stage.checkpoints.restore(steps, overwrite=False)
    assert not restored.problem
    return restored.kept, [path.name for path in stage.root.iterdir()]


async def test_changes_of_a_command_and_of_the_next_sub_task_are_kept_apart(tmp_path: Path):
    stage = Stage(
        tmp_path,
        [run("echo 1 > a")],
        [delegate("one")],
        [write("b", "1")],
        [write("b", "2")],
        [finish("ok")],
        [finish()],
        automatic=True,
    )
    stage.checkpoints = SlowAfterwards(stage.root, tmp_path / "shadow")
    await stage.play("yes")
    assert await undone(stage) == ((), [])


async def test_an_approved_edit_of_a_sub_task_beside_a_background_command_stays(tmp_path: Path):
    stage = Stage(
        tmp_path,
        [call("execute_command", command="sleep 60", timeout=0.2)],
        [delegate("one")],
        [write(".vscode/tasks.json", "1")],
        [finish("ok")],
        [write("d", "1")],
        [finish()],
        automatic=True,
        checkpoints=True,
    )
    await stage.play("yes")
    assert (stage.root / ".vscode" / "tasks.json").read_text() == "1"
    assert not [fact for fact in stage.facts if isinstance(fact, Reminded)]


async def test_a_command_is_not_blamed_for_changes_of_a_sub_task(
    tmp_path: Path,
):
    beside = "until [ -e b ]; do sleep 0.05; done; echo $$ > c"
    ended = "until [ -s c ]; do sleep 0.05; done; while kill -0 $(cat c); do sleep 0.05; done"
    stage = Stage(
        tmp_path,
        [call("execute_command", command=beside, timeout=0.2)],
        [delegate("one")],
        [write(".vscode/tasks.json", "1")],
        [write("b", "1")],
        [run(f"{ended}; echo 2 > b")],
        [finish("ok")],
        [finish()],
        automatic=True,
        checkpoints=True,
    )
    await stage.play("yes")
    assert (stage.root / ".vscode" / "tasks.json").read_text() == "1"
    assert await undone(stage) == ((), [])


async def test_changes_of_a_sub_task_beside_a_background_command_are_undone(tmp_path: Path):
    beside = "while [ ! -e b ]; do sleep 0.05; done; echo 1 > c; sleep 60"
    stage = Stage(
        tmp_path,
        [call("execute_command", command=beside, timeout=0.2)],
        [delegate("one")],
        [write("b", "1")],
        [run("while [ ! -e c ]; do sleep 0.05; done; echo 2 > b")],
        [finish("ok")],
        [write("d", "1")],
        [finish()],
        automatic=True,
        checkpoints=True,
    )
    await stage.play("yes")
    assert await undone(stage) == ((), [])


async def test_a_resume_message_goes_to_the_running_sub_task(tmp_path: Path):
    stage = Stage(tmp_path, [delegate("one")], [write("a", "1")], [finish("ok")], [finish()])
    await stage.play("yes", "cancel", "message Only half of it.", "yes", "yes")
    received = stage.model.requests[2].turns[-1].blocks
    assert any("Only half of it." in block.text for block in received if isinstance(block, Text))


async def test_a_stop_also_stops_the_sub_task_and_clients_are_notified_when_it_resumes(
    tmp_path: Path,
):
    stage = Stage(tmp_path, [delegate("one")], [write("a", "1")], [finish("ok")], [finish()])
    await stage.play("yes", "cancel", "yes", "yes", "yes")
    assert stage.asks == ["tool", "tool", "resume_task", "tool", "completion_result"]
    assert results(stage)[0].endswith("ok")
    (child,) = children(stage)
    reported = [fact for fact in stage.facts if isinstance(fact, ChildBegan)]
    assert [(fact.task_id, fact.after > 0) for fact in reported] == [(child, False), (child, True)]
