"""What a client may want to know that no task's log tells.

A query is answered by the host at once and changes nothing. What its answer is made of stands
in its class, so that a near host and one behind a wire answer alike.
"""

from typing import Generic, Literal, TypeAlias, TypeVar

from msgspec import Struct

T = TypeVar("T")


class Asking(Struct, Generic[T], frozen=True):
    """What is to be known, as the `T` it is answered with."""


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
    """Tokens its context holds; 0 if nobody knows."""
    images: bool = False
    price_in: float | None = None
    """Dollars for a million tokens."""
    price_out: float | None = None


class KnownTask(Struct, frozen=True, kw_only=True):
    """A stored task. `excerpt` is where it holds the words that were looked for."""

    task_id: str
    title: str = ""
    workspace: str = ""
    parent: str | None = None
    mode: str = ""
    status: Literal["open", "completed", "closed", "failed"] = "open"
    created: int = 0
    updated: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    cost: float | None = None
    excerpt: str = ""


class FoundPath(Struct, frozen=True, kw_only=True):
    """A file of the workspace, or a folder."""

    path: str
    folder: bool = False


class FileDifference(Struct, frozen=True, kw_only=True):
    """What became of a file between two moments. There is no `diff` of what is no text."""

    path: str
    change: Literal["added", "changed", "removed"] = "changed"
    diff: str = ""


class RestoreRehearsal(Struct, frozen=True, kw_only=True):
    """What going back would do to files. `kept` are those that somebody else has changed."""

    written: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()
    unsaved: tuple[str, ...] = ()
    problem: str = ""


class About(Struct, frozen=True, kw_only=True):
    """Who answers: what a client shows around a task."""

    version: str = ""
    workspace: str = ""
    provider: str = ""
    model: str = ""
    window: int = 0
    automatic: bool = False
    """Actions are allowed without a question, unless a task says otherwise."""
    trusted: bool = False
    mode: str = "code"
    """What new tasks start in."""
    allows: tuple[str, ...] = ()
    """What else needs no question: some of edits, modes, subtasks, outside and protected."""


class KnownIntent(Struct, frozen=True, kw_only=True):
    """An intent of the workspace. `problem` is why it cannot be selected, if it cannot."""

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


class TraceRow(Struct, frozen=True, kw_only=True):
    """One record of the ledger, as a list shows it."""

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
    """Which records of a ledger are wanted, the newest first."""

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
    """The models known for the keys at hand. `local` servers are looked for too, which takes a
    moment."""

    local: bool = False


class AskTasks(Asking[tuple[KnownTask, ...]], frozen=True, kw_only=True):
    """Tasks of this workspace, newest first; those that hold all of the words, if any are given."""

    words: str = ""
    most: int = 200


class AskPaths(Asking[tuple[FoundPath, ...]], frozen=True, kw_only=True):
    """Files and folders of the workspace whose paths fit some letters, the best first."""

    letters: str = ""
    most: int = 20


class AskDifferences(Asking[tuple[FileDifference, ...]], frozen=True, kw_only=True):
    """What an open task has done to files after event `since` and up to event `until`."""

    task_id: str
    since: int = 0
    until: int | None = None


class AskRehearsal(Asking[RestoreRehearsal], frozen=True, kw_only=True):
    """What `RestoreFiles` would do, without doing it."""

    task_id: str
    to: int
    overwrite: bool = False


class AskIntents(Asking[tuple[KnownIntent, ...]], frozen=True, kw_only=True):
    """The intents of the workspace, those in progress first; none where there are none."""


class AskServers(Asking[tuple[KnownMcpServer, ...]], frozen=True, kw_only=True):
    """The MCP servers of the user and of a trusted project. None is started."""


class AskRest(Asking[bool], frozen=True, kw_only=True):
    """Whether no task has anything to do until somebody says something."""


Query: TypeAlias = (
    AskAbout
    | AskModes
    | AskCommands
    | AskModels
    | AskTasks
    | AskPaths
    | AskDifferences
    | AskRehearsal
    | AskIntents
    | AskServers
    | AskRest
)
