"""Queries of clients for data outside a task's log.

The host answers a query at once and changes nothing. Each class declares the type of its answer,
which is the same for local and remote hosts.
"""

from typing import Generic, Literal, TypeAlias, TypeVar

from msgspec import Struct

from rookery.core.facts import IntentSelected, Todo
from rookery.core.folds.run_tallies import Totals
from rookery.core.limits import Effort
from rookery.core.modes import Level

T = TypeVar("T")


class Asking(Struct, Generic[T], frozen=True):
    """A query that is answered with a `T`."""


class KnownMode(Struct, frozen=True, kw_only=True):
    slug: str
    name: str
    when_to_use: str = ""
    source: str = "built-in"


class KnownCommand(Struct, frozen=True, kw_only=True):
    """A slash command, named without its slash."""

    name: str
    description: str = ""
    argument_hint: str = ""
    source: str = "built-in"


class KnownModel(Struct, frozen=True, kw_only=True):
    provider: str
    model: str
    window: int = 0
    """Tokens in its context; 0 if unknown."""
    images: bool = False
    reasons: bool = False
    """Whether its reasoning effort can be chosen."""
    price_in: float | None = None
    """Dollars for a million tokens."""
    price_out: float | None = None


class KnownTask(Struct, frozen=True, kw_only=True):
    """A stored task. `excerpt` is the text around the search words."""

    task_id: str
    title: str = ""
    workspace: str = ""
    parent: str | None = None
    mode: str = ""
    status: Literal["open", "waiting", "completed", "closed", "failed"] = "open"
    """`waiting`: a plan waits for approval."""
    created: int = 0
    updated: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    cost: float | None = None
    excerpt: str = ""
    running: bool = False
    """Whether it is open in the host that was asked."""


class FoundPath(Struct, frozen=True, kw_only=True):
    """A file or folder of the workspace."""

    path: str
    folder: bool = False


class FileDifference(Struct, frozen=True, kw_only=True):
    """A file's change between two moments. `diff` is empty if it is not text."""

    path: str
    change: Literal["added", "changed", "removed"] = "changed"
    diff: str = ""


class RestoreRehearsal(Struct, frozen=True, kw_only=True):
    """What restoring would do to files. `kept` are files that someone else changed."""

    written: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()
    unsaved: tuple[str, ...] = ()
    """Files that no checkpoint has."""
    problem: str = ""


class About(Struct, frozen=True, kw_only=True):
    """The host: what a client shows around a task."""

    version: str = ""
    workspace: str = ""
    provider: str = ""
    model: str = ""
    window: int = 0
    effort: Effort = "unspecified"
    """The reasoning effort of the settings."""
    automatic: bool = False
    """Whether actions are auto-approved, unless a task says otherwise."""
    level: Level = Level.ASK
    """How far the agent may go without asking, unless a task says otherwise."""
    trusted: bool = False
    mode: str = "code"
    """The mode of new tasks."""
    allows: tuple[str, ...] = ()
    """What else is auto-approved: any of edits, modes, subtasks, outside and protected."""


class KnownRule(Struct, frozen=True, kw_only=True):
    """A rule that the user added with *always*."""

    id: str
    text: str


class Permissions(Struct, frozen=True, kw_only=True):
    """What happens without asking. `levels` are those that can be chosen here."""

    level: Level = Level.ASK
    levels: tuple[Level, ...] = ()
    rules: tuple[KnownRule, ...] = ()


class KnownIntent(Struct, frozen=True, kw_only=True):
    """An intent of the workspace. `problem` is why it cannot be selected."""

    id: str
    name: str = ""
    status: str = ""
    revision: int = 1
    scope: tuple[str, ...] = ()
    problem: str = ""


class KnownMcpServer(Struct, frozen=True, kw_only=True):
    """A configured MCP server and the tools it last offered."""

    name: str
    source: Literal["user", "project"] = "user"
    state: str = ""
    error: str = ""
    tools: tuple[str, ...] = ()


class ContextPart(Struct, frozen=True, kw_only=True):
    """Something that the model gets, or a file that was found and is not used."""

    kind: Literal["prompt", "tool", "rules", "mode", "skill", "command", "mcp", "hook", "details"]
    name: str
    path: str = ""
    """The file, relative to the workspace or below `~`."""
    source: Literal["built-in", "user", "project", "managed"] = "built-in"
    agent: str = ""
    """The agent that it was written for."""
    characters: int = 0
    tokens: int = 0
    """An estimate."""
    sent: bool = False
    """Whether it is in the first request; otherwise it is read when it is used."""
    unused: str = ""
    """Why it is not used."""


class KnownContext(Struct, frozen=True, kw_only=True):
    """What the model gets in this workspace, and how much of its window the session uses."""

    workspace: str = ""
    mode: str = ""
    model: str = ""
    window: int = 0
    """Tokens that a request and its answer may have together."""
    conversation: int = 0
    """Tokens of the session's conversation; an estimate."""
    parts: tuple[ContextPart, ...] = ()
    problems: tuple[str, ...] = ()


class TraceRow(Struct, frozen=True, kw_only=True):
    """One record of the ledger in a list."""

    id: str
    ts: int
    kind: str
    intent: str = ""
    tool: str = ""
    paths: tuple[str, ...] = ()
    approved_by: str = ""
    session_id: str = ""
    summary: str = ""


class BlamedLine(Struct, frozen=True, kw_only=True):
    line: int
    text: str
    record_id: str = ""
    intent: str = ""
    criterion: str = ""
    tool: str = ""
    approved_by: str = ""
    when: int = 0


class IntentRow(Struct, frozen=True, kw_only=True):
    id: str
    name: str = ""
    status: str = ""
    scope: tuple[str, ...] = ()
    criteria: tuple[str, ...] = ()
    problem: str = ""
    writes: int = 0


class TraceQuery(Struct, frozen=True, kw_only=True):
    """A filter on ledger records, newest first."""

    intent: str = ""
    path: str = ""
    session_id: str = ""
    most: int = 100


class AskAbout(Asking[About], frozen=True, kw_only=True):
    pass


class AskModes(Asking[tuple[KnownMode, ...]], frozen=True, kw_only=True):
    pass


class AskCommands(Asking[tuple[KnownCommand, ...]], frozen=True, kw_only=True):
    pass


class AskModels(Asking[tuple[KnownModel, ...]], frozen=True, kw_only=True):
    """The models for which there are keys. With `local`, also of local servers, which takes
    longer."""

    local: bool = False


class AskTasks(Asking[tuple[KnownTask, ...]], frozen=True, kw_only=True):
    """Tasks of this workspace, newest first; only those that contain all of the words, if given."""

    words: str = ""
    most: int = 200


class AskPaths(Asking[tuple[FoundPath, ...]], frozen=True, kw_only=True):
    """Files and folders of the workspace that match some letters, best first."""

    letters: str = ""
    most: int = 20


class AskDifferences(Asking[tuple[FileDifference, ...]], frozen=True, kw_only=True):
    """What an open task did to files after event `since` and up to event `until`."""

    task_id: str
    since: int = 0
    until: int | None = None


class AskRehearsal(Asking[RestoreRehearsal], frozen=True, kw_only=True):
    """What `RestoreFiles` would do, without doing it."""

    task_id: str
    to: int
    overwrite: bool = False


class AskPermissions(Asking[Permissions], frozen=True, kw_only=True):
    """The level and the rules of an open task, or without one those of new tasks."""

    task_id: str = ""


class AskIntents(Asking[tuple[KnownIntent, ...]], frozen=True, kw_only=True):
    """The intents of the workspace, those in progress first."""


class AskServers(Asking[tuple[KnownMcpServer, ...]], frozen=True, kw_only=True):
    """The MCP servers of the user and of a trusted project. Starts none."""


class AskContext(Asking[KnownContext], frozen=True, kw_only=True):
    """What the model gets, in an open session or in the first request of a new one. Starts no
    server and calls no model."""

    task_id: str = ""


class ViewState(Struct, frozen=True, kw_only=True):
    """What a view has besides rows."""

    mode: str = ""
    model: str = ""
    """The model of the last request, or of the next one if it was switched."""
    window: int = 0
    """The context window of the last request's model; 0 if unknown."""
    level: Level | None = None
    """How far the agent may go without asking; None: as the run was started."""
    intent: IntentSelected | None = None
    todos: tuple[Todo, ...] = ()
    closed: bool = False


class ViewStart(Struct, frozen=True, kw_only=True):
    """A request of a long session. Its rows and all later ones follow from the events after event
    `seq` and from this."""

    seq: int = 0
    usage: Totals = Totals()
    state: ViewState = ViewState()


class AskViewStart(Asking[ViewStart], frozen=True, kw_only=True):
    """Where to begin to show the end of an open task, or what it showed after event `upto`. A task
    that is not long begins at its first event."""

    task_id: str
    upto: int | None = None


class AskRest(Asking[bool], frozen=True, kw_only=True):
    """Whether every task waits for a message from the user."""


Query: TypeAlias = (
    AskAbout
    | AskModes
    | AskCommands
    | AskModels
    | AskTasks
    | AskPaths
    | AskDifferences
    | AskRehearsal
    | AskPermissions
    | AskIntents
    | AskServers
    | AskContext
    | AskViewStart
    | AskRest
)
