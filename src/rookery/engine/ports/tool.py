"""Tools, and what they can use during a call: files, commands, questions and sub-tasks."""

from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeVar

import msgspec
from msgspec import Struct

from rookery.core.asks import AskKind
from rookery.core.facts import AgentTask, Answered, Event, Fact, Spent, Todo, ToolStarted, UserSpoke
from rookery.core.limits import Limits
from rookery.core.tool_traits import ToolGroup
from rookery.engine.ports.actions import Action, Judgement, Outcome
from rookery.engine.ports.workspace import (
    Artifacts,
    Background,
    CommandList,
    Files,
    Finder,
    Shell,
    UnlistedCommands,
)
from rookery.first_use import prepared

if TYPE_CHECKING:
    from rookery.core.indexed_code import Definition


class Offer(Protocol):
    """A question that blocks nothing and need not be answered."""

    answer: Answered | None

    def withdraw(self) -> None:
        """Withdraw the question. Does nothing once it is answered."""
        ...


class AskUser(Protocol):
    """Asks the user and waits for the answer. An open question with a `title` is not the model's:
    it is never answered automatically, and the model does not see the answer. If the caller stops
    waiting, a question that `withdraws` counts as answered with no."""

    async def __call__(
        self,
        ask: AskKind,
        text: str,
        *,
        title: str = "",
        notes: tuple[str, ...] = (),
        rule: str = "",
        digest: str = "",
        withdraws: bool = False,
    ) -> Answered: ...


class ChildTask(Struct, frozen=True, kw_only=True):
    """Work that a task delegates to a sub-task."""

    task_id: str
    text: str
    mode: str
    todos: tuple[Todo, ...] = ()
    words: UserSpoke | None = None
    """The message with which the user resumed it."""

    def payload(self) -> dict[str, Any]:
        """What is recorded before the sub-task starts."""
        todos = msgspec.to_builtins(self.todos)
        return {"tool": "newTask", "mode": self.mode, "content": self.text, "todos": todos}

    @classmethod
    def on_record(cls, started: ToolStarted) -> "ChildTask":
        """The sub-task of a recorded call."""
        said = msgspec.json.decode(started.text)
        return cls(
            task_id=started.child,
            text=said["content"],
            mode=said["mode"],
            todos=msgspec.convert(said["todos"], prepared(tuple[Todo, ...])),
        )


class ChildEnd(Struct, frozen=True):
    """How a sub-task ended: its result, or why there is none, and its usage."""

    result: str | None
    why_not: str
    spent: Spent


class Children(Protocol):
    """Runs the sub-tasks of a task."""

    def new_id(self) -> str: ...

    async def attend(self, call_id: str, child: ChildTask) -> Outcome:
        """Start or resume the sub-task and wait until it ends. Cancelling this stops it and its
        own sub-tasks."""
        ...

    async def attend_all(self, call_id: str, agents: Sequence[AgentTask]) -> Outcome:
        """Start or resume the agents side by side and wait until all have ended. Cancelling this
        stops them all."""
        ...


class WorkFile(Struct, frozen=True, kw_only=True):
    """A file that a worker changed: as it was, and as it is in the worktree. None if it does not
    exist."""

    path: str
    before: bytes | None
    after: bytes | None


class WorkerTree(Struct, frozen=True, kw_only=True):
    """Where a new worker will work: a branch of its own, from the current commit."""

    branch: str
    folder: str
    base: str


class WorkToApply(Struct, frozen=True, kw_only=True):
    files: tuple[WorkFile, ...]
    left_out: tuple[str, ...] = ()
    """What cannot be applied as text or bytes, such as links."""


class Worktrees(Protocol):
    """The git worktrees of workers. All methods raise `ToolError` with a sentence."""

    async def plan(self, name: str, task_id: str) -> WorkerTree:
        """Choose the names. Nothing is created."""
        ...

    async def create(self, agent: AgentTask) -> None:
        """Create the worktree, unless it exists; an unfinished one is made again."""
        ...

    async def settle(self, agent: AgentTask) -> str:
        """What a worker that has ended changed, as a diffstat. Without changes the worktree is
        removed, and the text is empty."""
        ...

    async def work_on(self, branch: str) -> WorkToApply:
        """What the worktree of a branch changed since it left the workspace's branch."""
        ...

    async def merged(self, base: bytes, ours: bytes, theirs: bytes) -> bytes | None:
        """A three-way merge of lines; None if they conflict."""
        ...


def not_judged(command: str, cwd: str) -> Judgement:
    return Judgement(why_not="commands cannot be analysed here")


class ToolContext(Struct, frozen=True, kw_only=True):
    """What a tool can use during one call."""

    call_id: str
    files: Files
    finder: Finder
    shell: Shell
    artifacts: Artifacts
    append: Callable[[Fact], Event]
    ask: AskUser
    limits: Limits
    judge: Callable[[str, str], Judgement] = not_judged
    """Analyses what a command line would do in a folder of the workspace."""
    sees_images: bool = False
    offer: Callable[[AskKind, str, Callable[[], None]], Offer] | None = None
    """Asks a question that blocks nothing; the function is called when it is answered."""
    background: Background | None = None
    """If None, every call waits until its command has ended."""
    command_list: Callable[[], CommandList] = UnlistedCommands
    mode: str = "code"
    depth: int = 0
    """Number of parent tasks."""
    children: Children | None = None
    """If None, the task cannot start sub-tasks."""
    worktrees: Callable[[], Worktrees | None] = lambda: None
    """The worktrees of workers, if the workspace is a git repository."""
    alone: Callable[[Action], AbstractAsyncContextManager[object]] = lambda action: nullcontext()
    """Entered while an action is approved and performed. Agents that run side by side write to
    the repository one after the other."""
    agents_left: Callable[[], int] = lambda: 0
    """How many agents the session may still start."""
    barred: Callable[[str], str] = lambda tool: ""
    """Why a tool cannot be used in this mode; empty if it can."""
    outline: Callable[[str, str], Awaitable["Sequence[Definition]"]] | None = None
    """The definitions in the text of a file of this name; None if its language is unknown."""


class WebHit(Struct, frozen=True, kw_only=True):
    """A result of a web search."""

    title: str
    url: str
    snippet: str = ""


class WebFindings(Struct, frozen=True, kw_only=True):
    """The results of a search, and what the engine says of them."""

    hits: Sequence[WebHit]
    summary: str = ""


class WebSearchEngine(Protocol):
    @property
    def name(self) -> str: ...

    async def search(self, query: str) -> WebFindings:
        """Raises `ToolError` with a sentence."""
        ...


Args = TypeVar("Args", bound=msgspec.Struct, contravariant=True)


class Tool(Protocol[Args]):
    name: ClassVar[str]

    @property
    def description(self) -> str: ...

    arguments: ClassVar[type[msgspec.Struct]]
    group: ClassVar[ToolGroup]

    async def prepare(self, args: Args, ctx: ToolContext) -> Action:
        """Determine what the call would do. May read, must not change anything."""
        ...
