"""What is stored of a session, and how the machine's part of it is kept up to date."""

from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from rookery.manager.sessions.orders import Letter
from rookery.manager.sessions.session import LastExit, Session
from rookery.manager.sessions.session_failures import Failure
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


class ParallelMode(Struct, frozen=True, kw_only=True):
    """The worktree of a session, as far as the session knows it."""

    enabled: bool = True
    branch: str = ""
    worktree_path: str = ""
    parent_branch: str = ""
    completion_message: str = ""


class TodoStats(Struct, frozen=True, kw_only=True):
    done: int
    total: int


class SessionRecord(Struct, frozen=True, kw_only=True):
    """Times are milliseconds. `state` is a copy to show; it never decides anything."""

    session_id: str
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
    """That of its versions, if it is one of several."""
    workspace: str = ""
    intent: str = ""
    git_url: str | None = None
    model: str | None = None
    mode: str | None = None
    provider: str | None = None
    auto_approve: bool = True
    tokens: int = 0
    cost: float = 0.0
    todo_stats: TodoStats | None = None
    unread: bool = False
    archived: bool = False
    logs: tuple[str, ...] = ()
    pid: int | None = None

    status: SessionStatus = SessionStatus.CREATING
    state: SessionState = SessionState.CREATING
    generation: int = 0
    process_open: bool = False
    saw_session_created: bool = False
    saw_api_req_started: bool = False
    answered_ask_ts: int | None = None
    failure: Failure | None = None
    completion_text: str = ""
    outbox: tuple[Letter, ...] = ()
    handed: int = 0
    last_exit: LastExit | None = None

    @property
    def name(self) -> str:
        """What the list shows."""
        return self.label if self.renamed or not self.title else self.title


def label_of(prompt: str) -> str:
    """The prompt on one line, cut if it is long."""
    line = " ".join(prompt.split())
    return line if len(line) <= LABEL_LENGTH else f"{line[: LABEL_LENGTH - 3]}..."


def recorded(record: SessionRecord, session: Session, *, now: int, selected: bool) -> SessionRecord:
    """The record of a session that was started. `selected` if the user looks at it."""
    status = STATUS_OF[session.state]
    ended = status in ENDED
    moved = session.state is not record.state
    news = moved and session.state in TRUE_IN["needs_attention"]
    return replace(
        record,
        session_id=session.session_id,
        status=status,
        state=session.state,
        end_time=(record.end_time if record.status is status else now) if ended else None,
        unread=not selected and (news or record.unread),
        generation=session.generation,
        process_open=session.process_open,
        saw_session_created=session.saw_session_created,
        saw_api_req_started=session.saw_api_req_started,
        answered_ask_ts=session.answered_ask_ts,
        failure=session.failure,
        completion_text=session.completion_text,
        outbox=session.outbox,
        handed=session.handed,
        last_exit=session.last_exit,
        pid=record.pid if session.process_open else None,
    )


def noted(record: SessionRecord, line: str) -> SessionRecord:
    """With one more line in its log; the oldest go."""
    return replace(record, logs=(*record.logs, line)[-LOG_LINES:])


def flags(session: Session, record: SessionRecord | None) -> Flags:
    """What a page shows of a session; before it is started there is no record."""
    held = {name: session.state in states for name, states in TRUE_IN.items()}
    worktree = record.parallel_mode if record else None
    in_worktree = worktree is not None and worktree.enabled
    pending = session.pending_ask
    needs = {
        "show_auto_mode_warning": record is None or record.auto_approve,
        "can_guide_text": pending is not None and pending.ask == "mistake_limit_reached",
        "needs_attention": not (record and record.archived)
        and needs_attention(session.state, unread=record is not None and record.unread),
        "can_finish_to_branch": in_worktree,
        "can_create_pull_request": in_worktree and worktree is not None and bool(worktree.branch),
    }
    return Flags(**{name: true and needs.get(name, True) for name, true in held.items()})
