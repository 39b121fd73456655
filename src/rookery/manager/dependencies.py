"""Ports: what the manager needs from other packages. `app` passes the objects."""

from collections.abc import Awaitable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias

from rookery.core.facts import Effect, Event
from rookery.core.fleet_rows import FleetListing
from rookery.core.limits import Limits
from rookery.core.queries import (
    BlamedLine,
    FoundPath,
    IntentRow,
    KnownCommand,
    KnownMode,
    KnownModel,
    TraceQuery,
    TraceRow,
)
from rookery.core.settings import Settings
from rookery.core.stored_tasks import SearchHit, TaskSummary
from rookery.protocol.channels import Channel
from rookery.protocol.worker_channel import WorkerGreeting

if TYPE_CHECKING:
    from rookery.manager.session_feed import RowSource

Form: TypeAlias = Literal["markdown", "json", "html"]
Key: TypeAlias = tuple[str, ...]
Reply: TypeAlias = Literal["yes", "no", "message"]


class StoredTasks(Protocol):
    """The stored journals. Methods raise `StorageError`."""

    def exists(self, task_id: str) -> bool: ...

    def read(self, task_id: str) -> Iterator[Event]: ...

    def list(self, workspace: str | None = None, *, hidden: bool = True) -> Sequence[TaskSummary]:
        """Newest first, with or without hidden tasks."""
        ...

    def search(self, words: str, workspace: str | None = None) -> Sequence[SearchHit]:
        """Tasks that contain all words, newest first."""
        ...

    def hide(self, task_id: str) -> None:
        """Leave the task out of lists. Nothing is deleted."""
        ...

    def is_hidden(self, task_id: str) -> bool: ...

    def size(self, task_id: str) -> int:
        """Size of the journal in bytes, which only grows."""
        ...

    def in_use(self, task_id: str) -> bool:
        """Whether a process works on the task."""
        ...

    def delete(self, task_id: str) -> None: ...


class TrustedFolders(Protocol):
    def trusts(self, folder: Path) -> bool: ...

    def trust(self, folder: Path) -> None: ...


class Snapshots(Protocol):
    """The checkpoints of one workspace."""

    def effects(self, before: str, after: str) -> Awaitable[Sequence[Effect]]: ...

    def diff(
        self, before: str, after: str, *, files: int, size: int
    ) -> Awaitable[Sequence[tuple[str, bytes | None, bytes | None]]]: ...


class GovernanceViews(Protocol):
    """Methods raise `CommandRejected` if something cannot be read."""

    async def intents(self, project: Path) -> tuple[IntentRow, ...]: ...

    async def trace(self, workspace: Path, query: TraceQuery) -> tuple[TraceRow, ...]: ...

    async def blame(self, workspace: Path, path: str) -> tuple[BlamedLine, ...]: ...


class UserSettings(Protocol):
    """Methods raise `SettingsError`."""

    def values_of(self, keys: Sequence[Key]) -> Sequence[tuple[Any, str]]:
        """The effective values in the project, each with its source."""
        ...

    def convert(self, key: Key, value: Any) -> Any:
        """The value converted to the setting's type."""
        ...

    def change(self, key: Key, value: Any) -> str:
        """Change the user's file; None removes the setting. Return a note if it is overridden."""
        ...


class Dependencies(Protocol):
    """Services of the application. Results are current, so they are not cached between calls."""

    @property
    def tasks(self) -> StoredTasks: ...

    @property
    def trust(self) -> TrustedFolders: ...

    @property
    def governance(self) -> GovernanceViews: ...

    @property
    def user_settings(self) -> UserSettings: ...

    def settings(self) -> Settings:
        """The effective settings of the project. Raises `SettingsError` if a file is invalid."""
        ...

    def fork(self, source: str, task_id: str, *, at: int | None, now: int) -> int:
        """Copy a task up to an event; return the event at which it was actually cut."""
        ...

    def snapshots(self, workspace: Path, limits: Limits) -> Snapshots: ...

    def find_paths(self, workspace: Path, letters: str, most: int) -> tuple[FoundPath, ...]:
        """Matching files and folders, best first."""
        ...

    async def models(self) -> tuple[KnownModel, ...]:
        """Models that a session can be started with."""
        ...

    async def modes(self) -> tuple[KnownMode, ...]:
        """Modes that a session of the project can be started in."""
        ...

    async def commands(self) -> tuple[KnownCommand, ...]:
        """Slash commands that a prompt of the project can begin with."""
        ...

    def document(self, task_id: str, form: Form) -> str:
        """Export a stored task with its sub-tasks."""
        ...


class FleetView(Protocol):
    """The fleet that the manager was given, if any. Methods raise `StorageError`, and
    `CommandRejected` for what cannot be done."""

    def is_at(self, url: str, fingerprint: str) -> None:
        """Where workers reach this manager, and the fingerprint of its certificate."""
        ...

    async def listing(self, most: int) -> FleetListing: ...

    async def answer(self, session_id: str, reply: Reply, text: str, digest: str) -> None: ...

    async def cancel(self, session_id: str) -> None: ...

    def follow(self, session_id: str) -> AbstractAsyncContextManager["RowSource"]: ...

    async def admits(self, greeting: WorkerGreeting) -> bool:
        """Whether this worker runs the session that it wants to show."""
        ...

    async def show(self, greeting: WorkerGreeting, channel: Channel) -> None:
        """Show what the worker sends, until it or the interest ends."""
        ...
