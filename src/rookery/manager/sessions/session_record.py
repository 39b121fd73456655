"""What is stored about a session, its JSON in the list on disk, and the list of all records.

A record extends the state of the machine by what is known about the session. Unknown JSON keys
are ignored, so fields may be added. The list is never truncated.
"""

from collections.abc import Iterable
from typing import Any, Literal

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from rookery.core.text.characters import caseless
from rookery.first_use import prepared
from rookery.manager.sessions.session_events import Session, UserMessage
from rookery.manager.sessions.session_states import (
    ENDED,
    STATUS_OF,
    TRUE_IN,
    Flags,
    SessionState,
    SessionStatus,
    needs_attention,
)

LABEL_LENGTH = 40
LOG_LINES = 100
_REBUILT = ("pendingAsk", "deferredAsk", "stopRequested")
"""Fields that are rebuilt from the journal, so they are not stored."""
DeliveryState = Literal["queued", "sending", "sent", "failed"]


class ParallelMode(Struct, frozen=True, kw_only=True, rename="camel"):
    """The worktree of a session, as far as the session knows it."""

    enabled: bool = True
    branch: str = ""
    worktree_path: str = ""
    parent_branch: str = ""


class TodoStats(Struct, frozen=True, kw_only=True):
    done: int
    total: int


class ChangeCount(Struct, frozen=True, kw_only=True):
    """How much a session has changed. `revision` grows whenever files may have changed."""

    revision: int = 0
    files: int = 0
    added: int = 0
    removed: int = 0


class QueuedMessage(Struct, frozen=True, kw_only=True):
    """A message on its way to the engine. The number makes sure that it counts once."""

    number: int
    message: UserMessage = field(name="letter")
    state: DeliveryState = "queued"
    retries: int = 0
    problem: str = ""


class SessionRecord(Session, frozen=True, kw_only=True, rename="camel"):
    """Times are in milliseconds. A stored `state` is for display: `rebuild_session` decides."""

    session_id: str
    state: SessionState = SessionState.CREATING
    label: str = ""
    prompt: str = ""
    title: str = ""
    renamed: bool = False
    """The user chose the label, so no title replaces it."""
    start_time: int = 0
    end_time: int | None = None
    source: Literal["local", "remote"] = "local"
    parallel_mode: ParallelMode | None = None
    worktree_id: str | None = None
    group_id: str = ""
    """Shared by the versions of one prompt."""
    workspace: str = ""
    intent: str = ""
    model: str | None = None
    mode: str | None = None
    provider: str | None = None
    auto_approve: bool = True
    tokens: int = 0
    cost: float = 0.0
    todo_stats: TodoStats | None = None
    unread: bool = False
    archived: bool = False
    pinned: bool = False
    tags: tuple[str, ...] = ()
    logs: tuple[str, ...] = ()
    pid: int | None = None

    status: SessionStatus = SessionStatus.CREATING
    announced: bool = False
    """The engine has received the prompt."""
    taken: int = 0
    """How many messages have left the machine's outbox."""
    undelivered: tuple[QueuedMessage, ...] = field(default=(), name="mail")

    @property
    def name(self) -> str:
        """The name in the list."""
        return self.label if self.renamed or not self.title else self.title


class Counts(Struct, frozen=True, kw_only=True):
    """The numbers above the session list."""

    active: int = 0
    history: int = 0
    archived: int = 0
    attention: int = 0
    """The number on the badge."""


def label_of(prompt: str) -> str:
    """The prompt on one line, truncated."""
    line = " ".join(prompt.split())
    return line if len(line) <= LABEL_LENGTH else f"{line[: LABEL_LENGTH - 3]}..."


def updated_record(record: SessionRecord, was: SessionState, *, now: int) -> SessionRecord:
    """The record with all that follows from its state; `was` is the state before."""
    status = STATUS_OF[record.state]
    moved = record.state is not was
    ended_at = record.end_time if record.status is status else now
    return replace(
        record,
        status=status,
        end_time=ended_at if status in ENDED else None,
        unread=record.unread or (moved and record.state in TRUE_IN["needs_attention"]),
        pid=record.pid if record.process_open else None,
    )


def same_fields(source: Struct, into: type[Struct]) -> dict[str, Any]:
    """The values of all fields that both types have."""
    shared = set(source.__struct_fields__) & set(into.__struct_fields__)
    return {name: getattr(source, name) for name in shared}


def with_log_line(record: SessionRecord, line: str) -> SessionRecord:
    """Append a line to the record's log, dropping the oldest beyond `LOG_LINES`."""
    return replace(record, logs=(*record.logs, line)[-LOG_LINES:])


def flags(record: SessionRecord) -> Flags:
    """Compute what a page shows for a session."""
    values = {name: record.state in states for name, states in TRUE_IN.items()}
    worktree, pending = record.parallel_mode, record.pending_ask
    in_worktree = worktree is not None and worktree.enabled
    needs = {
        "show_auto_mode_warning": record.auto_approve,
        "can_guide_text": pending is not None and pending.ask == "mistake_limit_reached",
        "needs_attention": not record.archived
        and needs_attention(record.state, unread=record.unread),
        "can_finish_to_branch": in_worktree,
        "can_create_pull_request": in_worktree and worktree is not None and bool(worktree.branch),
    }
    return Flags(**{name: true and needs.get(name, True) for name, true in values.items()})


def session_to_json(record: SessionRecord) -> dict[str, Any]:
    fields: dict[str, Any] = msgspec.to_builtins(record)
    return {name: value for name, value in fields.items() if name not in _REBUILT}


def session_from_json(data: object) -> SessionRecord | None:
    """None if the value is not a valid record. Unknown keys are ignored."""
    try:
        return msgspec.convert(data, prepared(SessionRecord))
    except (msgspec.ValidationError, RecursionError):
        return None


def active_first(records: Iterable[SessionRecord]) -> tuple[SessionRecord, ...]:
    """Pinned sessions, active ones, then the history, each newest first, without archived ones."""
    shown = (record for record in records if not record.archived)
    return tuple(sorted(shown, key=_sort_key))


def archived_records(records: Iterable[SessionRecord]) -> tuple[SessionRecord, ...]:
    """Archived sessions, newest first."""
    return tuple(sorted((record for record in records if record.archived), key=_sort_key))


def matching(records: Iterable[SessionRecord], words: str) -> tuple[SessionRecord, ...]:
    """Records that contain every word, in the given order."""
    wanted = caseless(words).split()
    return tuple(
        record for record in records if all(word in _search_text(record) for word in wanted)
    )


def count_records(records: Iterable[SessionRecord]) -> Counts:
    """Archived sessions do not count as needing attention."""
    everything = tuple(records)
    shown = [record for record in everything if not record.archived]
    active = sum(map(is_active, shown))
    return Counts(
        active=active,
        history=len(shown) - active,
        archived=len(everything) - len(shown),
        attention=sum(needs_attention(record.state, unread=record.unread) for record in shown),
    )


def is_active(record: SessionRecord) -> bool:
    return record.state in TRUE_IN["is_active"]


def shown_time(record: SessionRecord) -> int:
    """The time that lists show, and sort by."""
    return record.end_time or record.start_time


def _sort_key(record: SessionRecord) -> tuple[bool, bool, int, str]:
    place = (not record.pinned, not is_active(record))
    return (*place, -shown_time(record), record.session_id)


def _search_text(record: SessionRecord) -> str:
    branch = record.parallel_mode.branch if record.parallel_mode else ""
    texts = (record.label, record.title, record.prompt, branch, record.model or "")
    tags = (f"#{tag}" for tag in record.tags)
    return caseless("\n".join((*texts, record.session_id, *tags)))
