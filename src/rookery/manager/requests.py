"""All requests to the Agent Manager: from the page, `rookery sessions` and programs. The reply type
is the parameter of `Asking`. Docstrings are the help texts and the descriptions in the schema.

A request that cannot be carried out is refused with one sentence and has changed nothing.
"""

from typing import Any, Literal, TypeAlias

from rookery.core.asks import Choice
from rookery.core.queries import (
    Asking,
    BlamedLine,
    FoundPath,
    IntentRow,
    KnownMode,
    KnownModel,
    RestoreRehearsal,
    TraceRow,
)
from rookery.manager import list_requests, schedule_requests
from rookery.manager.schedule_requests import Dollars
from rookery.manager.shown_rows import (
    CheckpointRow,
    Comment,
    Device,
    Done,
    Exported,
    FileDiff,
    InboxRow,
    Listing,
    Review,
    SettingRow,
    Started,
    Version,
)
from rookery.manager.worktree_requests import *  # noqa: F403 - they are requests like the others
from rookery.manager.worktree_requests import SessionRequest, WorktreeRequest

Where: TypeAlias = Literal["local", "worktree"]
Scope: TypeAlias = Literal["branch", "staged", "unstaged", "session"]


class ListSessions(Asking[Listing], frozen=True, kw_only=True):
    """List the sessions of the project, also those started without a manager: those that contain
    all `words`, archived ones only with `archived`."""

    words: str = ""
    archived: bool = False


class ListQuestions(Asking[tuple[InboxRow, ...]], frozen=True, kw_only=True):
    """List what needs you: questions, then failures, then results."""


class StartSessions(Asking[Started], frozen=True, kw_only=True):
    """Start a session, or up to four versions of it, each in its own worktree. `models` has one
    model per version, `model` is one for all; both are written `provider/model` or `model`."""

    prompt: str
    images: tuple[str, ...] = ()
    """As data URIs."""
    label: str = ""
    where: Where = "local"
    versions: int = 1
    model: str = ""
    models: tuple[str, ...] = ()
    mode: str = ""
    base: str = ""
    branch: str = ""
    """An existing branch to work on, or the name of the new one."""
    worktree_id: str = ""
    """An existing worktree, shared with its other sessions."""
    auto_approve: bool = True
    intent: str = ""
    max_cost: Dollars = 0.0
    """Dollars after which each session asks; 0 means what the settings say."""


class TrustProject(Asking[Done], frozen=True, kw_only=True):
    """Trust the project. `path` must be its exact path."""

    path: str


class SendWords(SessionRequest[Done], frozen=True, kw_only=True):
    """Send a message to a session. - reads standard input."""

    text: str
    images: tuple[str, ...] = ()
    ask_ts: int | None = None


class ApproveAction(SessionRequest[Done], frozen=True, kw_only=True):
    """Approve the question of `ask_ts`, as `digest` names it; `always` keeps its rule."""

    ask_ts: int
    digest: str = ""
    text: str = ""
    always: bool = False
    choice: Choice | None = None


class RejectAction(SessionRequest[Done], frozen=True, kw_only=True):
    ask_ts: int
    text: str = ""
    choice: Choice | None = None


class CancelSession(SessionRequest[Done], frozen=True, kw_only=True):
    """Stop a session. It can be resumed."""


class ResumeSession(SessionRequest[Done], frozen=True, kw_only=True):
    """Resume a session, optionally with a message."""

    text: str = ""


class RetrySession(SessionRequest[Done], frozen=True, kw_only=True):
    """Retry a session that failed."""


class RemoveSession(SessionRequest[Done], frozen=True, kw_only=True):
    """Stop a session and hide it from all lists. Nothing is deleted."""


class StopAll(Asking[Done], frozen=True, kw_only=True):
    """Stop all sessions. They can be resumed."""


class RenameSession(SessionRequest[Done], frozen=True, kw_only=True):
    """Rename a session. Without a LABEL, name it after its prompt."""

    label: str = ""


class ArchiveSession(SessionRequest[Done], frozen=True, kw_only=True):
    """Archive a session, so that it is not listed."""

    archived: bool = True


class MarkRead(SessionRequest[Done], frozen=True, kw_only=True):
    """Mark a session as read."""


class RetryMessage(SessionRequest[Done], frozen=True, kw_only=True):
    """Resend a message that was not delivered."""

    number: int


class DiscardMessage(SessionRequest[Done], frozen=True, kw_only=True):
    """Discard a message that was not delivered."""

    number: int


class EditQueued(SessionRequest[Done], frozen=True, kw_only=True):
    """Edit a queued message. Without TEXT, discard it."""

    message_id: str
    text: str | None = None


class SwitchSession(SessionRequest[Done], frozen=True, kw_only=True):
    """Change the mode, model, intent or auto-approve of a session."""

    mode: str | None = None
    model: str | None = None
    intent: str | None = None
    auto_approve: bool | None = None


class ForkSession(SessionRequest[Started], frozen=True, kw_only=True):
    """Copy a session, with the conversation up to the row of `ts`, or all of it. The copy works in
    the same folder, or in a new worktree."""

    ts: int | None = None
    where: Where = "local"


class ExportSession(SessionRequest[Exported], frozen=True, kw_only=True):
    """Export a session as a document. Check it before you share it."""

    format: Literal["markdown", "json", "html"] = "markdown"


class ListCheckpoints(SessionRequest[tuple[CheckpointRow, ...]], frozen=True, kw_only=True):
    """List the checkpoints, newest last."""


class RehearseRestore(SessionRequest[RestoreRehearsal], frozen=True, kw_only=True):
    to: int
    overwrite: bool = False


class RestoreSession(SessionRequest[Done], frozen=True, kw_only=True):
    """Restore `files`, the `conversation`, or both, as they were at `to`."""

    to: int
    files: bool = True
    conversation: bool = False
    overwrite: bool = False


class ListModels(Asking[tuple[KnownModel, ...]], frozen=True, kw_only=True):
    """List the available models."""


class ListModes(Asking[tuple[KnownMode, ...]], frozen=True, kw_only=True):
    """List the available modes."""


class ListBranches(Asking[tuple[str, ...]], frozen=True, kw_only=True):
    """List the branches of the project."""


class FindPaths(Asking[tuple[FoundPath, ...]], frozen=True, kw_only=True):
    """List files and folders that match LETTERS, best first."""

    letters: str = ""
    session_id: str = ""
    most: int = 20


class ListIntents(Asking[tuple[IntentRow, ...]], frozen=True, kw_only=True):
    """List the intents of the project."""


class ReadTrace(Asking[tuple[TraceRow, ...]], frozen=True, kw_only=True):
    """List the records of the ledger, newest first."""

    intent: str = ""
    path: str = ""
    session_id: str = ""
    most: int = 100


class BlameFile(Asking[tuple[BlamedLine, ...]], frozen=True, kw_only=True):
    """Show the intent of each line of a file."""

    path: str
    session_id: str = ""


class ReadSettings(Asking[tuple[SettingRow, ...]], frozen=True, kw_only=True):
    pass


class ChangeSetting(Asking[Done], frozen=True, kw_only=True):
    """Change a user setting. `value` is JSON; null restores the default."""

    key: str
    value: str | None = None


class ListDevices(Asking[tuple[Device, ...]], frozen=True, kw_only=True):
    """List paired devices."""


class RevokeDevice(Asking[Done], frozen=True, kw_only=True):
    """Revoke the access of a device."""

    id: str


class ReadPushKey(Asking[str], frozen=True, kw_only=True):
    """Read the public key that a browser needs to ask for pushes, in base64url."""


class SubscribePush(Asking[Done], frozen=True, kw_only=True):
    """Push to a device at this address of its push service when a session needs you. Without an
    address, no more."""

    device_id: str
    endpoint: str = ""


class ReviewChanges(SessionRequest[Review], frozen=True, kw_only=True):
    """List the changes in a worktree, or those of a session without one."""

    scope: Scope = "branch"


class ReadDiff(SessionRequest[FileDiff], frozen=True, kw_only=True):
    """Show the diff of one file, with `context` lines around each change."""

    path: str
    scope: Scope = "branch"
    context: int = 3


class RevertFile(SessionRequest[Done], frozen=True, kw_only=True):
    """Restore one file as it was at the base. Its content is saved under a git ref."""

    path: str
    digest: str


class SendComments(SessionRequest[Done], frozen=True, kw_only=True):
    """Send comments on a diff, as one message to the session."""

    comments: tuple[Comment, ...]
    text: str = ""


class CompareVersions(Asking[tuple[Version, ...]], frozen=True, kw_only=True):
    group_id: str


_BASES = (Asking, SessionRequest, WorktreeRequest)
REQUESTS: tuple[type[Any], ...] = tuple(
    each
    for each in (*vars(list_requests).values(), *vars(schedule_requests).values(), *vars().values())
    if isinstance(each, type) and issubclass(each, Asking) and each not in _BASES
)
