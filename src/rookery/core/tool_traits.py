"""What a tool declares about itself, and the table of all tools.

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
"""The tools that the loop knows: they end a turn, ask, or start a sub-task."""
SPEAKING = frozenset((COMPLETION, FOLLOWUP))
"""Their calls are shown as text, and as calls only if they fail."""


class ToolGroup(StrEnum):
    READ = "read"
    EDIT = "edit"
    COMMAND = "command"
    MCP = "mcp"
    ALWAYS = "always"


class ToolTraits(Struct, frozen=True, kw_only=True, dict=True):
    """`name`, `group` and `arguments` come from the tool. It declares the rest only where it
    differs from the default."""

    name: str = ""
    group: ToolGroup = ToolGroup.ALWAYS
    arguments: tuple[str, ...] = ()
    hook_name: str = ""
    """Its name in hooks and rules of other agents."""
    hook_arguments: Mapping[str, str] | None = None
    """Maps its arguments to the names such hooks know. None to pass them unchanged."""
    aliases: tuple[str, ...] = ()
    """More names that rules and hooks may use."""
    row_name: str = ""
    """Its name in webviews while its call streams."""
    row_kind: str = ""
    """The kind of its rows in structured output, if neither a command nor an MCP tool."""
    is_synonym: bool = False
    """Whether it does the same as another tool, under a name that some models were trained on.
    It works when called but is not offered, to save tokens."""
    only_reads: bool = False
    """Whether it only reads from a server."""
    explained: frozenset[str] = frozenset()
    """Arguments with a format that a model cannot guess."""
    skipped: frozenset[str] = frozenset()
    """Arguments that are not offered to small models. They still work."""
    essential: bool = False
    """Whether small models get it. The other tools still work if called."""

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
        """The name that hooks see. Editing tools are `Edit`, command tools `Bash`."""
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
        """All names that a rule or hook may use for it."""
        return tuple(dict.fromkeys((self.shown_name, self.name, *self.aliases)))

    @property
    def arriving_name(self) -> str:
        first, *rest = self.name.split("_")
        if self.takes_command or self.name in SPEAKING:
            return self.row_name or self.name
        edits = "appliedDiff" if self.group is ToolGroup.EDIT else ""
        return self.row_name or edits or first + "".join(word.capitalize() for word in rest)


USE_MCP, ACCESS_MCP = "use_mcp_tool", "access_mcp_resource"
MCP_TOOLS = (
    ToolTraits(name=USE_MCP, group=ToolGroup.MCP, row_name=USE_MCP),
    ToolTraits(name=ACCESS_MCP, group=ToolGroup.MCP, row_name=ACCESS_MCP, only_reads=True),
)
"""Declared here so that listing tools does not import MCP."""


class _ToolTable:
    def __init__(self) -> None:
        self.load: Callable[[], Iterable[ToolTraits]] = _no_tools
        self.known: Mapping[str, ToolTraits] | None = None


def _no_tools() -> Iterable[ToolTraits]:
    raise RuntimeError("declare_tools was not called, so nothing is known of any tool.")


_table = _ToolTable()


def declare_tools(load: Callable[[], Iterable[ToolTraits]]) -> None:
    """Set where the tools of this process are defined."""
    _table.load, _table.known = load, None


def known_tools() -> Mapping[str, ToolTraits]:
    if _table.known is None:
        _table.known = {traits.name: traits for traits in _table.load()}
    return _table.known


def traits_of(name: str) -> ToolTraits:
    """The traits of a tool; only the name for an unknown or an MCP tool."""
    return known_tools().get(name) or ToolTraits(name=name)
