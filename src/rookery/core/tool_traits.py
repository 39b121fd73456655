"""What a tool declares of itself, and the table of all tools.

Permission rules, hooks, scopes and the rows of other programs' clients are derived from it: none of
them lists tools. `app` says where the tools are; they are imported when the table is first read.
"""

from collections.abc import Callable, Iterable, Mapping
from enum import StrEnum
from functools import cached_property

from msgspec import Struct

COMMAND, PATCH, DIFF, FILES = "command", "patch", "diff", "files"
"""Arguments that hold a command line, a patch, blocks of a diff, or a list of files."""
PATHS = ("file_path", "path")
"""Arguments that name a file or a folder."""
COMPLETION, FOLLOWUP, DELEGATION = "attempt_completion", "ask_followup_question", "new_task"
"""The tools that the loop itself knows: their calls end a turn, ask, or hand work on."""
SPEAKING = frozenset((COMPLETION, FOLLOWUP))
"""Their calls are shown as what they say, and as calls only if they fail."""


class ToolGroup(StrEnum):
    READ = "read"
    EDIT = "edit"
    COMMAND = "command"
    MCP = "mcp"
    ALWAYS = "always"


class ToolTraits(Struct, frozen=True, kw_only=True, dict=True):
    """`name`, `group` and `arguments` are taken from the tool; the rest it declares only where it
    differs from what follows from those."""

    name: str = ""
    group: ToolGroup = ToolGroup.ALWAYS
    arguments: tuple[str, ...] = ()
    hook_name: str = ""
    """What hooks and rules written for other agents call it."""
    hook_arguments: Mapping[str, str] | None = None
    """Its arguments, each with the one that such hooks know. Without them hooks see the
    arguments as they are."""
    aliases: tuple[str, ...] = ()
    """Further names that rules and hooks may use."""
    row_name: str = ""
    """What webviews call it while its call arrives."""
    row_kind: str = ""
    """The kind of its rows in structured output, if neither a command nor a server's tool."""
    is_synonym: bool = False
    """It does what another tool does, under a name that some models were taught. It works when
    called; offering it to every model would only cost words."""
    only_reads: bool = False
    """It asks a server for something and changes nothing there."""
    explained: frozenset[str] = frozenset()
    """Arguments with a format of their own, which no model can guess."""
    skipped: frozenset[str] = frozenset()
    """Arguments that a small model does better without. They work all the same."""

    @property
    def takes_paths(self) -> bool:
        return any(name in self.arguments for name in (*PATHS, PATCH))

    @property
    def takes_command(self) -> bool:
        return self.group is ToolGroup.COMMAND and COMMAND in self.arguments

    @property
    def may_change_files(self) -> bool:
        on_server = self.group is ToolGroup.MCP and not self.only_reads
        return self.group is ToolGroup.EDIT or self.takes_command or on_server

    @cached_property
    def shown_name(self) -> str:
        """The name that hooks see. What edits is an `Edit`, what runs a command is `Bash`."""
        if self.group is ToolGroup.EDIT:
            return self.hook_name or "Edit"
        return self.hook_name or ("Bash" if self.takes_command else self.name)

    @cached_property
    def shown_arguments(self) -> Mapping[str, str] | None:
        if self.hook_arguments is None and self.shown_name == "Edit":
            return {name: "file_path" if name in PATHS else name for name in self.arguments}
        return self.hook_arguments

    @property
    def kind(self) -> str:
        if self.group is ToolGroup.MCP:
            return "mcp"
        return "command" if self.takes_command else self.row_kind or "tool"

    @property
    def names(self) -> tuple[str, ...]:
        """All names by which a rule or a hook may mean it."""
        return tuple(dict.fromkeys((self.shown_name, self.name, *self.aliases)))

    @property
    def arriving_name(self) -> str:
        first, *rest = self.name.split("_")
        if self.takes_command or self.name in SPEAKING:
            return self.row_name or self.name
        edits = "appliedDiff" if self.group is ToolGroup.EDIT else ""
        return self.row_name or edits or first + "".join(word.capitalize() for word in rest)


class _ToolTable:
    def __init__(self) -> None:
        self.load: Callable[[], Iterable[ToolTraits]] = _no_tools
        self.known: Mapping[str, ToolTraits] | None = None


def _no_tools() -> Iterable[ToolTraits]:
    raise RuntimeError("declare_tools was not called, so nothing is known of any tool.")


_table = _ToolTable()


def declare_tools(load: Callable[[], Iterable[ToolTraits]]) -> None:
    """Say where the tools of this process are."""
    _table.load, _table.known = load, None


def known_tools() -> Mapping[str, ToolTraits]:
    if _table.known is None:
        _table.known = {traits.name: traits for traits in _table.load()}
    return _table.known


def traits_of(name: str) -> ToolTraits:
    """What is known of a tool; of a name that is none, or a server's tool, only the name."""
    return known_tools().get(name) or ToolTraits(name=name)
