"""MCP calls of whole tasks: through the gate, on record, and gone when the user cancels."""

from dataclasses import replace
from itertools import count
from pathlib import Path

import anyio
import pytest

from mcp_hub.bench import Bench
from rookery.core.blocks import ToolCall
from rookery.core.facts import Asked, Ending, ToolFinished, ToolStarted
from rookery.engine.event_log import EventLog
from rookery.engine.task import Task
from rookery.mcp.always_allowed import AlwaysAllowed
from rookery.mcp.hub import McpHub
from rookery.mcp.use_mcp_tool import UseMcpTool
from rookery.tools import spec_of
from stage import Stage, call, finish

pytestmark = pytest.mark.anyio


class McpStage(Stage):
    hub: McpHub

    def make_task(self, task_id: str, log: EventLog) -> Task:
        gear = super().make_task(task_id, log)._gear
        tool = UseMcpTool(self.hub)
        tools = {**gear.tools, tool.name: tool}
        hooks = [*gear.hooks, AlwaysAllowed(self.hub)]
        specs = [*gear.specs, spec_of(tool)]
        return Task(task_id, log, replace(gear, tools=tools, specs=specs, hooks=hooks))

    @property
    def finished(self) -> list[ToolFinished]:
        return [fact for fact in self.facts if isinstance(fact, ToolFinished)]


ids = count(1)


def greet(whom: str = "you") -> ToolCall:
    arguments = {"server": "one", "tool": "greet", "arguments": {"whom": whom}}
    return ToolCall(id=f"m{next(ids)}", name="use_mcp_tool", arguments=arguments)


async def test_GATE_1_a_call_is_asked_about_with_its_arguments(bench: Bench, tmp_path: Path):
    bench.configure(one=bench.misbehaving("well"))
    stage = McpStage(tmp_path, [greet()], [greet("them")], [finish()])
    async with bench.hub(start=20) as stage.hub:
        await stage.play("yes", "no not them", "yes")
    first, second = [fact for fact in stage.facts if isinstance(fact, Asked)][:2]
    assert first.title == "Call greet of the MCP server one"
    assert first.notes == ('arguments: {"whom": "you"}',)
    assert second.digest != first.digest
    assert [result.ending for result in stage.finished[:2]] == [Ending.DONE, Ending.DENIED]
    assert stage.finished[0].text == "Hello you"
    [started] = [fact for fact in stage.facts if isinstance(fact, ToolStarted) and fact.external]
    assert started.external == "mcp one greet"
    assert bench.methods.count("tools/call") == 1


async def test_what_is_always_allowed_is_not_asked_about(bench: Bench, tmp_path: Path):
    bench.configure(one=bench.misbehaving("well", alwaysAllow=["greet"]))
    stage = McpStage(tmp_path, [greet()], [finish()])
    async with bench.hub(start=20) as stage.hub:
        await stage.play("yes")
    assert stage.asks == ["completion_result"]
    assert stage.finished[0].text == "Hello you"


async def test_a_failing_server_is_an_error_that_the_model_reads(bench: Bench, tmp_path: Path):
    bench.configure(one=bench.misbehaving("dies at start"))
    stage = McpStage(tmp_path, [greet()], [finish()])
    async with bench.hub(start=20) as stage.hub:
        await stage.play("yes")
    assert stage.finished[0].ending is Ending.FAILED
    assert "exit code 3" in stage.finished[0].text


async def test_a_turn_that_needs_no_server_starts_none(bench: Bench, tmp_path: Path):
    bench.configure(one=bench.misbehaving("hangs at initialise"))
    stage = McpStage(tmp_path, [call("list_files", path=".", recursive=False)], [finish()])
    async with bench.hub() as stage.hub:
        with anyio.fail_after(10):
            await stage.play("yes")
    assert bench.pids == []
