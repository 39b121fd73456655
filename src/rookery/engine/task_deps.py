"""The dependencies of a task, put together once in `app`.

The shell removes secrets from the output of commands and tracks background commands.
"""

from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Awaitable,
    Callable,
    Collection,
    Coroutine,
    Mapping,
    Sequence,
)
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import anyio
import anyio.lowlevel
from msgspec import Struct, field
from msgspec.structs import replace

from rookery.core.blocks import ToolCall
from rookery.core.commands import Command
from rookery.core.facts import Effect, Event, FellBack, Gathered, Spent
from rookery.core.folds.run_tallies import used_together
from rookery.core.folds.task_state import TaskState
from rookery.core.limits import Limits
from rookery.core.next_step import TurnRules
from rookery.core.text.terminal_text import Hiding
from rookery.engine.context import Equipment
from rookery.engine.event_log import EventLog
from rookery.engine.model_turn import Clock, Pace
from rookery.engine.ports.actions import Action, GitUse, Judgement, Outcome, Permit
from rookery.engine.ports.hooks import (
    Acting,
    EditChecks,
    Hook,
    LateHooks,
    LogStore,
    RuleBook,
    TaskLogs,
)
from rookery.engine.ports.tool import Tool, ToolContext, Worktrees
from rookery.engine.ports.workspace import (
    Artifact,
    Artifacts,
    Checkpoints,
    CommandList,
    Files,
    Finder,
    RunningCommand,
    Shell,
)
from rookery.errors import CommandRejected, StorageError

if TYPE_CHECKING:
    from rookery.core.indexed_code import Definition
    from rookery.engine.task import Task


class BackgroundCommands:
    """`start_soon` starts work in the task's own group, so nothing here outlives the task."""

    def __init__(self, start_soon: Callable[..., Any]) -> None:
        self._start_soon = start_soon
        self._commands: dict[str, RunningCommand] = {}

    def start(
        self, call_id: str, command: RunningCommand, attend: Callable[[], Awaitable[None]]
    ) -> None:
        async def until_it_ends() -> None:
            try:
                await attend()
            finally:
                self._commands.pop(call_id, None)

        self._commands[call_id] = command
        self._start_soon(until_it_ends)

    @property
    def any_runs(self) -> bool:
        return bool(self._commands)

    def stop(self, call_id: str) -> None:
        self._find(call_id).stop()

    def keep(self, call_id: str) -> None:
        """Let a command outlive the task and this process."""
        self._find(call_id).keep()

    def ends_with_task(self, call_id: str) -> bool:
        command = self._commands.get(call_id)
        return command is not None and not command.kept

    def _find(self, call_id: str) -> RunningCommand:
        if command := self._commands.get(call_id):
            return command
        raise CommandRejected(f"Call {call_id} has no command in the background.")


class HidingShell:
    def __init__(self, shell: Callable[[], Shell], hide: Hiding) -> None:
        """`shell` is called when the first command runs."""
        self._shell = shell
        self._hide = hide

    def describe(self, *, confined: bool) -> str:
        return self._shell().describe(confined=confined)

    @asynccontextmanager
    async def run(
        self,
        permit: Permit,
        *,
        seconds: float,
        keep: Artifact,
        terminal: bool = False,
        check: Callable[[], None] = lambda: None,
    ) -> AsyncGenerator[RunningCommand, None]:
        kept = _HidingArtifact(keep, self._hide)
        async with self._shell().run(
            permit, seconds=seconds, keep=kept, terminal=terminal, check=check
        ) as command:
            yield _HidingCommand(command, self._hide)


class _HidingCommand:
    def __init__(self, command: RunningCommand, hide: Hiding) -> None:
        self.pid = command.pid
        self.warden = command.warden
        self.end = command.end
        self.stop = command.stop
        self.keep = command.keep
        self.waits_for_input = command.waits_for_input
        self.unreached = command.unreached
        self._command = command
        self._shown = hide.stream()

    @property
    def kept(self) -> bool:
        return self._command.kept

    @property
    def blocked(self) -> tuple[str, ...]:
        return self._command.blocked

    async def output(self) -> AsyncIterator[str]:
        async for piece in self._command.output():
            if shown := self._shown.add(piece):
                yield shown
        if rest := self._shown.finish():
            yield rest


class _HidingArtifact:
    """Decodes as Latin-1, which accepts any bytes and leaves keys recognisable."""

    def __init__(self, artifact: Artifact, hide: Hiding) -> None:
        self.id = artifact.id
        self.size = artifact.size
        self._artifact = artifact
        self._shown = hide.stream()

    def write(self, data: bytes) -> None:
        self._put(self._shown.add(data.decode("latin-1")))

    def close(self) -> None:
        try:
            if rest := self._shown.finish():
                self._put(rest)
        finally:
            self._artifact.close()

    def _put(self, text: str) -> None:
        self._artifact.write(text.encode("latin-1"))
        self.size = self._artifact.size


Act: TypeAlias = Callable[[Action], Awaitable[Outcome]]
"""Performs an action if the gate permits it."""
Gatherer: TypeAlias = Callable[[str, ToolContext, Act], Awaitable[Gathered]]
"""Resolves the mentions in a text."""


class TaskDeps(Struct, frozen=True, kw_only=True):
    """A task reaches the outside world through these and nothing else."""

    tools: Callable[[], Mapping[str, Tool[Any]]]
    equip: Callable[[TaskState], Awaitable[Equipment]]
    """The provider, system prompt and tools for the next request."""
    fall_back: Callable[[int], FellBack] = lambda place: FellBack(
        place=place, provider="", model="", problem="There is no such fallback."
    )
    """Opens the fallback at this place, counted from 1."""
    sees_images: Callable[[TaskState], bool]
    """Whether the next request's model accepts images."""
    details: Callable[[EventLog], Awaitable[Mapping[str, str]]]
    """Environment details that the model does not have yet, by title."""
    cache_key: str = ""
    """The same for all tasks whose requests begin with the same prompt and tools."""
    gather: Gatherer
    resolve_alias: Callable[[ToolCall], ToolCall] = lambda call: call
    """Translates a call under another agent's tool name into one of ours."""
    outline: Callable[[str, str], Awaitable["Sequence[Definition]"]] | None = None
    barred: Callable[[str, str], str] = lambda mode, tool: ""
    """Why a mode does not allow a tool; empty if it does."""
    hooks: Sequence[Hook]
    find_hooks: Callable[[], LateHooks] = LateHooks
    """Looks up further hooks when the task begins."""
    carry_out: Callable[[Command], Awaitable[None]] = lambda command: anyio.lowlevel.checkpoint()
    """Carries out a command of a feature, between two steps. Notes in the log what it cannot do."""
    edit_checks: Callable[[Acting], EditChecks] = lambda acting: EditChecks()
    """What formats and checks the edits of the task."""
    rules: RuleBook
    checkpoints: Callable[[], Checkpoints]
    """Opened with the first change."""
    shielded: Callable[[Sequence[Effect], Collection[str]], Sequence[str]]
    """Given all effects of a command and the approved paths, the files that it must not have
    changed without approval."""
    checked_out: Callable[[Sequence[Effect], GitUse, int], Collection[str]] = (
        lambda effects, git, began: ()
    )
    """Which files now match git, after a command that started at this time in milliseconds."""
    judge: Callable[[str, str], Judgement]
    files: Files
    finder: Finder
    shell: Shell
    artifacts: Artifacts
    uses_repository: Callable[[Action], bool] = lambda action: False
    """Whether a command may write to the repository that worktrees share."""
    worktrees: Callable[[], Worktrees | None] = lambda: None
    """The worktrees of workers, opened when needed; None outside a git repository."""
    command_list: Callable[[], CommandList]
    settle: Callable[[], Coroutine[Any, Any, None]]
    """Runs after a background command has ended."""
    on_task_closed: Callable[[], Awaitable[None]] = anyio.lowlevel.checkpoint
    """Runs when the task has stopped."""
    clock: Clock
    new_id: Callable[[], str]
    jitter: Callable[[float], float]
    """Draws the wait before a retry from its upper bound, so that clients do not retry in step."""
    pace: Pace = Pace()
    """The minimum time between requests."""
    limits: Limits
    turn: TurnRules = TurnRules()
    hide: Hiding = Hiding()
    """Removes known secrets from tool results."""


class Family(Struct, frozen=True, kw_only=True):
    """What a task shares with its parent and with those that run beside it."""

    runner: "Runner"
    workspace: str
    agent: str = ""
    """The agent that it is, or works for."""
    asking: anyio.Lock = field(default_factory=lambda: anyio.Lock(fast_acquire=True))
    """Held while a question is open, so that agents ask one after the other."""
    writing: anyio.Lock = field(default_factory=lambda: anyio.Lock(fast_acquire=True))
    """Held while a command may write to the repository that the worktrees of agents share."""
    beside: Callable[[], Spent] = Spent
    """What the other agents have used."""
    above: Callable[[], Sequence[Sequence[Event]]] = tuple
    """The events of the tasks above it, beginning with the first."""

    def alone(
        self, uses_repository: Callable[[Action], bool], action: Action
    ) -> AbstractAsyncContextManager[object]:
        return self.writing if self.agent and uses_repository(action) else nullcontext()

    def counted(self, state: TaskState, seconds: float) -> TaskState:
        """The state with the work since the last request and with what others use meanwhile. That
        counts as used before: for the limits of the session, not for the budget of the agent."""
        beside = self.beside()
        opened = replace(state.opened, spent=used_together(state.opened.spent, beside))
        spent = used_together(state.spent, beside, Spent(seconds=seconds))
        return replace(state, spent=spent, opened=opened)


class Runner(Protocol):
    """Makes and runs tasks; the engine."""

    @property
    def logs(self) -> TaskLogs: ...

    def make(self, task_id: str, store: LogStore, family: Family) -> "Task": ...

    def log_of(self, task_id: str) -> EventLog:
        """The log of a task that does not run, to read it or to add its end."""
        ...

    async def run(self, task: "Task") -> StorageError | None:
        """Run a task to its end. Returns the error if its log could not be written."""
        ...
