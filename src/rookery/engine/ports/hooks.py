"""Who has a say in an action: hooks, governance, the user's rules. And the logs they read.

A hook has an opinion and no power: it cannot ask, write or stop anything itself.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import Any, Literal, Protocol

from rookery.core.asks import Ruling
from rookery.core.blocks import ToolCall
from rookery.core.facts import Answered, Effect, Event, Fact
from rookery.core.folds.task_state import TaskState
from rookery.engine.ports.actions import Action, Outcome, Permit
from rookery.engine.ports.tool import Tool, ToolContext
from rookery.engine.ports.workspace import Restored


class TaskLog(Protocol):
    """What has happened in a task, and what is true by now."""

    state: TaskState
    ended: bool

    @property
    def events(self) -> Sequence[Event]:
        """The lasting events."""
        ...

    def append(self, fact: Fact) -> Event: ...
    def follow(self, after: int = 0) -> AsyncIterator[Event]: ...


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


class Hook(Protocol):
    """Hears about an action before and after it. Has an opinion and no power."""

    async def before(self, call: ToolCall, action: Action) -> Ruling: ...
    async def after(self, call: ToolCall, action: Action, outcome: Outcome) -> None: ...


class UserHooks(Protocol):
    """What the user's own programs want to hear of, and may refuse, besides calls."""

    @property
    def hears_prompts(self) -> bool:
        """Whether any wants to hear of the user's messages before the model does."""
        ...

    async def prompted(self, text: str) -> str:
        """The user said something. Why the model must not hear it; empty if it may."""
        ...

    async def condensing(self, trigger: Literal["auto", "manual"]) -> str:
        """Why the conversation must not be condensed; empty if it may be."""
        ...


class CallRules(Hook, Protocol):
    """What intents and the user's own programs say about calls."""

    async def rewrite(self, call: ToolCall) -> ToolCall:
        """The call as hooks of the user's want it to be made. Raises `Denied`."""
        ...

    async def asked(self, call: ToolCall, question: str) -> None:
        """A person is about to be asked about a call. Raises `Denied` if a hook refuses it."""
        ...

    async def refused(
        self, call: ToolCall, action: Action, why: Ruling, said: Answered | None
    ) -> None:
        """It will not be made, by rule or because somebody said no."""
        ...

    async def permitted(
        self, call: ToolCall, action: Action, why: Ruling, said: Answered | None, permit: Permit
    ) -> Permit:
        """It is about to be made, with this permit or a narrower one, and that is on record.
        Raises `Denied` if it must not be made after all."""
        ...

    async def ended(
        self, call: ToolCall, action: Action, outcome: Outcome | None
    ) -> Outcome | None:
        """It was made, and the model reads this about it; None if nobody saw its end."""
        ...


class ChangeRecorder(Protocol):
    """Puts on record what was done to files."""

    async def changed(
        self, call_id: str, before: str, after: str, effects: Sequence[Effect]
    ) -> Sequence[str]:
        """What lies between two checkpoints is what a command did. The files among them that a
        person may want to have put back."""
        ...

    async def restored(self, done: "Restored") -> None:
        """Files were put back."""
        ...


class Governance(CallRules, ChangeRecorder, UserHooks, Protocol):
    """Intents: why a task may change what it changes."""

    async def begin(self) -> None:
        """Before the first step of a task, or the first after it was picked up."""
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
    hears_prompts = False

    async def prompted(self, text: str) -> str:
        return ""

    async def condensing(self, trigger: Literal["auto", "manual"]) -> str:
        return ""

    async def rewrite(self, call: ToolCall) -> ToolCall:
        return call

    async def before(self, call: ToolCall, action: Action) -> Ruling:
        return Ruling()

    async def asked(self, call: ToolCall, question: str) -> None:
        pass

    async def refused(
        self, call: ToolCall, action: Action, why: Ruling, said: Answered | None
    ) -> None:
        pass

    async def permitted(
        self, call: ToolCall, action: Action, why: Ruling, said: Answered | None, permit: Permit
    ) -> Permit:
        return permit

    async def after(self, call: ToolCall, action: Action, outcome: Outcome) -> None:
        pass

    async def ended(
        self, call: ToolCall, action: Action, outcome: Outcome | None
    ) -> Outcome | None:
        return outcome

    async def changed(
        self, call_id: str, before: str, after: str, effects: Sequence[Effect]
    ) -> Sequence[str]:
        return ()

    async def restored(self, done: "Restored") -> None:
        pass

    async def begin(self) -> None:
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
