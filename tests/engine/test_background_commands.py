"""Whole tasks with commands that are detached, stopped, messaged or outlived."""

import os
from pathlib import Path

import anyio
import pytest

from rookery.core.blocks import Text, ToolResult
from rookery.core.commands import OpenTask, StopCommand
from rookery.core.facts import (
    Answered,
    CommandDetached,
    CommandEnded,
    Ending,
    OfferWithdrawn,
    ToolFinished,
)
from rookery.core.limits import Limits
from rookery.errors import CommandRejected
from rookery.storage.verify import verify
from support.stage import TASK, Stage, call, finish, run

pytestmark = pytest.mark.anyio

LIMITS = Limits(command_grace=0.2)
GOES_ON = "echo early; read line < go; echo late; exit 3"


def stage_for(folder: Path, *scenes: list[object]) -> Stage:
    stage = Stage(folder, *scenes, automatic=True, limits=LIMITS)
    os.mkfifo(stage.root / "go")
    return stage


def background(command: str):
    return call("execute_command", command=command, timeout=0.2)


def lasting(stage: Stage, kind: type) -> list:
    return [fact for fact in stage.facts if isinstance(fact, kind)]


def sent(stage: Stage, request: int) -> list[str]:
    """The last message the model received before a request."""
    blocks = stage.model.requests[request].turns[-1].blocks
    return [block.text for block in blocks if isinstance(block, Text | ToolResult)]


async def test_the_model_is_informed_of_the_end_of_a_background_command(tmp_path: Path):
    stage = stage_for(tmp_path, [background(GOES_ON)], [run("echo go > go; sleep 0.5")], [finish()])
    await stage.play("yes")
    assert sent(stage, 1)[0].endswith("Output so far:\nearly\n")
    result, news = sent(stage, 2)
    assert result == "Directory: .\nExit code: 0\nIt wrote nothing."
    assert news.startswith("[automatic] The command that ran in the background has ended: echo")
    assert news.endswith("Output:\nlate\n")
    [detached], [ended] = lasting(stage, CommandDetached), lasting(stage, CommandEnded)
    assert (ended.call_id, ended.exit_code) == (detached.call_id, 3)
    assert verify(stage.store.folder(TASK)) == []


async def test_continue_sends_the_command_to_the_background(tmp_path: Path):
    stage = stage_for(tmp_path, [run(GOES_ON)], [run("echo go > go; sleep 0.5")], [finish()])
    await stage.play("offer yes", "yes")
    assert sent(stage, 1)[0].endswith("Output so far:\nearly\n")
    assert len(lasting(stage, CommandEnded)) == 1
    assert verify(stage.store.folder(TASK)) == []


async def test_abort_ends_the_command_without_success(tmp_path: Path):
    stage = stage_for(tmp_path, [run("echo early; sleep 60")], [finish()])
    await stage.play("offer no", "yes")
    [end, _] = lasting(stage, ToolFinished)
    assert (end.ending, end.exit_code) == (Ending.FAILED, 143)
    assert "Ended by the user before it was done." in sent(stage, 1)[0]
    assert lasting(stage, OfferWithdrawn) == []


async def test_a_message_reaches_the_model_once_and_the_command_continues(tmp_path: Path):
    stage = stage_for(tmp_path, [run("echo early; sleep 60")], [finish()])
    await stage.play("offer message use port 81", "yes")
    reported = "\n".join(sent(stage, 1))
    assert "Still running" in reported
    assert reported.count("<user_message>\nuse port 81\n</user_message>") == 1
    assert len(lasting(stage, CommandDetached)) == 1


async def test_an_unanswered_offer_is_withdrawn(tmp_path: Path):
    stage = stage_for(tmp_path, [run("echo early; sleep 0.7")], [finish()])
    await stage.play("yes")
    kinds = stage.kinds()
    assert kinds.index("OfferWithdrawn") < kinds.index("ToolFinished")
    assert len(lasting(stage, Answered)) == 1


async def test_cancelling_a_step_ends_only_its_command(tmp_path: Path):
    stage = stage_for(
        tmp_path,
        [background("echo $$ > pid; sleep 61; true")],
        [run("echo early; sleep 60")],
        [run("kill -0 $(cat pid) && echo alive")],
        [finish()],
    )
    await stage.play("offer cancel", "yes", "yes")
    ends = lasting(stage, ToolFinished)
    assert ends[1].ending is Ending.FAILED
    assert "alive" in ends[2].text
    [detached] = lasting(stage, CommandDetached)
    with pytest.raises(ProcessLookupError):
        os.kill(detached.pid, 0)


async def test_a_command_in_the_background_is_stopped_by_its_call(tmp_path: Path):
    stage = stage_for(tmp_path, [background("echo early; sleep 60")], [finish()])
    with anyio.fail_after(60):
        async with anyio.create_task_group() as process:
            engine = stage.engine(process)
            await engine.send(OpenTask(task_id=TASK, text="Do it"))
            async for event in engine.follow(TASK):
                match event.fact:
                    case CommandDetached(call_id=call_id):
                        with pytest.raises(CommandRejected, match="Call c0 has no command"):
                            await engine.send(StopCommand(task_id=TASK, call_id="c0"))
                        await engine.send(StopCommand(task_id=TASK, call_id=call_id))
                    case CommandEnded(text=text, exit_code=code):
                        break
            process.cancel_scope.cancel()
    assert "Ended by the user before it was done." in text
    assert code == 143
