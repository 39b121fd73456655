"""Where the events of tasks are kept, and a task's log as others see it."""

from collections.abc import AsyncIterator, Sequence
from typing import Protocol

from rookery.core.facts import Event, Fact
from rookery.core.folds.task_state import TaskState


class TaskLog(Protocol):
    """What has happened in a task, and what is true by now."""

    state: TaskState
    ended: bool

    @property
    def events(self) -> Sequence[Event]:
        """The lasting events."""
        ...

    def append(self, fact: Fact) -> Event: ...
    def follow(self, after: int = 0) -> AsyncIterator[Event]: ...


class LogStore(Protocol):
    """Where one task's lasting events are kept."""

    recovered: str
    """What had to be set aside when the store was opened, in a sentence; usually nothing."""

    def write(self, event: Event) -> None:
        """Durable when it returns, as far as its fact demands. Raises `StorageError`."""
        ...

    def read(self) -> list[Event]: ...
    def close(self) -> None: ...


class TaskLogs(Protocol):
    """The stores of all tasks. All of these raise `StorageError`."""

    def exists(self, task_id: str) -> bool: ...
    def create(self, task_id: str) -> LogStore: ...
    def open(self, task_id: str) -> LogStore: ...
    def delete(self, task_id: str) -> None: ...
