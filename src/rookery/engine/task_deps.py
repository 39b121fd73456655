"""What a task is given to work with, put together once by the composition root.

Its shell takes secrets out of the output of commands, and knows those that run on after a call.
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
from contextlib import asynccontextmanager
from typing import Any, TypeAlias

import anyio
import anyio.lowlevel
from msgspec import Struct

from rookery.core.blocks import ToolCall
from rookery.core.command_lines import GitUse, Judgement
from rookery.core.facts import (
    Effect,
    Gathered,
)
from rookery.core.folds.task_state import TaskState
from rookery.core.indexed_code import Definition
from rookery.core.limits import Limits
from rookery.core.next_step import (
    TurnRules,
)
from rookery.core.text.output_preview import Hiding
from rookery.engine.context import Equipment
from rookery.engine.event_log import EventLog
from rookery.engine.model_turn import Clock, Pace
from rookery.engine.ports.actions import Action, Outcome, Permit
from rookery.engine.ports.hooks import Governance, Hook, RuleBook, Ungoverned
from rookery.engine.ports.tool import ChildEnd, ChildTask, Tool, ToolContext
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
from rookery.errors import CommandRejected


class BackgroundCommands:
    """`start_soon` is of the task's own group, so nothing here outlives the task."""

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
        """Let a command outlive the task and the product."""
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
        """`shell` is called once there is a command."""
        self._shell = shell
        self._hide = hide

    def describe(self, *, confined: bool) -> str:
        return self._shell().describe(confined=confined)

    @asynccontextmanager
    async def run(
        self, permit: Permit, *, seconds: float, keep: Artifact, terminal: bool = False
    ) -> AsyncGenerator[RunningCommand, None]:
        kept = _HidingArtifact(keep, self._hide)
        async with self._shell().run(
            permit, seconds=seconds, keep=kept, terminal=terminal
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
    """Bytes are read as Latin-1, which takes any of them, and in which a key is a key."""

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
"""Does what an action says, if the gate lets it through."""
Gatherer: TypeAlias = Callable[[str, ToolContext, Act], Awaitable[Gathered]]
"""Looks up what a text points at."""
Attend: TypeAlias = Callable[[str, ChildTask], Awaitable[ChildEnd]]
"""Has a child task do the work of a call."""


class TaskDeps(Struct, frozen=True, kw_only=True):
    """The dependencies of a task. It reaches the world through these and nothing else."""

    tools: Mapping[str, Tool[Any]]
    equip: Callable[[TaskState], Awaitable[Equipment]]
    """Whom to ask next, and what to tell them."""
    sees_images: Callable[[TaskState], bool]
    """Whether the model that is asked next does."""
    now: Callable[[EventLog], Awaitable[str]]
    """How things stand, for the end of a request."""
    gather: Gatherer
    resolve_alias: Callable[[ToolCall], ToolCall] = lambda call: call
    """A call in other words than ours as the call that it stands for."""
    outline: Callable[[str, str], Awaitable[Sequence[Definition]]] | None = None
    barred: Callable[[str, str], str] = lambda mode, tool: ""
    """Why a mode does not let a tool be used; nothing if it does."""
    hooks: Sequence[Hook]
    governance: Governance = Ungoverned()
    rules: RuleBook
    checkpoints: Callable[[], Checkpoints]
    """Opened with the first change."""
    shielded: Callable[[Sequence[Effect], Collection[str]], Sequence[str]]
    """Which files a command must not have changed without anybody having been asked: all that
    it did, and the files about which somebody was."""
    checked_out: Callable[[Sequence[Effect], GitUse, int], Collection[str]] = (
        lambda effects, git, began: ()
    )
    """Which files are now as git has them, after a command that began then, in milliseconds."""
    judge: Callable[[str, str], Judgement]
    files: Files
    finder: Finder
    shell: Shell
    artifacts: Artifacts
    command_list: CommandList
    settle: Callable[[], Coroutine[Any, Any, None]]
    """To be done whenever a command has ended of which nobody had seen the end."""
    on_task_closed: Callable[[], Awaitable[None]] = anyio.lowlevel.checkpoint
    """To be done once the task runs no more."""
    clock: Clock
    new_id: Callable[[], str]
    jitter: Callable[[float], float]
    """Draws the wait before a retry from its upper bound, so that clients do not return in step."""
    pace: Pace = Pace()
    """How far requests are apart at least."""
    limits: Limits
    turn: TurnRules = TurnRules()
    hide: Hiding = Hiding()
    """Takes the secrets that are in use out of what tools return."""
