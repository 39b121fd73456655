"""The input of hooks: one JSON document per event, with tool calls translated for hooks.

Hooks written for Claude Code expect other tool and argument names, absolute paths, and one file per
call; `native_tool_name` and `native_tool_input` hold the original. `map_back` translates an
updated input back into our arguments.
"""

import json
from collections.abc import Mapping, Sequence
from posixpath import isabs, join, normpath, relpath
from typing import Any

from msgspec import Struct

from rookery.core.blocks import ToolCall
from rookery.core.text.diff_blocks import DiffBlock
from rookery.core.text.diff_blocks import parse as parse_diff
from rookery.core.text.patch_text import Addition, Deletion, Section, Sign, Update
from rookery.core.text.patch_text import parse as parse_patch
from rookery.core.tool_traits import DIFF, FILES, PATCH, PATHS, ToolTraits, known_tools, traits_of
from rookery.governance.external_hooks.hook_config import Dialect, HookEvent

_MATCHER_FIELDS: dict[HookEvent, str] = {
    HookEvent.SESSION_START: "source",
    HookEvent.PRE_COMPACT: "trigger",
    HookEvent.NOTIFICATION: "type",
    HookEvent.SESSION_END: "reason",
}
"""The field of an event that matchers apply to; other events ignore matchers."""
_FOREIGN_TYPE_KEY = "notification_type"
"""The name of a notification's `type` in other products."""
_TIMEOUT_KEY = "timeout"
_MCP, _MCP_SHOWN = "mcp--", "mcp__"


class Situation(Struct, frozen=True, kw_only=True):
    """The task's state at an event. `permission_mode` is default, acceptEdits, plan, dontAsk or
    bypassPermissions; `turn_id` changes with each message of the user, `agent_id` is for sub-tasks
    only; `mode` is that of governance."""

    session_id: str
    root: str
    transcript_path: str = ""
    permission_mode: str = "default"
    model: str = ""
    turn_id: str = ""
    agent_id: str = ""
    agent_type: str = ""
    mode: str = "off"
    intent_id: str = ""
    intent_digest: str = ""


class ToolResponse(Struct, frozen=True, kw_only=True):
    text: str
    failed: bool = False
    duration_ms: int = 0


class ShownCall(Struct, frozen=True, kw_only=True):
    """A call as one run of a hook sees it."""

    tool_name: str
    tool_input: Mapping[str, Any]


class CannotMap(ValueError):
    """An updated input cannot be translated into our arguments; the message says why."""


def event_input(
    event: HookEvent, situation: Situation, fields: Mapping[str, Any]
) -> dict[str, Any]:
    sub_task = {"agent_id": situation.agent_id, "agent_type": situation.agent_type}
    return {
        "session_id": situation.session_id,
        "transcript_path": situation.transcript_path or None,
        "cwd": situation.root,
        "hook_event_name": str(event),
        "permission_mode": situation.permission_mode,
        "model": situation.model,
        "turn_id": situation.turn_id,
        **(sub_task if situation.agent_id else {}),
        **fields,
        "governance": {
            "mode": situation.mode,
            "intent_id": situation.intent_id or None,
            "intent_digest": situation.intent_digest or None,
        },
    }


def call_fields(call: ToolCall, shown: ShownCall) -> dict[str, Any]:
    return {
        "tool_name": shown.tool_name,
        "tool_input": dict(shown.tool_input),
        "tool_use_id": call.id,
        "native_tool_name": call.name,
        "native_tool_input": dict(call.arguments),
    }


def response_fields(response: ToolResponse, shown: ShownCall) -> dict[str, Any]:
    file = {"filePath": shown.tool_input["file_path"]} if "file_path" in shown.tool_input else {}
    output = {"content": response.text, "success": not response.failed, **file}
    error = {"error": response.text} if response.failed else {}
    return {"tool_response": output, "duration_ms": response.duration_ms, **error}


def matched_names(event: HookEvent, fields: Mapping[str, Any]) -> tuple[str, ...]:
    """The names that a matcher is compared with, for events that are not about a tool."""
    key = _MATCHER_FIELDS.get(event, "")
    value = fields.get(key) or (fields.get(_FOREIGN_TYPE_KEY) if key == "type" else None)
    return (value,) if isinstance(value, str) else ()


def uses_matcher(event: HookEvent) -> bool:
    return event.is_about_tool or event in _MATCHER_FIELDS


def encode(document: Mapping[str, Any]) -> bytes:
    return json.dumps(document, ensure_ascii=True, default=str).encode("ascii")


def names_of(call: ToolCall) -> tuple[str, ...]:
    """All names by which a matcher may refer to the call."""
    return tuple(dict.fromkeys((shown_name(call), *traits_of(call.name).names)))


def shown_name(call: ToolCall) -> str:
    if call.name == "use_mcp_tool":
        return f"{_MCP_SHOWN}{call.arguments.get('server')}__{call.arguments.get('tool')}"
    if call.name.startswith(_MCP):
        return _MCP_SHOWN + call.name.removeprefix(_MCP).replace("--", "__", 1)
    return traits_of(call.name).shown_name


def shown_calls(call: ToolCall, dialect: Dialect, root: str) -> tuple[ShownCall, ...]:
    """The call once per touched file, or unchanged in the native dialect."""
    if dialect is Dialect.NATIVE:
        return (ShownCall(tool_name=call.name, tool_input=dict(call.arguments)),)
    name = shown_name(call)
    # the meaning of a foreign tool's arguments is unknown, so its paths stay as they are
    ours = traits_of(call.name).shown_arguments is not None
    return tuple(
        ShownCall(
            tool_name=name, tool_input=_absolute_paths(arguments, root) if ours else arguments
        )
        for _, arguments in _inputs(call)
    )


def touched_paths(call: ToolCall, root: str) -> tuple[str, ...]:
    """The files and folders that the call names; relative to the workspace if inside."""
    named = dict.fromkeys(path for path, _ in _inputs(call) if path)
    return tuple(_relative(absolute_path(path, root), root) for path in named)


def sample_call(tool: str, given: Mapping[str, Any], call_id: str) -> ToolCall:
    """A call of a tool by any of its names, with the arguments of that naming."""
    if tool not in known_tools() and (traits := _closest(tool)):
        ours = {theirs: name for name, theirs in (traits.shown_arguments or {}).items()}
        arguments = {ours.get(name, name): each for name, each in given.items()}
        return ToolCall(id=call_id, name=traits.name, arguments=arguments)
    if tool.startswith(_MCP_SHOWN):
        tool = _MCP + tool.removeprefix(_MCP_SHOWN).replace("__", "--", 1)
    return ToolCall(id=call_id, name=tool, arguments=dict(given))


def _closest(shown: str) -> ToolTraits | None:
    """The tool with that name which shows hooks the most arguments."""
    found = [each for each in known_tools().values() if shown in each.names]
    return max(found, key=lambda each: len(each.shown_arguments or ()), default=None)


def map_back(
    call: ToolCall, shown: Sequence[ShownCall], at: int, updated: Mapping[str, Any], root: str
) -> Mapping[str, Any] | None:
    """Translate an updated input into our arguments; None if it is unchanged. The hook saw the
    call as `shown[at]`. Raises `CannotMap`."""
    before = shown[at]
    if dict(updated) == dict(before.tool_input):
        return None
    if len(shown) > 1:
        raise CannotMap("it rewrites one file of a call that touches several")
    if before.tool_name == call.name:
        return dict(updated)
    if shown_name(call).startswith(_MCP_SHOWN):
        inner = call.name == "use_mcp_tool"
        return {**call.arguments, "arguments": dict(updated)} if inner else dict(updated)
    keys = traits_of(call.name).shown_arguments
    return dict(updated) if keys is None else _native_arguments(call, keys, before, updated, root)


def absolute_path(path: str, root: str) -> str:
    return normpath(join(root, path))


def _native_arguments(
    call: ToolCall,
    keys: Mapping[str, str],
    before: ShownCall,
    updated: Mapping[str, Any],
    root: str,
) -> Mapping[str, Any]:
    for name, value in updated.items():
        fixed = name in before.tool_input and name not in keys.values()
        if fixed and value != before.tool_input[name]:
            raise CannotMap(f"{name} of {call.name} cannot be rewritten")
    if PATCH in call.arguments:
        raise CannotMap("a patch cannot be rewritten")
    kept = {name: value for name, value in call.arguments.items() if name not in keys}
    for ours, theirs in keys.items():
        if theirs not in updated:
            continue
        if updated[theirs] == before.tool_input.get(theirs) and ours in call.arguments:
            kept[ours] = call.arguments[ours]
        else:
            kept[ours] = _value_back(theirs, updated[theirs], root)
    return kept


def _inputs(call: ToolCall) -> list[tuple[str, dict[str, Any]]]:
    """Each file with the input shown for it; one entry with an empty path if there are no files."""
    arguments, keys = call.arguments, traits_of(call.name).shown_arguments
    if call.name == "use_mcp_tool":
        inner = arguments.get("arguments")
        return [("", dict(inner) if isinstance(inner, Mapping) else {})]
    if keys is None:
        return [("", dict(arguments))]
    if PATCH in arguments:
        return _patch_inputs(arguments[PATCH]) or [("", dict(arguments))]
    if isinstance(files := arguments.get(FILES), list) and files:
        return [_file_input(each) for each in files]
    shown = {
        keys[name]: each for name, each in arguments.items() if name in keys and each is not None
    }
    if DIFF in arguments:
        shown |= _diff_input(arguments[DIFF])
    if call.name == "list_files":
        shown["pattern"] = "**/*" if arguments.get("recursive") else "*"
    if isinstance(seconds := shown.get(_TIMEOUT_KEY), int | float):
        shown[_TIMEOUT_KEY] = round(seconds * 1000)
    path = next((shown[name] for name in PATHS if isinstance(shown.get(name), str)), "")
    return [(path, shown)]


def _file_input(listed: Any) -> tuple[str, dict[str, Any]]:
    path = listed.get("path") if isinstance(listed, Mapping) else listed
    return (path, {"file_path": path}) if isinstance(path, str) else ("", {"file_path": path})


def _diff_input(diff: object) -> dict[str, Any]:
    """All blocks of a diff together, so that a hook can search the whole change."""
    blocks = parse_diff(diff) if isinstance(diff, str) else ()
    if not isinstance(blocks, tuple):
        return {"new_string": diff}
    return {
        "old_string": "\n".join(_rows(blocks, "search")),
        "new_string": "\n".join(_rows(blocks, "replace")),
    }


def _rows(blocks: Sequence[DiffBlock], side: str) -> list[str]:
    return [row for block in blocks for row in getattr(block, side)]


def _patch_inputs(patch: object) -> list[tuple[str, dict[str, Any]]]:
    sections = parse_patch(patch) if isinstance(patch, str) else ()
    if not isinstance(sections, tuple):
        return []
    return [entry for section in sections for entry in _section_inputs(section)]


def _section_inputs(section: Section) -> list[tuple[str, dict[str, Any]]]:
    match section:
        case Addition(path=path, text=text):
            changed = {"old_string": "", "new_string": text}
            return [(path, {"file_path": path, **changed})]
        case Deletion(path=path):
            return [(path, {"file_path": path})]
        case Update(path=path, to=to):
            return [
                (each, {"file_path": each, **_hunk_input(section)})
                for each in dict.fromkeys((path, to))
                if each
            ]


def _hunk_input(section: Update) -> dict[str, str]:
    rows = [row for hunk in section.hunks for row in hunk.rows]
    return {
        "old_string": "\n".join(row.text for row in rows if row.sign is not Sign.ADDED),
        "new_string": "\n".join(row.text for row in rows if row.sign is not Sign.REMOVED),
    }


def _absolute_paths(arguments: Mapping[str, Any], root: str) -> dict[str, Any]:
    return {
        name: absolute_path(each, root) if name in PATHS and isinstance(each, str) else each
        for name, each in arguments.items()
    }


def _value_back(name: str, value: Any, root: str) -> Any:
    if name in PATHS and isinstance(value, str) and isabs(value):
        return _relative(normpath(value), root)
    if name == _TIMEOUT_KEY and isinstance(value, int | float):
        return value / 1000
    return value


def _relative(path: str, root: str) -> str:
    inside = path == root or path.startswith(f"{root.rstrip('/')}/")
    return relpath(path, root) if inside else path
