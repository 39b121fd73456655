"""Tools, and all that one may use for a call: files, commands, questions and child tasks."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, ClassVar, Protocol, TypeVar

import msgspec
from msgspec import Struct

from rookery.core.asks import AskKind
from rookery.core.command_lines import Judgement
from rookery.core.facts import Answered, Event, Fact, Spent, Todo, ToolStarted, UserSpoke
from rookery.core.indexed_code import Definition
from rookery.core.limits import Limits
from rookery.core.tool_traits import ToolGroup
from rookery.engine.ports.actions import Action, Outcome
from rookery.engine.ports.workspace import (
    Artifacts,
    Background,
    CommandList,
    Files,
    Finder,
    Shell,
    UnlistedCommands,
)


class Offer(Protocol):
    """A question that stops nothing and need not be answered."""

    answer: Answered | None

    def withdraw(self) -> None:
        """It is no longer of interest. Changes nothing once there is an answer."""
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
    return Judgement(why_not="commands cannot be analysed here")


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
