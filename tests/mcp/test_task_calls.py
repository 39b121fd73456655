"""Tools that the reference server runs as tasks, and servers that lie about tasks."""

from pathlib import Path
from typing import Any

import anyio
import pytest

from rookery.core.facts import OutputStreamed
from rookery.engine.ports.actions import Permit
from rookery.mcp.received import TASK, _name_task, _valid_tools
from support.asked_user import AskedBench
from support.npm_servers import npm_server

pytestmark = pytest.mark.anyio
TOOL = "simulate-research-query"


@pytest.fixture
def asked(tmp_path: Path) -> AskedBench:
    bench = AskedBench(tmp_path)
    bench.configure(
        asking={"command": npm_server("mcp-server-everything"), "args": ["stdio"], "timeout": 1}
    )
    return bench


async def test_a_long_call_runs_as_a_task_beyond_the_usual_time_and_shows_its_status(
    asked: AskedBench,
):
    said = await asked.call(TOOL, topic="birds")
    assert "# Research Report: birds" in said
    shown = [fact.text for fact in asked.facts if isinstance(fact, OutputStreamed)]
    assert shown[0] == "Gathering sources...\n"
    assert "Generating report...\n" in shown


async def test_a_task_can_ask_the_user(asked: AskedBench):
    said = await asked.call(TOOL, "Python snake species", topic="python", ambiguous=True)
    assert "snake" in said
    assert len(asked.questions) == 1


async def test_a_cancelled_call_cancels_the_task(asked: AskedBench):
    from mcp_types import ListTasksRequest, ListTasksResult

    async with asked.hub() as hub:
        await hub.server("asking").tools()
        action = await asked.prepare(hub, server="asking", tool=TOOL, arguments={"topic": "birds"})
        with anyio.CancelScope() as scope:
            asked.on_output = scope.cancel
            await action.perform(Permit(action.digest, by_hand=True))
        assert scope.cancelled_caught
        connection = hub.server("asking")._connection
        assert connection is not None
        assert connection.client is not None
        found = await connection.client.session.send_request(ListTasksRequest(), ListTasksResult)
    assert [task.status for task in found.tasks] == ["cancelled"]


@pytest.mark.parametrize(
    "result",
    [
        {"task": "x"},
        {"task": {"taskId": 7}},
        {"task": {"taskId": ""}},
        {"task": {"taskId": "x" * 501}},
        {"task": {"taskId": "x"}, "content": []},
    ],
)
def test_only_a_real_task_counts_as_one(result: dict[str, Any]):
    from mcp.shared.message import SessionMessage
    from mcp_types import JSONRPCResponse

    item = SessionMessage(JSONRPCResponse(jsonrpc="2.0", id=1, result=dict(result)))
    _name_task(item)
    assert item.message.result == result  # type: ignore[union-attr]
    item.message.result = {"task": {"taskId": "t", "status": "working"}}  # type: ignore[union-attr]
    _name_task(item)
    named = {"taskId": "t", "statusMessage": "working"}
    assert item.message.result == {"content": [], "_meta": {TASK: named}}  # type: ignore[union-attr]


def test_what_a_tool_says_of_its_execution_is_reduced_to_tasks():
    said = [
        {"name": "a", "inputSchema": {}, "execution": {"taskSupport": "required", "x": 1}},
        {"name": "b", "inputSchema": {}, "execution": {"taskSupport": ["required"]}},
        {"name": "c", "inputSchema": {}, "execution": "required"},
    ]
    kept = [tool.get("execution") for tool in _valid_tools(said)]
    assert kept == [{"taskSupport": "required"}, None, None]
