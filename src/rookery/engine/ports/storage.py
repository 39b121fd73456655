"""Where the events of tasks are kept."""

from typing import Protocol

from rookery.core.facts import Event


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
