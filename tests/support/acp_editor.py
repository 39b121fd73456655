"""An editor that drives the real `rookery acp` with the official Python SDK of the protocol.

The SDK is imported in functions, because importing it takes half a second in each worker."""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest
from anyio import Event, Path, create_task_group, open_process
from anyio.abc import Process, TaskGroup

from llm_server import LlmServer
from support.acp_lines import acp_agent
from support.terminal_session import Installed

if TYPE_CHECKING:
    from acp.client.connection import ClientSideConnection


class Editor:
    """Keeps what the agent sends. `choose` picks the option for a tool call; None leaves the
    question open until it is `released`, and then approves."""

    def __init__(self, choose: Callable[[Any], str | None] = lambda call: "once") -> None:
        self.choose = choose
        self.updates: list[Any] = []
        self.asked: list[tuple[Any, Sequence[Any]]] = []
        self.buffers: dict[str, str] = {}
        self.written: list[str] = []
        self.terminals: dict[str, EditorTerminal] = {}
        self.was_asked = Event()
        self.released = Event()
        self._updated = Event()
        self.agent: ClientSideConnection
        self.group: TaskGroup

    def of(self, kind: str) -> list[Any]:
        return [each for each in self.updates if each.session_update == kind]

    @property
    def text(self) -> str:
        return "".join(each.content.text for each in self.of("agent_message_chunk"))

    @property
    def terminal(self) -> str:
        """What terminals show."""
        told = (each.field_meta or {} for each in self.of("tool_call_update"))
        return "".join(
            each["terminal_output"]["data"] for each in told if "terminal_output" in each
        )

    async def until(self, holds: Callable[[], bool]) -> None:
        """Wait for an update after which the condition holds."""
        while not holds():
            await self._updated.wait()

    async def session_update(self, session_id: str, update: Any, **more: Any) -> None:
        self.updates.append(update)
        self._updated.set()
        self._updated = Event()

    async def request_permission(
        self, session_id: str, tool_call: Any, options: Sequence[Any], **more: Any
    ) -> Any:
        from acp import schema

        self.asked.append((tool_call, options))
        self.was_asked.set()
        chosen = self.choose(tool_call)
        if chosen is None:
            await self.released.wait()
        outcome = schema.AllowedOutcome(outcome="selected", option_id=chosen or "once")
        return schema.RequestPermissionResponse(outcome=outcome)

    async def read_text_file(self, session_id: str, path: str, **more: Any) -> Any:
        from acp.schema import ReadTextFileResponse

        text = self.buffers.get(path)
        content = await Path(path).read_text() if text is None else text
        return ReadTextFileResponse(content=content)

    async def write_text_file(self, session_id: str, path: str, content: str, **more: Any) -> None:
        self.written.append(path)
        self.buffers.pop(path, None)
        await Path(path).write_text(content)

    async def create_terminal(
        self, session_id: str, command: str, args: list[str] | None = None, **more: Any
    ) -> Any:
        from acp.schema import CreateTerminalResponse

        process = await open_process([command, *(args or [])], stderr=None)
        terminal_id = f"terminal-{len(self.terminals) + 1}"
        self.terminals[terminal_id] = terminal = EditorTerminal(process)
        self.group.start_soon(terminal.read)
        return CreateTerminalResponse(terminal_id=terminal_id)

    async def wait_for_terminal_exit(self, session_id: str, terminal_id: str, **more: Any) -> Any:
        from acp.schema import WaitForTerminalExitResponse

        code = await self.terminals[terminal_id].shown()
        return WaitForTerminalExitResponse(exit_code=code)

    async def release_terminal(self, session_id: str, terminal_id: str, **more: Any) -> None:
        self.terminals[terminal_id].was_released.set()

    def on_connect(self, conn: Any) -> None:
        pass


class EditorTerminal:
    """A program that the agent started in the editor, and what it wrote."""

    def __init__(self, process: Process) -> None:
        self.process = process
        self.text = ""
        self.was_released = Event()
        self._changed = Event()
        self._was_read = Event()

    async def until(self, words: str) -> None:
        while words not in self.text:
            await self._changed.wait()

    async def shown(self) -> int:
        """Wait for its end, and return the exit code."""
        await self._was_read.wait()
        return await self.process.wait()

    async def read(self) -> None:
        assert self.process.stdout
        async for piece in self.process.stdout:
            self.text += piece.decode()
            self._changed.set()
            self._changed = Event()
        self._was_read.set()


@asynccontextmanager
async def editing(
    rookery: Installed,
    server: LlmServer,
    editor: Editor,
    *flags: str,
    **capabilities: Any,
) -> "AsyncIterator[ClientSideConnection]":
    """Start the agent, and check that it ends with its input."""
    from acp import PROTOCOL_VERSION
    from acp.client.connection import ClientSideConnection
    from acp.schema import ClientCapabilities

    async with create_task_group() as editor.group, acp_agent(rookery, server, *flags) as started:
        agent = ClientSideConnection(editor, started.writer, started.reader)
        try:
            known = ClientCapabilities(**capabilities)
            await agent.initialize(PROTOCOL_VERSION, client_capabilities=known)
            yield agent
        finally:
            await agent.close()


def refusal(match: str | None = None) -> Any:
    """Expects an error from the agent whose message matches."""
    from acp.exceptions import RequestError

    return pytest.raises(RequestError, match=match)
