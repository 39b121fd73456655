"""What a call would touch, as it says so itself and as is known of it."""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from rookery.core.blocks import ToolCall
from rookery.core.facts import Change
from rookery.engine.ports.actions import Action
from rookery.governance.layout import Layout
from rookery.governance.scope.judged_paths import NamedPath
from rookery.governance.scope.locations import find_location
from rookery.governance.scope.scope_verdict import Op, PathFinding

SELECT = "select_active_intent"
EXPAND = "request_scope_expansion"
CHANGING_TOOLS = frozenset(
    {"write_to_file", "apply_diff", "apply_patch", "edit", "edit_file", "search_replace"}
    | {"execute_command", "use_mcp_tool"}
)
HARMLESS = frozenset({"access_mcp_resource"})

_PATCH_PATHS = re.compile(
    r"^\*\*\* (?:(?:Add|Update|Delete) File|Move to): (.+?)\s*$", re.MULTILINE
)
_PATH_NAMES = frozenset(
    {"path", "paths", "file", "files", "filepath", "filename", "filenames", "source", "destination"}
    | {"target", "directory", "dir", "folder", "from", "to", "oldpath", "newpath", "uri"}
)
_OF_MANY_THINGS = frozenset({"from", "to", "source", "target", "uri"})


def is_destructive(call: ToolCall, action: Action) -> bool:
    """Whether an intent is needed for it. What a browser does, it does not do to files."""
    if action.spares_files or call.name in HARMLESS:
        return False
    if action.external and not action.payload.get("toolName"):
        return False  # it asks a server what it offers
    return action.changes_things


def changed_paths(call: ToolCall, action: Action, layout: Layout) -> list[NamedPath]:
    """Every file that a file tool changes. The engine knows files by their real place, so a path
    is given as the model wrote it wherever that leads to the same file: a link counts as well."""
    said: dict[str, str] = {}
    unclear: list[NamedPath] = []
    real = {each.path for each in action.changes}
    for path in said_paths(call):
        if path in real:
            continue  # it was said as it is
        found = find_location(layout, path, Op.MODIFY)
        if isinstance(found, PathFinding):
            unclear.append(NamedPath(path, Op.MODIFY))
        else:
            start = layout.root if found.governed else layout.workspace
            said[str(start / found.real)] = path
    known = [
        NamedPath(said.get(str(layout.workspace / each.path), each.path), _op(each))
        for each in action.changes
    ]
    return [*known, *unclear]


def _op(change: Change) -> Op:
    if not change.before:
        return Op.CREATE
    return Op.MODIFY if change.after else Op.DELETE


def said_paths(call: ToolCall) -> Iterator[str]:
    """The files that a call names itself."""
    for name in ("path", "file_path"):
        if isinstance(said := call.arguments.get(name), str):
            yield said
    if isinstance(patch := call.arguments.get("patch"), str):
        yield from _PATCH_PATHS.findall(patch)


def server_paths(call: ToolCall, action: Action) -> list[NamedPath]:
    """What looks like a path among the arguments of a server's tool. It helps only to refuse: a
    server can write anywhere."""
    try:
        arguments = json.loads(str(action.payload.get("arguments", "{}")))
    except ValueError:
        return []
    return [NamedPath(path, Op.MODIFY) for path in dict.fromkeys(_paths_in(arguments))]


def _paths_in(arguments: Any, name: str = "") -> Iterator[str]:
    """However deep they lie: a list or an object below a name of a path is looked through too."""
    match arguments:
        case Mapping():
            for own, held in _named_in(arguments, name):
                yield from _paths_in(held, own)
        case list():
            for held in arguments:
                yield from _paths_in(held, name)
        case str() if _is_path(arguments, name):
            yield arguments
        case _:
            pass


def _is_path(text: str, name: str) -> bool:
    """Some names are those of paths only if what they hold looks like one."""
    if name in _OF_MANY_THINGS:
        return "/" in text and len(text.splitlines()) == 1
    return bool(text) and (name in _PATH_NAMES or text.lower().startswith("file:"))


def _named_in(held: Mapping[Any, Any], name: str) -> list[tuple[str, Any]]:
    """What an object holds, each by its name. Below the name of a path an object without such
    names has paths for its names (`{"files": {"a.py": "..."}}`) or holds nothing but them."""
    own = [(_plain(str(key)), each) for key, each in held.items()]
    if name not in _PATH_NAMES or any(key in _PATH_NAMES for key, _ in own):
        return own
    return [(name, str(key) if _looks_like_path(str(key)) else each) for key, each in held.items()]


def _looks_like_path(key: str) -> bool:
    return "/" in key or "." in key


def _plain(name: str) -> str:
    """A name as it is compared: `filePath` and `file_path` are one."""
    return name.replace("_", "").replace("-", "").casefold()


def mcp_tool(action: Action) -> str:
    """A server's tool by the name that rules use."""
    server, tool = action.payload.get("serverName", ""), action.payload.get("toolName", "")
    return f"mcp--{server}--{tool}"


def rule_names(call: ToolCall, action: Action) -> tuple[str, ...]:
    """The name by which rules know the tool, then names under which they can only forbid it. The
    tools that users and projects define have one name, and are commands too."""
    if action.payload.get("tool") == "customTool":
        return "custom_tool", "execute_command"
    return (mcp_tool(action) if action.external else call.name,)
