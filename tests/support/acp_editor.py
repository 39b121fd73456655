"""An editor that drives the real `rookery acp` with the official Python SDK of the protocol."""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import acp
from acp import schema
from acp.client.connection import ClientSideConnection
from anyio import Event, Path

from llm_server import LlmServer
from support.terminal_session import COMMAND, PATIENCE, Installed, at


class Editor(acp.Client):
    """Keeps what the agent sends. `choose` picks the option for a tool call; None leaves the
    question open until it is `released`, and then approves."""

    def __init__(self, choose: Callable[[Any], str | None] = lambda call: "once") -> None:
        self.choose = choose
        self.updates: list[Any] = []
        self.asked: list[tuple[Any, Sequence[Any]]] = []
        self.buffers: dict[str, str] = {}
        self.written: list[str] = []
        self.was_asked = Event()
        self.released = Event()
        self.agent: ClientSideConnection

    def of(self, kind: str) -> list[Any]:
        return [each for each in self.updates if each.session_update == kind]

    @property
    def text(self) -> str:
        return "".join(each.content.text for each in self.of("agent_message_chunk"))

    async def session_update(self, session_id: str, update: Any, **more: Any) -> None:
        self.updates.append(update)

    async def request_permission(
        self, session_id: str, tool_call: Any, options: Sequence[Any], **more: Any
    ) -> schema.RequestPermissionResponse:
        self.asked.append((tool_call, options))
        self.was_asked.set()
        chosen = self.choose(tool_call)
        if chosen is None:
            await self.released.wait()
        outcome = schema.AllowedOutcome(outcome="selected", option_id=chosen or "once")
        return schema.RequestPermissionResponse(outcome=outcome)

    async def read_text_file(
        self, session_id: str, path: str, **more: Any
    ) -> schema.ReadTextFileResponse:
        text = self.buffers.get(path)
        content = await Path(path).read_text() if text is None else text
        return schema.ReadTextFileResponse(content=content)

    async def write_text_file(self, session_id: str, path: str, content: str, **more: Any) -> None:
        self.written.append(path)
        self.buffers.pop(path, None)
        await Path(path).write_text(content)

    def on_connect(self, conn: acp.Agent) -> None:
        pass


@asynccontextmanager
async def editing(
    rookery: Installed,
    server: LlmServer,
    editor: Editor,
    *,
    capabilities: schema.ClientCapabilities | None = None,
) -> AsyncIterator[ClientSideConnection]:
    """Start the agent, and check that it ends with its input."""
    spawn = acp.spawn_agent_process(
        editor,
        COMMAND,
        "acp",
        *at(server),
        env=rookery.environ,
        cwd=rookery.workspace,
        transport_kwargs={"shutdown_timeout": PATIENCE},
    )
    async with spawn as (agent, process):
        await agent.initialize(acp.PROTOCOL_VERSION, client_capabilities=capabilities)
        yield agent
    assert process.returncode == 0
