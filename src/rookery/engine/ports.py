"""What the engine needs from the outside world, as protocols and plain values.

The engine imports nothing that touches a network, a disk or a terminal. It is handed
objects of these shapes by the composition root, and fakes of these shapes by the tests.
"""

import hashlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import Any, ClassVar, Protocol, TypeAlias, TypeVar

import anyio
import msgspec

from rookery.core.asks import AskKind
from rookery.core.blocks import Image, ToolCall
from rookery.core.facts import Answered, Change, Ending, Event, Fact, StopReason, Usage
from rookery.core.history import Turn
from rookery.core.limits import Limits
from rookery.core.rulings import Ruling
from rookery.core.values import record, value

# ── models ──────────────────────────────────────────────────────────────────────────────


@value
class ModelInfo:
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


@record
class TextChunk:
    text: str


@record
class ThinkingChunk:
    """A piece of reasoning. `signature` belongs to the block that this piece continues and
    comes once, at its end; a signature without any text is a block of its own.
    """

    text: str
    signature: str = ""
    source: str = ""


@record
class CallChunk:
    """A piece of a tool call. `id` and `name` come with its first piece only."""

    index: int
    arguments: str
    id: str = ""
    name: str = ""


@record
class UsageChunk:
    """The usage so far; a later one replaces an earlier one."""

    usage: Usage


@record
class StopChunk:
    """The answer ended properly. A stream without one was cut off."""

    reason: StopReason
    detail: str = ""


@record
class SilenceChunk:
    """Nothing has come for `seconds`; the stream is still open."""

    seconds: float


Chunk: TypeAlias = TextChunk | ThinkingChunk | CallChunk | UsageChunk | StopChunk | SilenceChunk


@record
class ToolSpec:
    """A tool as the model is told of it."""

    name: str
    description: str
    schema: Mapping[str, Any]


@value
class ModelRequest:
    """One request. `cache_key` is the same for all requests of a task."""

    system: str
    turns: Sequence[Turn]
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
    ALWAYS = "always"


@value
class Outcome:
    """What became of an action that was performed. The model reads `text`."""

    text: str
    ending: Ending = Ending.DONE
    images: tuple[Image, ...] = ()
    exit_code: int | None = None


@dataclass(frozen=True, kw_only=True)
class Action:
    """What a tool is about to do. Nothing has changed until `perform` is awaited.

    `reads`, `changes`, `command` and `external` are all it may touch: the permit covers
    exactly those. `payload` is what clients are shown of the call, beside title and diff.
    """

    title: str
    perform: Callable[["Permit"], Awaitable[Outcome]]
    reads: Sequence[str] = ()
    changes: Sequence[Change] = ()
    command: str = ""
    cwd: str = ""
    external: str = ""
    diff: str = ""
    payload: Mapping[str, Any] = field(default_factory=dict)

    @property
    def changes_things(self) -> bool:
        return bool(self.changes or self.command or self.external)

    @property
    def ask(self) -> AskKind:
        return AskKind.COMMAND if self.command else AskKind.TOOL

    @cached_property
    def digest(self) -> str:
        """Of everything the action may touch: what a yes is bound to."""
        scope = (
            self.title,
            list(self.reads),
            list(self.changes),
            self.command,
            self.cwd,
            self.external,
            self.diff,
        )
        return hashlib.sha256(msgspec.json.encode(scope)).hexdigest()


@record
class Permit:
    """Leave to make one action happen. Only the gate makes permits; files and processes
    refuse whoever comes without one, or with one for something else.
    """

    digest: str
    reads: frozenset[str] = frozenset()
    changes: frozenset[Change] = frozenset()
    command: str = ""
    cwd: str = ""


@value
class FileText:
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


@value
class FileBytes:
    """A file that is not text."""

    path: str
    data: bytes
    sha: str


class Files(Protocol):
    """The workspace. Every path is given as the model said it, and resolved here only.

    All of these raise `ToolError` with a sentence the model can act on.
    """

    def locate(self, path: str) -> str:
        """The path by which permits and hashes know the file: relative to the workspace,
        with `/`. Refuses what lies outside it or is no proper path."""
        ...

    async def examine(self, path: str) -> FileText | None:
        """What is there now, to show the user what would change; None if nothing is there.
        Nothing of it may reach the model."""
        ...

    async def sha(self, path: str) -> str:
        """The hash of what is there now; empty if nothing is."""
        ...

    async def read(self, path: str, permit: Permit) -> FileText | FileBytes: ...

    async def write(self, change: Change, data: bytes, permit: Permit) -> None:
        """Replace or create the file, whole and durably, if it still is as `change.before` says."""
        ...

    async def remove_unfinished(self, change: Change) -> None:
        """Clear away what a killed process had written of this change, beside the file."""
        ...


class Finder(Protocol):
    """Listing and searching the workspace."""

    async def list(self, path: str, *, recursive: bool, permit: Permit) -> str: ...

    async def search(self, path: str, regex: str, glob: str | None, permit: Permit) -> str: ...


@value
class CommandEnd:
    """How a command ended: an exit code, or the signal that killed it, or our own time limit."""

    exit_code: int
    signal: str = ""
    timed_out: bool = False
    flooded: bool = False


class RunningCommand(Protocol):
    pid: int

    def output(self) -> AsyncIterator[str]:
        """Pieces of stdout and stderr as they come, decoded; ends when the command has ended."""
        ...

    async def end(self) -> CommandEnd: ...


class Shell(Protocol):
    def run(
        self, permit: Permit, *, seconds: float, keep: "Artifact"
    ) -> AbstractAsyncContextManager[RunningCommand]:
        """Run the permitted command. All its output goes to `keep`. Leaving the context ends
        the command's whole process group."""
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


@value
class ToolContext:
    """All that a tool may use for one call."""

    call_id: str
    files: Files
    finder: Finder
    shell: Shell
    artifacts: Artifacts
    append: Callable[[Fact], Event]
    ask: Callable[[AskKind, str], Awaitable[Answered]]
    limits: Limits
    sees_images: bool = False


Args = TypeVar("Args", bound=msgspec.Struct, contravariant=True)


class Tool(Protocol[Args]):
    name: ClassVar[str]
    description: ClassVar[str]
    arguments: ClassVar[type[msgspec.Struct]]
    group: ClassVar[ToolGroup]

    async def prepare(self, args: Args, ctx: ToolContext) -> Action:
        """Work out what the call would do. May examine; must not change anything."""
        ...


class Hook(Protocol):
    """Hears about an action before and after it. Has an opinion and no power."""

    async def before(self, call: ToolCall, action: Action) -> Ruling: ...
    async def after(self, call: ToolCall, action: Action, outcome: Outcome) -> None: ...


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

    def create(self, task_id: str) -> LogStore: ...
    def open(self, task_id: str) -> LogStore: ...
    def delete(self, task_id: str) -> None: ...


class Clock(Protocol):
    def now(self) -> int:
        """Milliseconds since the epoch."""
        ...

    async def wait(self, event: anyio.Event, seconds: float) -> None:
        """Until the event is set, and at most so long."""
        ...
