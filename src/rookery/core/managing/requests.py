"""Everything the Agent Manager can be asked to do or to tell: by the page, by `rookery sessions`,
by a program. One table for all of them; what is answered stands in the class of the request.

A request that cannot be carried out is refused in one sentence and has changed nothing.
"""

from typing import Any, Literal, TypeAlias, get_args

from rookery.core.intents.questions import Choice
from rookery.core.managing.shown import (
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
from rookery.core.queries import Asking, FoundPath, KnownMode, KnownModel, RestoreRehearsal
from rookery.core.values import value

Where: TypeAlias = Literal["local", "worktree"]
Scope: TypeAlias = Literal["branch", "staged", "unstaged", "session"]


@value
class Done:
    """It was done; what should be known about it is said in sentences."""

    notes: tuple[str, ...] = ()


@value
class Started:
    """Fewer sessions than versions were asked for: then `failed` says why."""

    session_ids: tuple[str, ...]
    notes: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()


@value
class Listing:
    overview: Overview
    sessions: tuple[SessionRow, ...]


@value
class Plan:
    """What something would do. `token` is given back with the request that does it, and names
    exactly this plan: if anything has changed since, nothing is done."""

    text: str
    paths: tuple[str, ...] = ()
    conflicts: tuple[str, ...] = ()
    token: str = ""


@value
class Exported:
    """A file to be saved."""

    name: str
    text: str


@value
class Importables:
    branches: tuple[str, ...]
    worktrees: tuple[str, ...]


@value
class KeptWork:
    ref: str
    commit: str
    about: str = ""


@value
class Comment:
    """On a line of a diff: of the new text, or of the old one if `old`."""

    path: str
    line: int
    text: str
    old: bool = False


@value
class ListSessions(Asking[Listing]):
    """`words` must all be in a session; `archived` ones only if asked for."""

    words: str = ""
    archived: bool = False


@value
class ListQuestions(Asking[tuple[InboxRow, ...]]):
    """All open questions of all sessions, whoever has waited longest first."""


@value
class StartSessions(Asking[Started]):
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


@value
class TrustProject(Asking[Done]):
    """The user has looked through the project and says so, by its very path."""

    path: str


@value
class SendWords(Asking[Done]):
    """Words for a session: the answer to the question of `ask_ts`, or for later."""

    session_id: str
    text: str
    images: tuple[str, ...] = ()
    ask_ts: int | None = None


@value
class ApproveAction(Asking[Done]):
    """Yes to what the row of `ask_ts` shows, named by its `digest`; `always` keeps its rule."""

    session_id: str
    ask_ts: int
    digest: str = ""
    text: str = ""
    always: bool = False
    choice: Choice | None = None


@value
class RejectAction(Asking[Done]):
    session_id: str
    ask_ts: int
    text: str = ""
    choice: Choice | None = None


@value
class CancelSession(Asking[Done]):
    session_id: str


@value
class ResumeSession(Asking[Done]):
    session_id: str
    text: str = ""


@value
class RetrySession(Asking[Done]):
    session_id: str


@value
class RemoveSession(Asking[Done]):
    """Takes it off the list and ends its process. Its task stays in the history."""

    session_id: str


@value
class StopAll(Asking[Done]):
    """Ends all processes. What they were doing can be resumed."""


@value
class RenameSession(Asking[Done]):
    """No label gives the session its own name back."""

    session_id: str
    label: str = ""


@value
class ArchiveSession(Asking[Done]):
    session_id: str
    archived: bool = True


@value
class MarkRead(Asking[Done]):
    session_id: str


@value
class RetryMail(Asking[Done]):
    session_id: str
    number: int


@value
class DiscardMail(Asking[Done]):
    session_id: str
    number: int


@value
class EditQueued(Asking[Done]):
    """Change words that the model has not heard yet; no text takes them back."""

    session_id: str
    message_id: str
    text: str | None = None


@value
class SwitchSession(Asking[Done]):
    """Another mode, model, intent or way of approving from now on; what is None stays."""

    session_id: str
    mode: str | None = None
    model: str | None = None
    intent: str | None = None
    auto_approve: bool | None = None


@value
class ForkSession(Asking[Started]):
    """A new session with the conversation up to the row of `ts`, or all of it."""

    session_id: str
    ts: int | None = None


@value
class ExportSession(Asking[Exported]):
    session_id: str
    format: Literal["markdown", "json", "html"] = "markdown"


@value
class ListCheckpoints(Asking[tuple[CheckpointRow, ...]]):
    session_id: str


@value
class RehearseRestore(Asking[RestoreRehearsal]):
    session_id: str
    to: int
    overwrite: bool = False


@value
class RestoreSession(Asking[Done]):
    """Files as they were at `to`, and the conversation too unless only `files` are wanted."""

    session_id: str
    to: int
    files: bool = True
    conversation: bool = False
    overwrite: bool = False


@value
class ListModels(Asking[tuple[KnownModel, ...]]):
    pass


@value
class ListModes(Asking[tuple[KnownMode, ...]]):
    pass


@value
class ListBranches(Asking[tuple[str, ...]]):
    pass


@value
class FindPaths(Asking[tuple[FoundPath, ...]]):
    """Of a session's workspace, or of the project."""

    letters: str
    session_id: str = ""
    most: int = 20


@value
class ListWorktrees(Asking[tuple[WorktreeRow, ...]]):
    pass


@value
class ReadStats(Asking[WorktreeStats]):
    worktree_id: str


@value
class RecreateWorktree(Asking[Done]):
    """One whose folder is gone, from its branch."""

    worktree_id: str


@value
class FinishWorktree(Asking[Done]):
    """Commit all of it to its branch; without a message the agent is asked for one first."""

    worktree_id: str
    message: str = ""


@value
class PlanApply(Asking[Plan]):
    """What applying a worktree's changes to the project would do; `paths` restricts it."""

    worktree_id: str
    paths: tuple[str, ...] = ()


@value
class ApplyWorktree(Asking[Done]):
    worktree_id: str
    paths: tuple[str, ...] = ()
    token: str = ""


@value
class MergeWorktree(Asking[Done]):
    worktree_id: str


@value
class PlanRemoval(Asking[Plan]):
    worktree_id: str


@value
class RemoveWorktree(Asking[Done]):
    """Stops its sessions, keeps uncommitted work under a reference, and removes the folder."""

    worktree_id: str
    token: str = ""
    delete_branch: bool = False


@value
class ListImportable(Asking[Importables]):
    pass


@value
class ImportWork(Asking[WorktreeRow]):
    """A branch or the folder of a worktree; one of them."""

    branch: str = ""
    folder: str = ""


@value
class ListKept(Asking[tuple[KeptWork, ...]]):
    pass


@value
class BringBack(Asking[WorktreeRow]):
    """Kept work in a new worktree, on a new branch."""

    ref: str
    branch: str


@value
class RunScript(Asking[Done]):
    worktree_id: str


@value
class StopScript(Asking[Done]):
    worktree_id: str


@value
class ListScripts(Asking[tuple[ScriptRow, ...]]):
    """What the project brings to set up its worktrees and to run what is in them."""


@value
class AgreeScript(Asking[Done]):
    """To the script that was shown under this digest, as long as it stays that."""

    digest: str


@value
class ReviewChanges(Asking[Review]):
    """Of a worktree, or of what a session without one has changed."""

    session_id: str
    scope: Scope = "branch"


@value
class ReadDiff(Asking[FileDiff]):
    """`context` lines around each change."""

    session_id: str
    path: str
    scope: Scope = "branch"
    context: int = 3


@value
class RevertFile(Asking[Done]):
    """Puts one file back as it was at the base. What it held is kept under a reference."""

    session_id: str
    path: str
    digest: str


@value
class SendComments(Asking[Done]):
    """Comments on a diff, as one message to the session."""

    session_id: str
    comments: tuple[Comment, ...]
    text: str = ""


@value
class CompareVersions(Asking[tuple[Version, ...]]):
    group_id: str


@value
class ListIntents(Asking[tuple[IntentRow, ...]]):
    pass


@value
class ReadTrace(Asking[tuple[TraceRow, ...]]):
    """The newest records first."""

    intent: str = ""
    path: str = ""
    session_id: str = ""
    most: int = 100


@value
class BlameFile(Asking[tuple[BlamedLine, ...]]):
    path: str
    session_id: str = ""


@value
class ReadSettings(Asking[tuple[SettingRow, ...]]):
    pass


@value
class ChangeSetting(Asking[Done]):
    """Of the user. `value` is JSON; none puts the usual one back."""

    key: str
    value: str | None = None


@value
class ListDevices(Asking[tuple[Device, ...]]):
    pass


@value
class RevokeDevice(Asking[Done]):
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
