"""The commands of a task that run on after their calls have come back."""

from collections.abc import Awaitable, Callable
from typing import Any

from rookery.engine.ports import RunningCommand
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
        raise CommandRejected(f"No command of call {call_id} runs in the background.")
