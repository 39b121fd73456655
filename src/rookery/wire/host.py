"""What a client talks to. The engine is one; a far engine behind a wire will be another."""

from collections.abc import AsyncIterator
from typing import Protocol

from rookery.core.commands import Command
from rookery.core.facts import Event


class Host(Protocol):
    async def send(self, command: Command) -> None:
        """Request something. Raises `CommandRejected` if it cannot be done now."""
        ...

    def follow(self, task_id: str, after: int = 0) -> AsyncIterator[Event]:
        """The task's events past `after`: first those there are, then those to come."""
        ...
