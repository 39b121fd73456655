"""The commands of a task: their output without secrets, and those that run on after their calls."""

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from rookery.core.text.output_preview import Hiding
from rookery.engine.ports.actions import Permit
from rookery.engine.ports.commands import Artifact, RunningCommand, Shell
from rookery.errors import CommandRejected


class BackgroundCommands:
    """`start_soon` is of the task's own group, so nothing here outlives the task."""

    def __init__(self, start_soon: Callable[..., Any]) -> None:
        self._start_soon = start_soon
        self._commands: dict[str, RunningCommand] = {}

    def start(
        self, call_id: str, command: RunningCommand, attend: Callable[[], Awaitable[None]]
    ) -> None:
        async def until_it_ends() -> None:
            try:
                await attend()
            finally:
                self._commands.pop(call_id, None)

        self._commands[call_id] = command
        self._start_soon(until_it_ends)

    @property
    def any_runs(self) -> bool:
        return bool(self._commands)

    def stop(self, call_id: str) -> None:
        self._find(call_id).stop()

    def keep(self, call_id: str) -> None:
        """Let a command outlive the task and the product."""
        self._find(call_id).keep()

    def ends_with_task(self, call_id: str) -> bool:
        command = self._commands.get(call_id)
        return command is not None and not command.kept

    def _find(self, call_id: str) -> RunningCommand:
        if command := self._commands.get(call_id):
            return command
        raise CommandRejected(f"Call {call_id} has no command in the background.")


class HidingShell:
    def __init__(self, shell: Callable[[], Shell], hide: Hiding) -> None:
        """`shell` is called once there is a command."""
        self._shell = shell
        self._hide = hide

    def describe(self, *, confined: bool) -> str:
        return self._shell().describe(confined=confined)

    @asynccontextmanager
    async def run(
        self, permit: Permit, *, seconds: float, keep: Artifact, terminal: bool = False
    ) -> AsyncGenerator[RunningCommand, None]:
        kept = _HidingArtifact(keep, self._hide)
        async with self._shell().run(
            permit, seconds=seconds, keep=kept, terminal=terminal
        ) as command:
            yield _HidingCommand(command, self._hide)


class _HidingCommand:
    def __init__(self, command: RunningCommand, hide: Hiding) -> None:
        self.pid = command.pid
        self.warden = command.warden
        self.end = command.end
        self.stop = command.stop
        self.keep = command.keep
        self.waits_for_input = command.waits_for_input
        self.unreached = command.unreached
        self._command = command
        self._shown = hide.stream()

    @property
    def kept(self) -> bool:
        return self._command.kept

    @property
    def blocked(self) -> tuple[str, ...]:
        return self._command.blocked

    async def output(self) -> AsyncIterator[str]:
        async for piece in self._command.output():
            if shown := self._shown.add(piece):
                yield shown
        if rest := self._shown.finish():
            yield rest


class _HidingArtifact:
    """Bytes are read as Latin-1, which takes any of them, and in which a key is a key."""

    def __init__(self, artifact: Artifact, hide: Hiding) -> None:
        self.id = artifact.id
        self.size = artifact.size
        self._artifact = artifact
        self._shown = hide.stream()

    def write(self, data: bytes) -> None:
        self._put(self._shown.add(data.decode("latin-1")))

    def close(self) -> None:
        try:
            if rest := self._shown.finish():
                self._put(rest)
        finally:
            self._artifact.close()

    def _put(self, text: str) -> None:
        self._artifact.write(text.encode("latin-1"))
        self.size = self._artifact.size
