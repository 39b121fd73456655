"""Shows the output of commands in terminals of the client.

The client starts `terminal_viewer.py` in a terminal of its own, which prints what it gets from a
socket. The command stays a process of ours: confined, recorded, and ended with its turn. If the
user closes the terminal before, the command is stopped.
"""

import sys
import tempfile
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from typing import Any, TypeAlias

import anyio
from anyio.abc import ByteStream, SocketListener, SocketStream, TaskGroup

from rookery.compat.acp.questions import OpenedQuestion
from rookery.compat.acp.updates import TaskUpdates
from rookery.core.asks import AskKind
from rookery.core.facts import (
    Asked,
    CommandDetached,
    Ending,
    Fact,
    OutputStreamed,
    StepCancelled,
    TaskClosed,
    TaskFailed,
    ToolFinished,
    ToolStarted,
)
from rookery.core.limits import MIB
from rookery.platform.own_programs import own_script
from rookery.protocol.attend import Say
from rookery.protocol.jsonrpc import Disconnected, Peer, RpcError

VIEWER = Path(__file__).with_name("terminal_viewer.py")
SECONDS = 5.0
"""Seconds that a client has to open a terminal, to start the viewer, and to end it."""
RELEASE_SECONDS = 1.0
WAITING = MIB // 2
"""Characters that wait for a viewer; of more, the last ones."""
LEFT_OUT = "\n[… output left out …]\n"
CONTINUES = "\n[continues in the background]\n"
CANCELLED = 130
"""The exit code of a viewer whose command was cancelled."""
_LONGEST_LABEL = 200
_GONE = (OSError, anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError)
Key: TypeAlias = tuple[str, str]
"""A task and a call."""


class CommandTerminal:
    """A terminal of the client that shows one command."""

    def __init__(self, terminal_id: str) -> None:
        self.id = terminal_id
        self.settled = anyio.Event()
        """It is known whether the viewer runs."""
        self.is_shown = False
        self.was_closed = False
        """Whether the user closed it before the command ended."""
        self._text = ""
        self._is_empty = True
        self._exit: int | None = None
        self._changed = anyio.Event()

    @property
    def has_ended(self) -> bool:
        return self._exit is not None

    def write(self, text: str) -> None:
        self._text += text
        if len(self._text) > WAITING:
            self._text = LEFT_OUT + self._text[-WAITING // 2 :]
        self._is_empty = False
        self._changed.set()

    def end(self, exit_code: int, text: str = "") -> None:
        """The command ended. The text is shown if it wrote nothing."""
        if self._is_empty:
            self._text = text
        self._exit = exit_code if 0 <= exit_code <= 255 else 1
        self._changed.set()

    async def feed(self, viewer: ByteStream) -> None:
        """Send the output to the viewer as it comes, and then the exit code."""
        with suppress(*_GONE):
            while self._text or self._exit is None:
                data, self._text = self._text.encode("utf-8", "replace"), ""
                if data:
                    await viewer.send(len(data).to_bytes(4, "big") + data)
                else:
                    await self._changed.wait()
                    self._changed = anyio.Event()
            await viewer.send(bytes([0, 0, 0, 0, self._exit]))


class EditorTerminals:
    """The terminals of a session's running commands."""

    def __init__(
        self,
        client: Peer,
        session_id: str,
        cwd: str,
        group: TaskGroup,
        send: Callable[[OpenedQuestion, Say], Awaitable[None]],
        *,
        offered: bool,
    ) -> None:
        """`send` passes an answer to the host. `offered` tells whether the client has terminals."""
        self._client = client
        self._session_id = session_id
        self._cwd = cwd
        self._group = group
        self._send = send
        self._usable = offered
        """Until the client fails to open a terminal, or to start the viewer in one."""
        self._open: dict[Key, CommandTerminal] = {}
        self._offers: dict[Key, Asked] = {}
        """The questions whose answer stops a command."""

    async def see(self, shown: TaskUpdates, task_id: str, fact: Fact) -> None:
        """Take a fact before it is shown."""
        match fact:
            case ToolStarted(call_id=call_id, command=command) if command:
                if self._usable and shown.lacks_terminal(call_id):
                    shown.show_in(call_id, await self._begin((task_id, call_id), command))
            case OutputStreamed(call_id=call_id, text=text):
                self._write((task_id, call_id), text)
            case CommandDetached(call_id=call_id):
                self._write((task_id, call_id), CONTINUES)
            case Asked(ask=AskKind.COMMAND_OUTPUT, call_id=call_id) as offer:
                self._offers[task_id, call_id] = offer
                await self._stop_closed((task_id, call_id))
            case ToolFinished(call_id=call_id) as end:
                if not await self._end((task_id, call_id), end):
                    shown.show_in(call_id, "")
            case StepCancelled() | TaskClosed() | TaskFailed():
                for key in [each for each in self._open if each[0] == task_id]:
                    self._open.pop(key).end(CANCELLED)
            case _:
                pass

    def _write(self, key: Key, text: str) -> None:
        if terminal := self._open.get(key):
            terminal.write(text)

    async def _begin(self, key: Key, command: str) -> str:
        """The id of a new terminal; empty if the client opens none."""
        async with AsyncExitStack() as place:
            with suppress(OSError):
                folder = place.enter_context(tempfile.TemporaryDirectory(prefix="terminal-"))
                socket = f"{folder}/output"
                listener = await anyio.create_unix_listener(socket, mode=0o600)
                place.push_async_callback(listener.aclose)
                if terminal_id := await self._create(socket, command):
                    terminal = self._open[key] = CommandTerminal(terminal_id)
                    self._group.start_soon(self._show, key, terminal, listener, place.pop_all())
                    return terminal_id
        self._usable = False
        return ""

    async def _create(self, socket: str, command: str) -> str:
        label = command.strip().partition("\n")[0][:_LONGEST_LABEL]
        viewer = [sys.executable, "-I", "-S", own_script(VIEWER), socket, label]
        response = await self._call(
            "terminal/create", SECONDS, command=viewer[0], args=viewer[1:], cwd=self._cwd
        )
        match response:
            case {"terminalId": str(terminal_id)}:
                return terminal_id
            case _:
                return ""

    async def _call(self, method: str, seconds: float, **params: Any) -> Any:
        """The answer of the client; None if it fails, or takes too long."""
        asked = {"sessionId": self._session_id, **params}
        with suppress(RpcError, Disconnected), anyio.move_on_after(seconds):
            return await self._client.call(method, asked)
        return None

    async def _show(
        self,
        key: Key,
        terminal: CommandTerminal,
        listener: SocketListener,
        place: AsyncExitStack,
    ) -> None:
        """Serve the viewer of a terminal until it leaves, and release the terminal."""
        viewer: SocketStream | None = None
        try:
            async with place:
                with anyio.move_on_after(SECONDS):
                    viewer = await listener.accept()
            terminal.is_shown = viewer is not None
            terminal.settled.set()
            if viewer:
                async with viewer:
                    await self._serve(key, terminal, viewer)
                await self._call("terminal/wait_for_exit", SECONDS, terminalId=terminal.id)
        finally:
            with anyio.CancelScope(shield=True):
                await self._call("terminal/release", RELEASE_SECONDS, terminalId=terminal.id)

    async def _serve(self, key: Key, terminal: CommandTerminal, viewer: SocketStream) -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(terminal.feed, viewer)
            with suppress(*_GONE):
                await viewer.receive(1)  # it sends nothing, so this is its end
            group.cancel_scope.cancel()
        terminal.was_closed = not terminal.has_ended
        await self._stop_closed(key)

    async def _stop_closed(self, key: Key) -> None:
        """Stop a command whose terminal was closed, once that can be answered."""
        terminal = self._open.get(key)
        if terminal and terminal.was_closed and (offer := self._offers.pop(key, None)):
            await self._send(OpenedQuestion(key[0], offer), Say("no"))

    async def _end(self, key: Key, end: ToolFinished) -> bool:
        """End the terminal of a call. Whether there is one that shows its output."""
        self._offers.pop(key, None)
        terminal = self._open.pop(key, None)
        if terminal is None:
            return False
        unknown = 0 if end.ending is Ending.DONE else CANCELLED
        terminal.end(unknown if end.exit_code is None else end.exit_code, end.text)
        await terminal.settled.wait()
        self._usable = terminal.is_shown
        return terminal.is_shown
