"""What a hook is given: one JSON document for each event, and tool calls in the words hooks know.

Scripts for the widespread contract know other names of tools and arguments, absolute paths, and one
file at a time. What those words cannot say is in the native pair beside them. `mapped_back` turns
what a hook made of a call into a call of ours again.
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

_MATCHED_BY: dict[HookEvent, str] = {
    HookEvent.SESSION_START: "source",
    HookEvent.PRE_COMPACT: "trigger",
    HookEvent.NOTIFICATION: "type",
    HookEvent.SESSION_END: "reason",
}
"""The field of an event that matchers look at; those of other events look at nothing."""
_NOTIFIED_AS = "notification_type"
"""How others call the type of a notification."""
_IN_SECONDS = "timeout"
_MCP, _MCP_SHOWN = "mcp--", "mcp__"


class Situation(Struct, frozen=True, kw_only=True):
    """What is true of the task at the moment of an event. `permission_mode` is default,
    acceptEdits, plan, dontAsk or bypassPermissions; `agent_id` is for sub-tasks only. `mode` is
    that of governance."""

    session_id: str
    cwd: str
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
    scope_verdict: str = ""


class ToolResponse(Struct, frozen=True, kw_only=True):
    """What became of a call, for those who hear of it afterwards."""

    text: str
    failed: bool = False
    duration_ms: int = 0


class Presented(Struct, frozen=True, kw_only=True):
    """A call as one run of a hook sees it."""

    tool_name: str
    tool_input: Mapping[str, Any]


class CannotMap(ValueError):
    """What a hook wants to be called instead is no call of ours; the text says why."""


def event_input(
    event: HookEvent, situation: Situation, fields: Mapping[str, Any]
) -> dict[str, Any]:
    sub_task = {"agent_id": situation.agent_id, "agent_type": situation.agent_type}
    return {
        "session_id": situation.session_id,
        "transcript_path": situation.transcript_path or None,
        "cwd": situation.cwd,
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
            "scope_verdict": situation.scope_verdict or None,
        },
    }


def call_fields(call: ToolCall, shown: Presented) -> dict[str, Any]:
    return {
        "tool_name": shown.tool_name,
        "tool_input": dict(shown.tool_input),
        "tool_use_id": call.id,
        "native_tool_name": call.name,
        "native_tool_input": dict(call.arguments),
    }


def response_fields(response: ToolResponse, shown: Presented) -> dict[str, Any]:
    file = {"filePath": shown.tool_input["file_path"]} if "file_path" in shown.tool_input else {}
    told = {"content": response.text, "success": not response.failed, **file}
    error = {"error": response.text} if response.failed else {}
    return {"tool_response": told, "duration_ms": response.duration_ms, **error}


def matched_names(event: HookEvent, fields: Mapping[str, Any]) -> tuple[str, ...]:
    """What the matcher of an event that is not about a tool is compared with."""
    key = _MATCHED_BY.get(event, "")
    said = fields.get(key) or (fields.get(_NOTIFIED_AS) if key == "type" else None)
    return (said,) if isinstance(said, str) else ()


def heeds_matcher(event: HookEvent) -> bool:
    return event.is_about_tool or event in _MATCHED_BY


def encoded(document: Mapping[str, Any]) -> bytes:
    return json.dumps(document, ensure_ascii=True, default=str).encode("ascii")


def names_of(call: ToolCall) -> tuple[str, ...]:
    """All names by which a matcher may mean the call."""
    return tuple(dict.fromkeys((shown_name(call), *traits_of(call.name).names)))


def shown_name(call: ToolCall) -> str:
    if call.name == "use_mcp_tool":
        return f"{_MCP_SHOWN}{call.arguments.get('server')}__{call.arguments.get('tool')}"
    if call.name.startswith(_MCP):
        return _MCP_SHOWN + call.name.removeprefix(_MCP).replace("--", "__", 1)
    return traits_of(call.name).shown_name


def presented(call: ToolCall, dialect: Dialect, root: str) -> tuple[Presented, ...]:
    """The call once for every file it touches; in our own dialect just as it is."""
    if dialect is Dialect.NATIVE:
        return (Presented(tool_name=call.name, tool_input=dict(call.arguments)),)
    name = shown_name(call)
    ours = (
        traits_of(call.name).shown_arguments is not None
    )  # what others mean by a path only they know
    return tuple(
        Presented(tool_name=name, tool_input=_whole_paths(said, root) if ours else said)
        for _, said in _inputs(call)
    )


def touched_paths(call: ToolCall, root: str) -> tuple[str, ...]:
    """The files and folders that the call names, relative to the workspace if they are in it."""
    named = dict.fromkeys(path for path, _ in _inputs(call) if path)
    return tuple(_relative(whole_path(path, root), root) for path in named)


def sample_call(tool: str, said: Mapping[str, Any], call_id: str) -> ToolCall:
    """A call of a tool by any of its names, with arguments in the words that go with the name."""
    if tool not in known_tools() and (meant := _closest(tool)):
        ours = {theirs: name for name, theirs in (meant.shown_arguments or {}).items()}
        arguments = {ours.get(name, name): each for name, each in said.items()}
        return ToolCall(id=call_id, name=meant.name, arguments=arguments)
    if tool.startswith(_MCP_SHOWN):
        tool = _MCP + tool.removeprefix(_MCP_SHOWN).replace("__", "--", 1)
    return ToolCall(id=call_id, name=tool, arguments=dict(said))


def _closest(shown: str) -> ToolTraits | None:
    """Of all tools that go by a name, the one of which hooks see most."""
    found = [each for each in known_tools().values() if shown in each.names]
    return max(found, key=lambda each: len(each.shown_arguments or ()), default=None)


def mapped_back(
    call: ToolCall, shown: Sequence[Presented], at: int, updated: Mapping[str, Any], root: str
) -> Mapping[str, Any] | None:
    """The arguments that a hook wants instead, which it was shown as the `at`-th of several; None
    if it wants nothing else. Raises `CannotMap`."""
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
    return dict(updated) if keys is None else _ours(call, keys, before, updated, root)


def whole_path(path: str, root: str) -> str:
    return normpath(join(root, path))


def _ours(
    call: ToolCall,
    keys: Mapping[str, str],
    before: Presented,
    updated: Mapping[str, Any],
    root: str,
) -> Mapping[str, Any]:
    for name, said in updated.items():
        fixed = name in before.tool_input and name not in keys.values()
        if fixed and said != before.tool_input[name]:
            raise CannotMap(f"{name} of {call.name} cannot be rewritten")
    if PATCH in call.arguments:
        raise CannotMap("a patch cannot be rewritten")
    kept = {name: said for name, said in call.arguments.items() if name not in keys}
    for ours, theirs in keys.items():
        if theirs not in updated:
            continue
        if updated[theirs] == before.tool_input.get(theirs) and ours in call.arguments:
            kept[ours] = call.arguments[ours]
        else:
            kept[ours] = _back(theirs, updated[theirs], root)
    return kept


def _inputs(call: ToolCall) -> list[tuple[str, dict[str, Any]]]:
    """Each file with what is shown of it; a single entry without a file if there is none."""
    said, keys = call.arguments, traits_of(call.name).shown_arguments
    if call.name == "use_mcp_tool":
        inner = said.get("arguments")
        return [("", dict(inner) if isinstance(inner, Mapping) else {})]
    if keys is None:
        return [("", dict(said))]
    if PATCH in said:
        return _of_patch(said[PATCH]) or [("", dict(said))]
    if isinstance(files := said.get(FILES), list) and files:
        return [_of_listed_file(each) for each in files]
    shown = {keys[name]: each for name, each in said.items() if name in keys and each is not None}
    if DIFF in said:
        shown |= _of_diff(said[DIFF])
    if call.name == "list_files":
        shown["pattern"] = "**/*" if said.get("recursive") else "*"
    if isinstance(seconds := shown.get(_IN_SECONDS), int | float):
        shown[_IN_SECONDS] = round(seconds * 1000)
    path = next((shown[name] for name in PATHS if isinstance(shown.get(name), str)), "")
    return [(path, shown)]


def _of_listed_file(listed: Any) -> tuple[str, dict[str, Any]]:
    path = listed.get("path") if isinstance(listed, Mapping) else listed
    return (path, {"file_path": path}) if isinstance(path, str) else ("", {"file_path": path})


def _of_diff(diff: object) -> dict[str, Any]:
    """All blocks at once: who looks for something in a change looks through all of it."""
    blocks = parse_diff(diff) if isinstance(diff, str) else ()
    if not isinstance(blocks, tuple):
        return {"new_string": diff}
    return {
        "old_string": "\n".join(_rows(blocks, "search")),
        "new_string": "\n".join(_rows(blocks, "replace")),
    }


def _rows(blocks: Sequence[DiffBlock], side: str) -> list[str]:
    return [row for block in blocks for row in getattr(block, side)]


def _of_patch(patch: object) -> list[tuple[str, dict[str, Any]]]:
    sections = parse_patch(patch) if isinstance(patch, str) else ()
    if not isinstance(sections, tuple):
        return []
    return [entry for section in sections for entry in _of_section(section)]


def _of_section(section: Section) -> list[tuple[str, dict[str, Any]]]:
    match section:
        case Addition(path=path, text=text):
            changed = {"old_string": "", "new_string": text}
            return [(path, {"file_path": path, **changed})]
        case Deletion(path=path):
            return [(path, {"file_path": path})]
        case Update(path=path, to=to):
            return [
                (each, {"file_path": each, **_of_hunks(section)})
                for each in dict.fromkeys((path, to))
                if each
            ]


def _of_hunks(section: Update) -> dict[str, str]:
    rows = [row for hunk in section.hunks for row in hunk.rows]
    return {
        "old_string": "\n".join(row.text for row in rows if row.sign is not Sign.ADDED),
        "new_string": "\n".join(row.text for row in rows if row.sign is not Sign.REMOVED),
    }


def _whole_paths(said: Mapping[str, Any], root: str) -> dict[str, Any]:
    return {
        name: whole_path(each, root) if name in PATHS and isinstance(each, str) else each
        for name, each in said.items()
    }


def _back(name: str, said: Any, root: str) -> Any:
    if name in PATHS and isinstance(said, str) and isabs(said):
        return _relative(normpath(said), root)
    if name == _IN_SECONDS and isinstance(said, int | float):
        return said / 1000
    return said


def _relative(path: str, root: str) -> str:
    inside = path == root or path.startswith(f"{root.rstrip('/')}/")
    return relpath(path, root) if inside else path
