"""Facts about the work: requests, calls, files, intents, and what the model is told."""

from typing import TypeAlias

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
    | FilesRestored
    | TodosChanged
    | CompletionOffered
    | Condensing
    | Condensed
    | HistoryRepaired
    | Reminded
    | Noted
    | Unrecognised
)
