"""Everything the Agent Manager can be asked to do or to tell: by the page, by `rookery sessions`,
by a program. One table for all of them; what is answered stands in the class of the request.

A request that cannot be carried out is refused in one sentence and has changed nothing.
"""

from typing import Any, Literal, TypeAlias, get_args

from msgspec import Struct

from rookery.core.asks import Choice
from rookery.core.queries import Asking, FoundPath, KnownMode, KnownModel, RestoreRehearsal
from rookery.manager.shown_rows import (
    BlamedLine,
    CheckpointRow,
    Device,
    FileDiff,
    InboxRow,
    IntentRow,
    Overview,
    Review,
    ScriptRow,
    SessionRow,
    SettingRow,
    TraceRow,
    Version,
    WorktreeRow,
    WorktreeStats,
)

Where: TypeAlias = Literal["local", "worktree"]
Scope: TypeAlias = Literal["branch", "staged", "unstaged", "session"]


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


class ListSessions(Asking[Listing], frozen=True, kw_only=True):
    """`words` must all be in a session; `archived` ones only if asked for."""

    words: str = ""
    archived: bool = False


class ListQuestions(Asking[tuple[InboxRow, ...]], frozen=True, kw_only=True):
    """All open questions of all sessions, whoever has waited longest first."""


class StartSessions(Asking[Started], frozen=True, kw_only=True):
    """A new session, or up to four versions of it, each in a worktree of its own. `models` are
    those of the versions, `model` that of all others, written `provider/model` or plain."""

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
    """An existing one to work on, or the name of the new one."""
    worktree_id: str = ""
    """One that is there already, to work in together with its other sessions."""
    auto_approve: bool = True
    intent: str = ""


class TrustProject(Asking[Done], frozen=True, kw_only=True):
    """The user has looked through the project and says so, by its very path."""

    path: str


class SendWords(Asking[Done], frozen=True, kw_only=True):
    """Words for a session: the answer to the question of `ask_ts`, or for later."""

    session_id: str
    text: str
    images: tuple[str, ...] = ()
    ask_ts: int | None = None


class ApproveAction(Asking[Done], frozen=True, kw_only=True):
    """Yes to what the row of `ask_ts` shows, named by its `digest`; `always` keeps its rule."""

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
    session_id: str


class ResumeSession(Asking[Done], frozen=True, kw_only=True):
    session_id: str
    text: str = ""


class RetrySession(Asking[Done], frozen=True, kw_only=True):
    session_id: str


class RemoveSession(Asking[Done], frozen=True, kw_only=True):
    """Takes it off the list and ends its process. Its task stays in the history."""

    session_id: str


class StopAll(Asking[Done], frozen=True, kw_only=True):
    """Ends all processes. What they were doing can be resumed."""


class RenameSession(Asking[Done], frozen=True, kw_only=True):
    """No label gives the session its own name back."""

    session_id: str
    label: str = ""


class ArchiveSession(Asking[Done], frozen=True, kw_only=True):
    session_id: str
    archived: bool = True


class MarkRead(Asking[Done], frozen=True, kw_only=True):
    session_id: str


class RetryMail(Asking[Done], frozen=True, kw_only=True):
    session_id: str
    number: int


class DiscardMail(Asking[Done], frozen=True, kw_only=True):
    session_id: str
    number: int


class EditQueued(Asking[Done], frozen=True, kw_only=True):
    """Change words that the model has not heard yet; no text takes them back."""

    session_id: str
    message_id: str
    text: str | None = None


class SwitchSession(Asking[Done], frozen=True, kw_only=True):
    """Another mode, model, intent or way of approving from now on; what is None stays."""

    session_id: str
    mode: str | None = None
    model: str | None = None
    intent: str | None = None
    auto_approve: bool | None = None


class ForkSession(Asking[Started], frozen=True, kw_only=True):
    """A new session with the conversation up to the row of `ts`, or all of it."""

    session_id: str
    ts: int | None = None


class ExportSession(Asking[Exported], frozen=True, kw_only=True):
    session_id: str
    format: Literal["markdown", "json", "html"] = "markdown"


class ListCheckpoints(Asking[tuple[CheckpointRow, ...]], frozen=True, kw_only=True):
    session_id: str


class RehearseRestore(Asking[RestoreRehearsal], frozen=True, kw_only=True):
    session_id: str
    to: int
    overwrite: bool = False


class RestoreSession(Asking[Done], frozen=True, kw_only=True):
    """Files as they were at `to`, and the conversation too unless only `files` are wanted."""

    session_id: str
    to: int
    files: bool = True
    conversation: bool = False
    overwrite: bool = False


class ListModels(Asking[tuple[KnownModel, ...]], frozen=True, kw_only=True):
    pass


class ListModes(Asking[tuple[KnownMode, ...]], frozen=True, kw_only=True):
    pass


class ListBranches(Asking[tuple[str, ...]], frozen=True, kw_only=True):
    pass


class FindPaths(Asking[tuple[FoundPath, ...]], frozen=True, kw_only=True):
    """Of a session's workspace, or of the project."""

    letters: str
    session_id: str = ""
    most: int = 20


class ListWorktrees(Asking[tuple[WorktreeRow, ...]], frozen=True, kw_only=True):
    pass


class ReadStats(Asking[WorktreeStats], frozen=True, kw_only=True):
    worktree_id: str


class RecreateWorktree(Asking[Done], frozen=True, kw_only=True):
    """One whose folder is gone, from its branch."""

    worktree_id: str


class FinishWorktree(Asking[Done], frozen=True, kw_only=True):
    """Commit all of it to its branch; without a message the agent is asked for one first."""

    worktree_id: str
    message: str = ""


class PlanApply(Asking[Plan], frozen=True, kw_only=True):
    """What applying a worktree's changes to the project would do; `paths` restricts it."""

    worktree_id: str
    paths: tuple[str, ...] = ()


class ApplyWorktree(Asking[Done], frozen=True, kw_only=True):
    worktree_id: str
    paths: tuple[str, ...] = ()
    token: str = ""


class MergeWorktree(Asking[Done], frozen=True, kw_only=True):
    worktree_id: str


class PlanRemoval(Asking[Plan], frozen=True, kw_only=True):
    worktree_id: str


class RemoveWorktree(Asking[Done], frozen=True, kw_only=True):
    """Stops its sessions, keeps uncommitted work under a reference, and removes the folder."""

    worktree_id: str
    token: str = ""
    delete_branch: bool = False


class ListImportable(Asking[Importables], frozen=True, kw_only=True):
    pass


class ImportWork(Asking[WorktreeRow], frozen=True, kw_only=True):
    """A branch or the folder of a worktree; one of them."""

    branch: str = ""
    folder: str = ""


class ListKept(Asking[tuple[KeptWork, ...]], frozen=True, kw_only=True):
    pass


class BringBack(Asking[WorktreeRow], frozen=True, kw_only=True):
    """Kept work in a new worktree, on a new branch."""

    ref: str
    branch: str


class RunScript(Asking[Done], frozen=True, kw_only=True):
    worktree_id: str


class StopScript(Asking[Done], frozen=True, kw_only=True):
    worktree_id: str


class ListScripts(Asking[tuple[ScriptRow, ...]], frozen=True, kw_only=True):
    """What the project brings to set up its worktrees and to run what is in them."""


class AgreeScript(Asking[Done], frozen=True, kw_only=True):
    """To the script that was shown under this digest, as long as it stays that."""

    digest: str


class ReviewChanges(Asking[Review], frozen=True, kw_only=True):
    """Of a worktree, or of what a session without one has changed."""

    session_id: str
    scope: Scope = "branch"


class ReadDiff(Asking[FileDiff], frozen=True, kw_only=True):
    """`context` lines around each change."""

    session_id: str
    path: str
    scope: Scope = "branch"
    context: int = 3


class RevertFile(Asking[Done], frozen=True, kw_only=True):
    """Puts one file back as it was at the base. What it held is kept under a reference."""

    session_id: str
    path: str
    digest: str


class SendComments(Asking[Done], frozen=True, kw_only=True):
    """Comments on a diff, as one message to the session."""

    session_id: str
    comments: tuple[Comment, ...]
    text: str = ""


class CompareVersions(Asking[tuple[Version, ...]], frozen=True, kw_only=True):
    group_id: str


class ListIntents(Asking[tuple[IntentRow, ...]], frozen=True, kw_only=True):
    pass


class ReadTrace(Asking[tuple[TraceRow, ...]], frozen=True, kw_only=True):
    """The newest records first."""

    intent: str = ""
    path: str = ""
    session_id: str = ""
    most: int = 100


class BlameFile(Asking[tuple[BlamedLine, ...]], frozen=True, kw_only=True):
    path: str
    session_id: str = ""


class ReadSettings(Asking[tuple[SettingRow, ...]], frozen=True, kw_only=True):
    pass


class ChangeSetting(Asking[Done], frozen=True, kw_only=True):
    """Of the user. `value` is JSON; none puts the usual one back."""

    key: str
    value: str | None = None


class ListDevices(Asking[tuple[Device, ...]], frozen=True, kw_only=True):
    pass


class RevokeDevice(Asking[Done], frozen=True, kw_only=True):
    id: str


Request: TypeAlias = (
    ListSessions
    | ListQuestions
    | StartSessions
    | TrustProject
    | SendWords
    | ApproveAction
    | RejectAction
    | CancelSession
    | ResumeSession
    | RetrySession
    | RemoveSession
    | StopAll
    | RenameSession
    | ArchiveSession
    | MarkRead
    | RetryMail
    | DiscardMail
    | EditQueued
    | SwitchSession
    | ForkSession
    | ExportSession
    | ListCheckpoints
    | RehearseRestore
    | RestoreSession
    | ListModels
    | ListModes
    | ListBranches
    | FindPaths
    | ListWorktrees
    | ReadStats
    | RecreateWorktree
    | FinishWorktree
    | PlanApply
    | ApplyWorktree
    | MergeWorktree
    | PlanRemoval
    | RemoveWorktree
    | ListImportable
    | ImportWork
    | ListKept
    | BringBack
    | RunScript
    | StopScript
    | ListScripts
    | AgreeScript
    | ReviewChanges
    | ReadDiff
    | RevertFile
    | SendComments
    | CompareVersions
    | ListIntents
    | ReadTrace
    | BlameFile
    | ReadSettings
    | ChangeSetting
    | ListDevices
    | RevokeDevice
)
REQUESTS: tuple[type[Any], ...] = get_args(Request)
