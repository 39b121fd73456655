"""A fleet as lists show it: workers, queues and sessions."""

from typing import Literal, TypeAlias

from msgspec import Struct

FleetState: TypeAlias = Literal["queued", "running", "waiting", "completed", "failed", "cancelled"]
ShownState: TypeAlias = FleetState | Literal["unreadable"]
"""Any program with the right to write to the database can store a row that is not valid."""


class FleetSession(Struct, frozen=True, kw_only=True):
    """A session of the fleet. `digest` names the action that it asks about."""

    session_id: str
    state: ShownState
    label: str
    repo: str
    ref: str
    text: str
    worker: str
    question: str
    digest: str
    result: str
    reason: str
    code: str
    created: int
    """In milliseconds."""
    checkpoint: str | None = None
    """The ref of its remote that has its files."""


class FleetWorker(Struct, frozen=True, kw_only=True):
    """A slot of a worker: one process that runs one session at a time."""

    executor: str
    name: str
    labels: tuple[str, ...]
    state: str
    """`ready`, `lost`, or `unreadable` for a row that is not valid."""
    session: str
    seconds: float
    """Since its last sign of life."""


class FleetQueue(Struct, frozen=True, kw_only=True):
    """The sessions with one label, and the slots that take them."""

    label: str
    queued: int = 0
    running: int = 0
    waiting: int = 0
    slots: int = 0


class FleetListing(Struct, frozen=True, kw_only=True):
    """The fleet: all its workers and queues, and the newest sessions."""

    workers: tuple[FleetWorker, ...]
    queues: tuple[FleetQueue, ...]
    sessions: tuple[FleetSession, ...]
    more: int = 0
    """Sessions that are not in the list."""
