"""MCP calls of whole tasks: through the gate, on record, and gone when the user cancels."""

import sys
from itertools import count
from pathlib import Path

import pytest
from msgspec.structs import replace

from rookery.core.blocks import ToolCall
from rookery.core.facts import Asked, Ending, ToolFinished, ToolStarted
from rookery.core.instructions import quoted
from rookery.engine.event_log import EventLog
from rookery.engine.task import Task
from rookery.engine.task_deps import Family
from rookery.mcp.hub import McpHub
from rookery.mcp.offered_tools import AlwaysAllowed, ServerGuard
from rookery.mcp.use_mcp_tool import UseMcpTool
from support.mcp_workspace import MISBEHAVING, Bench
from support.stage import Stage, finish

pytestmark = pytest.mark.anyio


class McpStage(Stage):
    hub: McpHub

    def make_task(self, task_id: str, log: EventLog, family: Family) -> Task:
        deps = super().make_task(task_id, log, family)._deps
        tool = UseMcpTool(self.hub)
        tools = {**deps.tools, tool.name: tool}
        hooks = [*deps.hooks, AlwaysAllowed(self.hub), ServerGuard(self.hub)]
        return Task(task_id, log, replace(deps, tools=tools, hooks=hooks), family)

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


async def test_always_applies_to_one_tool_with_any_arguments(bench: Bench, tmp_path: Path):
    bench.configure(one=bench.misbehaving("well"))
    stage = McpStage(tmp_path, [greet()], [greet("them")], [finish()])
    async with bench.hub(start=20) as stage.hub:
        await stage.play("always", "yes")
    first = next(fact for fact in stage.facts if isinstance(fact, Asked))
    assert first.rule == "every call of 'greet' of the MCP server 'one', until this session ends"
    assert stage.asks == ["use_mcp_server", "completion_result"]
    said = [quoted("mcp_result", f"Hello {whom}") for whom in ("you", "them")]
    assert [each.text for each in stage.finished[:2]] == said
