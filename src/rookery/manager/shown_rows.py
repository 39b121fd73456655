"""Values that a page or a command displays for sessions and worktrees. Clients need no rules of
their own: the flags say what to offer. Class docstrings are descriptions in the schema."""

from typing import Literal, TypeAlias

from msgspec import Struct

from rookery.core.asks import IntentQuestion
from rookery.manager.sessions.session_record import ChangeCount, Counts, DeliveryState, TodoStats
from rookery.manager.sessions.session_states import Failure, Flags, SessionState
from rookery.platform.worktree_values import WorktreeState


class UndeliveredRow(Struct, frozen=True, kw_only=True):
    """A message on its way to a session."""

    number: int
    text: str
    images: int = 0
    state: DeliveryState = "queued"
    retries: int = 0
    problem: str = ""


class CheckCounts(Struct, frozen=True, kw_only=True):
    passed: int = 0
    failed: int = 0
    pending: int = 0


class PullRequestRow(Struct, frozen=True, kw_only=True):
    """A pull request as the user's `gh` or `glab` reports it; `number` is 0 if there is none."""

    number: int = 0
    title: str = ""
    url: str = ""
    state: Literal["none", "open", "draft", "merged", "closed"] = "none"
    review: str = ""
    """Such as `approved` or `changes requested`."""
    checks: CheckCounts = CheckCounts()


class SessionRow(Struct, frozen=True, kw_only=True):
    """A session in the list. Times are milliseconds."""

    session_id: str
    name: str
    prompt: str
    """Its first characters."""
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
    pinned: bool = False
    tags: tuple[str, ...] = ()
    queued: bool = False
    """It is queued until another session stops."""
    unresponsive: bool = False
    step: str = ""
    """The step of its preparation: fetching, creating, setup, ..."""
    failure: Failure | None = None
    undelivered: tuple[UndeliveredRow, ...] = ()
    worktree_id: str | None = None
    branch: str = ""
    group_id: str = ""
    """Shared by the versions of one prompt."""
    intent: str = ""
    workspace: str = ""
    changes: ChangeCount = ChangeCount()
    """What it has changed, as far as a page that follows the list made the manager count it."""
    pull_request: PullRequestRow | None = None
    """That of its branch, as last read."""
    logs: tuple[str, ...] = ()
    """The last lines of its process and its set-up."""


class InboxRow(Struct, frozen=True, kw_only=True):
    """An open question, with everything that an approval would allow."""

    session_id: str
    name: str
    task_id: str
    """The session's own task, or a sub-task."""
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


class WaitingSession(Struct, frozen=True, kw_only=True):
    """A session of another project that needs attention."""

    session_id: str
    name: str
    state: SessionState


class ProjectRow(Struct, frozen=True, kw_only=True):
    """Another project of the user. Its page is `/p/<id>/`."""

    id: str
    name: str
    path: str
    counts: Counts
    running_limit: int = 0
    """0 if the project is not open."""
    waiting: tuple[WaitingSession, ...] = ()


class Overview(Struct, frozen=True, kw_only=True):
    """The summary above the session list."""

    counts: Counts
    project: str = ""
    project_id: str = ""
    """The page of the project is `/p/<id>/`."""
    other_projects: tuple[ProjectRow, ...] = ()
    """The user's other projects, where one server serves all."""
    running_limit: int = 5
    notices: tuple[str, ...] = ()
    read_only: str = ""
    """Why the list is read-only, if it is."""
    trusted: bool = True
    """Only trusted projects start sessions."""
    blocked_requests: int = 0
    """Rejected requests to the web server."""
    fleet: bool = False
    """Whether the manager shows a fleet."""


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
    """Whether its run script is running."""
    first_port: int = 0


class WorktreeStats(Struct, frozen=True, kw_only=True):
    """The changes of a worktree since its base branch."""

    files: int = 0
    added: int = 0
    removed: int = 0
    ahead: int = 0
    behind: int = 0
    uncommitted: int = 0


class ScriptRow(Struct, frozen=True, kw_only=True):
    """A script of the project for its worktrees. It is run with exactly this text, once the user
    has agreed to it."""

    name: str
    path: str
    text: str
    digest: str
    agreed: bool = False


class ScriptLog(Struct, frozen=True, kw_only=True):
    """The run script of a worktree: whether it runs, and the end of its output."""

    running: bool = False
    text: str = ""
    first_port: int = 0


class EditorRow(Struct, frozen=True, kw_only=True):
    """An editor of the user: the configured one, or one found in the PATH."""

    id: str
    name: str


FileKind: TypeAlias = Literal["added", "changed", "removed", "renamed"]


class ChangedFile(Struct, frozen=True, kw_only=True):
    """`digest` identifies this content; a request that acts on the file must send it."""

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
    """Why there are no lines; empty if there are."""
    old_image: str = ""
    """A data URI, like `new_image`; for images."""
    new_image: str = ""


class Review(Struct, frozen=True, kw_only=True):
    """The changes in a worktree or, for a local session, in its project."""

    scope: str
    base: str
    """A commit id, or empty."""
    stats: WorktreeStats
    files: tuple[ChangedFile, ...] = ()
    notes: tuple[str, ...] = ()


class Version(Struct, frozen=True, kw_only=True):
    """One of several versions of the same prompt."""

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
    note: str = ""
    """Why there are no statistics: the worktree was removed."""


class CheckpointRow(Struct, frozen=True, kw_only=True):
    """A point that a session can be rewound to."""

    seq: int
    ts: int
    title: str
    paths: tuple[str, ...] = ()


class SettingRow(Struct, frozen=True, kw_only=True):
    """A setting as the page shows it. `choices` is empty if any value of its type is valid."""

    key: str
    value: str
    """As JSON."""
    type: Literal["bool", "int", "float", "str", "list"]
    summary: str = ""
    choices: tuple[str, ...] = ()
    source: str = "default"
    """The file that sets it."""


class Device(Struct, frozen=True, kw_only=True):
    """A phone or another machine that was paired, or a browser on this machine."""

    id: str
    name: str
    paired: int
    seen: int
    local: bool = False
    """A browser or program on this machine, which is not valid elsewhere."""


class Done(Struct, frozen=True, kw_only=True):
    """It was done; `notes` are sentences about it."""

    notes: tuple[str, ...] = ()


class Started(Struct, frozen=True, kw_only=True):
    """`failed` says why there are fewer sessions than versions."""

    session_ids: tuple[str, ...]
    notes: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()


class Listing(Struct, frozen=True, kw_only=True):
    overview: Overview
    sessions: tuple[SessionRow, ...]


class Plan(Struct, frozen=True, kw_only=True):
    """What an operation would do. `token` identifies this plan and is sent with the request that
    carries it out; if anything has changed since, nothing is done."""

    text: str
    paths: tuple[str, ...] = ()
    conflicts: tuple[str, ...] = ()
    token: str = ""


class Exported(Struct, frozen=True, kw_only=True):
    """A file to save."""

    name: str
    text: str


class Comment(Struct, frozen=True, kw_only=True):
    """A comment on a line of a diff: of the new text, or of the old one if `old`."""

    path: str
    line: int
    text: str
    old: bool = False
