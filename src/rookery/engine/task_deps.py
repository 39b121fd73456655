"""What a task is given to work with, put together once by the composition root."""

from collections.abc import Awaitable, Callable, Collection, Coroutine, Mapping, Sequence
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
from rookery.engine.ports.actions import Action, Outcome
from rookery.engine.ports.checkpoints import Checkpoints
from rookery.engine.ports.commands import Artifacts, CommandList, Shell
from rookery.engine.ports.files import Files, Finder
from rookery.engine.ports.hooks import Governance, Hook, RuleBook, Ungoverned
from rookery.engine.ports.tool import ChildEnd, ChildTask, Tool, ToolContext
from rookery.engine.timers import Clock, Pace

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
