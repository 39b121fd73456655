"""Calls of tools: their time limit, their progress, and those that a server runs as tasks.

The SDK knows no tasks. `received.py` passes the creation of a task as an empty result that names
it, and reports its status. The result is then requested, and comes when the task has ended. A call
that is cancelled, or takes too long, cancels the task.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

import anyio

from rookery.core.facts import OutputStreamed
from rookery.engine.ports.tool import ToolContext
from rookery.mcp.received import TASK
from rookery.mcp.results import visible_line

if TYPE_CHECKING:
    from mcp.client.client import Client
    from mcp_types import CallToolResult

LONGEST_TASK = 3600.0
"""Seconds that a task may take."""
KEPT = 3_600_000
"""Milliseconds that the server should keep the result."""
CANCEL_SECONDS = 2.0
LONGEST_PROGRESS = 300
MOST_PER_SECOND = 20

Watchers = dict[str, Callable[[str], None]]
"""By task, what is called with its status."""


class CallClock:
    """The time limit of a call. It pauses while the user is asked."""

    def __init__(self, seconds: float) -> None:
        self._left = seconds
        self._scope: anyio.CancelScope | None = None
        self._pauses = 0

    @contextmanager
    def running(self) -> Iterator[None]:
        """Raises `TimeoutError` once the time is over."""
        with anyio.CancelScope(deadline=anyio.current_time() + self._left) as self._scope:
            yield
        if self._scope.cancelled_caught:
            raise TimeoutError

    @contextmanager
    def paused(self) -> Iterator[None]:
        assert self._scope is not None
        if not self._pauses:
            self._left = self._scope.deadline - anyio.current_time()
            self._scope.deadline = math.inf
        self._pauses += 1
        try:
            yield
        finally:
            self._pauses -= 1
            if not self._pauses:
                self._scope.deadline = anyio.current_time() + self._left


class ShownProgress:
    """Shows progress reports of a server as lines, limited in rate."""

    def __init__(self, ctx: ToolContext) -> None:
        self._ctx = ctx
        self._since = -math.inf
        self._count = 0
        self._last = ""

    async def report(
        self, progress: float, total: float | None = None, message: str | None = None
    ) -> None:
        if self._is_due():
            of = f"/{total:g}" if total is not None else ""
            text = f" {visible_line(message, LONGEST_PROGRESS)}" if message else ""
            self._show(f"{progress:g}{of}{text}\n")

    def status(self, text: str) -> None:
        if text != self._last and self._is_due():
            self._last = text
            self._show(f"{visible_line(text, LONGEST_PROGRESS)}\n")

    def _show(self, line: str) -> None:
        self._ctx.append(OutputStreamed(call_id=self._ctx.call_id, text=line))

    def _is_due(self) -> bool:
        now = anyio.current_time()
        if now - self._since > 1:
            self._since, self._count = now, 0
        self._count += 1
        return self._count <= MOST_PER_SECOND


async def call_as_task(
    client: "Client",
    tool: str,
    arguments: Mapping[str, Any],
    watchers: Watchers,
    shown: ShownProgress,
) -> "CallToolResult":
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
        CallToolRequest(params=params), CallToolResult, progress_callback=shown.report
    )
    created = (first.meta or {}).get(TASK)
    if not isinstance(created, dict):
        return first  # the server has answered at once
    task_id = created["taskId"]
    shown.status(created["statusMessage"])
    watchers[task_id] = shown.status
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
