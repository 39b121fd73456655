"""What a call would touch: the paths it names, and the files its command line changes.

A command is read-only, bounded (every changed file is known) or unbounded. Where there is doubt it
is unbounded: the files an editor writes, the target of a download or of a new link. Known targets
are reported even then.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from os.path import realpath
from typing import Any

from msgspec import Struct

from rookery.core.blocks import ToolCall
from rookery.core.facts import Change
from rookery.core.refusals import Refusal, RefusedTarget
from rookery.core.tool_traits import PATCH, PATHS, traits_of
from rookery.engine.ports.actions import Action, Deed, Judgement, program_name
from rookery.governance.layout import Layout
from rookery.governance.scope.locations import NamedPath, find_location
from rookery.governance.scope.scope_verdict import Op, PathFinding, path_fault

_PATCH_PATHS = re.compile(
    r"^\*\*\* (?:(?:Add|Update|Delete) File|Move to): (.+?)\s*$", re.MULTILINE
)
_PATH_KEYS = frozenset(
    {"path", "paths", "file", "files", "filepath", "filename", "filenames", "source", "destination"}
    | {"target", "directory", "dir", "folder", "from", "to", "oldpath", "newpath", "uri"}
)
_AMBIGUOUS_KEYS = frozenset({"from", "to", "source", "target", "uri"})
_UNREADABLE = {
    "nul": "it has a NUL character",
    "control_char": "it has invisible characters",
}
MOST_COMMANDS = 500
"""Lines with more commands are not checked completely."""
_OPS = {Deed.WRITE: Op.MODIFY, Deed.DELETE: Op.DELETE}
_UNBOUNDED_PROGRAMS = {
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
    """A changed file, or a folder with all its content. `path` is as in permits: relative to the
    workspace, or absolute outside of it."""

    path: str
    op: Op
    outside: bool = False


class Reach(Struct, frozen=True, kw_only=True):
    """`why` says why a line is unbounded."""

    kind: ReachKind
    targets: tuple[ReachTarget, ...] = ()
    why: str = ""


def needs_intent(call: ToolCall, action: Action) -> bool:
    """Whether the call needs an intent. Browser actions do not, because they change no files."""
    if action.spares_files or traits_of(call.name).only_reads:
        return False
    if action.external and not action.payload.get("toolName"):
        return False  # it only lists what the server offers
    return action.changes_things


def changed_paths(call: ToolCall, action: Action, layout: Layout) -> list[NamedPath]:
    """Every file that a file tool changes, as the model wrote it if that leads to the same file:
    the engine only knows resolved paths, and a symlink on the way must be judged too."""
    written: dict[str, str] = {}
    unclear: list[NamedPath] = []
    real = {each.path for each in action.changes}
    for path in argument_paths(call):
        if path in real:
            continue  # written as resolved
        found = find_location(layout, path, Op.MODIFY)
        if isinstance(found, PathFinding):
            unclear.append(NamedPath(path, Op.MODIFY))
        else:
            start = layout.root if found.governed else layout.workspace
            written[str(start / found.real)] = path
    known = [
        NamedPath(written.get(str(layout.workspace / each.path), each.path), _op(each))
        for each in action.changes
    ]
    return [*known, *unclear]


def argument_paths(call: ToolCall) -> Iterator[str]:
    """The paths in the arguments of a call."""
    for name in PATHS:
        if isinstance(written := call.arguments.get(name), str):
            yield written
    if isinstance(patch := call.arguments.get(PATCH), str):
        yield from _PATCH_PATHS.findall(patch)


def server_paths(action: Action) -> list[NamedPath]:
    """Arguments of an MCP tool that look like paths. They only add refusals: it can write
    anywhere."""
    try:
        arguments = json.loads(str(action.payload.get("arguments", "{}")))
    except ValueError:
        return []
    return [NamedPath(path, Op.MODIFY) for path in dict.fromkeys(_paths_in(arguments))]


def mcp_tool(action: Action) -> str:
    """The name of an MCP tool in permission rules."""
    server, tool = action.payload.get("serverName", ""), action.payload.get("toolName", "")
    return f"mcp--{server}--{tool}"


def rule_names(call: ToolCall, action: Action) -> tuple[str, ...]:
    """The tool's name in permission rules, then names by which rules can only forbid it. All
    custom tools share one name, and count as commands too."""
    if action.payload.get("tool") == "customTool":
        return "custom_tool", "execute_command"
    return (mcp_tool(action) if action.payload.get("serverName") else call.name,)


def refuse_unreadable(call: ToolCall, intent_id: str) -> Refusal | None:
    """Refuse a path with invisible characters before the tool looks it up."""
    if not traits_of(call.name).may_change_files:
        return None
    for path in argument_paths(call):
        if (fault := path_fault(path)) in _UNREADABLE:
            return _refusal(path, fault, _UNREADABLE[fault], intent_id)
    return None


def refuse_displaced(action: Action, layout: Layout, intent_id: str) -> Refusal | None:
    """Refuse if a path that was resolved earlier now leads through a symlink."""
    for change in action.changes:
        at = str(layout.workspace / change.path)
        if realpath(at) != at:
            why = "its target changed meanwhile"
            return _refusal(change.path, "path_changed", why, intent_id)
    return None


def reach(judgement: Judgement) -> Reach:
    targets = _targets(judgement)
    if why := _why_unbounded(judgement, targets):
        return Reach(kind=ReachKind.UNBOUNDED, targets=targets, why=why)
    return Reach(kind=ReachKind.BOUNDED if targets else ReachKind.READ_ONLY, targets=targets)


def all_commands_known(judgement: Judgement) -> bool:
    """Whether rules see every command of the line, and so can allow it even if the effects of
    one are unknown. What a command runs itself is part of that command."""
    return not judgement.too_deep and (not judgement.why_not or judgement.written is not None)


def _op(change: Change) -> Op:
    if not change.before:
        return Op.CREATE
    return Op.MODIFY if change.after else Op.DELETE


def _paths_in(arguments: Any, name: str = "") -> Iterator[str]:
    """Paths at any depth, including lists and objects below a key for paths."""
    match arguments:
        case Mapping():
            for own, value in _entries(arguments, name):
                yield from _paths_in(value, own)
        case list():
            for value in arguments:
                yield from _paths_in(value, name)
        case str() if _is_path(arguments, name):
            yield arguments
        case _:
            pass


def _is_path(text: str, name: str) -> bool:
    """Keys such as `from` hold paths only if the value looks like one."""
    if name in _AMBIGUOUS_KEYS:
        return "/" in text and len(text.splitlines()) == 1
    return bool(text) and (name in _PATH_KEYS or text.lower().startswith("file:"))


def _entries(value: Mapping[Any, Any], name: str) -> list[tuple[str, Any]]:
    """The values of an object by normalized key. Below a key for paths, an object without such
    keys has paths as keys (`{"files": {"a.py": "..."}}`) or as values."""
    own = [(_normalize_key(str(key)), each) for key, each in value.items()]
    if name not in _PATH_KEYS or any(key in _PATH_KEYS for key, _ in own):
        return own
    paths = {key for key in map(str, value) if "/" in key or "." in key}
    return [(name, str(key) if str(key) in paths else each) for key, each in value.items()]


def _normalize_key(name: str) -> str:
    """Normalize a key: `filePath` and `file_path` are the same."""
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
    """The changed files. Deletions are renames if the line has `mv` and no deleting command."""
    programs = {program_name(words[0]) for words in judgement.commands if words}
    moves = "mv" in programs and not programs & _DELETERS
    ops = {**_OPS, Deed.DELETE: Op.RENAME} if moves else _OPS
    found = (
        ReachTarget(each.path, ops[each.deed], each.outside)
        for each in judgement.targets
        if each.deed in ops
    )
    return tuple(dict.fromkeys(found))


def _why_unbounded(judgement: Judgement, targets: Sequence[ReachTarget]) -> str:
    """Why there may be more targets than these; empty if there are not."""
    if judgement.why_not:
        return judgement.why_not
    if judgement.too_deep or len(judgement.commands) > MOST_COMMANDS:
        return "it has too many commands to check"
    if judgement.network:
        return "it uses the network"
    known = {each.path for each in targets}
    for reason in judgement.dangers:
        if not known.intersection(_WORDS.findall(reason)):
            return f"it {reason}"
    return next(filter(None, map(_why_program_unbounded, judgement.commands)), "")


def _why_program_unbounded(words: Sequence[str]) -> str:
    if not words:
        return ""
    name = program_name(words[0])
    if what := _UNBOUNDED_PROGRAMS.get(name):
        return f"{name} {what}"
    if name in _COPIERS and any(_RECURSIVE.fullmatch(word) for word in words[1:]):
        return f"{name} copies whole folders"
    return ""
