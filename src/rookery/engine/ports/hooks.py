"""Hooks, the user's rules, and the logs they read.

A hook rules on an action. It cannot ask, write or stop anything itself.
"""

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Literal, Protocol

from msgspec import Struct
from msgspec.structs import replace

from rookery.core.asks import Ruling
from rookery.core.blocks import ToolCall
from rookery.core.facts import Answered, Effect, Event, Fact
from rookery.core.folds.task_record import TaskRecord
from rookery.core.folds.task_state import TaskState
from rookery.engine.ports.actions import Action, Outcome, Permit
from rookery.engine.ports.tool import ToolContext
from rookery.engine.ports.workspace import Restored
from rookery.errors import Denied

if TYPE_CHECKING:
    from rookery.core.queries import KnownRule
    from rookery.core.refusals import Refusal


def denial_of(refusal: "Refusal", call: ToolCall, *, halts: bool = False) -> Denied:
    """The refusal of a call as the model reads it, with a code that a program can go by."""
    said = replace(refusal, tool=call.name, tool_use_id=call.id)
    text = json.dumps(said.to_json(), ensure_ascii=False)
    retryable = refusal.retryable and not halts
    return Denied(text, code=refusal.code, retryable=retryable, halts=halts)


class TaskLog(Protocol):
    """The events of a task and its current state."""

    ended: bool

    @property
    def state(self) -> TaskState: ...

    @property
    def events(self) -> Sequence[Event]:
        """The lasting events."""
        ...

    def append(self, fact: Fact) -> Event: ...
    def follow(self, after: int = 0) -> AsyncIterator[Event]: ...


class LogStore(Protocol):
    """Stores the lasting events of one task."""

    recovered: str
    """What was repaired when the store was opened, as a sentence; usually empty."""

    def write(self, event: Event) -> None:
        """Write an event, durably if its fact demands it. Raises `StorageError`."""
        ...

    def read(self) -> TaskRecord:
        """Return what is stored. The caller of `write` also appends the event to this record."""
        ...

    def close(self) -> None: ...


class TaskLogs(Protocol):
    """The stores of all tasks. Every method raises `StorageError`."""

    def exists(self, task_id: str) -> bool: ...
    def create(self, task_id: str) -> LogStore: ...
    def open(self, task_id: str) -> LogStore: ...
    def delete(self, task_id: str) -> None: ...


class StoredJournals(Protocol):
    """The journals of tasks, for a reader that catches up with them. Both raise
    `StorageError`."""

    def events_of(self, task_id: str) -> Sequence[Event] | None:
        """As far as they can be read: None while a process works on the task, and none at all if
        it was deleted."""
        ...

    def lost_lines(self, task_id: str) -> int:
        """How many whole lines cannot be read any more."""
        ...


class Hook:
    """Called around the calls of a task. It rules on an action and cannot act. A hook overrides
    what it needs; this base class has no opinion."""

    async def rewrite(self, call: ToolCall) -> ToolCall:
        """The call that is made instead. Raises `Denied`."""
        return call

    async def before(self, call: ToolCall, action: Action) -> Ruling:
        return Ruling()

    async def asked(self, call: ToolCall, question: str) -> None:
        """Called before the user is asked about a call. Raises `Denied` to refuse it instead."""

    async def refused(
        self, call: ToolCall, action: Action, why: Ruling, said: Answered | None
    ) -> None:
        """Called when a ruling or the user refused the call."""

    async def permitted(
        self, call: ToolCall, action: Action, why: Ruling, said: Answered | None, permit: Permit
    ) -> Permit:
        """Called right before the call is made. Returns the permit or a narrower one. Raises
        `Denied` if the call must not be made after all."""
        return permit

    async def after(self, call: ToolCall, action: Action, outcome: Outcome) -> None:
        """Called after an action that was performed without an error."""

    async def ended(self, call: ToolCall, action: Action, outcome: Outcome) -> Outcome:
        """Called after every permitted call. Returns the outcome that the model sees."""
        return outcome

    async def interrupted(self, call: ToolCall, action: Action) -> None:
        """Called instead of `ended` if the call was cancelled, so that its end is unknown."""


class SessionHook:
    """Called at events of a session other than calls. This base class does nothing."""

    follows_files = False
    """Whether it must know what a command changed before the model continues."""

    @property
    def checks_messages(self) -> bool:
        """Whether it checks the user's messages before the model sees them."""
        return False

    async def begin(self) -> None:
        """Called before the first step after a task was opened or resumed."""

    async def check_message(self, text: str) -> str:
        """Check a message of the user. Returns why the model must not see it; empty if it may."""
        return ""

    async def before_cut(self, trigger: Literal["auto", "manual"]) -> str:
        """Why the conversation must not be condensed; empty if it may be."""
        return ""

    async def after_cut(self) -> None:
        """Called after the conversation was cut, to repeat what the model must know."""

    async def end_turn(self, acting: "Acting") -> None:
        """Called when the model says that the work is done. What it finds goes into the log."""

    async def files_changed(
        self, call_id: str, before: str, after: str, effects: Sequence[Effect]
    ) -> Sequence[str]:
        """Called after a command changed files between two checkpoints. Returns the files that
        the user may want to restore."""
        return ()

    async def files_restored(self, done: Restored) -> None:
        """Called after files were restored."""

    async def end(self) -> None:
        """Called when the task has stopped. The hooks end in reverse order."""


class LateHooks(Struct, frozen=True):
    """The hooks that were looked up when a task began. They are called before its other hooks,
    and see a command that is part of an edit only as part of that edit."""

    calls: Sequence[Hook] = ()
    session: Sequence[SessionHook] = ()


class EditChecks:
    """Formatters, checks and language servers, which look at what edits do. This base class has
    none."""

    def formats(self, action: Action) -> bool:
        """Whether a formatter runs after this edit."""
        return False

    async def begin(self, action: Action) -> None:
        """Called before an edit, to learn what is wrong already."""

    async def format(self, call: ToolCall, action: Action) -> None:
        """Run formatters on the files that a call wrote."""

    async def report(self, action: Action, permit: Permit, outcome: Outcome) -> Outcome:
        """Called after an edit. Returns the outcome with the problems that are new."""
        return outcome

    async def end_turn(self) -> None:
        """Called when the model says that the work is done. New problems go back to it once."""


class Acting(Struct, frozen=True):
    """How actions are performed that the model did not request, if the gate permits them."""

    act: Callable[[ToolCall, Action], Awaitable[Outcome]]
    act_within: Callable[[ToolCall, Action], Awaitable[Outcome]]
    """For a command that is part of an edit: undo and the hooks that were found cover it with the
    edit."""
    context: Callable[[ToolCall], ToolContext]


class RuleBook(Protocol):
    """The rules a user added with "always allow"."""

    def allows(self, action: Action) -> bool: ...

    def rule_for(self, action: Action) -> str:
        """The rule that "always" would add, in words; empty if there can be none."""
        ...

    def add(self, action: Action) -> None: ...

    def prefix_for(self, action: Action) -> str:
        """The rule for all commands that begin like this one, in words; empty if there can be
        none."""
        ...

    def add_prefix(self, action: Action) -> None: ...

    def prefixes(self) -> Sequence[str]:
        """The first words of the commands that such rules allow."""
        ...

    def listed(self) -> "Sequence[KnownRule]":
        """All rules in force."""
        ...

    def remove(self, rule_id: str) -> str:
        """Remove a rule, and return it in words. Raises `CommandRejected` if there is none."""
        ...

    def hosts(self) -> Sequence[str]:
        """Hosts that commands may reach besides the default ones."""
        ...

    def rule_for_hosts(self, hosts: Sequence[str]) -> str:
        """The rule that "always" would add for these hosts, in words; empty if there can be
        none."""
        ...

    def allow_hosts(self, hosts: Sequence[str], *, always: bool) -> None:
        """Allow hosts until the task ends, or with a rule. Raises `StorageError` if the rule
        could not be stored."""
        ...
