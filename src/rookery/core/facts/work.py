"""Facts about the work: requests, calls, files, intents, and notices to the model."""

from collections.abc import Mapping
from typing import Literal, TypeAlias

from msgspec import Struct

from rookery.core.asks import AskKind
from rookery.core.blocks import Block, Image, Text
from rookery.core.facts.session import (
    Change,
    Ending,
    Lasting,
    Passing,
    Seen,
    Spent,
    StopReason,
    Todo,
    Usage,
)
from rookery.core.limits import FailureKind
from rookery.core.modes import Level


class RequestStarted(Lasting, frozen=True, kw_only=True):
    """A request is about to be sent. `base_url` is set only if it is not the default."""

    request_id: str
    model: str
    provider: str = ""
    base_url: str = ""
    attempt: int = 1
    size: int = 0
    """Bytes of text sent; used to predict the tokens of later requests."""
    seconds: float = 0.0
    """Working time since the last request, without waiting for answers."""
    window: int = 0
    """The model's context window in tokens."""
    fallback: bool = False
    """Whether the model is one of the setting `fallback`."""
    details: Mapping[str, str] = {}
    """The environment details at the end of the request, by title; later requests repeat them."""


class TextStreamed(Passing, frozen=True, kw_only=True):
    request_id: str
    text: str


class ThinkingStreamed(Passing, frozen=True, kw_only=True):
    request_id: str
    text: str


class CallStreamed(Passing, frozen=True, kw_only=True):
    """A piece of a call's arguments, as JSON text. Every piece has the `name`."""

    request_id: str
    index: int
    name: str
    arguments: str


class AssistantSpoke(Lasting, frozen=True, kw_only=True):
    """A complete answer and its usage. An interrupted one is shown but never sent back."""

    request_id: str
    blocks: tuple[Block, ...]
    stop: StopReason = StopReason.END
    usage: Usage = Usage()
    interrupted: bool = False
    written: str = ""
    """A tool whose call the model wrote as text."""

    @property
    def words(self) -> str:
        return "\n\n".join(
            text
            for block in self.blocks
            if isinstance(block, Text) and (text := block.text.strip())
        )


class RequestFailed(Lasting, frozen=True, kw_only=True):
    request_id: str
    error: FailureKind
    message: str
    status: int = 0
    retry_after: float | None = None
    usage: Usage = Usage()
    size: int = 0
    """Bytes of text sent, if not those of the last started request."""


class Pausing(Passing, frozen=True, kw_only=True):
    """The next retry starts in `seconds`; if `paced`, the next request does, because of the
    setting `request_pause`."""

    seconds: float
    reason: str
    paced: bool = False


class Waiting(Passing, frozen=True, kw_only=True):
    """The provider has sent nothing for a while. `what` says why, if that is known: for example,
    `Loading model.gguf`."""

    request_id: str
    seconds: float
    what: str = ""


class AgentTask(Struct, frozen=True, kw_only=True):
    """An agent that a call starts. A worker has a `branch` and a `worktree` made from `base`;
    an agent without them only reads."""

    task_id: str
    name: str
    text: str
    mode: str
    provider: str = ""
    model: str = ""
    budget: Spent = Spent()
    branch: str = ""
    worktree: str = ""
    base: str = ""

    @property
    def kind(self) -> str:
        return "worker" if self.worktree else "explorer"


class AgentResult(Struct, frozen=True, kw_only=True):
    """How an agent ended, and what its own requests cost."""

    task_id: str
    fate: Literal["done", "failed", "stopped", "out of budget"]
    cost: float = 0.0


class ToolStarted(Lasting, frozen=True, kw_only=True):
    """Written before the first effect: what the call is about to do, and to what."""

    call_id: str
    tool: str
    title: str
    ask: AskKind = AskKind.TOOL
    text: str = ""
    changes: tuple[Change, ...] = ()
    command: str = ""
    external: str = ""
    child: str = ""
    """The sub-task that does the work."""
    only_reads: bool = False
    """Whether it is known to change no files."""
    agents: tuple[AgentTask, ...] = ()
    """The agents that it starts side by side."""

    @property
    def harmless(self) -> bool:
        """Whether it changes nothing, so that it can be repeated safely."""
        return not (self.changes or self.command or self.external or self.child or self.agents)


class ChildBegan(Lasting, frozen=True, kw_only=True):
    """A sub-task started or resumed work for a call. Events after `after` in its log are new."""

    call_id: str
    task_id: str
    after: int = 0
    name: str = ""
    """The name of an agent that runs beside others."""


class OutputStreamed(Passing, frozen=True, kw_only=True):
    call_id: str
    text: str


class ToolFinished(Lasting, frozen=True, kw_only=True):
    call_id: str
    text: str
    ending: Ending = Ending.DONE
    images: tuple[Image, ...] = ()
    exit_code: int | None = None
    seen: tuple[Seen, ...] = ()
    spent: Spent | None = None
    """Usage when a sub-task ended."""
    refusal: str = ""
    """Code of the governance rule that refused the call."""
    would_change: bool = False
    """Whether a refused call might have changed something."""
    agents: tuple[AgentResult, ...] = ()


class CommandQuiet(Passing, frozen=True, kw_only=True):
    """A command has written nothing for this long; it may be waiting for input."""

    call_id: str
    seconds: float


class CommandDetached(Lasting, frozen=True, kw_only=True):
    """A call returned while its command continues in the background; output goes to `artifact`."""

    call_id: str
    command: str
    artifact: str
    pid: int = 0


class CommandEnded(Lasting, frozen=True, kw_only=True):
    """A background command has ended; the model is informed with the next request."""

    call_id: str
    text: str
    exit_code: int | None = None


class SavingFiles(Passing, frozen=True, kw_only=True):
    """Files are being saved before a call; the first time takes a while in a large workspace."""

    call_id: str


class CheckpointSaved(Lasting, frozen=True, kw_only=True):
    """The files before a call, as a commit of the shadow repository. `skipped` lists files that
    are not in it and could not be restored."""

    id: str
    call_id: str = ""
    skipped: tuple[str, ...] = ()


class FilesChanged(Lasting, frozen=True, kw_only=True):
    """A call changed files: the difference between two checkpoints. `since` is the event at
    which the first was saved."""

    call_id: str
    before: str
    after: str
    since: int


class FormatterStarted(Lasting, frozen=True, kw_only=True):
    """A call wrote its files, and a formatter is about to change them again."""

    call_id: str
    command: str


class FilesRestored(Lasting, frozen=True, kw_only=True):
    """Files were restored as of event `to`: `count` of them, the first ones listed. `kept` were
    skipped because someone else had changed them."""

    to: int
    before: str
    after: str
    paths: tuple[str, ...] = ()
    count: int = 0
    kept: tuple[str, ...] = ()


class TodosChanged(Lasting, frozen=True, kw_only=True):
    todos: tuple[Todo, ...]


class CompletionOffered(Lasting, frozen=True, kw_only=True):
    """The model says that the task is done: in text if `spoken`, which is shown already, or by
    calling `attempt_completion`. Or it presents a plan with `present_plan`: then `plan` is the file
    of the session that has it."""

    result: str
    spoken: bool = False
    plan: str = ""


class CheckRun(Struct, frozen=True, kw_only=True):
    """The result of one of the project's checks."""

    command: str
    state: Literal["passed", "failed", "not_run"]
    output: str = ""
    """The end of a failed check's output, or why it was not run."""


class ChecksRun(Lasting, frozen=True, kw_only=True):
    """The project's checks were run: before the first edit, or because the model says that the
    work is done. `returned` if the model was given new failures."""

    checks: tuple[CheckRun, ...]
    returned: bool = False


class Condensing(Passing, frozen=True, kw_only=True):
    """The model is being asked for a summary."""

    tokens: int


class Condensed(Lasting, frozen=True, kw_only=True):
    """The context was too full. Between the task's opening and event `upto`, later requests
    contain only the user's messages after event `words`, and the `summary`. Texts before this
    event are shortened to `longest` characters unless it is 0. Nothing was deleted."""

    upto: int
    words: int = 0
    longest: int = 0
    summary: str = ""
    tokens_before: int = 0
    tokens_after: int = 0
    usage: Usage = Usage()


class HistoryRepaired(Lasting, frozen=True, kw_only=True):
    """The provider rejected the history; reasoning up to event `upto` is left out."""

    upto: int


class Reminded(Lasting, frozen=True, kw_only=True):
    """The engine sent the model a notice. A `nudge` follows an answer that looks like a mistake."""

    text: str
    mistake: bool = False
    nudge: bool = False


class Noted(Lasting, frozen=True, kw_only=True):
    """A notice for the user that the model does not see. `usage` is set if it is about a request
    outside the conversation."""

    text: str
    usage: Usage | None = None


class Unrecognised(Lasting, frozen=True, kw_only=True):
    """A fact of a newer version, kept unchanged."""

    name: str
    raw: str


class ApprovalSwitched(Lasting, frozen=True, kw_only=True):
    """The level from now on. Without one, `automatic` stands for auto or ask; None for the level
    that the run was started with."""

    automatic: bool | None
    level: Level | None = None

    @property
    def to(self) -> Level | None:
        if self.level or self.automatic is None:
            return self.level
        return Level.AUTO if self.automatic else Level.ASK


def switched_to(level: Level | None) -> ApprovalSwitched:
    automatic = None if level is None else level is Level.AUTO
    return ApprovalSwitched(automatic=automatic, level=level)


WorkFact: TypeAlias = (
    RequestStarted
    | TextStreamed
    | ThinkingStreamed
    | CallStreamed
    | AssistantSpoke
    | RequestFailed
    | Pausing
    | Waiting
    | ToolStarted
    | ChildBegan
    | OutputStreamed
    | ToolFinished
    | CommandQuiet
    | CommandDetached
    | CommandEnded
    | SavingFiles
    | CheckpointSaved
    | FilesChanged
    | FormatterStarted
    | FilesRestored
    | TodosChanged
    | ApprovalSwitched
    | CompletionOffered
    | ChecksRun
    | Condensing
    | Condensed
    | HistoryRepaired
    | Reminded
    | Noted
    | Unrecognised
)
