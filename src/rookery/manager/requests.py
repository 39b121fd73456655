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
from rookery.manager import worktree_requests
from rookery.manager.shown_rows import (
    CheckpointRow,
    Device,
    Done,
    Exported,
    InboxRow,
    Listing,
    SettingRow,
    Started,
)

Where: TypeAlias = Literal["local", "worktree"]


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


class TrustProject(Asking[Done], frozen=True, kw_only=True):
    """Trust the project. `path` must be its exact path."""

    path: str


class SendWords(Asking[Done], frozen=True, kw_only=True):
    """Send a message to a session. - reads standard input."""

    session_id: str
    text: str
    images: tuple[str, ...] = ()
    ask_ts: int | None = None


class ApproveAction(Asking[Done], frozen=True, kw_only=True):
    """Approve the question of `ask_ts`, as `digest` names it; `always` keeps its rule."""

    session_id: str
    ask_ts: int
    digest: str = ""
    text: str = ""
    always: bool = False
    choice: Choice | None = None


class RejectAction(Asking[Done], frozen=True, kw_only=True):
    session_id: str
    ask_ts: int
    text: str = ""
    choice: Choice | None = None


class CancelSession(Asking[Done], frozen=True, kw_only=True):
    """Stop a session. It can be resumed."""

    session_id: str


class ResumeSession(Asking[Done], frozen=True, kw_only=True):
    """Resume a session, optionally with a message."""

    session_id: str
    text: str = ""


class RetrySession(Asking[Done], frozen=True, kw_only=True):
    """Retry a session that failed."""

    session_id: str


class RemoveSession(Asking[Done], frozen=True, kw_only=True):
    """Stop a session and hide it from all lists. Nothing is deleted."""

    session_id: str


class StopAll(Asking[Done], frozen=True, kw_only=True):
    """Stop all sessions. They can be resumed."""


class RenameSession(Asking[Done], frozen=True, kw_only=True):
    """Rename a session. Without a LABEL, name it after its prompt."""

    session_id: str
    label: str = ""


class ArchiveSession(Asking[Done], frozen=True, kw_only=True):
    """Archive a session, so that it is not listed."""

    session_id: str
    archived: bool = True


class MarkRead(Asking[Done], frozen=True, kw_only=True):
    """Mark a session as read."""

    session_id: str


class RetryMail(Asking[Done], frozen=True, kw_only=True):
    """Resend a message that was not delivered."""

    session_id: str
    number: int


class DiscardMail(Asking[Done], frozen=True, kw_only=True):
    """Discard a message that was not delivered."""

    session_id: str
    number: int


class EditQueued(Asking[Done], frozen=True, kw_only=True):
    """Edit a queued message. Without TEXT, discard it."""

    session_id: str
    message_id: str
    text: str | None = None


class SwitchSession(Asking[Done], frozen=True, kw_only=True):
    """Change the mode, model, intent or auto-approve of a session."""

    session_id: str
    mode: str | None = None
    model: str | None = None
    intent: str | None = None
    auto_approve: bool | None = None


class ForkSession(Asking[Started], frozen=True, kw_only=True):
    """Copy a session, with the conversation up to the row of `ts`, or all of it."""

    session_id: str
    ts: int | None = None


class ExportSession(Asking[Exported], frozen=True, kw_only=True):
    """Export a session as a document. Check it before you share it."""

    session_id: str
    format: Literal["markdown", "json", "html"] = "markdown"


class ListCheckpoints(Asking[tuple[CheckpointRow, ...]], frozen=True, kw_only=True):
    """List the checkpoints, newest last."""

    session_id: str


class RehearseRestore(Asking[RestoreRehearsal], frozen=True, kw_only=True):
    session_id: str
    to: int
    overwrite: bool = False


class RestoreSession(Asking[Done], frozen=True, kw_only=True):
    """Restore `files`, the `conversation`, or both, as they were at `to`."""

    session_id: str
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


REQUESTS: tuple[type[Any], ...] = tuple(
    each
    for each in (*globals().values(), *vars(worktree_requests).values())
    if isinstance(each, type) and Asking in each.__bases__
)
