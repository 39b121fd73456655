"""What the engine keeps of a call's changes, and how it goes back."""

from pathlib import Path

import anyio
import pytest

from rookery.core.commands import CloseTask, OpenTask, RestoreFiles, Rewind
from rookery.core.facts import (
    Asked,
    CheckpointSaved,
    FilesChanged,
    FilesRestored,
    Noted,
    Reminded,
    SavingFiles,
    ToolStarted,
)
from stage import TASK, Stage, call, finish, run, write

pytestmark = pytest.mark.anyio


def of(stage: Stage, kind: type) -> list:
    return [fact for fact in stage.facts if isinstance(fact, kind)]


async def test_8_3_files_are_saved_before_the_call_and_settled_after_it(tmp_path: Path):
    stage = Stage(tmp_path, [write("a.txt", "x\n")], [finish()], automatic=True, checkpoints=True)
    await stage.play("yes")
    kinds = stage.kinds()
    assert kinds.index("CheckpointSaved") < kinds.index("ToolStarted")
    (changed,) = of(stage, FilesChanged)
    effects = await stage.checkpoints.effects(changed.before, changed.after)
    assert [(effect.path, effect.before) for effect in effects] == [("a.txt", None)]


async def test_C31_what_a_command_did_is_on_record_before_the_task_ends(tmp_path: Path):
    stage = Stage(tmp_path, [run("echo x > a.txt")], [finish()], automatic=True, checkpoints=True)
    await stage.play("yes")
    (changed,) = of(stage, FilesChanged)
    assert [e.path for e in await stage.checkpoints.effects(changed.before, changed.after)] == [
        "a.txt"
    ]
    assert stage.kinds()[-1] == "TaskClosed"


async def test_nothing_is_saved_for_what_only_reads(tmp_path: Path):
    stage = Stage(
        tmp_path, [call("list_files", path=".")], [finish()], automatic=True, checkpoints=True
    )
    await stage.play("yes")
    assert of(stage, CheckpointSaved) == of(stage, SavingFiles) == []


async def test_GATE_6_nothing_is_saved_before_the_answer_is_yes(tmp_path: Path):
    stage = Stage(tmp_path, [write("a.txt", "x\n")], [finish()], checkpoints=True)
    await stage.play("no", "yes")
    assert of(stage, CheckpointSaved) == []
    assert not (tmp_path / "shadow").exists()


async def test_K9_PROT_a_command_does_not_keep_what_it_wrote_to_protected_files(tmp_path: Path):
    planted = "mkdir .vscode; echo evil > .vscode/tasks.json; echo fine > a.txt"
    stage = Stage(tmp_path, [run(planted)], [finish()], automatic=True, checkpoints=True)
    (stage.root / "AGENTS.md").write_text("ours\n")
    await stage.play("yes")
    assert sorted(path.name for path in stage.root.iterdir()) == ["AGENTS.md", "a.txt"]
    assert "put back: .vscode/tasks.json" in of(stage, Noted)[0].text
    assert ".vscode/tasks.json" in of(stage, Reminded)[0].text


async def test_PROT_a_protected_file_that_was_changed_is_as_it_was(tmp_path: Path):
    stage = Stage(
        tmp_path, [run("echo obey >> AGENTS.md")], [finish()], automatic=True, checkpoints=True
    )
    (stage.root / "AGENTS.md").write_text("ours\n")
    await stage.play("yes")
    assert (stage.root / "AGENTS.md").read_text() == "ours\n"


async def test_GIT_9_without_checkpoints_the_task_goes_on_and_says_so_once(tmp_path: Path):
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


async def test_files_and_words_go_back_while_the_task_asks(tmp_path: Path):
    stage = Stage(
        tmp_path,
        [write("a.txt", "1\n")],
        [run("echo 2 > b.txt; chmod 600 b.txt")],
        [finish()],
        automatic=True,
        checkpoints=True,
    )
    restored: list[FilesRestored] = []
    with anyio.fail_after(20):
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


async def test_a_call_whose_process_died_can_be_taken_back_all_the_same(tmp_path: Path):
    stage = Stage(tmp_path, [run("echo x > a.txt")], [finish()], checkpoints=True)
    await stage.play("yes", "crash")
    second = Stage(tmp_path, [finish()], checkpoints=True)
    await second.play("message stop here", "yes", reopen=True)
    settled = [fact for fact in (*stage.facts, *second.facts) if isinstance(fact, FilesChanged)]
    started = of(stage, ToolStarted)
    assert [fact.call_id for fact in settled] == [started[0].call_id]
