"""What the manager needs of the features, as ports. `app` passes the objects."""

from collections.abc import Awaitable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal, Protocol, TypeAlias

from rookery.core.facts import Effect, Event
from rookery.core.limits import Limits
from rookery.core.queries import (
    BlamedLine,
    FoundPath,
    IntentRow,
    KnownMode,
    KnownModel,
    TraceQuery,
    TraceRow,
)
from rookery.core.settings import Settings

Form: TypeAlias = Literal["markdown", "json", "html"]
Key: TypeAlias = tuple[str, ...]


class StoredTask(Protocol):
    """A task in the list of all. Times are milliseconds."""

    @property
    def id(self) -> str: ...

    @property
    def title(self) -> str: ...

    @property
    def parent(self) -> str | None: ...

    @property
    def mode(self) -> str: ...

    @property
    def status(self) -> str: ...

    @property
    def created(self) -> int: ...

    @property
    def tokens_in(self) -> int: ...

    @property
    def tokens_out(self) -> int: ...

    @property
    def cost(self) -> float | None: ...


class StoredTasks(Protocol):
    """The journals. Raises `StorageError`."""

    def exists(self, task_id: str) -> bool: ...

    def read(self, task_id: str) -> Iterator[Event]: ...

    def list(self, workspace: str | None = None, *, hidden: bool = True) -> Sequence[StoredTask]:
        """Newest first; with or without those that are hidden."""
        ...

    def hide(self, task_id: str) -> None:
        """Leave it out of the lists from now on. Nothing of it is deleted."""
        ...

    def is_hidden(self, task_id: str) -> bool: ...

    def size(self, task_id: str) -> int:
        """Bytes of its journal, which only grows."""
        ...

    def in_use(self, task_id: str) -> bool:
        """Whether a process works on it."""
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
    """Raises `CommandRejected` if something cannot be read."""

    async def intents(self, project: Path) -> tuple[IntentRow, ...]: ...

    async def trace(self, workspace: Path, query: TraceQuery) -> tuple[TraceRow, ...]: ...

    async def blame(self, workspace: Path, path: str) -> tuple[BlamedLine, ...]: ...


class UserSettings(Protocol):
    """Raises `SettingsError`."""

    def held(self, keys: Sequence[Key]) -> Sequence[tuple[Any, str]]:
        """The values that hold for the project, each with where it comes from."""
        ...

    def checked(self, key: Key, value: Any) -> Any:
        """The value as its setting takes it."""
        ...

    def change(self, key: Key, value: Any) -> str:
        """Change the user's file; None removes the setting. Says what else decides it, if so."""
        ...


class Dependencies(Protocol):
    """Each answer is about this moment: what it is made of may have changed since the last."""

    @property
    def tasks(self) -> StoredTasks: ...

    @property
    def trust(self) -> TrustedFolders: ...

    @property
    def governance(self) -> GovernanceViews: ...

    @property
    def user_settings(self) -> UserSettings: ...

    def settings(self) -> Settings:
        """Those that hold for the project. Raises `SettingsError` if a file is faulty."""
        ...

    def fork(self, source: str, task_id: str, *, at: int | None, now: int) -> int:
        """Copy a task up to an event; gives the event it was really cut at."""
        ...

    def snapshots(self, workspace: Path, limits: Limits) -> Snapshots: ...

    def find_paths(self, workspace: Path, letters: str, most: int) -> tuple[FoundPath, ...]:
        """Files and folders that fit, the best first."""
        ...

    async def models(self) -> tuple[KnownModel, ...]:
        """Those that a session could be started with."""
        ...

    async def modes(self) -> tuple[KnownMode, ...]:
        """Those that a session of the project could be started in."""
        ...

    def document(self, task_id: str, form: Form) -> str:
        """A stored task and those that worked for it, to be read by people or programs."""
        ...
