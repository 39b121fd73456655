"""Cancelling in every step: the step ends, the task stays, and it can continue."""

import hashlib
import os
from collections.abc import Callable, Sequence
from itertools import count
from pathlib import Path

import anyio
import pytest

from rookery.core.asks import AskKind
from rookery.core.blocks import Block, ToolResult
from rookery.core.commands import Answer, Cancel, OpenTask, ReopenTask
from rookery.core.facts import (
    Asked,
    AssistantSpoke,
    Change,
    CheckpointSaved,
    Ending,
    Fact,
    OutputStreamed,
    RequestStarted,
    TaskClosed,
    TaskOpened,
    ToolFinished,
    ToolStarted,
)
from rookery.core.folds.history import Turn, history
from rookery.core.folds.transcript import Transcript
from rookery.core.limits import FailureKind
from rookery.core.replies import STOPPED_BY_USER
from rookery.core.undo_plan import steps_since
from rookery.engine.engine import Engine
from rookery.errors import ProviderError
from rookery.providers.scripted import MODEL, FileProvider, read_script
from rookery.storage.verify import verify
from support.journal_writer import store
from support.pause_points import HeldCheckpoints, HeldClock, HeldFiles, HeldHook, HeldProvider, Hold
from support.stage import TASK, Stage, call, finish, run, write
from support.twelve_turns import BEFORE, EFFECTS, SCRIPT, UNIQUE

pytestmark = pytest.mark.anyio

TORTURE = bool(os.environ.get("ROOKERY_TORTURE"))
SECONDS = 60
WRITING = [["I will write it.", write("a.txt", "one\n")], [finish()]]


async def play(
    stage: Stage,
    *moments: Callable[[Fact], bool] | Hold,
    first: OpenTask | ReopenTask = OpenTask(task_id=TASK, text="Do it"),  # noqa: B008
) -> None:
    """Approve everything, and cancel once at each moment."""
    holds = [moment for moment in moments if isinstance(moment, Hold)]
    coming = [moment for moment in moments if not isinstance(moment, Hold)]
    with anyio.fail_after(SECONDS):
        async with anyio.create_task_group() as process:
            engine = stage.engine(process)
            await engine.send(first)
            for hold in holds:
                process.start_soon(_cancel_held, engine, hold)
            async for event in engine.follow(TASK):
                stage.events.append(event)
                if coming and coming[0](event.fact):
                    coming.pop(0)
                    await engine.send(Cancel(task_id=TASK))
                elif isinstance(event.fact, Asked):
                    _look_around(stage, event.fact)
                    await engine.send(_yes_to(event.fact))
            process.cancel_scope.cancel()
    assert not coming
    assert stage.kinds().count("StepCancelled") == len(moments)
    assert stage.facts[-1] == TaskClosed()
    assert verify(stage.store.folder(TASK)) == []


async def _cancel_held(engine: Engine, hold: Hold) -> None:
    await hold.reached.wait()
    await engine.send(Cancel(task_id=TASK))
    hold.let_go.set()


def _yes_to(asked: Asked) -> Answer:
    reply = "message" if asked.ask is AskKind.FOLLOWUP else "yes"
    return Answer(task_id=TASK, ask_id=asked.ask_id, reply=reply, text="", digest=asked.digest)


def _look_around(stage: Stage, asked: Asked) -> None:
    """Nothing is still arriving when the task asks, and only this question is open."""
    transcript = Transcript()
    for event in stage.events:
        transcript.add(event)
    assert not transcript.speaking
    assert not [row for row in transcript.messages if row.partial]
    waiting = [row.ask_id for row in transcript.messages if row.type == "ask" and row.open]
    assert waiting == [asked.ask_id]


def asked_about(kind: AskKind) -> Callable[[Fact], bool]:
    return lambda fact: isinstance(fact, Asked) and fact.ask is kind


def endings(stage: Stage) -> list[Ending]:
    return [fact.ending for fact in stage.facts if isinstance(fact, ToolFinished)]


@pytest.mark.parametrize(
    ("pieces", "said"), [(0, ""), (2, "I will "), (4, "I will write it."), (6, "I will write it.")]
)
async def test_a_session_resumes_after_a_stop_during_an_answer(
    tmp_path: Path, pieces: int, said: str
):
    hold = Hold()
    stage = Stage(tmp_path)
    stage.model = HeldProvider(WRITING, hold, after=pieces)
    await play(stage, hold)
    assert stage.asks == ["resume_task", "tool", "completion_result"]
    broken_off = next(fact for fact in stage.facts if isinstance(fact, AssistantSpoke))
    assert broken_off.interrupted
    assert "".join(block.text for block in broken_off.blocks) == said
    assert (stage.root / "a.txt").read_text() == "one\n"


@pytest.mark.parametrize(
    ("kind", "asks"),
    [
        (AskKind.TOOL, ["tool", "resume_task", "tool", "followup", "completion_result"]),
        (AskKind.FOLLOWUP, ["tool", "followup", "resume_task", "followup", "completion_result"]),
        (
            AskKind.COMPLETION_RESULT,
            ["tool", "followup", "completion_result", "resume_completed_task", "completion_result"],
        ),
    ],
)
async def test_a_session_resumes_after_a_stop_during_a_question(
    tmp_path: Path, kind: AskKind, asks: list[str]
):
    question = call("ask_followup_question", question="Well?", follow_up=[{"text": "Yes."}])
    stage = Stage(tmp_path, [write("a.txt", "one\n")], [question], [finish()])
    await play(stage, asked_about(kind))
    assert stage.asks == asks
    assert (stage.root / "a.txt").read_text() == "one\n"


async def test_a_session_resumes_after_stops_during_the_resume_question(tmp_path: Path):
    stage = Stage(tmp_path, *WRITING)
    await play(stage, asked_about(AskKind.TOOL), *[asked_about(AskKind.RESUME_TASK)] * 2)
    assert stage.asks == ["tool", *["resume_task"] * 3, "tool", "completion_result"]


async def test_a_stop_during_a_command_ends_all_its_processes(tmp_path: Path):
    stage = Stage(tmp_path, [run("echo $$; sleep 600 & echo $!; wait")], [finish()], automatic=True)
    shown: list[str] = []

    def both_run(fact: Fact) -> bool:
        if isinstance(fact, OutputStreamed):
            shown.append(fact.text)
        return "".join(shown).count("\n") == 2

    await play(stage, both_run)
    for pid in "".join(shown).split():
        with pytest.raises(ProcessLookupError):
            os.kill(int(pid), 0)
    assert stage.asks == ["resume_task", "completion_result"]
    end = next(fact for fact in stage.facts if isinstance(fact, ToolFinished))
    assert (end.text, end.ending) == (STOPPED_BY_USER, Ending.FAILED)


async def test_a_session_resumes_after_a_stop_during_a_retry_delay(tmp_path: Path):
    busy = ProviderError("Slow down.", kind=FailureKind.BUSY)
    hold = Hold()
    stage = Stage(tmp_path, [busy], *WRITING, automatic=True)
    stage.clock = HeldClock(hold)
    await play(stage, hold)
    assert stage.asks == ["resume_task", "completion_result"]
    assert endings(stage) == [Ending.DONE, Ending.DONE]


async def test_a_session_resumes_after_a_stop_during_a_hook(tmp_path: Path):
    hold = Hold()
    stage = Stage(tmp_path, *WRITING, automatic=True, hooks=[HeldHook(hold)])
    await play(stage, hold)
    assert stage.asks == ["resume_task", "completion_result"]
    assert endings(stage) == [Ending.DONE, Ending.DONE]


async def test_a_stop_during_a_write_lets_it_finish_and_records_it(tmp_path: Path):
    hold = Hold()
    stage = Stage(tmp_path, *WRITING, automatic=True)
    stage._files = HeldFiles(stage.root, writing=hold)
    await play(stage, hold)
    assert stage.kinds()[3:6] == ["ToolStarted", "ToolFinished", "StepCancelled"]
    assert endings(stage) == [Ending.DONE, Ending.DONE]
    assert stage.asks == ["resume_task", "completion_result"]
    assert (stage.root / "a.txt").read_text() == "one\n"


async def test_a_session_resumes_after_a_stop_while_checking_a_lost_call(tmp_path: Path):
    hold = Hold()
    stage = Stage(tmp_path, *WRITING, automatic=True)
    stage.model = HeldProvider(WRITING, Hold(), after=-1)
    stage._files = HeldFiles(stage.root, looking=hold)
    lost = write("a.txt", "one\n")
    change = Change(path="a.txt", after=hashlib.sha256(b"one\n").hexdigest())
    facts = [
        TaskOpened(text="Do it"),
        RequestStarted(request_id="r", model="m"),
        AssistantSpoke(request_id="r", blocks=(lost,)),
        ToolStarted(call_id=lost.id, tool=lost.name, title="Create a.txt", changes=(change,)),
    ]
    store(stage.store.folder(TASK), facts)
    (stage.root / "a.txt").write_text("one\n")
    await play(stage, hold, first=ReopenTask(task_id=TASK))
    assert stage.asks == ["resume_task", "resume_task", "completion_result"]
    assert stage.kinds().count("ToolStarted") == 2
    settled = next(fact for fact in stage.facts if isinstance(fact, ToolFinished))
    assert "a.txt: the change was done." in settled.text
    assert settled.ending is Ending.DONE


FOUR_CHANGES = [
    [write("a.txt", "one\n")],
    [write("a.txt", "two\n"), run("echo made > b.txt; echo three > a.txt")],
    [run("rm old.txt; mkdir c; echo made > c/d.txt")],
    [finish()],
]


@pytest.mark.parametrize("nth", range(1, 9) if TORTURE else (1, 2, 5, 8))
async def test_changes_can_be_undone_after_a_stop_during_a_checkpoint(tmp_path: Path, nth: int):
    """Even checkpoints are saved after a call; its changes can be undone nevertheless."""
    hold = Hold()
    stage = Stage(tmp_path, *FOUR_CHANGES, automatic=True)
    stage.model = HeldProvider(FOUR_CHANGES, Hold(), after=-1)
    stage.checkpoints = HeldCheckpoints(stage.root, tmp_path / "shadow", hold, nth=nth)
    (stage.root / "old.txt").write_text("old\n")
    await play(stage, hold)
    assert stage.asks[-1] == "completion_result"
    assert endings(stage) == [Ending.DONE] * 5
    assert files_of(stage) == {"a.txt": b"three\n", "b.txt": b"made\n", "c/d.txt": b"made\n"}
    await check_undone(stage, {"old.txt": b"old\n"})


async def test_changes_can_be_undone_after_a_stop_while_checking_lost_changes(tmp_path: Path):
    hold = Hold()
    stage = Stage(tmp_path, automatic=True)
    stage.model = HeldProvider(WRITING, Hold(), after=-1)
    stage.checkpoints = HeldCheckpoints(stage.root, tmp_path / "shadow", hold, nth=2)
    lost = run("echo made > b.txt")
    saved = await stage.checkpoints.save(None)
    facts = [
        TaskOpened(text="Do it"),
        RequestStarted(request_id="r", model="m"),
        AssistantSpoke(request_id="r", blocks=(lost,)),
        CheckpointSaved(id=saved.id, call_id=lost.id),
        ToolStarted(call_id=lost.id, tool=lost.name, title="Run echo", command="echo"),
    ]
    store(stage.store.folder(TASK), facts)
    (stage.root / "b.txt").write_text("made\n")
    await play(stage, hold, first=ReopenTask(task_id=TASK))
    assert stage.kinds()[5:8] == ["TaskReopened", "FilesChanged", "StepCancelled"]
    await check_undone(stage, {})


async def check_undone(stage: Stage, before: dict[str, bytes]) -> None:
    restored = await stage.checkpoints.restore(steps_since(stage.events, 0), overwrite=False)
    assert (restored.problem, restored.kept, files_of(stage)) == ("", (), before)


# ── after any event at all ──────────────────────────────────────────────────────────────


def twelve_turns(folder: Path) -> Stage:
    folder.mkdir()
    stage = Stage(folder, automatic=True, checkpoints=True)
    stage.model = FileProvider(read_script(SCRIPT), MODEL)
    for name, data in BEFORE.items():
        (stage.root / name).write_bytes(data)
    return stage


def files_of(stage: Stage) -> dict[str, bytes]:
    return {
        str(path.relative_to(stage.root)): path.read_bytes()
        for path in stage.root.rglob("*")
        if path.is_file()
    }


async def test_a_session_resumes_after_a_stop_at_any_event(tmp_path: Path):
    """Every call runs once, the model gets each result once, and all changes can be undone."""
    whole = twelve_turns(tmp_path / "whole")
    await play(whole)
    written = files_of(whole)
    assert written.keys() == {*BEFORE, *EFFECTS.values()}
    for number in range(0, len(whole.events) - 1, 1 if TORTURE else 41):
        stage = twelve_turns(tmp_path / str(number))
        await play(stage, nth_event(number))
        stopped = {
            fact.call_id
            for fact in stage.facts
            if isinstance(fact, ToolFinished) and fact.ending is not Ending.DONE
        } - {"call_7_1"}
        assert len(stopped) <= 1
        uncertain = {EFFECTS[call_id] for call_id in stopped} | {UNIQUE}
        for path, data in written.items():
            found = files_of(stage).get(path, b"")
            if path in uncertain:
                assert found.count(b"\n") <= max(1, BEFORE.get(path, b"").count(b"\n"))
            else:
                assert found == data, number
        assert not_results(history(stage.events)) == not_results(history(whole.events))
        await check_undone(stage, BEFORE)


def nth_event(number: int) -> Callable[[Fact], bool]:
    countdown = count(-number)
    return lambda _: next(countdown) == 0


def not_results(turns: Sequence[Turn]) -> list[list[Block | str]]:
    """The turns, and of results only what they are results of."""
    return [
        [block.call_id if isinstance(block, ToolResult) else block for block in turn.blocks]
        for turn in turns
    ]
