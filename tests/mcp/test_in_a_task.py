"""MCP calls of whole tasks: through the gate, on record, and gone when the user cancels."""

import sys
from itertools import count
from pathlib import Path

import anyio
import pytest
from msgspec.structs import replace

from rookery.core.blocks import ToolCall
from rookery.core.facts import Asked, Ending, Noted, ToolFinished, ToolStarted
from rookery.core.instructions import quoted
from rookery.engine.event_log import EventLog
from rookery.engine.task import Task
from rookery.engine.task_deps import Attend
from rookery.mcp.hub import McpHub
from rookery.mcp.server_guard import AlwaysAllowed, ServerGuard
from rookery.mcp.use_mcp_tool import UseMcpTool
from support.mcp_workspace import MISBEHAVING, Bench
from support.stage import Stage, call, finish

pytestmark = pytest.mark.anyio


class McpStage(Stage):
    hub: McpHub

    def make_task(self, task_id: str, log: EventLog, attend: Attend) -> Task:
        deps = super().make_task(task_id, log, attend)._deps
        tool = UseMcpTool(self.hub)
        tools = {**deps.tools, tool.name: tool}
        hooks = [*deps.hooks, AlwaysAllowed(self.hub), ServerGuard(self.hub)]
        return Task(task_id, log, replace(deps, tools=tools, hooks=hooks), attend)

    @property
    def finished(self) -> list[ToolFinished]:
        return [fact for fact in self.facts if isinstance(fact, ToolFinished)]


ids = count(1)


def greet(whom: str = "you") -> ToolCall:
    arguments = {"server": "one", "tool": "greet", "arguments": {"whom": whom}}
    return ToolCall(id=f"m{next(ids)}", name="use_mcp_tool", arguments=arguments)


async def test_a_call_needs_approval_and_shows_its_arguments(bench: Bench, tmp_path: Path):
    bench.configure(one=bench.misbehaving("well"))
    stage = McpStage(tmp_path, [greet()], [greet("them")], [finish()])
    async with bench.hub(start=20) as stage.hub:
        await stage.play("yes", "no not them", "yes")
    first, second = [fact for fact in stage.facts if isinstance(fact, Asked)][:2]
    assert first.title == "Call greet of the MCP server one"
    command = " ".join([sys.executable, "-S", "-E", str(MISBEHAVING), "well", str(bench.folder)])
    assert first.notes == (
        f"starts: {command} (outside the sandbox, as your own mcp.json says)",
        'arguments: {"whom": "you"}',
    )
    assert second.notes == ('arguments: {"whom": "them"}',), "it runs by then"
    assert second.digest != first.digest
    assert [result.ending for result in stage.finished[:2]] == [Ending.DONE, Ending.DENIED]
    assert stage.finished[0].text == quoted("mcp_result", "Hello you")
    [started] = [fact for fact in stage.facts if isinstance(fact, ToolStarted) and fact.external]
    assert started.external == "mcp one greet"
    assert bench.methods.count("tools/call") == 1


async def test_an_always_allowed_tool_needs_no_approval(bench: Bench, tmp_path: Path):
    bench.configure(one=bench.misbehaving("well", alwaysAllow=["greet"]))
    stage = McpStage(tmp_path, [greet()], [finish()])
    async with bench.hub(start=20) as stage.hub:
        await stage.play("yes")
    assert stage.asks == ["completion_result"]
    assert stage.finished[0].text == quoted("mcp_result", "Hello you")


async def test_always_applies_to_one_tool_with_any_arguments(bench: Bench, tmp_path: Path):
    bench.configure(one=bench.misbehaving("well"))
    stage = McpStage(tmp_path, [greet()], [greet("them")], [finish()])
    async with bench.hub(start=20) as stage.hub:
        await stage.play("always", "yes")
    first = next(fact for fact in stage.facts if isinstance(fact, Asked))
    assert first.rule == "every call of 'greet' of the MCP server 'one', until this task ends"
    assert stage.asks == ["use_mcp_server", "completion_result"]
    said = [quoted("mcp_result", f"Hello {whom}") for whom in ("you", "them")]
    assert [each.text for each in stage.finished[:2]] == said


async def test_a_server_failure_is_an_error_for_the_model(bench: Bench, tmp_path: Path):
    bench.configure(one=bench.misbehaving("dies at start"))
    stage = McpStage(tmp_path, [greet()], [finish()])
    async with bench.hub(start=20) as stage.hub:
        await stage.play("yes", "yes")
    assert stage.finished[0].ending is Ending.FAILED
    assert "exit code 3" in stage.finished[0].text


@pytest.mark.parametrize("arguments", [{}, {"tool": "greet", "arguments": {"whom": "you"}}])
async def test_a_denied_server_is_not_started(
    bench: Bench, tmp_path: Path, arguments: dict[str, object]
):
    bench.configure(one=bench.misbehaving("well"))
    wanted = ToolCall(id="m0", name="use_mcp_tool", arguments={"server": "one", **arguments})
    stage = McpStage(tmp_path, [wanted], [finish()])
    async with bench.hub(start=20) as stage.hub:
        await stage.play("no", "yes")
    assert stage.finished[0].ending is Ending.DENIED
    assert bench.pids == []


async def test_starting_a_server_needs_approval_once(bench: Bench, tmp_path: Path):
    bench.configure(one=bench.misbehaving("well"))
    lists = [call("use_mcp_tool", server="one") for _ in range(2)]
    stage = McpStage(tmp_path, [lists[0]], [lists[1]], [finish()])
    async with bench.hub(start=20) as stage.hub:
        await stage.play("yes", "yes")
    first, *_ = [fact for fact in stage.facts if isinstance(fact, Asked)]
    assert first.title == "Start the MCP server one and list its tools"
    assert stage.asks == ["use_mcp_server", "completion_result"]
    assert len(bench.pids) == 1


async def test_a_server_added_by_the_task_is_not_available(bench: Bench, tmp_path: Path):
    bench.configure(one=bench.misbehaving("well", alwaysAllow=["*"]))
    evil = call("use_mcp_tool", server="evil")
    stage = McpStage(tmp_path, [evil], [evil], [finish()])
    async with bench.hub(start=20) as stage.hub:
        file = bench.workspace / ".rookery" / "mcp.json"
        bench.configure(file, evil=bench.misbehaving("well"))
        await stage.play("yes")
    assert [each.ending for each in stage.finished[:2]] == [Ending.MISTAKEN] * 2
    told = [fact.text for fact in stage.facts if isinstance(fact, Noted)]
    assert told == [f"{file} has changed; its servers are used after rookery is restarted."]
    assert bench.pids == []


async def test_a_turn_without_mcp_calls_starts_no_server(bench: Bench, tmp_path: Path):
    bench.configure(one=bench.misbehaving("hangs at initialise"))
    stage = McpStage(tmp_path, [call("list_files", path=".", recursive=False)], [finish()])
    async with bench.hub() as stage.hub:
        with anyio.fail_after(10):
            await stage.play("yes")
    assert bench.pids == []
