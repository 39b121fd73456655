"""What the engine keeps of a call's changes, and how it goes back."""

from itertools import pairwise
from pathlib import Path

import anyio
import pytest

from rookery.core.asks import AskKind
from rookery.core.commands import Cancel, CloseTask, OpenTask, RestoreFiles, Rewind
from rookery.core.facts import (
    Asked,
    CheckpointSaved,
    FilesChanged,
    FilesRestored,
    Noted,
    OutputStreamed,
    Reminded,
    SavingFiles,
    ToolStarted,
)
from rookery.core.undo_plan import steps_since
from rookery.engine.ports.actions import Action, Deed, Judgement, Outcome, Permit, Pipeline, Target
from rookery.storage.verify import verify
from support.stage import TASK, Stage, call, finish, run, write

pytestmark = pytest.mark.anyio


def of(stage: Stage, kind: type) -> list:
    return [fact for fact in stage.facts if isinstance(fact, kind)]


async def test_files_are_saved_before_the_call_and_settled_after_it(tmp_path: Path):
    stage = Stage(tmp_path, [write("a.txt", "x\n")], [finish()], automatic=True, checkpoints=True)
    await stage.play("yes")
    kinds = stage.kinds()
    assert kinds.index("CheckpointSaved") < kinds.index("ToolStarted")
    (changed,) = of(stage, FilesChanged)
    effects = await stage.checkpoints.effects(changed.before, changed.after)
    assert [(effect.path, effect.before) for effect in effects] == [("a.txt", None)]


async def test_changes_of_a_command_are_recorded_before_the_task_ends(tmp_path: Path):
    stage = Stage(tmp_path, [run("echo x > a.txt")], [finish()], automatic=True, checkpoints=True)
    await stage.play("yes")
    (changed,) = of(stage, FilesChanged)
    assert [e.path for e in await stage.checkpoints.effects(changed.before, changed.after)] == [
        "a.txt"
    ]
    assert stage.kinds()[-1] == "TaskClosed"


async def test_read_only_calls_save_no_checkpoint(tmp_path: Path):
    stage = Stage(
        tmp_path, [call("list_files", path=".")], [finish()], automatic=True, checkpoints=True
    )
    await stage.play("yes")
    assert of(stage, CheckpointSaved) == of(stage, SavingFiles) == []


async def test_no_checkpoint_is_saved_before_approval(tmp_path: Path):
    stage = Stage(tmp_path, [write("a.txt", "x\n")], [finish()], checkpoints=True)
    await stage.play("no", "yes")
    assert of(stage, CheckpointSaved) == []
    assert not (tmp_path / "shadow").exists()


async def test_changes_of_protected_files_by_a_command_are_reverted(tmp_path: Path):
    planted = "mkdir .vscode; echo evil > .vscode/tasks.json; echo fine > a.txt"
    stage = Stage(tmp_path, [run(planted)], [finish()], automatic=True, checkpoints=True)
    (stage.root / "AGENTS.md").write_text("ours\n")
    await stage.play("yes")
    assert sorted(path.name for path in stage.root.iterdir()) == ["AGENTS.md", "a.txt"]
    assert "restored: .vscode/tasks.json" in of(stage, Noted)[0].text
    assert ".vscode/tasks.json" in of(stage, Reminded)[0].text


PLANTED = {
    "ignored by itself": "echo .idea >> .gitignore; mkdir .idea; echo evil > .idea/x.xml",
    "a file": "echo .envrc >> .gitignore; echo evil > .envrc",
}


@pytest.mark.parametrize("command", PLANTED.values(), ids=PLANTED.keys())
async def test_files_planted_by_a_command_are_removed(tmp_path: Path, command: str):
    stage = Stage(tmp_path, [run(command)], [finish()], automatic=True, checkpoints=True)
    await stage.play("yes")
    assert [path.name for path in stage.root.iterdir()] == [".gitignore"]


async def test_an_ignored_protected_file_is_restored(tmp_path: Path):
    stage = Stage(
        tmp_path, [run("echo evil > .envrc")], [finish()], automatic=True, checkpoints=True
    )
    (stage.root / ".gitignore").write_text(".envrc\n")
    (stage.root / ".envrc").write_text("ours\n")
    await stage.play("yes")
    assert (stage.root / ".envrc").read_text() == "ours\n"


async def test_files_planted_by_a_background_command_are_removed_before_the_next_call(
    tmp_path: Path,
):
    plants = "while [ ! -e x.txt ]; do sleep 0.02; done; echo evil > AGENTS.md; touch y; sleep 60"
    stage = Stage(
        tmp_path,
        [call("execute_command", command=plants, timeout=0.2)],
        [write("x.txt", "x\n")],
        [run("while [ ! -e y ]; do sleep 0.02; done")],
        [finish()],
        automatic=True,
        checkpoints=True,
    )
    await stage.play("yes")
    assert not (stage.root / "AGENTS.md").exists()


async def test_reverted_files_are_reported_before_the_completion_question(
    tmp_path: Path,
):
    stage = Stage(
        tmp_path, [run("echo obey > AGENTS.md")], [finish()], automatic=True, checkpoints=True
    )
    await stage.play("yes")
    (asked,) = (
        number
        for number, fact in enumerate(stage.facts)
        if isinstance(fact, Asked) and fact.ask is AskKind.COMPLETION_RESULT
    )
    assert "restored: AGENTS.md" in next(
        fact.text for fact in stage.facts[:asked] if isinstance(fact, Noted)
    )


async def test_a_command_that_ends_with_its_task_is_reported(tmp_path: Path):
    stage = Stage(
        tmp_path,
        [call("execute_command", command="sleep 60", timeout=0.2)],
        [finish()],
        automatic=True,
        checkpoints=True,
    )
    await stage.play("yes")
    assert stage.facts[-2] == Noted(text="Ended with the task: sleep 60")
    assert stage.kinds()[-1] == "TaskClosed"


async def test_nothing_is_recorded_after_the_end_of_a_task(tmp_path: Path):
    stage = Stage(tmp_path, [finish()], checkpoints=True)
    with anyio.fail_after(60):
        async with anyio.create_task_group() as process:
            engine = stage.engine(process)
            await engine.send(OpenTask(task_id=TASK, text="Do it"))
            async for event in engine.follow(TASK):
                stage.events.append(event)
                if isinstance(event.fact, Asked):
                    for _ in range(2):
                        await engine.send(CloseTask(task_id=TASK))
                    await engine.send(Cancel(task_id=TASK))
            process.cancel_scope.cancel()
    kinds = [type(event.fact).__name__ for event in stage.store.read(TASK)]
    assert (kinds[-1], kinds.count("TaskClosed")) == ("TaskClosed", 1)


async def test_without_checkpoints_the_task_continues_and_reports_it_once(tmp_path: Path):
    stage = Stage(
        tmp_path,
        [write("a.txt", "x\n"), write("b.txt", "y\n")],
        [finish()],
        automatic=True,
        checkpoints=True,
    )
    (tmp_path / "shadow").write_text("in the way")
    await stage.play("yes")
    assert (stage.root / "b.txt").read_text() == "y\n"
    (note,) = of(stage, Noted)
    assert "No checkpoint was made" in note.text


async def test_files_and_conversation_can_be_rewound_while_a_question_is_open(tmp_path: Path):
    stage = Stage(
        tmp_path,
        [write("a.txt", "1\n")],
        [run("echo 2 > b.txt; chmod 600 b.txt")],
        [finish()],
        automatic=True,
        checkpoints=True,
    )
    restored: list[FilesRestored] = []
    with anyio.fail_after(60):
        async with anyio.create_task_group() as process:
            engine = stage.engine(process)
            await engine.send(OpenTask(task_id=TASK, text="Do it"))
            asked = 0
            async for event in engine.follow(TASK):
                match event.fact:
                    case Asked():
                        asked += 1
                        if asked == 1:
                            await engine.send(RestoreFiles(task_id=TASK, to=1))
                            await engine.send(Rewind(task_id=TASK, to=1))
                        else:
                            await engine.send(CloseTask(task_id=TASK))
                    case FilesRestored() as fact:
                        restored.append(fact)
            process.cancel_scope.cancel()
    assert list(stage.root.iterdir()) == []
    assert (restored[0].count, restored[0].kept) == (2, ())


async def test_changes_before_and_after_a_restore_beside_a_command_do_not_overlap(
    tmp_path: Path,
):
    stage = Stage(
        tmp_path,
        [call("execute_command", command="echo 1 > a.txt; sleep 60", timeout=0.2)],
        [finish()],
        automatic=True,
        checkpoints=True,
    )
    with anyio.fail_after(60):
        async with anyio.create_task_group() as process:
            engine = stage.engine(process)
            await engine.send(OpenTask(task_id=TASK, text="Do it"))
            async for event in engine.follow(TASK):
                stage.events.append(event)
                if isinstance(event.fact, Asked) and event.fact.ask is AskKind.COMPLETION_RESULT:
                    await engine.send(RestoreFiles(task_id=TASK, to=1))
                elif isinstance(event.fact, FilesRestored):
                    await engine.send(CloseTask(task_id=TASK))
            process.cancel_scope.cancel()
    assert list(stage.root.iterdir()) == []
    steps = steps_since(stage.events, 0)
    assert all(one[1] == other[0] for one, other in pairwise(steps))
    assert verify(stage.store.folder(TASK)) == []


async def test_protected_files_changed_by_a_crashed_command_are_restored_and_reported(
    tmp_path: Path,
):
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "AGENTS.md").write_text("ours\n")
    crashed = "echo obey > AGENTS.md; echo fine > a.txt; echo done; sleep 60"
    stage = Stage(tmp_path, [run(crashed)], [finish()], automatic=True, checkpoints=True)
    with anyio.fail_after(60):
        async with anyio.create_task_group() as process:
            engine = stage.engine(process)
            await engine.send(OpenTask(task_id=TASK, text="Do it"))
            async for event in engine.follow(TASK):
                if isinstance(event.fact, OutputStreamed):
                    break
            process.cancel_scope.cancel()
    assert (stage.root / "AGENTS.md").read_text() == "obey\n"
    second = Stage(tmp_path, [finish()], checkpoints=True)
    await second.play("message stop here", "yes", reopen=True)
    assert (stage.root / "AGENTS.md").read_text() == "ours\n"
    assert (stage.root / "a.txt").read_text() == "fine\n"
    first, other = of(second, Noted)[:2]
    assert "was interrupted, and protected" in first.text
    assert "restored: AGENTS.md" in first.text
    events = list(second.store.read(TASK))
    (restored,) = (event for event in events if isinstance(event.fact, FilesRestored))
    assert f"Rewind to event {restored.fact.to} " in other.text
    (step,) = steps_since(events, restored.fact.to)
    await second.checkpoints.restore([step], overwrite=False)
    assert (stage.root / "AGENTS.md").read_text() == "obey\n"
    assert verify(stage.store.folder(TASK)) == []


async def test_a_call_whose_process_died_can_be_undone(tmp_path: Path):
    stage = Stage(tmp_path, [run("echo x > a.txt")], [finish()], checkpoints=True)
    await stage.play("yes", "crash")
    second = Stage(tmp_path, [finish()], checkpoints=True)
    await second.play("message stop here", "yes", reopen=True)
    settled = [fact for fact in (*stage.facts, *second.facts) if isinstance(fact, FilesChanged)]
    started = of(stage, ToolStarted)
    assert [fact.call_id for fact in settled] == [started[0].call_id]


LINES = [
    (Judgement(plain=Pipeline(())), False),
    (Judgement(), True),
    (Judgement(plain=Pipeline(()), targets=(Target(Deed.WRITE, "a"),)), True),
    (None, True),
]


@pytest.mark.parametrize(
    ("judged", "saved"), LINES, ids=["reads", "reads in a shell", "writes", "not judged"]
)
def test_only_commands_without_a_shell_count_as_read_only(judged: Judgement | None, saved: bool):
    async def perform(permit: Permit) -> Outcome:
        return Outcome(text="")

    action = Action(title="Run", perform=perform, command="x", judgement=judged)
    assert action.may_change_files is saved
