"""Limits that stop a task, commands given instead of an answer, and dead children."""

import json
from pathlib import Path

import pytest

from rookery.core.commands import Answer, Condense, Speak
from rookery.core.facts import Asked, Ending, Noted, ToolFinished, Usage
from rookery.core.limits import Limits
from rookery.core.replies import NOTHING_TO_CONDENSE
from rookery.core.undo_plan import steps_since
from rookery.engine.engine import Engine
from support.stage import TASK, Stage, call, finish, write

pytestmark = pytest.mark.anyio

CEILING = "auto_approval_max_req_reached"
A_PART = call("new_task", mode="code", message="Write.")
USED = Usage(tokens_in=600, tokens_out=500, cost=0.5)


@pytest.mark.parametrize(
    ("limits", "reported"),
    [
        (Limits(requests=1), {"count": 1, "type": "requests"}),
        (Limits(cost=0.5), {"count": 0.5, "type": "cost"}),
        (Limits(tokens=1_100), {"count": 1_100, "type": "tokens"}),
    ],
    ids=["requests", "cost", "tokens"],
)
async def test_every_limit_asks_and_an_approval_resets_it(
    tmp_path: Path, limits: Limits, reported: dict[str, object]
):
    stage = Stage(
        tmp_path, [write("a", "1"), USED], [finish(), USED], automatic=True, limits=limits
    )
    await stage.play("yes", "yes")
    assert stage.asks == [CEILING, "completion_result"]
    first = next(fact for fact in stage.facts if isinstance(fact, Asked))
    assert json.loads(first.text) == reported


class Condensing(Stage):
    """A stage whose user may send `condense` instead of an answer."""

    async def _act(self, engine: Engine, task_id: str, asked: Asked, entry: str) -> None:
        if entry == "condense":
            await engine.send(Condense(task_id=task_id))
        else:
            await super()._act(engine, task_id, asked, entry)


async def test_condensing_does_not_wait_for_an_answer_and_the_question_is_repeated(
    tmp_path: Path,
):
    stage = Condensing(tmp_path, [finish()])
    await stage.play("condense", "yes")
    assert stage.asks == ["completion_result"] * 2
    assert NOTHING_TO_CONDENSE in [fact.text for fact in stage.facts if isinstance(fact, Noted)]


def cut_off_after_start(stage: Stage, task_id: str) -> None:
    """Cut a journal to the moment when its first call had just started."""
    journal = stage.store.folder(task_id) / "journal.jsonl"
    lines = journal.read_bytes().splitlines(keepends=True)
    started = next(i for i, line in enumerate(lines) if b'"kind":"tool_started"' in line)
    journal.write_bytes(b"".join(lines[: started + 1]))


async def test_changes_of_a_sub_task_that_died_are_undone_even_if_it_is_not_resumed(
    tmp_path: Path,
):
    stage = Stage(tmp_path, [A_PART], [write("a", "1")], [finish("ok")], checkpoints=True)
    await stage.play("yes", "yes", "crash")
    (child,) = [row for row in stage.store.folder(TASK).parent.iterdir() if row.name != TASK]
    for task_id in (TASK, child.name):
        cut_off_after_start(stage, task_id)
    stage.events.clear()
    again = Stage(tmp_path, checkpoints=True)
    await again.play("no", reopen=True)
    steps = steps_since(list(again.store.read(TASK)), 0)
    assert (await again.checkpoints.restore(steps, overwrite=False)).kept == ()
    assert not (again.root / "a").exists()


def received(stage: Stage, number: int) -> str:
    """All that the model was sent with a request."""
    return repr(stage.model.requests[number].turns)


async def test_queued_messages_survive_a_crash_and_are_sent_once(tmp_path: Path):
    stage = Stage(tmp_path, [write("a", "1")], [write("b", "1")], [finish()])
    await stage.play("say Use tabs.; cancel", "crash")
    stage.events.clear()
    await stage.play("yes", "yes", "yes", "yes", reopen=True)
    assert stage.asks == ["resume_task", "tool", "tool", "completion_result"]
    assert [received(stage, number).count("Use tabs.") for number in range(3)] == [0, 1, 1]


class Repeating(Stage):
    """A stage whose user repeats a message that was not confirmed."""

    async def _act(self, engine: Engine, task_id: str, asked: Asked, entry: str) -> None:
        if entry != "again":
            await super()._act(engine, task_id, asked, entry)
            return
        await engine.send(
            Answer(
                task_id=task_id,
                ask_id=asked.ask_id,
                reply="message",
                text="Use tabs.",
                digest=asked.digest,
                message_id="w",
            )
        )


async def test_a_resume_message_sent_twice_is_used_once(tmp_path: Path):
    stage = Repeating(tmp_path, [write("a", "1")], [write("b", "1")], [finish()])
    await stage.play("crash")
    await stage.play("again", "crash", reopen=True)
    stage.events.clear()
    await stage.play("again", "yes", "yes", reopen=True)
    assert stage.asks == ["resume_task", "tool", "completion_result"]
    assert received(stage, len(stage.model.requests) - 1).count("Use tabs.") == 1


class Talkative(Stage):
    """A stage whose user may answer `yes, and ...`: a message right after the approval."""

    async def _act(self, engine: Engine, task_id: str, asked: Asked, entry: str) -> None:
        answer, _, words = entry.partition(", and ")
        await super()._act(engine, task_id, asked, answer)
        if words:
            await engine.send(Speak(task_id=task_id, message_id="m", text=words))


@pytest.mark.parametrize(
    "going_on", ["yes, and Only half of it.", "say Only half of it.; yes"], ids=["after", "before"]
)
async def test_a_typed_resume_message_goes_to_the_running_sub_task(tmp_path: Path, going_on: str):
    stage = Talkative(tmp_path, [A_PART], [write("a", "1")], [finish("ok")], [finish()])
    await stage.play("yes", "cancel", going_on, "yes", "yes")
    assert stage.asks == ["tool", "tool", "resume_task", "tool", "completion_result"]
    assert "Only half of it." in received(stage, 2)


async def test_an_abandoned_sub_task_is_a_failure_and_its_cost_counts(tmp_path: Path):
    stage = Stage(
        tmp_path,
        [A_PART, USED],
        [write("a", "1"), USED],
        [finish(), USED],
        limits=Limits(cost=1.0),
    )
    await stage.play("yes", "close", "yes", "yes")
    assert stage.asks == ["tool", "tool", CEILING, "completion_result"]
    ended = next(fact for fact in stage.facts if isinstance(fact, ToolFinished))
    assert ended.ending is Ending.FAILED
