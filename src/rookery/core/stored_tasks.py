"""Stored tasks, as lists and searches show them."""

from enum import StrEnum
from typing import TYPE_CHECKING

from msgspec import Struct

from rookery.core.facts import Usage

if TYPE_CHECKING:
    from rookery.core.queries import KnownTask


class StoredStatus(StrEnum):
    OPEN = "open"
    WAITING = "waiting"
    """A plan waits for approval."""
    COMPLETED = "completed"
    CLOSED = "closed"
    FAILED = "failed"


class ModelUsage(Struct, frozen=True, kw_only=True):
    """What a task used of one model in a quarter of an hour, which begins at `ts`."""

    ts: int
    model: str
    usage: Usage


class TaskSummary(Struct, frozen=True, kw_only=True):
    """One task in a list. `damage` describes damage on disk. Unknown cost is None."""

    id: str
    title: str = ""
    workspace: str = ""
    parent: str | None = None
    mode: str = ""
    status: StoredStatus = StoredStatus.OPEN
    created: int = 0
    updated: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    cost: float | None = None
    damage: str = ""
    model: str = ""
    """Model of the last request."""
    spending: tuple[ModelUsage, ...] = ()

    def as_known(self) -> "KnownTask":
        """The same value for clients."""
        from rookery.core.queries import KnownTask

        return KnownTask(
            task_id=self.id,
            title=self.title,
            workspace=self.workspace,
            parent=self.parent,
            mode=self.mode,
            status=self.status.value,
            created=self.created,
            updated=self.updated,
            tokens_in=self.tokens_in,
            tokens_out=self.tokens_out,
            cost=self.cost,
        )


class SearchHit(Struct, frozen=True):
    """A task that contains all search words, and a passage with one."""

    task: TaskSummary
    snippet: str
