"""What a page or a command draws of sessions and worktrees. None of it needs to be understood to
be drawn: what is offered stands in the flags."""

from typing import Literal, TypeAlias

from msgspec import Struct

from rookery.core.asks import IntentQuestion
from rookery.manager.sessions.session_failures import Failure
from rookery.manager.sessions.session_record import Counts, TodoStats
from rookery.manager.sessions.session_states import Flags, SessionState
from rookery.manager.worktrees.worktree_values import WorktreeState

MailState: TypeAlias = Literal["queued", "sending", "sent", "failed"]


class MailRow(Struct, frozen=True, kw_only=True):
    """Words on their way to a session."""

    number: int
    text: str
    images: int = 0
    state: MailState = "queued"
    retries: int = 0
    problem: str = ""


class SessionRow(Struct, frozen=True, kw_only=True):
    """A session in the list. Times are milliseconds."""

    session_id: str
    name: str
    prompt: str
    """Its beginning."""
    state: SessionState
    flags: Flags
    start_time: int = 0
    end_time: int | None = None
    provider: str | None = None
    model: str | None = None
    mode: str | None = None
    auto_approve: bool = True
    tokens: int = 0
    cost: float = 0.0
    todo_stats: TodoStats | None = None
    unread: bool = False
    archived: bool = False
    queued: bool = False
    """Its process waits for its turn."""
    unresponsive: bool = False
    step: str = ""
    """What is being prepared for it (fetching, creating, setup, ...), while it is."""
    failure: Failure | None = None
    mail: tuple[MailRow, ...] = ()
    worktree_id: str | None = None
    branch: str = ""
    group_id: str = ""
    """That of its versions, if it is one."""
    intent: str = ""
    workspace: str = ""
    logs: tuple[str, ...] = ()
    """The last lines of its process and its set-up."""


class InboxRow(Struct, frozen=True, kw_only=True):
    """A question that somebody has to answer, with all that it would allow."""

    session_id: str
    name: str
    task_id: str
    """Of the session, or of a task that works for it."""
    ts: int
    ask: str
    state: SessionState
    text: str = ""
    html: tuple[str, ...] = ()
    """The text, rendered and sanitised, where it is Markdown."""
    digest: str = ""
    title: str = ""
    diff: str = ""
    where: str = ""
    notes: tuple[str, ...] = ()
    rule: str = ""
    images: int = 0
    governance: IntentQuestion | None = None


class Overview(Struct, frozen=True, kw_only=True):
    """The head of the list."""

    counts: Counts
    project: str = ""
    running_limit: int = 5
    notices: tuple[str, ...] = ()
    read_only: str = ""
    """Why nothing can be done here but look, if so."""
    trusted: bool = True
    """Without it no session is started here."""
    blocked_requests: int = 0
    """Of strangers, to the web server."""


class WorktreeRow(Struct, frozen=True, kw_only=True):
    id: str
    branch: str
    path: str
    parent_branch: str = ""
    state: WorktreeState = WorktreeState.READY
    label: str = ""
    group_id: str = ""
    imported: bool = False
    sessions: tuple[str, ...] = ()
    running: bool = False
    """Its run script is."""
    first_port: int = 0


class WorktreeStats(Struct, frozen=True, kw_only=True):
    """What is in a worktree that its parent does not have."""

    files: int = 0
    added: int = 0
    removed: int = 0
    ahead: int = 0
    behind: int = 0
    uncommitted: int = 0


class ScriptRow(Struct, frozen=True, kw_only=True):
    """A program that the project brings for its worktrees. It is run as this very text, once
    somebody has agreed to it."""

    name: str
    path: str
    text: str
    digest: str
    agreed: bool = False


FileKind: TypeAlias = Literal["added", "changed", "removed", "renamed"]


class ChangedFile(Struct, frozen=True, kw_only=True):
    """`digest` names exactly this content; whoever acts on the file gives it back."""

    path: str
    kind: FileKind = "changed"
    old_path: str = ""
    added: int = 0
    removed: int = 0
    binary: bool = False
    image: bool = False
    generated: bool = False
    too_large: bool = False
    digest: str = ""


LineKind: TypeAlias = Literal["same", "added", "removed", "gap"]


class DiffLine(Struct, frozen=True, kw_only=True):
    """`html` is the highlighted, sanitised line; a gap says how many lines are left out."""

    kind: LineKind
    old: int | None = None
    new: int | None = None
    html: str = ""


class FileDiff(Struct, frozen=True, kw_only=True):
    file: ChangedFile
    lines: tuple[DiffLine, ...] = ()
    note: str = ""
    """Why there are no lines, if there are none."""
    old_image: str = ""
    """As a data URI, like `new_image`; for pictures."""
    new_image: str = ""


class Review(Struct, frozen=True, kw_only=True):
    """What there is to look at in a worktree or, for a local session, in its project."""

    scope: str
    base: str
    """A commit, or empty where there is none."""
    stats: WorktreeStats
    files: tuple[ChangedFile, ...] = ()
    notes: tuple[str, ...] = ()


class Version(Struct, frozen=True, kw_only=True):
    """One of several answers to the same prompt."""

    session_id: str
    worktree_id: str
    name: str
    model: str
    state: SessionState
    stats: WorktreeStats
    cost: float = 0.0
    tokens: int = 0
    seconds: float = 0.0
    result: str = ""
    """What it completed with."""
    note: str = ""
    """Why there is nothing to be counted, if so: its worktree was removed."""


class CheckpointRow(Struct, frozen=True, kw_only=True):
    """A moment of a session that can be gone back to."""

    seq: int
    ts: int
    title: str
    paths: tuple[str, ...] = ()


class SettingRow(Struct, frozen=True, kw_only=True):
    """A setting as the page offers it. `choices` are empty where anything of its type will do."""

    key: str
    value: str
    """As JSON."""
    type: Literal["bool", "int", "float", "str", "list"]
    summary: str = ""
    choices: tuple[str, ...] = ()
    source: str = "default"
    """Which file says so."""


class Device(Struct, frozen=True, kw_only=True):
    """A phone or another machine that was paired."""

    id: str
    name: str
    paired: int
    seen: int


class Done(Struct, frozen=True, kw_only=True):
    """It was done; what should be known about it is said in sentences."""

    notes: tuple[str, ...] = ()


class Started(Struct, frozen=True, kw_only=True):
    """Fewer sessions than versions were asked for: then `failed` says why."""

    session_ids: tuple[str, ...]
    notes: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()


class Listing(Struct, frozen=True, kw_only=True):
    overview: Overview
    sessions: tuple[SessionRow, ...]


class Plan(Struct, frozen=True, kw_only=True):
    """What something would do. `token` is given back with the request that does it, and names
    exactly this plan: if anything has changed since, nothing is done."""

    text: str
    paths: tuple[str, ...] = ()
    conflicts: tuple[str, ...] = ()
    token: str = ""


class Exported(Struct, frozen=True, kw_only=True):
    """A file to be saved."""

    name: str
    text: str


class Importables(Struct, frozen=True, kw_only=True):
    branches: tuple[str, ...]
    worktrees: tuple[str, ...]


class KeptWork(Struct, frozen=True, kw_only=True):
    ref: str
    commit: str
    about: str = ""


class Comment(Struct, frozen=True, kw_only=True):
    """On a line of a diff: of the new text, or of the old one if `old`."""

    path: str
    line: int
    text: str
    old: bool = False
