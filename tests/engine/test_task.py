"""Whole tasks, played by a scripted model."""

from pathlib import Path

import anyio
import pytest

from rookery.core.asks import AskKind
from rookery.core.blocks import Image, Text, ToolCall, ToolResult
from rookery.core.commands import (
    Answer,
    CloseTask,
    DeleteTask,
    EditQueue,
    OpenTask,
    Rewind,
    Speak,
)
from rookery.core.facts import (
    ApprovalSwitched,
    Asked,
    AssistantSpoke,
    CompletionOffered,
    Condensed,
    Ending,
    ModelSwitched,
    Noted,
    Pausing,
    Reminded,
    RequestStarted,
    TaskClosed,
    TaskOpened,
    ToolFinished,
    ToolStarted,
    UserSpoke,
)
from rookery.core.limits import FailureKind, Limits
from rookery.core.replies import CALL_TAKEN_BACK, EMPTY_ANSWER, NO_TOOL_USED, denied, user_message
from rookery.engine.engine import MOST_QUEUED, Engine
from rookery.engine.event_log import EventLog
from rookery.engine.model_turn import Pace
from rookery.errors import CommandRejected, ProviderError
from support.each_row import each_row
from support.stage import TASK, Stage, call, finish, run, write

pytestmark = pytest.mark.anyio


def broken(kind: FailureKind, message: str = "It broke.") -> ProviderError:
    return ProviderError(message, kind=kind)


async def test_an_approved_write_is_made_and_the_task_completes(tmp_path: Path):
    stage = Stage(tmp_path, ["I will write it.", write("a.txt", "hi\n")], [finish()])
    await stage.play("yes", "yes")
    assert (stage.root / "a.txt").read_text() == "hi\n"
    assert stage.asks == ["tool", "completion_result"]
    assert stage.kinds()[-3:] == ["Asked", "Answered", "TaskClosed"]
    assert len(stage.model.requests) == 2


async def test_a_refused_write_changes_nothing_and_the_model_sees_the_reason(tmp_path: Path):
    writing = write("sub/a.txt", "hi\n")
    stage = Stage(tmp_path, [writing, run("touch b")], [finish()])
    await stage.play("no use b.txt instead", "yes")
    assert list(stage.root.iterdir()) == []
    results = stage.model.requests[1].turns[-1].blocks
    assert results[0] == ToolResult(
        call_id=writing.id, text=denied("use b.txt instead"), is_error=True
    )
    assert [f.ending for f in stage.facts if isinstance(f, ToolFinished)][:2] == [
        Ending.DENIED,
        Ending.SKIPPED,
    ]


@pytest.mark.parametrize(
    ("call", "answer", "reported"),
    [
        (write("a", "1"), "no like this", denied("like this")),
        (write("a", "1"), "yes like this", '"feedback": "like this"'),
        (run("false"), "yes like this", '"feedback": "like this"'),
    ],
    ids=["no", "yes", "yes to what fails"],
)
async def test_text_and_images_of_an_answer_reach_the_model(
    tmp_path: Path, call: ToolCall, answer: str, reported: str
):
    stage = Stage(tmp_path, [call], [finish()])
    stage.shown = (Image(media_type="image/png", data="AA=="),)
    await stage.play(answer, "yes")
    [result, *_] = stage.model.requests[1].turns[-1].blocks
    assert isinstance(result, ToolResult)
    assert reported in result.text
    assert result.images == stage.shown


async def test_every_effect_is_recorded_before_it_happens(tmp_path: Path):
    journal = tmp_path / "home" / "data" / "tasks" / TASK / "journal.jsonl"
    looking = run(f"""grep -c '"kind":"tool_started"' {journal}""")
    stage = Stage(tmp_path, [write("a", "1"), looking], [finish()], automatic=True)
    await stage.play("yes")
    seen = [fact.text for fact in stage.facts if isinstance(fact, ToolFinished)][1]
    assert seen.splitlines()[-1] == "2"
    started = next(f for f in stage.facts if isinstance(f, ToolStarted))
    assert [(change.path, change.before) for change in started.changes] == [("a", "")]


@pytest.mark.parametrize(
    ("kind", "asks", "waits"),
    [
        (FailureKind.BUSY, [], [1.0]),
        (FailureKind.NO_CREDIT, ["payment_required_prompt"], []),
        (FailureKind.OVERFLOW, ["api_req_failed"], []),
        (FailureKind.BROKEN_HISTORY, [], []),
    ],
)
async def test_a_failed_request_is_retried_or_asks(
    tmp_path: Path, kind: FailureKind, asks: list[str], waits: list[float]
):
    stage = Stage(tmp_path, [broken(kind)], [finish()])
    await stage.play(*["yes"] * len(asks), "yes")
    assert stage.asks == [*asks, "completion_result"]
    assert stage.clock.waits == waits
    assert len(stage.model.requests) == 2


async def test_a_pause_before_a_retry_is_announced(tmp_path: Path):
    stage = Stage(tmp_path, [broken(FailureKind.BUSY, "Slow down.")], [finish()])
    await stage.play("yes")
    assert [f for f in stage.facts if isinstance(f, Pausing)] == [
        Pausing(seconds=1.0, reason="Slow down.")
    ]


async def test_requests_are_paced_and_the_wait_is_shown(tmp_path: Path):
    looks = [call("list_files", path=".", recursive=False) for _ in range(2)]
    delegate = call("new_task", mode="code", message="Look")
    scenes = ([looks[0]], [delegate], [looks[1]], ["Looked."], ["Done."])
    stage = Stage(tmp_path, *scenes, automatic=True, pace=Pace(30))
    await stage.play("yes")
    assert [round(seconds) for seconds in stage.clock.waits] == [30] * 4
    assert all(f.paced and not f.reason for f in stage.facts if isinstance(f, Pausing))


async def test_a_retry_waits_for_the_longer_of_its_own_wait_and_the_pace(tmp_path: Path):
    busy = [broken(FailureKind.BUSY, "Slow down.")]
    stage = Stage(tmp_path, busy, busy, ["Done."], pace=Pace(1.5))
    await stage.play("yes")
    waits = [f for f in stage.facts if isinstance(f, Pausing)]
    assert [(wait.reason, round(wait.seconds, 1)) for wait in waits] == [
        ("Slow down.", 1.5),
        ("Slow down.", 2.0),
    ]


@each_row(("now", "left"), [(1_000, 2.0), (2_500, 0.5), (3_000, 0.0), (9_000, 0.0), (500, 2.0)])
def test_the_pace_shows_how_long_to_wait_even_if_the_clock_goes_back(now: int, left: float):
    pace = Pace(2)
    assert pace.left(now) == 0
    pace.sent(1_000)
    assert pace.left(now) == left


async def test_a_wait_named_by_the_server_is_kept_without_jitter(tmp_path: Path):
    busy = ProviderError("Later.", kind=FailureKind.BUSY, retry_after=20)
    stage = Stage(tmp_path, [busy], [broken(FailureKind.BUSY)], [finish()], spread=lambda _: 0.5)
    await stage.play("yes")
    assert stage.clock.waits == [20, 0.5]


async def test_a_failed_attempt_never_enters_the_history(tmp_path: Path):
    stage = Stage(tmp_path, ["Half an", broken(FailureKind.DROPPED)], [finish()])
    await stage.play("yes")
    assert stage.model.requests[1].turns == stage.model.requests[0].turns


def fill(folder: Path) -> None:
    """Too many files to list in every request."""
    for number in range(40):
        (folder / f"{number:040}").touch()


async def test_a_context_that_is_too_long_is_shortened_once_and_nothing_is_deleted(tmp_path: Path):
    scenes = [[call("list_files", path=".", recursive=False), f"step {n}"] for n in range(4)]
    stage = Stage(tmp_path, *scenes, [broken(FailureKind.OVERFLOW)], [finish()])
    fill(stage.root)
    await stage.play("yes")
    before, after = stage.model.requests[4].turns, stage.model.requests[5].turns
    assert 1 < len(after) < len(before)
    assert after[0].blocks[0] == before[0].blocks[0]
    assert any(isinstance(f, Condensed) for f in stage.facts)
    assert any(isinstance(f, Noted) for f in stage.facts)
    assert sum(isinstance(f, AssistantSpoke) for f in stage.facts) == 5


async def test_an_answer_in_text_completes_the_task_and_a_message_continues_it(tmp_path: Path):
    stage = Stage(tmp_path, ["It is 4."], ["And 9."], limits=Limits(mistakes=1))
    await stage.play("message And 3 + 6?", "yes")
    assert stage.asks == ["completion_result", "completion_result"]
    offered = [f for f in stage.facts if isinstance(f, CompletionOffered)]
    assert offered == [
        CompletionOffered(result="It is 4.", spoken=True),
        CompletionOffered(result="And 9.", spoken=True),
    ]
    assert [turn.role for turn in stage.model.requests[1].turns] == ["user", "assistant", "user"]


@pytest.mark.parametrize("reminded", [False, True])
async def test_a_task_with_a_reminder_of_the_old_rule_continues(tmp_path: Path, reminded: bool):
    stage = Stage(tmp_path, ["It is 4."])
    words = AssistantSpoke(request_id="r", blocks=(Text(text="It is 5."),))
    old = [TaskOpened(text="Do it"), words, Reminded(text=NO_TOOL_USED), words]
    log = EventLog(stage.store.create(TASK), stage.clock.now)
    for fact in [*old, *([Reminded(text=NO_TOOL_USED, mistake=True)] if reminded else [])]:
        log.append(fact)
    log.close()
    await stage.play("yes", "yes", reopen=True)
    assert stage.asks == ["resume_task", "completion_result"]
    assert len(stage.model.requests) == (1 if reminded else 0)


async def test_empty_answers_are_retried_then_nudged_and_never_a_mistake(tmp_path: Path):
    stage = Stage(tmp_path, [], [" "], [], [finish()], limits=Limits(mistakes=1))
    await stage.play("yes", "yes")
    assert stage.clock.waits == [1.0]
    assert stage.model.requests[2].turns[-1].blocks[-1] == Text(text=EMPTY_ANSWER)
    assert stage.asks == ["api_req_failed", "completion_result"]


async def test_a_long_malformed_call_gets_a_short_answer(tmp_path: Path):
    wrong = ToolCall(
        id="x", name="list_files", arguments={"a" * 300 + str(n): n for n in range(99)}
    )
    odd = ToolCall(id="y", name="b" * 9000, arguments={})
    stage = Stage(tmp_path, [wrong], [odd], [finish()])
    await stage.play("yes")
    texts = [f.text for f in stage.facts if isinstance(f, ToolFinished)][:2]
    assert "path is missing." in texts[0]
    assert "89 more are unknown." in texts[0]
    assert max(map(len, texts)) < 3000


async def test_emptying_a_file_is_asked_about_even_in_automatic_runs(tmp_path: Path):
    stage = Stage(
        tmp_path, [write("a", "1"), write("new", "")], [write("a", "")], [finish()], automatic=True
    )
    await stage.play("no", "yes")
    assert stage.asks == ["tool", "completion_result"]
    assert (stage.root / "a").read_text() == "1"
    assert (stage.root / "new").read_text() == ""


async def test_a_question_about_a_command_says_where_it_would_run(tmp_path: Path):
    running = call("execute_command", command="ls", cwd="build", timeout=None)
    stage = Stage(tmp_path, [running], [finish()])
    (stage.root / "build").mkdir()
    await stage.play("yes", "yes")
    asked = next(f for f in stage.facts if isinstance(f, Asked))
    assert (asked.text, asked.cwd, asked.title) == ("ls", "build", "Run ls in build")


@pytest.mark.parametrize("name", ["write_file_please", "", "__class__", "constructor"])
async def test_an_unknown_tool_is_answered_with_the_known_names(tmp_path: Path, name: str):
    stage = Stage(tmp_path, [ToolCall(id="x", name=name, arguments={})], [finish()])
    await stage.play("yes")
    end = next(f for f in stage.facts if isinstance(f, ToolFinished))
    assert end.ending is Ending.MISTAKEN
    assert "read_file" in end.text


async def test_a_task_continues_from_its_log_after_a_crash(tmp_path: Path):
    before = Stage(tmp_path, ["Looking.", write("a.txt", "hi\n")])
    await before.play("crash")
    after = Stage(tmp_path, [finish()])
    await after.play("yes", "yes", "yes", reopen=True)
    assert after.asks == ["resume_task", "tool", "completion_result"]
    assert (after.root / "a.txt").read_text() == "hi\n"


async def test_text_typed_meanwhile_reaches_the_model_once_and_approves_nothing(tmp_path: Path):
    stage = Stage(
        tmp_path, [write("a", "1")], [call("list_files", path=".", recursive=False)], [finish()]
    )
    await stage.play("say yes; no", "yes")
    assert not (stage.root / "a").exists()
    received = [
        sum(
            block == Text(text=user_message("yes"))
            for turn in request.turns
            for block in turn.blocks
        )
        for request in stage.model.requests
    ]
    assert received == [0, 1, 1]


async def test_a_message_before_a_completion_is_delivered_first(tmp_path: Path):
    stage = Stage(tmp_path, [run("true"), finish("One")], [finish("Two")])
    await stage.play("say wait, also b; yes", "yes")
    assert stage.asks == ["command", "completion_result"]
    assert len(stage.model.requests) == 2


async def test_the_answer_to_a_question_reaches_the_model_once_as_its_result(tmp_path: Path):
    question = call("ask_followup_question", question="Which?", follow_up=[{"text": "a"}])
    stage = Stage(tmp_path, [question], [finish()])
    await stage.play("message b", "yes")
    answer = ToolResult(call_id=question.id, text=user_message("b"))
    assert stage.model.requests[1].turns[-1].blocks == (answer,)


async def question(engine: Engine, kind: AskKind) -> Asked:
    async for event in engine.follow(TASK):
        if isinstance(event.fact, Asked) and event.fact.ask is kind:
            return event.fact
    raise AssertionError(f"{kind} was never asked")


async def test_an_answer_counts_once_and_only_for_its_question(tmp_path: Path):
    stage = Stage(tmp_path, [write("a", "1")], [finish()])
    async with anyio.create_task_group() as process:
        engine = stage.engine(process)
        await engine.send(OpenTask(task_id=TASK, text="Do it"))
        asked = await question(engine, AskKind.TOOL)
        right = Answer(task_id=TASK, ask_id=asked.ask_id, reply="yes", digest=asked.digest)
        for wrong in (
            Answer(task_id=TASK, ask_id="other", reply="yes", digest=asked.digest),
            Answer(task_id=TASK, ask_id="", reply="yes", digest=asked.digest),
            Answer(task_id=TASK, ask_id=asked.ask_id, reply="yes", digest="other"),
            Answer(task_id=TASK, ask_id=asked.ask_id, reply="yes"),
            Answer(task_id="t2", ask_id=asked.ask_id, reply="yes", digest=asked.digest),
        ):
            with pytest.raises(CommandRejected):
                await engine.send(wrong)
        assert not (stage.root / "a").exists()
        await engine.send(right)
        with pytest.raises(CommandRejected):
            await engine.send(right)
        await question(engine, AskKind.COMPLETION_RESULT)
        assert (stage.root / "a").exists()
        process.cancel_scope.cancel()


async def test_opening_the_same_task_twice_opens_it_once(tmp_path: Path):
    stage = Stage(tmp_path, [finish()])
    async with anyio.create_task_group() as process:
        engine = stage.engine(process)
        await engine.send(OpenTask(task_id=TASK, text="Do it"))
        await engine.send(OpenTask(task_id=TASK, text="Do it"))
        await question(engine, AskKind.COMPLETION_RESULT)
        process.cancel_scope.cancel()
    assert len(stage.model.requests) == 1


async def test_options_of_the_opening_apply_to_the_first_request(tmp_path: Path):
    stage = Stage(tmp_path, [finish()])
    async with anyio.create_task_group() as process:
        engine = stage.engine(process)
        opening = OpenTask(task_id=TASK, text="Do it", provider="p", model="big", automatic=False)
        await engine.send(opening)
        facts = []
        async for event in engine.follow(TASK):
            facts.append(event.fact)
            if isinstance(event.fact, RequestStarted):
                break
        process.cancel_scope.cancel()
    assert ModelSwitched(provider="p", model="big") in facts
    assert ApprovalSwitched(automatic=False) in facts


async def test_rewinding_drops_later_events_and_asks_before_continuing(tmp_path: Path):
    stage = Stage(tmp_path, [call("list_files", path=".", recursive=False)], [finish()], [finish()])
    async with anyio.create_task_group() as process:
        engine = stage.engine(process)
        await engine.send(OpenTask(task_id=TASK, text="Do it"))
        await question(engine, AskKind.COMPLETION_RESULT)
        with pytest.raises(CommandRejected):
            await engine.send(Rewind(task_id=TASK, to=999))
        await engine.send(Rewind(task_id=TASK, to=1))
        asked = await question(engine, AskKind.RESUME_TASK)
        await engine.send(Answer(task_id=TASK, ask_id=asked.ask_id, reply="yes"))
        while len(stage.model.requests) < 3:
            await anyio.lowlevel.checkpoint()
        process.cancel_scope.cancel()
    assert stage.model.requests[2].turns == stage.model.requests[0].turns


async def test_rewinding_into_a_call_goes_back_to_before_it_and_does_not_repeat_it(tmp_path: Path):
    stage = Stage(tmp_path, [run("true")], [finish()], [finish()])
    async with anyio.create_task_group() as process:
        engine = stage.engine(process)
        await engine.send(OpenTask(task_id=TASK, text="Do it"))
        asked = await question(engine, AskKind.COMMAND)
        yes = Answer(task_id=TASK, ask_id=asked.ask_id, reply="yes", digest=asked.digest)
        await engine.send(yes)
        await question(engine, AskKind.COMPLETION_RESULT)
        begun = next(e.seq for e in stage.store.read(TASK) if isinstance(e.fact, ToolStarted))
        await engine.send(Rewind(task_id=TASK, to=begun))
        asked = await question(engine, AskKind.RESUME_TASK)
        await engine.send(Answer(task_id=TASK, ask_id=asked.ask_id, reply="yes"))
        asks = []
        async for event in engine.follow(TASK):
            asks += [event.fact.ask] if isinstance(event.fact, Asked) else []
            if len(asks) == 4:
                break
        process.cancel_scope.cancel()
    assert asks == ["command", "completion_result", "resume_task", "completion_result"]
    reported = [
        b.text for b in stage.model.requests[2].turns[-1].blocks if isinstance(b, ToolResult)
    ]
    assert reported == [CALL_TAKEN_BACK]


async def test_a_message_sent_twice_is_recorded_once(tmp_path: Path):
    stage = Stage(tmp_path, [write("a", "1")], [finish()])
    await stage.play("say twice; say twice; yes", "yes")
    assert [fact.text for fact in stage.facts if isinstance(fact, UserSpoke)] == ["twice"]


async def test_a_full_queue_refuses_messages(tmp_path: Path):
    stage = Stage(tmp_path, [write("a", "1")], [finish()])
    async with anyio.create_task_group() as process:
        engine = stage.engine(process)
        await engine.send(OpenTask(task_id=TASK, text="Do it"))
        await question(engine, AskKind.TOOL)
        for number in range(MOST_QUEUED):
            await engine.send(Speak(task_id=TASK, message_id=str(number), text="x"))
        await engine.send(Speak(task_id=TASK, message_id="7", text="again"))
        with pytest.raises(CommandRejected, match="1,000 messages are already queued"):
            await engine.send(Speak(task_id=TASK, message_id="more", text="x"))
        await engine.send(EditQueue(task_id=TASK, message_id="7"))
        await engine.send(Speak(task_id=TASK, message_id="more", text="x"))
        process.cancel_scope.cancel()


async def test_a_queued_message_can_be_edited_and_removed_until_it_is_sent(tmp_path: Path):
    stage = Stage(tmp_path, [write("a", "1")], [finish()])
    async with anyio.create_task_group() as process:
        engine = stage.engine(process)
        await engine.send(OpenTask(task_id=TASK, text="Do it"))
        asked = await question(engine, AskKind.TOOL)
        for message_id in ("m1", "m2", "m2"):
            await engine.send(Speak(task_id=TASK, message_id=message_id, text="old"))
        await engine.send(EditQueue(task_id=TASK, message_id="m1", text="new"))
        await engine.send(EditQueue(task_id=TASK, message_id="m2"))
        await engine.send(
            Answer(task_id=TASK, ask_id=asked.ask_id, reply="yes", digest=asked.digest)
        )
        await question(engine, AskKind.COMPLETION_RESULT)
        with pytest.raises(CommandRejected):
            await engine.send(EditQueue(task_id=TASK, message_id="m1", text="late"))
        process.cancel_scope.cancel()
    assert stage.model.requests[1].turns[-1].blocks[1:] == (Text(text=user_message("new")),)


async def test_two_tasks_of_one_engine_do_not_disturb_each_other(tmp_path: Path):
    stage = Stage(tmp_path, [write("a", "1")], [write("b", "2")])
    async with anyio.create_task_group() as process:
        engine = stage.engine(process)
        for task_id in ("t1", "t2"):
            await engine.send(OpenTask(task_id=task_id, text=task_id))
        asked = []
        for task_id in ("t1", "t2"):
            async for event in engine.follow(task_id):
                if isinstance(event.fact, Asked):
                    asked.append(event.fact)
                    break
        await engine.send(CloseTask(task_id="t1"))
        async for event in engine.follow("t1"):
            last = event.fact
        assert last == TaskClosed()
        with pytest.raises(CommandRejected):
            await engine.send(Answer(task_id="t2", ask_id=asked[0].ask_id, reply="yes"))
        with pytest.raises(CommandRejected):
            await engine.send(DeleteTask(task_id="t2"))
        await engine.send(DeleteTask(task_id="t1"))
        process.cancel_scope.cancel()
    assert not stage.store.exists("t1")
    assert stage.store.exists("t2")


async def test_a_task_whose_folder_is_deleted_reports_it_and_can_continue(
    tmp_path: Path,
):
    stage = Stage(tmp_path, [run("rm -rf ../home")], [write("a", "1")], [finish()])
    await stage.play("yes", "yes", "yes")
    reported = [fact.text for fact in stage.facts if isinstance(fact, Noted)]
    assert ["was deleted while it ran" in text for text in reported] == [True]
    kept = list(stage.store.read(TASK))
    assert kept == [event for event in stage.events if event.fact.lasting]


@pytest.mark.parametrize(("said", "reported"), [("@/a", "looked up: @/a"), ("@/broken", "broken")])
async def test_mentions_are_resolved_before_the_next_request(
    tmp_path: Path, said: str, reported: str
):
    """The task continues after each kind of failure."""
    stage = Stage(tmp_path, [write("a", "1")], [finish()])
    await stage.play(f"say {said}; yes", "yes")
    received = [b.text for b in stage.model.requests[1].turns[-1].blocks if isinstance(b, Text)]
    assert any(reported in text for text in received)
    assert stage.asks == ["tool", "completion_result"]
