"""The lines of `--json-io` as JSON Schema, generated from its tables.

Run as a program, it writes the schema to docs/schemas. Readers must accept unknown fields, so the
schema forbids none.
"""

import json
from collections.abc import Mapping
from typing import Any

import jsonschema

from rookery.compat.json_io.message_reader import KINDS
from rookery.compat.json_io.task_events import WAITING, grants
from rookery.protocol.schema import document, ref
from support.control_stream_schemas import FOLDER, closed

NAMES = (
    *("taskCreated", "taskStarted", "taskCompleted", "taskAborted", "taskActive"),
    *WAITING.values(),
    *("taskDelegated", "taskDelegationCompleted", "taskModeSwitched", "taskAskResponded"),
    *("taskUserMessage", "queuedMessagesUpdated", "taskToolFailed", "taskTokenUsageUpdated"),
)

_TEXT = {"type": "string"}
_FLAG = {"type": "boolean"}
_COUNT = {"type": "integer", "minimum": 0}
_COST = {"type": "number", "minimum": 0}
_TEXTS = {"type": "array", "items": _TEXT}
_ANY: dict[str, Any] = {}


def _object(always: str, /, **properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": always.split()}


def _list(items: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": items}


def _or_null(shape: Mapping[str, Any]) -> dict[str, Any]:
    return {"anyOf": [shape, {"type": "null"}]}


_ROW: dict[str, Any] = {
    "ts": {"type": "integer", "description": "Names the row within its task, for ever."},
    "text": _TEXT,
    "images": _TEXTS,
    "partial": {"const": True},
    "isAnswered": {"const": True},
    "isProtected": {"const": True},
    "checkpoint": _object("from to", **{"from": _TEXT, "to": _TEXT}),
    "contextCondense": _object(
        "cost prevContextTokens newContextTokens summary",
        cost=_COST,
        prevContextTokens=_COUNT,
        newContextTokens=_COUNT,
        summary=_TEXT,
        condenseId=_TEXT,
    ),
    "contextTruncation": _object(
        "truncationId prevContextTokens newContextTokens",
        truncationId=_TEXT,
        prevContextTokens=_COUNT,
        newContextTokens=_COUNT,
    ),
    "title": _TEXT,
    "where": _TEXT,
    "notes": _TEXTS,
    "rule": _TEXT,
    "governance": {"type": "object", "description": "What the active intent has to do with it."},
    "taskId": {"type": "string", "description": "The task that asks, if not the session itself."},
}
_TASK = _object(
    "id number ts task tokensIn tokensOut totalCost workspace",
    id=_TEXT,
    number=_COUNT,
    ts=_COUNT,
    task=_TEXT,
    tokensIn=_COUNT,
    tokensOut=_COUNT,
    cacheWrites=_COUNT,
    cacheReads=_COUNT,
    totalCost=_COST,
    workspace=_TEXT,
    mode=_TEXT,
    status={"enum": ["active", "completed"]},
    parentTaskId=_TEXT,
)
_TODO = _object(
    "id content status",
    id=_TEXT,
    content=_TEXT,
    status={"enum": ["pending", "in_progress", "completed"]},
)
_QUEUED = _object("id timestamp text", id=_TEXT, timestamp=_COUNT, text=_TEXT, images=_TEXTS)
_MODEL = _object(
    "supportsImages",
    contextWindow=_COUNT,
    supportsImages=_FLAG,
    inputPrice=_COST,
    outputPrice=_COST,
)
_STATE = _object(
    "",
    version=_TEXT,
    cwd=_TEXT,
    mode=_TEXT,
    apiConfiguration=_object("apiProvider apiModelId", apiProvider=_TEXT, apiModelId=_TEXT),
    autoApprovalEnabled=_FLAG,
    **dict.fromkeys(grants(False), _FLAG),
    clineMessages=_list(ref("row")),
    clineMessagesSeq=_COUNT,
    currentTaskId=_or_null(_TEXT),
    currentTaskItem=_or_null(ref("task")),
    currentTaskTodos=_list(_TODO),
    messageQueue=_list(_QUEUED),
    taskHistory=_list(ref("task")),
)

EVENTS: Mapping[str, dict[str, Any]] = {
    "welcome": _object("version workspace", version=_TEXT, workspace=_TEXT, instructions=_TEXT),
    "session_created": _object("sessionId timestamp", sessionId=_TEXT, timestamp=_COUNT),
    "session_title_generated": _object(
        "sessionId timestamp title",
        sessionId=_TEXT,
        timestamp=_COUNT,
        title={"type": "string", "maxLength": 120},
    ),
    "status": _object("message", message=_TEXT),
    "messages_removed": _object("ts", ts=_list({"type": "integer"})),
    "error": _object("error", error=_TEXT, details={"type": "object"}),
    "pong": _object(""),
    "complete": _object("exitCode", exitCode=_COUNT),
    "interrupted": _object("reason", reason=_TEXT),
    **dict.fromkeys(NAMES, _object("payload", payload=_list({}))),
}
"""Lines with an `event`."""

TYPES: Mapping[str, dict[str, Any]] = {
    "say": _object("ts say", say=_TEXT, **_ROW),
    "ask": _object("ts ask", ask=_TEXT, **_ROW),
    "state": _object("state", state=ref("state")),
    "messageUpdated": _object("clineMessage", clineMessage=ref("row")),
    "commandExecutionStatus": _object("text", text=_TEXT),
    "interactionRequired": _object(""),
    "invoke": _object("invoke", invoke={"const": "newChat"}),
    "theme": _object("text", text=_TEXT),
    "mcpServers": _object(
        "mcpServers",
        mcpServers=_list(
            _object(
                "name config status disabled source tools",
                name=_TEXT,
                config=_TEXT,
                status={"enum": ["connected", "disconnected"]},
                disabled=_FLAG,
                source=_TEXT,
                error=_TEXT,
                tools=_list(_object("name", name=_TEXT)),
            )
        ),
    ),
    **{
        f"show{asked}MessageDialog": _object(
            "messageTs hasCheckpoint",
            messageTs={"type": "number"},
            hasCheckpoint=_FLAG,
            text=_TEXT,
            images=_TEXTS,
        )
        for asked in ("Delete", "Edit")
    },
    "taskHistoryUpdated": _object("taskHistory", taskHistory=_list(ref("task"))),
    "commands": _object(
        "commands",
        commands=_list(
            _object("name source", name=_TEXT, source=_TEXT, description=_TEXT, argumentHint=_TEXT)
        ),
    ),
    "modes": _object(
        "modes",
        modes=_list(
            _object("slug name source", slug=_TEXT, name=_TEXT, source=_TEXT, whenToUse=_TEXT)
        ),
    ),
    "fileSearchResults": _object(
        "results",
        results=_list(
            _object("path type label", path=_TEXT, type={"enum": ["file", "folder"]}, label=_TEXT)
        ),
        requestId=_TEXT,
        error=_TEXT,
    ),
    "routerModels": _object(
        "routerModels",
        routerModels={
            "type": "object",
            "additionalProperties": {"type": "object", "additionalProperties": _MODEL},
        },
    ),
    "singleRouterModelFetchResponse": _object(
        "success values",
        success=_FLAG,
        error=_TEXT,
        values=_object(
            "provider models",
            provider=_TEXT,
            models={"type": "object", "additionalProperties": _MODEL},
        ),
    ),
    "condenseTaskContextStarted": _object("text", text=_TEXT),
    "condenseTaskContextResponse": _object("text", text=_TEXT),
    "checkpointDiffResult": _object(
        "mode files",
        ts={"type": "number"},
        mode=_TEXT,
        files=_list(
            _object(
                "path change",
                path=_TEXT,
                change={"enum": ["added", "changed", "removed"]},
                diff=_TEXT,
            )
        ),
    ),
    "image_load_error": _object(
        "errors message",
        errors=_list(_object("path error", path=_TEXT, error=_TEXT)),
        message=_TEXT,
    ),
}
"""Lines with a `type`."""


def engine_messages_schema() -> dict[str, Any]:
    """All lines, of output and input."""
    reported = [_named("event", name, shape) for name, shape in EVENTS.items()]
    reported += [_named("type", name, shape) for name, shape in TYPES.items()]
    rows = [_named("type", name, TYPES[name]) for name in ("say", "ask")]
    definitions = {
        "told": {"anyOf": reported},
        "written": {"anyOf": [_written(name) for name in KINDS]},
        "row": {"anyOf": rows},
        "task": _TASK,
        "state": _STATE,
    }
    lines = [ref("told"), ref("written")]
    return document("Lines of rookery --json-io", lines, definitions)


def _named(key: str, name: str, shape: Mapping[str, Any]) -> dict[str, Any]:
    return {
        **shape,
        "properties": {key: {"const": name}, **shape["properties"]},
        "required": [key, *shape["required"]],
    }


def _written(name: str) -> dict[str, Any]:
    fields = KINDS[name]
    return {
        "type": "object",
        "properties": {
            "type": {"const": name},
            **{
                field.name: dict(field.shape.schema)
                if field.required
                else _or_null(dict(field.shape.schema))
                for field in fields
            },
        },
        "required": ["type", *(field.name for field in fields if field.required)],
    }


FILE = FOLDER / "engine-messages.schema.json"


def problem_with(line: dict[str, Any], defined: str = "told") -> str:
    """Why a line does not match the schema; empty if it does."""
    key = "event" if "event" in line else "type"
    kinds = _KINDS[defined].get((key, str(line.get(key))), [])
    problems = [next(kind.iter_errors(line), None) for kind in kinds]
    if None in problems:
        return ""
    return "; ".join(problem.message for problem in problems if problem) or "there is no such line"


def _by_name(defined: str) -> dict[tuple[str, str], list[jsonschema.Draft202012Validator]]:
    """Validators by name: trying all of them on every line would take most of a test's time."""
    schema = closed(engine_messages_schema())
    kinds: dict[tuple[str, str], list[jsonschema.Draft202012Validator]] = {}
    for kind in schema["$defs"][defined]["anyOf"]:
        key = "event" if "event" in kind["properties"] else "type"
        validator = jsonschema.Draft202012Validator({**kind, "$defs": schema["$defs"]})
        kinds.setdefault((key, kind["properties"][key]["const"]), []).append(validator)
    return kinds


_KINDS = {defined: _by_name(defined) for defined in ("told", "written")}


def text() -> str:
    return json.dumps(engine_messages_schema(), indent=2) + "\n"


if __name__ == "__main__":
    FILE.write_text(text(), encoding="utf-8")
