"""Facts about the session: start and end, messages, questions. And the values they contain."""

from enum import StrEnum
from typing import ClassVar, Literal, TypeAlias

from msgspec import Struct

from rookery.core.asks import AskKind, Choice, IntentQuestion, Reply
from rookery.core.blocks import Image
from rookery.core.limits import Effort
from rookery.core.modes import Level


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
    """How a tool call ended. Only `DONE` is a success."""

    DONE = "done"
    FAILED = "failed"
    MISTAKEN = "mistaken"
    """The model called the tool wrongly."""
    DENIED = "denied"
    SKIPPED = "skipped"
    UNKNOWN = "unknown"
    """It started, and its end was not recorded."""


class Usage(Struct, frozen=True, kw_only=True):
    """Usage of one request. `tokens_in` is all input, cached or not. None means unknown cost."""

    tokens_in: int = 0
    tokens_out: int = 0
    cache_reads: int = 0
    cache_writes: int = 0
    cost: float | None = None


class Spent(Struct, frozen=True, kw_only=True):
    """Usage of a task and its sub-tasks since the last approval. A sub-task starts from its
    parent's usage and returns the sum when it ends."""

    requests: int = 0
    tokens: int = 0
    cost: float = 0.0
    seconds: float = 0.0


class Change(Struct, frozen=True, kw_only=True):
    """Hashes of a file that a call creates, replaces or deletes. Empty if there is no file."""

    path: str
    before: str = ""
    after: str = ""


class FileVersion(Struct, frozen=True):
    """A version of a file: its git blob, and its type and mode."""

    blob: str
    mode: int


class Effect(Struct, frozen=True):
    """What happened to one file; None means that the file did not exist."""

    path: str
    before: FileVersion | None
    after: FileVersion | None


class Seen(Struct, frozen=True):
    """A file shown to the model, by hash. `whole` if nothing was left out, `amended` if the
    model was shown everything that changed since it last saw the file."""

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
    """Number of parent tasks."""
    spent: Spent = Spent()
    todos: tuple[Todo, ...] = ()
    format: int = 1
    agent: str = ""
    """The name of an agent that runs beside others."""
    only_reads: bool = False
    """Whether it may change nothing, whatever its mode."""
    budget: Spent = Spent()
    """What an agent may use at most; 0 means no limit of its own."""
    title: str = ""
    """The title of an imported session, if it has one besides its text."""


class TaskReopened(Lasting, frozen=True, kw_only=True):
    """Another process took over the log after the last one ended. `resumed` for a sub-task whose
    parent was resumed."""

    resumed: bool = False


class TaskClosed(Lasting, frozen=True, kw_only=True):
    """The end. An agent that has no result says how it ended, and why."""

    fate: Literal["", "failed", "stopped", "out of budget"] = ""
    reason: str = ""


class TaskFailed(Lasting, frozen=True, kw_only=True):
    """An unexpected error ended the task. It can be reopened."""

    message: str


class StepCancelled(Lasting, frozen=True, kw_only=True):
    pass


class Rewound(Lasting, frozen=True, kw_only=True):
    """The conversation is as it was right after event `to`, which may itself have been rewound.
    Later events stay in the log."""

    to: int


class UserSpoke(Lasting, frozen=True, kw_only=True):
    """A message sent while the task was busy; the model gets it with the next request."""

    message_id: str
    text: str
    images: tuple[Image, ...] = ()


class PromptRefused(Lasting, frozen=True, kw_only=True):
    """A hook refused the user's message in event `of`. It counts as not sent."""

    of: int
    text: str
    reason: str


class Gathered(Lasting, frozen=True, kw_only=True):
    """Mentions in a message were resolved: files, commits, commands. The model gets the result
    with the next request."""

    text: str = ""
    images: tuple[Image, ...] = ()
    seen: tuple[Seen, ...] = ()


class QueueEdited(Lasting, frozen=True, kw_only=True):
    """A queued message was changed, or removed (`text` is None)."""

    message_id: str
    text: str | None


class Asked(Lasting, frozen=True, kw_only=True):
    """A question that stops the loop; `digest` is of the action that a yes would allow.

    `notes` say what else matters for the answer: reach, real targets, why it is asked. `where` is
    what a command is confined to. `rule` is what `always` would allow; without it, `always` is not
    possible. `prefix` is the same for commands that begin like this one. `harmless`: it only edits
    ordinary files, which can be undone. `plan` is a plan to approve, `governance` about the intent.
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
    prefix: str = ""
    harmless: bool = False
    agent: str = ""
    """The agent that asks, if it runs beside others."""
    plan: str = ""


class Answered(Lasting, frozen=True, kw_only=True):
    ask_id: str
    ask: AskKind
    reply: Reply
    text: str = ""
    images: tuple[Image, ...] = ()
    by: Literal["user", "policy"] = "user"
    always: bool = False
    """Whether the rule in the question was added."""
    choice: Choice | None = None
    """The choice beyond yes and no, in a governance question."""
    message_id: str = ""
    """The id of its text, if the sender gave it one."""
    prefix: bool = False
    """Whether the question's rule for commands that begin like this one was added."""
    level: Level | None = None
    """The level to carry out the plan with; the plan is the text."""


class OfferWithdrawn(Lasting, frozen=True, kw_only=True):
    """An optional question no longer applies."""

    ask_id: str


class ModeSwitched(Lasting, frozen=True, kw_only=True):
    mode: str


class ModelSwitched(Lasting, frozen=True, kw_only=True):
    """Later requests use this model and, if it is set, this effort instead of the settings."""

    provider: str
    model: str
    effort: Effort | None = None


class FellBack(Lasting, frozen=True, kw_only=True):
    """The model could not answer. Until the user's next message, requests use the model at `place`
    of the setting `fallback`. With a `problem` it cannot be used, and the next one is tried."""

    place: int
    provider: str
    model: str
    problem: str = ""


class Governed(Lasting, frozen=True, kw_only=True):
    """Intents decide what this task may change, from start to end."""

    mode: Literal["observe", "enforce", "required"]


class IntentSelected(Lasting, frozen=True, kw_only=True):
    """Later changes are made for this version of this intent."""

    intent_id: str
    name: str = ""
    revision: int = 1
    digest: str = ""
    scope: tuple[str, ...] = ()
    by: Literal["model", "user", "parent"] = "model"


class IntentCleared(Lasting, frozen=True, kw_only=True):
    """No intent is active any more. If a call of this task caused it, a person must approve the
    next selection."""

    reason: str
    own_doing: bool = False


class ScopeGranted(Lasting, frozen=True, kw_only=True):
    """The user allowed more than the scope for the rest of the task, as long as the intent does
    not change: files that match a pattern, or commands with a prefix."""

    of: Literal["path", "command"]
    pattern: str
    digest: str


class FileBefore(Struct, frozen=True, kw_only=True):
    """A file before a call changes it. An empty hash means that there was none."""

    path: str
    sha256: str = ""
    size: int = 0


class CallPermitted(Lasting, frozen=True, kw_only=True):
    """A governed call that may change something is about to be made. If the process dies before
    the call's effect is recorded, the ledger is completed from this."""

    call_id: str
    tool: str
    input_digest: str = ""
    intent_id: str = ""
    intent_rev: int | None = None
    intent_digest: str = ""
    scope: str = ""
    files: tuple[FileBefore, ...] = ()
    unknown_targets: bool = False
    """Whether it may touch more than is listed, as a command may."""


class OutOfScopeWritten(Lasting, frozen=True, kw_only=True):
    """A command changed files outside the scope of its intent."""

    call_id: str
    paths: tuple[str, ...]


class Unrecorded(Lasting, frozen=True, kw_only=True):
    """A call changed something and the ledger could not be written. It is written as soon as
    possible."""

    call_id: str
    code: str


class CriterionCheck(Struct, frozen=True, kw_only=True):
    """The result of one acceptance criterion."""

    id: str
    text: str
    state: Literal["passed", "failed", "not_run", "manual"]
    command: str = ""
    seconds: float = 0.0
    output: str = ""
    """The last lines of a failed check's output, or why it was not run."""


HOOK_CHECK = "hook"
"""The id of a hook's objection to the end of a turn."""


class CriteriaChecked(Lasting, frozen=True, kw_only=True):
    """The acceptance criteria of the active intent were checked, because the model says that the
    work is done."""

    intent_id: str
    checks: tuple[CriterionCheck, ...]
    state_id: str = ""
    """The state of the ledger at that time."""

    @property
    def failed(self) -> bool:
        return any(each.state == "failed" for each in self.checks)

    @property
    def by_hook(self) -> bool:
        """Whether only a hook objects. Hooks limit their objections themselves."""
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
    | FellBack
    | Governed
    | IntentSelected
    | IntentCleared
    | ScopeGranted
    | CallPermitted
    | OutOfScopeWritten
    | Unrecorded
    | CriteriaChecked
)
