"""Following a task to its end, with the real engine and a scripted model."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import anyio
import pytest

from rookery.core.asks import AskKind
from rookery.core.commands import Answer, Cancel, CloseTask, OpenTask, Speak
from rookery.core.facts import Asked, Event, Fact, RequestStarted, StepCancelled, ToolStarted
from rookery.engine.engine import Engine
from rookery.engine.ports.model import Chunk, ModelRequest
from rookery.protocol.attend import (
    Displays,
    Fate,
    Interrupts,
    Leave,
    Response,
    RunEnd,
    Say,
    attend,
)
from support.each_row import each_row
from support.scripted_provider import ScriptedProvider
from support.stage import TASK, Stage, call, finish, write

pytestmark = pytest.mark.anyio


class RecordingDisplay:
    def __init__(self) -> None:
        self.kinds: list[str] = []

    def show(self, event: Event, child: str = "") -> None:
        self.kinds.append(f"{child} {type(event.fact).__name__}".lstrip())


Reaction = Callable[[Engine, Asked], Awaitable[Response]]


async def attended(stage: Stage, react: Reaction, seen: RecordingDisplay | None = None) -> RunEnd:
    with anyio.fail_after(60):
        async with anyio.create_task_group() as process:
            engine = stage.engine(process)
            await engine.send(OpenTask(task_id=TASK, text="Do it"))

            async def respond(asked: Asked) -> Response:
                return await react(engine, asked)

            end = await attend(engine, TASK, display=seen or RecordingDisplay(), respond=respond)
            process.cancel_scope.cancel()
    return end


async def test_a_childs_events_are_shown_and_its_questions_answered(tmp_path: Path):
    part = call("new_task", mode="code", message="Write it.")
    stage, seen = (
        Stage(tmp_path, [part], [write("a", "1")], [finish()], [finish()]),
        RecordingDisplay(),
    )
    assert await attended(stage, agree, seen) == RunEnd(Fate.COMPLETED)
    assert (stage.root / "a").read_text() == "1"
    (child,) = {kind.split()[0] for kind in seen.kinds if " " in kind}
    reported = [kind for kind in seen.kinds if kind.startswith((child, "ChildBegan"))]
    assert reported[:2] == ["ChildBegan", f"{child} TaskOpened"]
    assert reported[-1] == f"{child} TaskClosed"


async def test_leaving_at_a_childs_question_ends_the_whole_run(tmp_path: Path):
    part = call("new_task", mode="code", message="Write it.")
    stage = Stage(tmp_path, [part], [write("a", "1")], [finish()], [finish()])

    async def leave_at_the_edit(engine: Engine, asked: Asked) -> Response:
        return (
            Say("yes") if "new_task" in asked.title or "Begin" in asked.title else Leave("Enough.")
        )

    assert (await attended(stage, leave_at_the_edit)).reason == "Enough."
    assert not (stage.root / "a").exists()


async def agree(engine: Engine, asked: Asked) -> Response:
    return Say("yes")


async def test_a_task_that_is_accepted_is_completed(tmp_path: Path):
    stage, seen = Stage(tmp_path, [write("a.txt", "hi\n")], [finish()]), RecordingDisplay()
    assert await attended(stage, agree, seen) == RunEnd(Fate.COMPLETED)
    assert (stage.root / "a.txt").read_text() == "hi\n"
    assert seen.kinds[0] == "TaskOpened"
    assert seen.kinds[-1] == "TaskClosed"


async def test_leaving_keeps_the_task_open_at_its_question(tmp_path: Path):
    stage = Stage(tmp_path, [write("a.txt", "hi\n")])

    async def leave(engine: Engine, asked: Asked) -> Response:
        return Leave("Later.", code="task_aborted")

    assert await attended(stage, leave) == RunEnd(Fate.LEFT, "Later.", "task_aborted")
    kept = [type(event.fact).__name__ for event in stage.store.read(TASK)]
    assert kept[-1] == "Asked"
    assert not (stage.root / "a.txt").exists()


async def test_a_closed_task_is_not_completed(tmp_path: Path):
    async def close(engine: Engine, asked: Asked) -> Response:
        await engine.send(CloseTask(task_id=TASK))
        await anyio.sleep_forever()
        raise AssertionError

    end = await attended(Stage(tmp_path, [write("a.txt", "hi\n")]), close)
    assert end == RunEnd(Fate.CLOSED, "The task was closed.", "task_aborted")


class BrokenModel(ScriptedProvider):
    def stream(self, request: ModelRequest) -> AbstractAsyncContextManager[AsyncIterator[Chunk]]:
        raise ValueError("It broke.")


async def test_a_failed_task_reports_the_error(tmp_path: Path):
    stage = Stage(tmp_path)
    stage.model = BrokenModel([])
    end = await attended(stage, agree)
    assert end == RunEnd(Fate.FAILED, "ValueError: It broke.", "task_failed")


async def test_a_message_during_a_question_leaves_it_open(tmp_path: Path):
    stage = Stage(tmp_path, [write("a.txt", "hi\n")], [finish()])

    async def speak_first(engine: Engine, asked: Asked) -> Response:
        if asked.ask is AskKind.TOOL:
            await engine.send(Speak(task_id=TASK, message_id="m", text="also the docs"))
            await anyio.wait_all_tasks_blocked()
        return Say("yes")

    assert (await attended(stage, speak_first)).fate is Fate.COMPLETED
    assert (stage.root / "a.txt").exists()
    assert "also the docs" in str(stage.model.requests[1].turns)


async def test_a_withdrawn_question_is_no_longer_answered(tmp_path: Path):
    stage = Stage(tmp_path, [write("a.txt", "hi\n")], [finish()])
    withdrawn: list[str] = []

    async def cancel_then_agree(engine: Engine, asked: Asked) -> Response:
        if asked.ask is AskKind.TOOL and not withdrawn:
            await engine.send(Cancel(task_id=TASK))
            try:
                await anyio.sleep_forever()
            finally:
                withdrawn.append(asked.ask_id)
        if asked.ask is AskKind.RESUME_TASK:
            return Say("message", "just finish")
        return Say("yes")

    assert (await attended(stage, cancel_then_agree)).fate is Fate.COMPLETED
    assert len(withdrawn) == 1
    assert not (stage.root / "a.txt").exists()


async def test_a_late_answer_is_not_an_error(tmp_path: Path):
    stage = Stage(tmp_path, [write("a.txt", "hi\n")], [finish()])

    async def answer_first(engine: Engine, asked: Asked) -> Response:
        if asked.ask is AskKind.TOOL:
            quicker = Answer(
                task_id=TASK, ask_id=asked.ask_id, reply="no", text="", digest=asked.digest
            )
            await engine.send(quicker)
        return Say("yes")

    assert (await attended(stage, answer_first)).fate is Fate.COMPLETED
    assert not (stage.root / "a.txt").exists()


async def test_several_displays_receive_the_same_events(tmp_path: Path):
    one, two = RecordingDisplay(), RecordingDisplay()
    stage = Stage(tmp_path, [finish()])
    with anyio.fail_after(60):
        async with anyio.create_task_group() as process:
            engine = stage.engine(process)
            await engine.send(OpenTask(task_id=TASK, text="Do it"))

            async def respond(asked: Asked) -> Response:
                return Say("yes")

            await attend(engine, TASK, display=Displays(one, two), respond=respond)
            process.cancel_scope.cancel()
    assert one.kinds == two.kinds != []


@each_row(
    ("between", "second"),
    [
        ([], True),
        ([StepCancelled()], True),
        ([Asked(ask_id="q", ask=AskKind.RESUME_TASK)], True),
        ([RequestStarted(request_id="r", model="m")], False),
        ([ToolStarted(call_id="c", tool="read_file", title="Read")], False),
    ],
)
async def test_a_second_interrupt_counts_only_until_the_task_continues(
    between: list[Fact], second: bool
):
    interrupts = Interrupts()
    assert interrupts.second() is False
    for fact in between:
        interrupts.show(Event(1, 0, 1, fact))
    assert interrupts.second() is second


async def test_an_answer_that_names_a_mode_switches_to_it_first(tmp_path: Path):
    offer = [{"text": "Do it.", "mode": "debug"}]
    question = call("ask_followup_question", question="What?", follow_up=offer)
    stage, seen = Stage(tmp_path, [question], [finish()]), RecordingDisplay()

    async def choose(engine: Engine, asked: Asked) -> Response:
        if asked.ask is AskKind.FOLLOWUP:
            return Say("message", "Do it.", mode="debug")
        return Say("yes")

    assert await attended(stage, choose, seen) == RunEnd(Fate.COMPLETED)
    at = seen.kinds.index("ModeSwitched")
    assert "Asked" in seen.kinds[:at]
    assert "Answered" in seen.kinds[at:]


async def test_an_event_can_end_the_run(tmp_path: Path):
    stage = Stage(tmp_path, [write("a", "1")], [finish()])

    def leave_on_tool_start(event: Event) -> Leave | None:
        started = isinstance(event.fact, ToolStarted)
        return Leave("Enough.", code="stalled") if started else None

    with anyio.fail_after(60):
        async with anyio.create_task_group() as process:
            engine = stage.engine(process)
            await engine.send(OpenTask(task_id=TASK, text="Do it"))

            async def respond(asked: Asked) -> Response:
                return Say("yes")

            end = await attend(
                engine, TASK, display=RecordingDisplay(), respond=respond, until=leave_on_tool_start
            )
            process.cancel_scope.cancel()
    assert end == RunEnd(Fate.LEFT, "Enough.", "stalled")
