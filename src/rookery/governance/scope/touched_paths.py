"""What a call would touch: the paths it names, and the files its command line reaches.

A command only reads, or every file it changes is known, or it may change anything. The last is the
answer wherever there is a doubt: what an editor writes, where a download lands, where a new link
leads. Known targets are reported even then.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from os.path import realpath
from typing import Any

from msgspec import Struct

from rookery.core.blocks import ToolCall
from rookery.core.command_lines import Deed, Judgement, program_name
from rookery.core.facts import Change
from rookery.core.refusals import Refusal, RefusedTarget
from rookery.core.tool_traits import PATCH, PATHS, traits_of
from rookery.engine.ports.actions import Action
from rookery.governance.layout import Layout
from rookery.governance.scope.locations import NamedPath, find_location
from rookery.governance.scope.scope_verdict import Op, PathFinding, path_fault

_PATCH_PATHS = re.compile(
    r"^\*\*\* (?:(?:Add|Update|Delete) File|Move to): (.+?)\s*$", re.MULTILINE
)
_PATH_NAMES = frozenset(
    {"path", "paths", "file", "files", "filepath", "filename", "filenames", "source", "destination"}
    | {"target", "directory", "dir", "folder", "from", "to", "oldpath", "newpath", "uri"}
)
_OF_MANY_THINGS = frozenset({"from", "to", "source", "target", "uri"})
_UNREADABLE = {
    "nul": "it has a NUL character",
    "control_char": "it has invisible characters",
}
MOST_COMMANDS = 500
"""Of a line with more of them, not all were looked at."""
_OPS = {Deed.WRITE: Op.MODIFY, Deed.DELETE: Op.DELETE}
_WRITES_AS_IT_IS_TOLD = {
    **dict.fromkeys(("vi", "vim", "nano", "ed", "ex"), "is an editor"),
    "ln": "makes a link",
    "mknod": "makes a device",
}
_COPIERS = {"cp", "install"}
_RECURSIVE = re.compile(r"-[A-Za-z]*[rRaDd][A-Za-z]*|--(rec|arc|dir)[a-z-]*")
_DELETERS = {"rm", "rmdir", "unlink", "shred", "srm", "trash"}
_WORDS = re.compile(r"[^\s:,;]+")


class ReachKind(StrEnum):
    READ_ONLY = "read_only"
    BOUNDED = "bounded"
    UNBOUNDED = "unbounded"


class ReachTarget(Struct, frozen=True):
    """A file or folder that is changed. A folder stands for all that is in it. `path` is as
    permits know it: relative to the workspace, or absolute outside of it."""

    path: str
    op: Op
    outside: bool = False


class Reach(Struct, frozen=True, kw_only=True):
    """`why` says what is not known of a line that may change anything."""

    kind: ReachKind
    targets: tuple[ReachTarget, ...] = ()
    why: str = ""


def is_destructive(call: ToolCall, action: Action) -> bool:
    """Whether an intent is needed for it. What a browser does, it does not do to files."""
    if action.spares_files or traits_of(call.name).only_reads:
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


def said_paths(call: ToolCall) -> Iterator[str]:
    """The files that a call names itself."""
    for name in PATHS:
        if isinstance(said := call.arguments.get(name), str):
            yield said
    if isinstance(patch := call.arguments.get(PATCH), str):
        yield from _PATCH_PATHS.findall(patch)


def server_paths(call: ToolCall, action: Action) -> list[NamedPath]:
    """What looks like a path among the arguments of a server's tool. It helps only to refuse: a
    server can write anywhere."""
    try:
        arguments = json.loads(str(action.payload.get("arguments", "{}")))
    except ValueError:
        return []
    return [NamedPath(path, Op.MODIFY) for path in dict.fromkeys(_paths_in(arguments))]


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


def unreadable(call: ToolCall, intent_id: str) -> Refusal | None:
    """Before a tool looks for the file, which would refuse it in its own words."""
    if not traits_of(call.name).may_change_files:
        return None
    for path in said_paths(call):
        if (fault := path_fault(path)) in _UNREADABLE:
            return _refusal(path, fault, _UNREADABLE[fault], intent_id)
    return None


def displaced(action: Action, layout: Layout, intent_id: str) -> Refusal | None:
    """Whatever a call changes is known by its real place, unless a link has come to be there."""
    for change in action.changes:
        at = str(layout.workspace / change.path)
        if realpath(at) != at:
            why = "its target changed meanwhile"
            return _refusal(change.path, "path_changed", why, intent_id)
    return None


def reach(judgement: Judgement) -> Reach:
    targets = _targets(judgement)
    if why := _unknown(judgement, targets):
        return Reach(kind=ReachKind.UNBOUNDED, targets=targets, why=why)
    return Reach(kind=ReachKind.BOUNDED if targets else ReachKind.READ_ONLY, targets=targets)


def all_commands_known(judgement: Judgement) -> bool:
    """Whether rules see every command of the line: then they can allow it, also if nobody knows
    what one of them does. What a command in it runs by itself counts as that command's deed."""
    return not judgement.too_deep and (not judgement.why_not or judgement.written is not None)


def _op(change: Change) -> Op:
    if not change.before:
        return Op.CREATE
    return Op.MODIFY if change.after else Op.DELETE


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


def _refusal(path: str, reason: str, why: str, intent_id: str) -> Refusal:
    shown = path.encode("unicode_escape").decode() if reason in _UNREADABLE else path
    return Refusal(
        code="REQ-015",
        message=f"{shown} was not changed: {why}.",
        intent_id=intent_id,
        targets=(RefusedTarget(shown, "modify", "rejected"),),
        reason=reason,
    )


def _targets(judgement: Judgement) -> tuple[ReachTarget, ...]:
    """What is moved away is told as a rename, if nothing in the line deletes."""
    programs = {program_name(words[0]) for words in judgement.commands if words}
    moves = "mv" in programs and not programs & _DELETERS
    ops = {**_OPS, Deed.DELETE: Op.RENAME} if moves else _OPS
    found = (
        ReachTarget(each.path, ops[each.deed], each.outside)
        for each in judgement.targets
        if each.deed in ops
    )
    return tuple(dict.fromkeys(found))


def _unknown(judgement: Judgement, targets: Sequence[ReachTarget]) -> str:
    """Why there may be more targets than those; empty if there are not."""
    if judgement.why_not:
        return judgement.why_not
    if judgement.too_deep or len(judgement.commands) > MOST_COMMANDS:
        return "it has too many commands to check"
    if judgement.network:
        return "it uses the network"
    told = {each.path for each in targets}
    for reason in judgement.dangers:
        if not told.intersection(_WORDS.findall(reason)):
            return f"it {reason}"
    return next(filter(None, map(_as_told, judgement.commands)), "")


def _as_told(words: Sequence[str]) -> str:
    if not words:
        return ""
    name = program_name(words[0])
    if what := _WRITES_AS_IT_IS_TOLD.get(name):
        return f"{name} {what}"
    if name in _COPIERS and any(_RECURSIVE.fullmatch(word) for word in words[1:]):
        return f"{name} copies whole folders"
    return ""
