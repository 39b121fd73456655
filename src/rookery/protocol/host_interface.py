"""What a client talks to. The engine is one; a far engine behind a wire will be another."""

from collections.abc import AsyncIterator
from typing import Protocol, TypeVar

from rookery.core.commands import Command
from rookery.core.facts import Event
from rookery.core.queries import Asking

T = TypeVar("T")


class Host(Protocol):
    async def send(self, command: Command) -> None:
        """Request something. Raises `CommandRejected` if it cannot be done now."""
        ...

    def follow(self, task_id: str, after: int = 0) -> AsyncIterator[Event]:
        """The task's events past `after`: first those there are, then those to come. Raises
        `CommandRejected` if the task is not open."""
        ...

    async def query(self, query: Asking[T]) -> T:
        """Look something up. Raises `CommandRejected` if that cannot be done."""
        ...
