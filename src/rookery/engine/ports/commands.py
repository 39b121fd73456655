"""Shell commands: run, followed, kept in the background, and where their output goes."""

from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Literal, Protocol, TypeAlias

from msgspec import Struct

from rookery.engine.ports.actions import Permit
from rookery.errors import Denied


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
        raise not_narrowed("it is to run outside the sandbox, where nothing keeps it to that")


def not_narrowed(why: str) -> Denied:
    return Denied(
        f"This command may write to a part of the workspace only, and {why}. It was not run.",
        code="CMD-001",
    )
