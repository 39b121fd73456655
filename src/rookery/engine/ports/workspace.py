"""The workspace: files, shell commands and snapshots. Each change needs a permit."""

from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Literal, Protocol, TypeAlias

from msgspec import Struct

from rookery.core.facts import Change, Effect
from rookery.engine.ports.actions import Permit
from rookery.errors import Denied


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


class EntryFilter(Protocol):
    """What a walk through a folder must leave out."""

    def hides(self, path: str, *, is_folder: bool, target: str = "") -> bool:
        """Whether an entry, named by its path below the folder, is kept from the agent."""
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


class WayOut(Protocol):
    """A command's way to the network. Its socket lies in the command's temporary folder."""

    @property
    def name(self) -> str: ...

    @property
    def token(self) -> str: ...

    @property
    def ports(self) -> Sequence[int]: ...

    @property
    def blocked(self) -> tuple[str, ...]:
        """The hosts that the command was kept from."""
        ...

    def unreached(self, command: str, said: str) -> tuple[int, ...]:
        """Ports of this machine that it was refused, each told once."""
        ...

    def start(self) -> None: ...
    def close(self) -> None: ...


class Launch(Struct, frozen=True):
    """What to start, what to add to its environment, and its way to the network."""

    argv: tuple[str, ...]
    environment: Mapping[str, str]
    way: WayOut | None = None


def check_not_narrowed(writable: Collection[str] | None) -> None:
    """For a command that nothing confines. Raises `Denied`."""
    if writable is not None:
        raise not_narrowed("it would run outside the sandbox, where this cannot be enforced")


def not_narrowed(why: str) -> Denied:
    return Denied(
        f"This command may write to a part of the workspace only, and {why}. It was not run.",
        code="CMD-001",
    )
