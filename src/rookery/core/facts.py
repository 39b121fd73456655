"""Everything that can happen in a task, one small value for each kind of happening.

Facts are in the past tense and never change. A task's log is the sequence of its facts; its
state, its chat rows and the history its model sees are folds over that log. A `Passing`
fact is only news: it is shown while it is fresh, never written to disk, and always
superseded by a lasting one.
"""

from collections.abc import Iterable
from enum import StrEnum
from typing import ClassVar, Literal, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from rookery.core.asks import AskKind, Choice, IntentQuestion, Reply
from rookery.core.blocks import Block, Image, Text
from rookery.core.failures import FailureKind


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


class Version(Struct, frozen=True):
    """A file as it was at one moment: what git calls its content, and its type and rights."""

    blob: str
    mode: int


class Effect(Struct, frozen=True):
    """What was done to one file; None means that there was no such file."""

    path: str
    before: Version | None
    after: Version | None


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


class RequestStarted(Lasting, frozen=True, kw_only=True):
    """A request is about to be sent, and to whom; `base_url` only if it is not the usual one."""

    request_id: str
    model: str
    provider: str = ""
    base_url: str = ""
    attempt: int = 1
    size: int = 0
    """Bytes of text that are sent, by which the tokens of later requests are foreseen."""
    seconds: float = 0.0
    """How long the task worked since its last request; waiting for an answer is not work."""


class TextStreamed(Passing, frozen=True, kw_only=True):
    request_id: str
    text: str


class ThinkingStreamed(Passing, frozen=True, kw_only=True):
    request_id: str
    text: str


class CallStreamed(Passing, frozen=True, kw_only=True):
    """A piece of a call's arguments, as JSON text. `name` comes with every piece."""

    request_id: str
    index: int
    name: str
    arguments: str


class AssistantSpoke(Lasting, frozen=True, kw_only=True):
    """A whole answer, with what it cost. An interrupted one is shown but never sent back."""

    request_id: str
    blocks: tuple[Block, ...]
    stop: StopReason = StopReason.END
    usage: Usage = Usage()
    interrupted: bool = False
    written: str = ""
    """The tool whose call is written in the words instead of being made."""

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
    """Bytes of text that were sent, if not those of the request that was started last."""


class Pausing(Passing, frozen=True, kw_only=True):
    """The next try starts in `seconds`; if `paced`, the next request does, because of the
    setting `request_pause`."""

    seconds: float
    reason: str
    paced: bool = False


class Waiting(Passing, frozen=True, kw_only=True):
    """Nothing has come from the provider for a while."""

    request_id: str
    seconds: float


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
    """The task that the call hands its work to."""
    only_reads: bool = False
    """It is known to change no files."""

    @property
    def harmless(self) -> bool:
        """It changes nothing, so doing it twice is doing it once."""
        return not (self.changes or self.command or self.external or self.child)


class ChildBegan(Lasting, frozen=True, kw_only=True):
    """A child task has begun to work for a call, or has picked up that work; what is in its own
    log past event `after` is new.
    """

    call_id: str
    task_id: str
    after: int = 0


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
    """What had been used when a child task ended."""
    refusal: str = ""
    """The code of the rule of governance that refused the call."""
    would_change: bool = False
    """The call was refused, and might have changed something."""


class CommandQuiet(Passing, frozen=True, kw_only=True):
    """A command has written nothing for so long; it may be waiting for input."""

    call_id: str
    seconds: float


class CommandDetached(Lasting, frozen=True, kw_only=True):
    """A call came back while its command runs on; its output goes to `artifact`."""

    call_id: str
    command: str
    artifact: str
    pid: int = 0


class CommandEnded(Lasting, frozen=True, kw_only=True):
    """A command that ran on has ended; the model hears it with its next request."""

    call_id: str
    text: str
    exit_code: int | None = None


class SavingFiles(Passing, frozen=True, kw_only=True):
    """Files are being saved before a call; in a large workspace that takes a while at first."""

    call_id: str


class CheckpointSaved(Lasting, frozen=True, kw_only=True):
    """How the files were before a call, as the shadow repository calls it. `skipped` names
    what is not in it and could not be brought back.
    """

    id: str
    call_id: str = ""
    skipped: tuple[str, ...] = ()


class FilesChanged(Lasting, frozen=True, kw_only=True):
    """A call changed files: all that differs between two checkpoints. `since` is the event at
    which the first of them was saved.
    """

    call_id: str
    before: str
    after: str
    since: int


class FilesRestored(Lasting, frozen=True, kw_only=True):
    """Files were put back to what they were at event `to`: `count` of them, the first of which
    are named. `kept` are those that somebody else had changed meanwhile, and that were left
    alone.
    """

    to: int
    before: str
    after: str
    paths: tuple[str, ...] = ()
    count: int = 0
    kept: tuple[str, ...] = ()


class TodosChanged(Lasting, frozen=True, kw_only=True):
    todos: tuple[Todo, ...]


class CompletionOffered(Lasting, frozen=True, kw_only=True):
    """The model says that the task is done. `spoken` if it just said so in words, which are shown
    already; otherwise it called `attempt_completion`."""

    result: str
    spoken: bool = False


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
        return self.failed and all(each.id == HOOK_CHECK for each in self.checks)


class Condensing(Passing, frozen=True, kw_only=True):
    """The model is being asked for a summary of what no longer fits."""

    tokens: int


class Condensed(Lasting, frozen=True, kw_only=True):
    """The context was too full. Of what lies between the task's opening and event `upto` the
    model is sent only what the user said after event `words`, and a `summary` if there is one. Of
    single texts before this event at most `longest` characters are sent, unless that is 0. Nothing
    was deleted.
    """

    upto: int
    words: int = 0
    longest: int = 0
    summary: str = ""
    tokens_before: int = 0
    tokens_after: int = 0
    usage: Usage = Usage()


class HistoryRepaired(Lasting, frozen=True, kw_only=True):
    """The provider did not accept the history; reasoning up to event `upto` is left out."""

    upto: int


class Reminded(Lasting, frozen=True, kw_only=True):
    """The engine sent the model a notice. A `nudge` is for an answer in words that looks like a
    slip."""

    text: str
    mistake: bool = False
    nudge: bool = False


class Noted(Lasting, frozen=True, kw_only=True):
    """Something the user should know and the model need not."""

    text: str


class Unrecognised(Lasting, frozen=True, kw_only=True):
    """A fact of a newer version; kept as it was read."""

    name: str
    raw: str


Fact: TypeAlias = (
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
    | RequestStarted
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
    | FilesRestored
    | TodosChanged
    | CompletionOffered
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
    | Condensing
    | Condensed
    | HistoryRepaired
    | Reminded
    | Noted
    | Unrecognised
)


class Event(Struct, frozen=True):
    """A fact with its place in the log.

    `seq` numbers the lasting facts without gaps; `sub` numbers the news since the last of
    them. `ts` is milliseconds, strictly growing, so it names what the event created.
    """

    seq: int
    sub: int
    ts: int
    fact: Fact


def next_event(last: Event | None, fact: Fact, now: int) -> Event:
    """The event that puts a fact behind `last`, even if the clock stands still or goes back."""
    seq, sub, ts = (last.seq, last.sub, max(now, last.ts + 1)) if last else (0, 0, now)
    return Event(seq + 1, 0, ts, fact) if fact.lasting else Event(seq, sub + 1, ts, fact)


def live(events: Iterable[Event]) -> list[Event]:
    """The events that still count: without what was rewound or refused.

    Every event counts on top of the one before it; a rewind counts on top of the event it
    went back to, on whichever branch that is.
    """
    known = list(events)
    place: dict[int, int] = {}
    follows: list[int] = []
    for index, event in enumerate(known):
        before = index - 1
        if isinstance(event.fact, Rewound) and event.fact.to < event.seq:
            before = place.get(event.fact.to, -1)
        follows.append(before)
        place[event.seq] = index
    kept: list[Event] = []
    at = len(known) - 1
    while at >= 0:
        kept.append(known[at])
        at = follows[at]
    return _without_refused(kept[::-1])


def _without_refused(events: list[Event]) -> list[Event]:
    """Without words that a hook refused. A task stays opened, with nothing said."""
    refused = {event.fact.of for event in events if isinstance(event.fact, PromptRefused)}
    if not refused:
        return events
    edited = {_message(event.fact) for event in events if event.seq in refused} - {""}
    kept: list[Event] = []
    for event in events:
        if isinstance(event.fact, TaskOpened) and event.seq in refused:
            kept.append(replace(event, fact=replace(event.fact, text="", images=())))
        elif event.seq not in refused and _message(event.fact) not in edited:
            kept.append(event)
    return kept


def _message(fact: Fact) -> str:
    """The id of the queued message that a fact is about."""
    return fact.message_id if isinstance(fact, UserSpoke | QueueEdited) else ""
