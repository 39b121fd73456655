"""What a tool declares about itself, the table of all tools, and names that are almost theirs.

Permission rules, hooks, scopes and the rows of other programs' clients are derived from it: none of
them lists tools. `app` says where the tools are; they are imported when the table is first read.
"""

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from enum import StrEnum
from functools import cached_property

from msgspec import Struct

from rookery.first_use import lazy_pattern

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
    editor_kind: str = ""
    """Its kind in editors, such as `search`, if not that of its group."""
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
BROWSER = ToolTraits(
    name="browser_action",
    group=ToolGroup.COMMAND,
    arguments=("action", "url", "coordinate", "selector", "text"),
    row_kind="browser",
    editor_kind="fetch",
)
"""Declared here so that listing tools imports neither MCP nor the browser."""


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


LONGEST_NAME = 64
"""Longer names are not treated as misspellings."""

OTHER_AGENTS = {
    "read_file": "read view view_file cat open open_file get_file read_files fs_read",
    "write_to_file": "write write_file create create_file save_file fs_write new_file",
    "edit": "str_replace replace replace_in_file string_replace edit_existing_file",
    "apply_diff": "diff replace_in_file search_replace",
    "execute_command": "bash shell sh run run_command run_shell_command run_terminal_cmd terminal "
    "run_in_terminal exec exec_command execute command local_shell execute_bash cmd",
    "list_files": "ls list list_dir list_directory dir list_file",
    "search_files": "grep grep_search search ripgrep rg search_file_content text_search",
    "attempt_completion": "finish done complete final_answer submit task_complete completion",
    "ask_followup_question": "ask ask_user ask_question ask_user_question",
    "web_fetch": "fetch fetch_url read_url get_url open_url",
    "web_search": "google_web_search search_web internet_search",
    "update_todo_list": "todo_write todowrite update_plan write_todos",
}
"""What other agents call a tool."""

_PREFIX = lazy_pattern(r"^(?:functions?|default_api|tools?)[.:/]")
_HUMP = lazy_pattern(r"(?<=[a-z0-9])(?=[A-Z])")


def closest(name: str, known: Collection[str]) -> str:
    """The closest known name; empty if there is none, or more than one."""
    if name in known:
        return name
    plain = _plain(name)
    if not plain or len(name) > LONGEST_NAME:
        return ""
    same = [each for each in known if _plain(each) == plain]
    if same:
        return same[0] if len(same) == 1 else ""
    renamed = [ours for ours, theirs in OTHER_AGENTS.items() if plain in theirs.split()]
    offered = [each for each in renamed if each in known]
    if offered:
        return offered[0] if len(offered) == 1 else ""
    return _misspelled(plain, known)


def _misspelled(plain: str, known: Collection[str]) -> str:
    allowed = 2 if len(plain) >= 8 else 1 if len(plain) >= 4 else 0
    near: dict[str, int] = {}
    for each in known:
        if abs(len(each) - len(plain)) <= allowed:
            near[each] = edit_distance(plain, _plain(each))
    best = min(near.values(), default=allowed + 1)
    found = [each for each, distance in near.items() if distance == best]
    return found[0] if best <= allowed and len(found) == 1 else ""


def _plain(name: str) -> str:
    bare = _PREFIX.sub("", name.strip())
    return re.sub(r"[^a-z0-9]+", "_", _HUMP.sub("_", bare).lower()).strip("_")


def edit_distance(one: str, other: str) -> int:
    """How many letters to add, remove or change."""
    row = list(range(len(other) + 1))
    for number, letter in enumerate(one, 1):
        above, row[0] = row[0], number
        for place, theirs in enumerate(other, 1):
            above, row[place] = (
                row[place],
                min(row[place] + 1, row[place - 1] + 1, above + (letter != theirs)),
            )
    return row[-1]
