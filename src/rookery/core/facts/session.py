"""Facts about the session: its beginning and end, messages, questions. Small values of facts."""

from enum import StrEnum
from typing import ClassVar, Literal, TypeAlias

from msgspec import Struct

from rookery.core.asks import AskKind, Choice, IntentQuestion, Reply
from rookery.core.blocks import Image


class Lasting(Struct, frozen=True):
    lasting: ClassVar[bool] = True


class Passing(Struct, frozen=True):
    lasting: ClassVar[bool] = False


class StopReason(StrEnum):
    END = "end"
    CALLS = "calls"
    LENGTH = "length"
    """The answer was cut off at the output limit."""
    PAUSED = "paused"
    """The provider wants to be called again with the same content."""
    REFUSED = "refused"
    OVERFLOW = "overflow"
    UNKNOWN = "unknown"


class Ending(StrEnum):
    """How a tool call came to its end. Only `DONE` is a success."""

    DONE = "done"
    FAILED = "failed"
    MISTAKEN = "mistaken"
    """The model called the tool wrongly."""
    DENIED = "denied"
    SKIPPED = "skipped"
    UNKNOWN = "unknown"
    """It was started, and nobody saw it end."""


class Usage(Struct, frozen=True, kw_only=True):
    """What one request used. `tokens_in` is all input, cached or not. Unknown cost is None."""

    tokens_in: int = 0
    tokens_out: int = 0
    cache_reads: int = 0
    cache_writes: int = 0
    cost: float | None = None


class Spent(Struct, frozen=True, kw_only=True):
    """What a task and all its children have used since somebody last allowed it. A child counts
    on from what its parent had used, and hands the sum back when it ends.
    """

    requests: int = 0
    tokens: int = 0
    cost: float = 0.0
    seconds: float = 0.0


class Change(Struct, frozen=True, kw_only=True):
    """A file that a call creates, replaces or deletes: its hash before and after.

    An empty hash means that there is no such file.
    """

    path: str
    before: str = ""
    after: str = ""


class FileVersion(Struct, frozen=True):
    """A file as it was at one moment: what git calls its content, and its type and rights."""

    blob: str
    mode: int


class Effect(Struct, frozen=True):
    """What was done to one file; None means that there was no such file."""

    path: str
    before: FileVersion | None
    after: FileVersion | None


class Seen(Struct, frozen=True):
    """A file the model was shown, by its hash; `whole` if nothing of it was left out. `amended` if
    it was shown all that changed since it last knew the file."""

    path: str
    sha: str
    whole: bool = True
    amended: bool = False


class Todo(Struct, frozen=True, kw_only=True):
    id: str
    content: str
    status: Literal["pending", "in_progress", "completed"] = "pending"


class TaskOpened(Lasting, frozen=True, kw_only=True):
    """The first fact of every log, and its header: `format` is the version of the journal."""

    text: str
    images: tuple[Image, ...] = ()
    mode: str = "code"
    workspace: str = ""
    parent: str | None = None
    depth: int = 0
    """How many tasks are waiting for this one."""
    spent: Spent = Spent()
    todos: tuple[Todo, ...] = ()
    format: int = 1


class TaskReopened(Lasting, frozen=True, kw_only=True):
    """The process that ran this task is gone; another has picked up its log. `resumed` if it is
    a child whose parent was told to go on."""

    resumed: bool = False


class TaskClosed(Lasting, frozen=True, kw_only=True):
    pass


class TaskFailed(Lasting, frozen=True, kw_only=True):
    """Something went wrong that nobody foresaw. The task can be reopened."""

    message: str


class StepCancelled(Lasting, frozen=True, kw_only=True):
    pass


class Rewound(Lasting, frozen=True, kw_only=True):
    """The conversation is what it was right after event `to`, which may itself have been
    rewound before. What came after it stays in the log.
    """

    to: int


class UserSpoke(Lasting, frozen=True, kw_only=True):
    """Typed while the task was busy; the model hears it with its next request."""

    message_id: str
    text: str
    images: tuple[Image, ...] = ()


class PromptRefused(Lasting, frozen=True, kw_only=True):
    """A hook refused the user's message in event `of`. It counts as not sent."""

    of: int
    text: str
    reason: str


class Gathered(Lasting, frozen=True, kw_only=True):
    """What the user's words point at was looked up: files, commits, commands. The model hears
    it with its next request.
    """

    text: str = ""
    images: tuple[Image, ...] = ()
    seen: tuple[Seen, ...] = ()


class QueueEdited(Lasting, frozen=True, kw_only=True):
    """A message that the model has not heard yet was changed, or taken back (`text` is None)."""

    message_id: str
    text: str | None


class Asked(Lasting, frozen=True, kw_only=True):
    """A question that stops the loop; `digest` is of the action that a yes would allow.

    `notes` are what else one must know to answer: reach, real targets, why it is asked at all.
    `where` is what a command is confined to. `rule` is what answering with `always` would allow
    from then on; without it there is no such answer. `governance` is what the active intent has
    to do with it.
    """

    ask_id: str
    ask: AskKind
    text: str = ""
    title: str = ""
    diff: str = ""
    cwd: str = ""
    call_id: str = ""
    digest: str = ""
    where: str = ""
    notes: tuple[str, ...] = ()
    rule: str = ""
    governance: IntentQuestion | None = None


class Answered(Lasting, frozen=True, kw_only=True):
    ask_id: str
    ask: AskKind
    reply: Reply
    text: str = ""
    images: tuple[Image, ...] = ()
    by: Literal["user", "policy"] = "user"
    always: bool = False
    """The rule that came with the question holds from now on."""
    choice: Choice | None = None
    """What was said beyond yes or no to a question of governance."""
    message_id: str = ""
    """Of its words, if whoever sent them has named them."""


class OfferWithdrawn(Lasting, frozen=True, kw_only=True):
    """A question that needed no answer is no longer of interest."""

    ask_id: str


class ModeSwitched(Lasting, frozen=True, kw_only=True):
    mode: str


class ModelSwitched(Lasting, frozen=True, kw_only=True):
    """From now on this model is asked, whatever the settings say."""

    provider: str
    model: str


class ApprovalSwitched(Lasting, frozen=True, kw_only=True):
    """Whether actions are allowed without a question from now on; None: as the run was started."""

    automatic: bool | None


class Governed(Lasting, frozen=True, kw_only=True):
    """Intents decide what this task may change, from its beginning to its end."""

    mode: Literal["observe", "enforce", "required"]


class IntentSelected(Lasting, frozen=True, kw_only=True):
    """From now on changes are made for this intent, as it was worded then."""

    intent_id: str
    name: str = ""
    revision: int = 1
    digest: str = ""
    scope: tuple[str, ...] = ()
    by: Literal["model", "user", "parent"] = "model"


class IntentCleared(Lasting, frozen=True, kw_only=True):
    """No intent is active any more. If a call of this task is to blame, a person must agree before
    one is selected again."""

    reason: str
    own_doing: bool = False


class ScopeGranted(Lasting, frozen=True, kw_only=True):
    """The user allowed more than the scope for the rest of the task, while the intent is worded as
    it was: files that fit a pattern, or commands that begin like this."""

    of: Literal["path", "command"]
    pattern: str
    digest: str


class FileBefore(Struct, frozen=True, kw_only=True):
    """A file before a call changes it. Without a hash there was none."""

    path: str
    sha256: str = ""
    size: int = 0


class CallPermitted(Lasting, frozen=True, kw_only=True):
    """A governed call that may change something is about to be made. From this the ledger is
    brought up to date if the process dies before it has recorded what the call did."""

    call_id: str
    tool: str
    input_digest: str = ""
    intent_id: str = ""
    intent_rev: int | None = None
    intent_digest: str = ""
    scope: str = ""
    files: tuple[FileBefore, ...] = ()
    unknown_targets: bool = False
    """It may touch more than is named: a command, say."""


class OutOfScopeWritten(Lasting, frozen=True, kw_only=True):
    """A command changed files outside the scope of the intent it ran for."""

    call_id: str
    paths: tuple[str, ...]


class Unrecorded(Lasting, frozen=True, kw_only=True):
    """A call has changed something, and the ledger could not be told. It is, as soon as it can."""

    call_id: str
    code: str


class CriterionCheck(Struct, frozen=True, kw_only=True):
    """What is known of one acceptance criterion when the task is said to be done."""

    id: str
    text: str
    state: Literal["passed", "failed", "not_run", "manual"]
    command: str = ""
    seconds: float = 0.0
    output: str = ""
    """The last lines that a failed check wrote, or why it was not run."""


HOOK_CHECK = "hook"
"""The id of a check that is a hook's objection to the end of a turn."""


class CriteriaChecked(Lasting, frozen=True, kw_only=True):
    """The acceptance criteria of the active intent were looked at, because the model says that
    the work is done."""

    intent_id: str
    checks: tuple[CriterionCheck, ...]
    state_id: str = ""
    """What the ledger was by then."""

    @property
    def failed(self) -> bool:
        return any(each.state == "failed" for each in self.checks)

    @property
    def by_hook(self) -> bool:
        """Not a criterion but a hook says so. Hooks count for themselves how often they may."""
        return bool(self.checks) and all(each.id == HOOK_CHECK for each in self.checks)


SessionFact: TypeAlias = (
    TaskOpened
    | TaskReopened
    | TaskClosed
    | TaskFailed
    | StepCancelled
    | Rewound
    | UserSpoke
    | PromptRefused
    | Gathered
    | QueueEdited
    | Asked
    | Answered
    | OfferWithdrawn
    | ModeSwitched
    | ModelSwitched
    | ApprovalSwitched
    | Governed
    | IntentSelected
    | IntentCleared
    | ScopeGranted
    | CallPermitted
    | OutOfScopeWritten
    | Unrecorded
    | CriteriaChecked
)
