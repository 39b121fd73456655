"""The workspace: files, shell commands and snapshots. Every change needs a permit."""

from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Literal, Protocol, TypeAlias

from msgspec import Struct

from rookery.core.facts import Change, Effect
from rookery.engine.ports.actions import Permit
from rookery.errors import Denied


class Checkpoint(Struct, frozen=True, kw_only=True):
    """A snapshot of the workspace in the shadow repository. Without an `id` it failed, and
    `problem` says why."""

    id: str = ""
    skipped: tuple[str, ...] = ()
    problem: str = ""


class Restored(Struct, frozen=True, kw_only=True):
    """What a restore did or would do: the checkpoints before and after, the restored files,
    those skipped because someone else changed them, and those that no checkpoint has. `aside` is
    the folder with the replaced files, if they were kept."""

    before: str = ""
    after: str = ""
    effects: tuple[Effect, ...] = ()
    kept: tuple[str, ...] = ()
    unsaved: tuple[str, ...] = ()
    problem: str = ""
    aside: str = ""


class Checkpoints(Protocol):
    """Snapshots of the workspace. No method fails the task: problems are reported in `problem`."""

    async def save(self, paths: Sequence[str] | None) -> Checkpoint:
        """Save the current files: all, or only the given ones with the rest as last saved."""
        ...

    async def save_after(
        self, before: str, paths: Sequence[str] | None
    ) -> tuple[Checkpoint, Sequence[Effect]]:
        """Save again after a change; also returns the differences to the checkpoint before it."""
        ...

    async def effects(self, before: str, after: str) -> Sequence[Effect]:
        """The differences between two checkpoints."""
        ...

    async def changed_files(self, before: str, after: str) -> bool:
        """Whether files other than ignored ones differ between two checkpoints; True if unknown."""
        ...

    async def tidy(self, keep: Collection[str]) -> str:
        """Delete the oldest checkpoints except `keep` if they take too much space. Returns a
        sentence about it, or an empty string."""
        ...

    async def restore(
        self,
        steps: Sequence[tuple[str, str]],
        *,
        overwrite: bool,
        rehearse: bool = False,
        only: Collection[str] | None = None,
    ) -> Restored:
        """Undo steps, each from one checkpoint to another, oldest first, for all files or `only`
        some. With `rehearse`, report what would be done."""
        ...


class Place(Struct, frozen=True):
    """A resolved path: `path` is relative to the workspace with `/`, or absolute outside it,
    with all links resolved. The other fields say what is special about it."""

    path: str
    said: str = ""
    outside: bool = False
    added: bool = False
    """Whether it is in a folder that the user opened besides the workspace. Undo covers only the
    workspace."""
    link: bool = False
    """Whether a symbolic link was followed."""
    ignored: bool = False
    """Whether the user hides it from the agent."""
    protected: str = ""
    """Why changing it always needs approval."""
    credential: bool = False


class FileText(Struct, frozen=True, kw_only=True):
    """A text file as it is on disk.

    `text` keeps its line endings. `encode` uses the same encoding and byte-order mark, so that an
    edit leaves the rest of the file unchanged.
    """

    path: str
    text: str
    sha: str
    encoding: str = "utf-8"
    bom: bytes = b""
    size: int = 0
    """Bytes of the whole file; `text` has less if the file was cut."""

    @property
    def is_cut(self) -> bool:
        return len(self.encode(self.text)) < self.size

    def encode(self, text: str) -> bytes:
        errors = "surrogateescape" if self.encoding == "utf-8" else "strict"
        return self.bom + text.encode(self.encoding, errors)


class FileBytes(Struct, frozen=True, kw_only=True):
    """A file that is not text."""

    path: str
    data: bytes
    sha: str


class Buffers(Protocol):
    """The text of files as an editor shows it, saved or not. Paths are absolute."""

    async def read(self, path: str) -> str | None:
        """The text in the editor; None if it has none for this file."""
        ...

    async def write(self, path: str, text: str) -> bool:
        """Set the text in the editor and save it. False if the editor did not."""
        ...


class Files(Protocol):
    """The files of the workspace. Paths are passed as the model gave them and resolved only here.

    All methods raise `ToolError` with a sentence the model can act on.
    """

    def locate(self, path: str) -> str:
        """The path used in permits and hashes: relative to the workspace with `/`, or absolute
        outside it. Rejects invalid paths."""
        ...

    def place(self, path: str) -> Place:
        """The resolved path with everything that rules need to know."""
        ...

    def known_text(self, sha: str) -> str | None:
        """The text with this hash, if it was read or written recently."""
        ...

    async def examine(self, path: str) -> FileText | None:
        """Read a file to show the user what would change; None if it does not exist. The content
        must not reach the model."""
        ...

    async def sha(self, path: str) -> str:
        """Hash of the current content; empty if the file does not exist."""
        ...

    async def read(
        self, path: str, permit: Permit, most: int | None = None
    ) -> FileText | FileBytes:
        """Read a file. A larger one is cut at a line break below `edit_bytes`, or below `most`."""
        ...

    async def write(self, change: Change, data: bytes, permit: Permit) -> None:
        """Create or replace a file atomically and durably, if it still matches `change.before`."""
        ...

    async def apply(
        self,
        edits: Sequence[tuple[Change, bytes | None]],
        permit: Permit,
        *,
        moved: Mapping[str, str] | None = None,
    ) -> None:
        """Make all changes or none; None deletes a file. A failed change is rolled back.

        `moved` maps new files to deleted ones: they keep the file mode.
        """
        ...

    async def save_buffers(self, changes: Sequence[Change], permit: Permit) -> None:
        """Have the editor save files whose unsaved text is about to be changed, so that their
        checkpoint has it."""
        ...

    async def remove_unfinished(self, change: Change) -> None:
        """Remove a temporary file that a killed process left while making this change."""
        ...


class EntryFilter(Protocol):
    """Decides what listings and searches leave out."""

    def hides(self, path: str, *, is_folder: bool, target: str = "") -> bool:
        """Whether an entry, given by its path below the folder, is hidden from the agent."""
        ...


class Finder(Protocol):
    """Lists and searches the workspace."""

    async def list(self, path: str, *, recursive: bool, permit: Permit) -> str: ...

    async def search(self, path: str, regex: str, glob: str | None, permit: Permit) -> str: ...


class CommandEnd(Struct, frozen=True, kw_only=True):
    """How a command ended: with an exit code, by a signal, at one of our limits, or because it
    was stopped."""

    exit_code: int
    signal: str = ""
    timed_out: bool = False
    flooded: bool = False
    stopped: bool = False


class RunningCommand(Protocol):
    """A command and its warden, the process that ends it with everything it started."""

    pid: int
    warden: int

    @property
    def kept(self) -> bool:
        """Whether it continues when its context exits."""
        ...

    @property
    def blocked(self) -> tuple[str, ...]:
        """Hosts it was blocked from so far, as `host:port`."""
        ...

    def unreached(self, command: str, said: str) -> tuple[int, ...]:
        """Local ports with a listener that it was refused, judging by its output `said`. Each is
        reported once."""
        ...

    def output(self) -> AsyncIterator[str]:
        """Yield decoded stdout and stderr until the command has ended.

        Cancelling an iteration loses nothing: the next one continues there.
        """
        ...

    async def end(self) -> CommandEnd: ...

    def stop(self) -> None:
        """End the command and everything it started. Its remaining output is still yielded."""
        ...

    def keep(self) -> None:
        """Let it outlive its context and this process. Its later output is discarded."""
        ...

    def waits_for_input(self) -> bool:
        """Whether it is known to wait for input."""
        ...


class Shell(Protocol):
    def describe(self, *, confined: bool) -> str:
        """Where commands run and what they are confined to, as one line for the approval
        question."""
        ...

    def run(
        self,
        permit: Permit,
        *,
        seconds: float,
        keep: "Artifact",
        terminal: bool = False,
        check: Callable[[], None] = lambda: None,
    ) -> AbstractAsyncContextManager[RunningCommand]:
        """Run the permitted command. All its output goes to `keep`. Exiting the context ends the
        command and everything it started. `check` may still refuse, in a thread."""
        ...


class Background(Protocol):
    """Commands that continue after their calls and end with the task."""

    def start(
        self, call_id: str, command: RunningCommand, attend: Callable[[], Awaitable[None]]
    ) -> None:
        """Take over a command from its call; `attend` handles it until it ends."""
        ...


CommandState: TypeAlias = Literal["running", "background", "kept"]


class CommandList(Protocol):
    """Lets other processes see running commands. It never fails."""

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
    """A file beside the journal that receives the output of a command."""

    id: str
    size: int

    def write(self, data: bytes) -> None: ...
    def close(self) -> None: ...


class Artifacts(Protocol):
    """The large outputs of one task, kept until the task is deleted."""

    def create(self) -> Artifact: ...

    def read(self, artifact_id: str, offset: int, limit: int) -> tuple[bytes, int]:
        """Bytes from `offset` on, and the total size. Raises `ToolError`."""
        ...

    def lines(self, artifact_id: str, pattern: str, limit: int) -> list[tuple[int, str]]:
        """Matching lines with their numbers, up to the first that exceeds `limit` bytes."""
        ...


class WayOut(Protocol):
    """A command's access to the network. Its socket is in the command's temporary folder."""

    @property
    def name(self) -> str: ...

    @property
    def token(self) -> str: ...

    @property
    def ports(self) -> Sequence[int]: ...

    @property
    def blocked(self) -> tuple[str, ...]:
        """The hosts that the command was blocked from."""
        ...

    def unreached(self, command: str, said: str) -> tuple[int, ...]:
        """Local ports that it was refused, each reported once."""
        ...

    def start(self) -> None: ...
    def close(self) -> None: ...


class Launch(Struct, frozen=True):
    """The command to start, additions to its environment, and its network access."""

    argv: tuple[str, ...]
    environment: Mapping[str, str]
    way: WayOut | None = None


def check_not_narrowed(writable: Collection[str] | None) -> None:
    """Raises `Denied` if a command must be confined and cannot be."""
    if writable is not None:
        raise not_narrowed("it would run outside the sandbox, where this cannot be enforced")


def not_narrowed(why: str) -> Denied:
    return Denied(
        f"This command may write to a part of the workspace only, and {why}. It was not run.",
        code="CMD-001",
    )
