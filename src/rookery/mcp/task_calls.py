"""Calls that a server runs as tasks, for tools that take long.

The SDK knows no tasks. `received.py` passes the creation of a task as an empty result that names
it, and reports its status. The result is then requested, and comes when the task has ended. A call
that is cancelled, or takes too long, cancels the task.
"""

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import anyio

from rookery.mcp.received import TASK

if TYPE_CHECKING:
    from mcp.client.client import Client
    from mcp.shared.dispatcher import ProgressFnT
    from mcp_types import CallToolResult

LONGEST_TASK = 3600.0
"""Seconds that a task may take."""
KEPT = 3_600_000
"""Milliseconds that the server should keep the result."""
CANCEL_SECONDS = 2.0

Watchers = dict[str, Callable[[str], None]]
"""By task, what is called with its status."""


async def call_as_task(
    client: "Client",
    tool: str,
    arguments: Mapping[str, Any],
    watchers: Watchers,
    show: Callable[[str], None],
    progress: "ProgressFnT",
) -> "CallToolResult":
    """Call a tool as a task and wait for its result."""
    from mcp_types import (
        CallToolRequest,
        CallToolRequestParams,
        CallToolResult,
        GetTaskPayloadRequest,
        GetTaskPayloadRequestParams,
        TaskMetadata,
    )

    params = CallToolRequestParams(
        name=tool, arguments=dict(arguments), task=TaskMetadata(ttl=KEPT)
    )
    first = await client.session.send_request(
        CallToolRequest(params=params), CallToolResult, progress_callback=progress
    )
    created = (first.meta or {}).get(TASK)
    if not isinstance(created, dict):
        return first  # the server has answered at once
    task_id = created["taskId"]
    show(created["statusMessage"])
    watchers[task_id] = show
    try:
        payload = GetTaskPayloadRequestParams(task_id=task_id)
        return await client.session.send_request(
            GetTaskPayloadRequest(params=payload), CallToolResult
        )
    except anyio.get_cancelled_exc_class():
        await _cancel(client, task_id)
        raise
    finally:
        del watchers[task_id]


async def _cancel(client: "Client", task_id: str) -> None:
    from mcp import MCPError
    from mcp_types import CancelTaskRequest, CancelTaskRequestParams, Result

    request = CancelTaskRequest(params=CancelTaskRequestParams(task_id=task_id))
    over = (MCPError, ValueError, RuntimeError)  # the task has ended, or the connection has
    with anyio.move_on_after(CANCEL_SECONDS, shield=True), suppress(*over):
        await client.session.send_request(request, Result)
