"""What the engine needs from the outside world, as protocols and plain values.

The engine imports nothing that touches a network, a disk or a terminal. It is handed
objects of these shapes by the composition root, and fakes of these shapes by the tests.
"""

import hashlib
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from enum import StrEnum
from functools import cached_property
from typing import Any, ClassVar, Literal, Protocol, TypeAlias, TypeVar

import anyio
import msgspec
from msgspec import Struct, field

from rookery.commands.git_use import GitUse
from rookery.core.asks import AskKind
from rookery.core.blocks import Image, ToolCall
from rookery.core.command_lines import Judgement, Plain
from rookery.core.facts import (
    Answered,
    Asked,
    Change,
    Effect,
    Ending,
    Event,
    Fact,
    Seen,
    Spent,
    StopReason,
    Todo,
    ToolStarted,
    Usage,
    UserSpoke,
)
from rookery.core.folds.history import Turn
from rookery.core.indexed_code import Definition
from rookery.core.limits import Limits
from rookery.core.rulings import Ruling

# ── models ──────────────────────────────────────────────────────────────────────────────


class ModelInfo(Struct, frozen=True, kw_only=True):
    """What is known of a model. Prices are dollars per million tokens; None means unknown."""

    id: str
    provider: str
    base_url: str = ""
    """Where it is reached, if not at the provider's usual address."""
    window: int = 128_000
    max_output: int = 8_192
    images: bool = False
    thinking: bool = False
    caching: bool = False
    input_price: float | None = None
    output_price: float | None = None
    cache_read_price: float | None = None
    cache_write_price: float | None = None


class TextChunk(Struct, frozen=True):
    text: str


class ThinkingChunk(Struct, frozen=True):
    """A piece of reasoning. `signature` belongs to the block that this piece continues and
    comes once, at its end; a signature without any text is a block of its own.
    """

    text: str
    signature: str = ""
    source: str = ""


class CallChunk(Struct, frozen=True):
    """A piece of a tool call. `id` and `name` come with its first piece only."""

    index: int
    arguments: str
    id: str = ""
    name: str = ""


class UsageChunk(Struct, frozen=True):
    """The usage so far; a later one replaces an earlier one."""

    usage: Usage


class StopChunk(Struct, frozen=True):
    """The answer ended properly. A stream without one was cut off."""

    reason: StopReason
    detail: str = ""


class SilenceChunk(Struct, frozen=True):
    """Nothing has come for `seconds`; the stream is still open."""

    seconds: float


Chunk: TypeAlias = TextChunk | ThinkingChunk | CallChunk | UsageChunk | StopChunk | SilenceChunk


class ToolSpec(Struct, frozen=True):
    """A tool as the model is told of it."""

    name: str
    description: str
    schema: Mapping[str, Any]


class ModelRequest(Struct, frozen=True, kw_only=True):
    """One request. `cache_key` is the same for all requests of a task. `now` is how things stand
    at this moment: it is said last, and never again, so that all before it can be cached.
    """

    system: str
    turns: Sequence[Turn]
    now: str = ""
    tools: Sequence[ToolSpec] = ()
    max_output: int | None = None
    cache_key: str = ""


class Provider(Protocol):
    model: ModelInfo

    def stream(self, request: ModelRequest) -> AbstractAsyncContextManager[AsyncIterator[Chunk]]:
        """Open one request. Leaving the context closes the connection.

        Raises `ProviderError`, on entering or while iterating, and nothing else. Never retries.
        """
        ...


# ── tools and their effects ─────────────────────────────────────────────────────────────


class ToolGroup(StrEnum):
    READ = "read"
    EDIT = "edit"
    COMMAND = "command"
    MCP = "mcp"
    ALWAYS = "always"


class Outcome(Struct, frozen=True, kw_only=True):
    """What became of an action that was performed. The model reads `text`."""

    text: str
    ending: Ending = Ending.DONE
    images: tuple[Image, ...] = ()
    exit_code: int | None = None
    seen: tuple[Seen, ...] = ()
    """The files the model is shown by this."""
    spent: Spent | None = None
    """What had been used when the child task that did it ended."""
    refusal: str = ""
    """The code of the rule of governance that refused the call."""
    would_change: bool = False
    """It was refused, and might have changed something."""
    blocked: tuple[str, ...] = ()
    """Hosts that it tried to reach and may not, as `host:port`."""


class Action(Struct, frozen=True, kw_only=True, dict=True):
    """What a tool is about to do. Nothing has changed until `perform` is awaited.

    `reads`, `changes`, `command` and `external` are all it may touch: the permit covers
    exactly those. `judgement` is what is known of the command. `payload` is what clients are
    shown of the call, beside title, diff and `notes`. `whole` names files that are replaced
    without regard to what is in them, `ordinary` files that are protected, but not against a
    change like this one.
    """

    title: str
    perform: Callable[["Permit"], Awaitable[Outcome]]
    reads: Sequence[str] = ()
    changes: Sequence[Change] = ()
    whole: Sequence[str] = ()
    searched: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """The pieces of text that an edit replaces in a file. Each is in it once, as quoted, and the
    edit changes nothing else. Files that are edited in another way are not named."""
    ordinary: Sequence[str] = ()
    command: str = ""
    cwd: str = ""
    where: str = ""
    """What a command is confined to, in a line for whoever is asked."""
    judgement: Judgement | None = None
    external: str = ""
    spares_files: bool = False
    """What it does elsewhere, it cannot do to files here."""
    ask_as: AskKind = AskKind.TOOL
    """What kind of question it makes, unless it is a command."""
    child: str = ""
    """The task that is to do the work; what it does is asked about there."""
    mode: str = ""
    """The mode in which the task would go on."""
    diff: str = ""
    notes: Sequence[str] = ()
    payload: Mapping[str, Any] = field(default_factory=dict)

    @property
    def changes_things(self) -> bool:
        return bool(self.changes or self.command or self.external)

    @property
    def may_change_files(self) -> bool:
        """A line that needs a shell may do more than can be read from it."""
        judged = self.judgement
        only_reads = judged is not None and judged.plain is not None and judged.only_reads
        return self.changes_things and not (only_reads or self.spares_files)

    @property
    def only_looks(self) -> bool:
        """It changes nothing, and it changes nothing about how the task goes on."""
        return not (self.changes_things or self.child or self.mode)

    @property
    def ask(self) -> AskKind:
        return AskKind.COMMAND if self.command else self.ask_as

    @cached_property
    def digest(self) -> str:
        """Of everything the action may touch: what a yes is bound to. The id of a child is new
        for every attempt, and so is no part of it: after a restart the same is asked again."""
        scope = (
            self.title,
            list(self.reads),
            list(self.changes),
            self.command,
            self.cwd,
            self.where,
            self.external,
            "new" if self.child else "",
            self.mode,
            self.diff,
            list(self.notes),
        )
        return hashlib.sha256(msgspec.json.encode(scope)).hexdigest()


class Permit(Struct, frozen=True):
    """Leave to make one action happen. Only the gate makes permits; files and processes
    refuse whoever comes without one, or with one for something else.
    """

    digest: str
    reads: frozenset[str] = frozenset()
    changes: frozenset[Change] = frozenset()
    command: str = ""
    cwd: str = ""
    plain: Plain | None = None
    """What to run instead of giving the command to a shell: it was understood completely."""
    confined: bool = True
    """Whether the command stays in the sandbox."""
    writable: frozenset[str] | None = None
    """The only folders and files of the workspace that the command may write to; None: all."""
    git: GitUse = GitUse.NONE
    """Whether the command may write in git's own folders."""
    hosts: frozenset[str] = frozenset()
    """Hosts that the command may reach besides the known ones."""
    withheld: Callable[[str], bool] | None = None
    """Whether a file of the workspace is left out wherever folders are looked through."""
    by_hand: bool = False
    """Whether a person was asked about exactly this, and said yes."""
    named: frozenset[str] = frozenset()
    """What the command writes or deletes, as far as its line tells."""


class Place(Struct, frozen=True):
    """Where a path leads: `path` is relative to the workspace with `/`, or absolute outside it,
    with every link resolved. The other fields say why it is not a file like any other.
    """

    path: str
    said: str = ""
    outside: bool = False
    link: bool = False
    """A symbolic link was followed to get there."""
    ignored: bool = False
    """The user keeps it from the agent."""
    protected: str = ""
    """Why a change of it is always asked about."""
    credential: bool = False


class FileText(Struct, frozen=True, kw_only=True):
    """A text file as it is on disk.

    `text` is decoded without translating line ends. `encode` gives bytes back with the same
    encoding and byte-order mark, so that what an edit did not touch does not change.
    """

    path: str
    text: str
    sha: str
    encoding: str = "utf-8"
    bom: bytes = b""
    size: int = 0

    def encode(self, text: str) -> bytes:
        errors = "surrogateescape" if self.encoding == "utf-8" else "strict"
        return self.bom + text.encode(self.encoding, errors)


class FileBytes(Struct, frozen=True, kw_only=True):
    """A file that is not text."""

    path: str
    data: bytes
    sha: str


class Files(Protocol):
    """The workspace. Every path is given as the model said it, and resolved here only.

    All of these raise `ToolError` with a sentence the model can act on.
    """

    def locate(self, path: str) -> str:
        """The path by which permits and hashes know the file: relative to the workspace with
        `/`, or absolute if it lies outside. Refuses what is no proper path."""
        ...

    def place(self, path: str) -> Place:
        """The same, with all that rules must know of it."""
        ...

    async def examine(self, path: str) -> FileText | None:
        """What is there now, to show the user what would change; None if nothing is there.
        Nothing of it may reach the model."""
        ...

    async def sha(self, path: str) -> str:
        """The hash of what is there now; empty if nothing is."""
        ...

    async def read(
        self, path: str, permit: Permit, most: int | None = None
    ) -> FileText | FileBytes:
        """What is in the file, up to `most` bytes if that is more than is usually read."""
        ...

    async def write(self, change: Change, data: bytes, permit: Permit) -> None:
        """Replace or create the file, whole and durably, if it still is as `change.before` says."""
        ...

    async def apply(
        self,
        edits: Sequence[tuple[Change, bytes | None]],
        permit: Permit,
        *,
        moved: Mapping[str, str] | None = None,
    ) -> None:
        """All of the changes or none; None removes the file. What fails is put back.

        `moved` says of new files which of the removed ones they were: they take over the mode.
        """
        ...

    async def remove_unfinished(self, change: Change) -> None:
        """Clear away what a killed process had written of this change, beside the file."""
        ...


class Finder(Protocol):
    """Listing and searching the workspace."""

    async def list(self, path: str, *, recursive: bool, permit: Permit) -> str: ...

    async def search(self, path: str, regex: str, glob: str | None, permit: Permit) -> str: ...


class CommandEnd(Struct, frozen=True, kw_only=True):
    """How a command ended: an exit code, or the signal that killed it, or a limit of ours, or
    because somebody had it stopped."""

    exit_code: int
    signal: str = ""
    timed_out: bool = False
    flooded: bool = False
    stopped: bool = False


class RunningCommand(Protocol):
    """A command under its warden, the process that ends all of it when it is told to."""

    pid: int
    warden: int

    @property
    def kept(self) -> bool:
        """It goes on when its context is left."""
        ...

    @property
    def blocked(self) -> tuple[str, ...]:
        """Hosts it was kept from so far, as `host:port`."""
        ...

    def unreached(self, command: str, said: str) -> tuple[int, ...]:
        """Ports of this machine on which something listens and that it was refused, going by what
        it `said`. Each is told once."""
        ...

    def output(self) -> AsyncIterator[str]:
        """Pieces of stdout and stderr as they come, decoded; ends when the command has ended.

        Nothing is lost by cancelling an iteration: the next one goes on where it was.
        """
        ...

    async def end(self) -> CommandEnd: ...

    def stop(self) -> None:
        """End it and all it started. Its last words are still output."""
        ...

    def keep(self) -> None:
        """Let it outlive its context, and us. From then on its output goes nowhere."""
        ...

    def waits_for_input(self) -> bool:
        """Whether it is known to wait for somebody to type."""
        ...


class Shell(Protocol):
    def describe(self, *, confined: bool) -> str:
        """Where commands run and what holds there, in a line for whoever is asked."""
        ...

    def run(
        self, permit: Permit, *, seconds: float, keep: "Artifact", terminal: bool = False
    ) -> AbstractAsyncContextManager[RunningCommand]:
        """Run the permitted command. All its output goes to `keep`. Leaving the context, in
        whichever task, ends the command and all it started."""
        ...


class Background(Protocol):
    """Commands that run on behind the calls of a task, and end with it."""

    def start(
        self, call_id: str, command: RunningCommand, attend: Callable[[], Awaitable[None]]
    ) -> None:
        """Take a command over from its call; `attend` sees to it until its end."""
        ...


CommandState: TypeAlias = Literal["running", "background", "kept"]


class CommandList(Protocol):
    """Where other processes can see which commands run. It never fails."""

    def enter(
        self, command: RunningCommand, *, call_id: str, permit: Permit, state: CommandState
    ) -> None: ...

    def leave(self, command: RunningCommand) -> None: ...


class UnlistedCommands:
    def enter(
        self, command: RunningCommand, *, call_id: str, permit: Permit, state: CommandState
    ) -> None:
        pass

    def leave(self, command: RunningCommand) -> None:
        pass


class Offer(Protocol):
    """A question that stops nothing and need not be answered."""

    answer: Answered | None

    def withdraw(self) -> None:
        """It is no longer of interest. Changes nothing once there is an answer."""
        ...


class Artifact(Protocol):
    """A file beside the journal that takes a command's output as it comes."""

    id: str
    size: int

    def write(self, data: bytes) -> None: ...
    def close(self) -> None: ...


class Artifacts(Protocol):
    """The large outputs of one task, readable until the task is deleted."""

    def create(self) -> Artifact: ...

    def read(self, artifact_id: str, offset: int, limit: int) -> tuple[bytes, int]:
        """Bytes from `offset` on, and the size of the whole. Raises `ToolError`."""
        ...

    def lines(self, artifact_id: str, pattern: str, limit: int) -> list[tuple[int, str]]:
        """Numbered lines that match, up to the first that goes beyond `limit` bytes."""
        ...


class ChildTask(Struct, frozen=True, kw_only=True):
    """Part of a task's work that another task is to do."""

    task_id: str
    text: str
    mode: str
    todos: tuple[Todo, ...] = ()
    words: UserSpoke | None = None
    """What the user said when it was to go on."""

    def payload(self) -> dict[str, Any]:
        """What is put on record of it before it is begun."""
        todos = msgspec.to_builtins(self.todos)
        return {"tool": "newTask", "mode": self.mode, "content": self.text, "todos": todos}

    @classmethod
    def on_record(cls, started: ToolStarted) -> "ChildTask":
        """The child that a call was about to begin."""
        said = msgspec.json.decode(started.text)
        return cls(
            task_id=started.child,
            text=said["content"],
            mode=said["mode"],
            todos=msgspec.convert(said["todos"], tuple[Todo, ...]),
        )


class ChildEnd(Struct, frozen=True):
    """What became of it: its result, or why there is none; and what had been used by then."""

    result: str | None
    why_not: str
    spent: Spent


class Children(Protocol):
    """The tasks that the calls of a task hand work to."""

    def new_id(self) -> str: ...

    async def attend(self, call_id: str, child: ChildTask) -> Outcome:
        """Open the child, or go on with it if it was begun, and wait for its end. Cancelling
        this stops it and all its own children, wherever they are."""
        ...


def not_judged(command: str, cwd: str) -> Judgement:
    return Judgement(why_not="nothing here knows what commands do")


class ToolContext(Struct, frozen=True, kw_only=True):
    """All that a tool may use for one call."""

    call_id: str
    files: Files
    finder: Finder
    shell: Shell
    artifacts: Artifacts
    append: Callable[[Fact], Event]
    ask: Callable[[AskKind, str], Awaitable[Answered]]
    limits: Limits
    judge: Callable[[str, str], Judgement] = not_judged
    """What a command line would do in a folder of the workspace."""
    sees_images: bool = False
    offer: Callable[[AskKind, str, Callable[[], None]], Offer] | None = None
    """Put a question that stops nothing; the function is called once there is an answer."""
    background: Background | None = None
    """Without one every call waits for the end of its command."""
    command_list: CommandList = UnlistedCommands()
    mode: str = "code"
    depth: int = 0
    """How many tasks are waiting for the one that makes the call."""
    children: Children | None = None
    """Without them no work can be handed on."""
    barred: Callable[[str], str] = lambda tool: ""
    """Why a tool is not to be used at the moment; nothing if it may be."""
    outline: Callable[[str, str], Awaitable[Sequence[Definition]]] | None = None
    """What a text defines that is in a file of this name; None if nobody knows."""


Args = TypeVar("Args", bound=msgspec.Struct, contravariant=True)


class Tool(Protocol[Args]):
    name: ClassVar[str]

    @property
    def description(self) -> str: ...

    arguments: ClassVar[type[msgspec.Struct]]
    group: ClassVar[ToolGroup]

    async def prepare(self, args: Args, ctx: ToolContext) -> Action:
        """Work out what the call would do. May examine; must not change anything."""
        ...


class Hook(Protocol):
    """Hears about an action before and after it. Has an opinion and no power."""

    async def before(self, call: ToolCall, action: Action) -> Ruling: ...
    async def after(self, call: ToolCall, action: Action, outcome: Outcome) -> None: ...


class Governance(Hook, Protocol):
    """Intents: why a task may change what it changes. It is heard like any hook, and besides sees
    each call from the decision about it to its end, so that all of it can be put on record."""

    @property
    def governs(self) -> bool:
        """Whether the task is governed at all. If not, nothing here does anything."""
        ...

    async def begin(self) -> None:
        """Before the first step of a task, or the first after it was picked up."""
        ...

    @property
    def hears_prompts(self) -> bool:
        """Whether anybody wants to hear of the user's messages before the model does."""
        ...

    async def prompted(self, text: str) -> str:
        """The user said something. Why the model must not hear it; empty if it may."""
        ...

    def notify(self, asked: Asked) -> None:
        """The user is asked something. Nobody waits for what hooks do about it."""
        ...

    async def asked(self, call: ToolCall, question: str) -> None:
        """A person is about to be asked about a call. Raises `Denied` if a hook refuses it."""
        ...

    async def condensing(self, trigger: Literal["auto", "manual"]) -> str:
        """Why the conversation must not be condensed; empty if it may be."""
        ...

    async def rewritten(self, call: ToolCall) -> ToolCall:
        """The call as hooks of the user's want it to be made. Raises `Denied`."""
        ...

    async def refused(
        self, call: ToolCall, action: Action, why: Ruling, said: Answered | None
    ) -> None:
        """It will not be made, by rule or because somebody said no."""
        ...

    async def permitted(
        self, call: ToolCall, action: Action, why: Ruling, said: Answered | None, permit: Permit
    ) -> Permit:
        """It will be made, with this permit or a narrower one. Raises `Denied` if it must not be
        made after all."""
        ...

    async def begun(self, call: ToolCall) -> None:
        """It is about to be made: that is put on record. Raises `Denied` if it cannot be."""
        ...

    async def ended(
        self, call: ToolCall, action: Action, outcome: Outcome | None
    ) -> Outcome | None:
        """It was made, and the model reads this about it; None if nobody saw its end."""
        ...

    async def recorded(self, call_id: str) -> None:
        """The model may read about it by now: what it did is put on record, if that has not been
        done yet."""
        ...

    async def changed(
        self, call_id: str, before: str, after: str, effects: Sequence[Effect]
    ) -> None:
        """What lies between two checkpoints is what a command did."""
        ...

    def intruders(self, call_id: str) -> Sequence[str]:
        """The files that a command changed and that a person may want to have put back."""
        ...

    async def restored(self, done: "Restored") -> None:
        """Files were put back."""
        ...

    async def select(self, intent_id: str) -> None:
        """The user wants the task to work for this intent. Raises `CommandRejected`."""
        ...

    async def check(
        self,
        act: Callable[[ToolCall, Action], Awaitable[Outcome]],
        context: Callable[[ToolCall], ToolContext],
    ) -> None:
        """The work is said to be done: see whether it is."""
        ...

    async def remind(self) -> None:
        """What the model was told may be among what is no longer sent."""
        ...

    def tools(self) -> Mapping[str, Tool[Any]]:
        """What the model can do about its intent."""
        ...

    async def end(self) -> None:
        """The task runs no more."""
        ...


class Ungoverned:
    governs = False
    hears_prompts = False

    async def prompted(self, text: str) -> str:
        return ""

    def notify(self, asked: Asked) -> None:
        pass

    async def asked(self, call: ToolCall, question: str) -> None:
        pass

    async def condensing(self, trigger: Literal["auto", "manual"]) -> str:
        return ""

    async def before(self, call: ToolCall, action: Action) -> Ruling:
        return Ruling()

    async def after(self, call: ToolCall, action: Action, outcome: Outcome) -> None:
        pass

    async def begin(self) -> None:
        pass

    async def rewritten(self, call: ToolCall) -> ToolCall:
        return call

    async def refused(
        self, call: ToolCall, action: Action, why: Ruling, said: Answered | None
    ) -> None:
        pass

    async def permitted(
        self, call: ToolCall, action: Action, why: Ruling, said: Answered | None, permit: Permit
    ) -> Permit:
        return permit

    async def begun(self, call: ToolCall) -> None:
        pass

    async def ended(
        self, call: ToolCall, action: Action, outcome: Outcome | None
    ) -> Outcome | None:
        return outcome

    async def recorded(self, call_id: str) -> None:
        pass

    async def changed(
        self, call_id: str, before: str, after: str, effects: Sequence[Effect]
    ) -> None:
        pass

    def intruders(self, call_id: str) -> Sequence[str]:
        return ()

    async def restored(self, done: "Restored") -> None:
        pass

    async def select(self, intent_id: str) -> None:
        pass

    async def check(
        self,
        act: Callable[[ToolCall, Action], Awaitable[Outcome]],
        context: Callable[[ToolCall], ToolContext],
    ) -> None:
        pass

    async def remind(self) -> None:
        pass

    def tools(self) -> Mapping[str, Tool[Any]]:
        return {}

    async def end(self) -> None:
        pass


# ── the rest of the world ───────────────────────────────────────────────────────────────


class LogStore(Protocol):
    """Where one task's lasting events are kept."""

    recovered: str
    """What had to be set aside when the store was opened, in a sentence; usually nothing."""

    def write(self, event: Event) -> None:
        """Durable when it returns, as far as its fact demands. Raises `StorageError`."""
        ...

    def read(self) -> list[Event]: ...
    def close(self) -> None: ...


class TaskLogs(Protocol):
    """The stores of all tasks. All of these raise `StorageError`."""

    def exists(self, task_id: str) -> bool: ...
    def create(self, task_id: str) -> LogStore: ...
    def open(self, task_id: str) -> LogStore: ...
    def delete(self, task_id: str) -> None: ...


class Checkpoint(Struct, frozen=True, kw_only=True):
    """The files of the workspace at one moment, as the shadow repository calls it. Without an
    `id` there is none, and `problem` says why.
    """

    id: str = ""
    skipped: tuple[str, ...] = ()
    problem: str = ""


class Restored(Struct, frozen=True, kw_only=True):
    """What a restore did, or would do: checkpoints before and after, what was put back, and
    what was left alone because somebody else had changed it. `aside` is the folder in which
    the replaced files are, if they were kept."""

    before: str = ""
    after: str = ""
    effects: tuple[Effect, ...] = ()
    kept: tuple[str, ...] = ()
    problem: str = ""
    aside: str = ""


class Checkpoints(Protocol):
    """Snapshots of the workspace. None of these ever fails a task: what cannot be done is said
    in `problem`."""

    async def save(self, paths: Sequence[str] | None) -> Checkpoint:
        """How the files are now: all of them, or only the ones named, the others being taken
        to be as they were last."""
        ...

    async def effects(self, before: str, after: str) -> Sequence[Effect]:
        """What differs between two checkpoints."""
        ...

    async def changed_files(self, before: str, after: str) -> bool:
        """Whether more than ignored files differs between two checkpoints; also if that cannot
        be found out."""
        ...

    async def tidy(self, keep: Collection[str]) -> str:
        """Remove the oldest checkpoints but those in `keep`, if together they take too much
        room; what was done in a sentence, or nothing."""
        ...

    async def restore(
        self,
        steps: Sequence[tuple[str, str]],
        *,
        overwrite: bool,
        rehearse: bool = False,
        only: Collection[str] | None = None,
    ) -> Restored:
        """Take back steps, each from one checkpoint to another, oldest first; of all files or
        of some `only`. `rehearse` only tells what would be done."""
        ...


class RuleBook(Protocol):
    """What the user has allowed for good."""

    def allows(self, action: Action) -> bool: ...

    def rule_for(self, action: Action) -> str:
        """The rule that `always` would add, in words; empty if there can be none."""
        ...

    def add(self, action: Action) -> None: ...

    def hosts(self) -> Sequence[str]:
        """Hosts that commands may reach besides the known ones."""
        ...

    def rule_for_hosts(self, hosts: Sequence[str]) -> str:
        """The rule that `always` would add for them, in words; empty if there can be none."""
        ...

    def allow_hosts(self, hosts: Sequence[str], *, always: bool) -> None:
        """Until the task ends, or by a rule. Raises `StorageError` if that cannot be kept."""
        ...


class Clock(Protocol):
    def now(self) -> int:
        """Milliseconds since the epoch."""
        ...

    async def wait(self, event: anyio.Event, seconds: float) -> None:
        """Until the event is set, and at most so long."""
        ...
