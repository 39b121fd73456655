"""The events and commands of the control stream as JSON Schema, generated from its tables.

Run as a program, it writes them to docs/schemas. Readers must accept unknown fields, so the schemas
forbid none.
"""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import jsonschema
from msgspec import Struct

from rookery.compat.control_stream.stream_commands import (
    COMMANDS,
    REQUEST_ID,
)
from rookery.compat.structured_output.output_events import PROTOCOL, SCHEMA_VERSION
from rookery.core.asks import AskKind, RequiredAction
from rookery.protocol.schema import document

ACK_CODES = ("accepted",)
DONE_CODES = (
    *("task_completed", "task_failed", "task_aborted", "responded", "queued", "resumed"),
    *("no_active_task", "cancel_requested", "pong", "shutdown_requested", "cleared"),
)
ERROR_CODES = (
    *("task_busy", "task_error", "no_active_task", "no_pending_ask", "cancel_error"),
    *("invalid_command", "client_error"),
)


def _object(required: tuple[str, ...], **properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(required)}


_WORDS = {"type": "string"}
_COUNT = {"type": "integer", "minimum": 0}
_PARTS = {"type": "array", "items": _WORDS}

FIELDS: Mapping[str, Any] = {
    "id": {"type": "integer", "description": "Names the row that the event belongs to."},
    "taskId": {"type": "string", "description": "The session it is about."},
    "requestId": {"type": "string", "description": "The request that caused it."},
    "command": {"enum": list(COMMANDS)},
    "content": _WORDS,
    "done": {"const": True},
    "code": _WORDS,
    "success": {"type": "boolean"},
    "error": _WORDS,
    "queueDepth": _COUNT,
    "queue": {
        "type": "array",
        "items": _object(
            ("id",),
            id=_WORDS,
            text={"type": "string", "maxLength": 180},
            imageCount={"type": "integer", "minimum": 1},
            timestamp=_COUNT,
        ),
    },
    "tool_use": _object(("name",), name=_WORDS, input={"type": "object"}),
    "tool_result": _object(
        ("name",), name=_WORDS, output=_WORDS, error=_WORDS, exitCode={"type": "integer"}
    ),
    "cost": _object(
        (),
        totalCost={"type": "number", "minimum": 0},
        inputTokens=_COUNT,
        outputTokens=_COUNT,
        cacheWrites=_COUNT,
        cacheReads=_COUNT,
    ),
    "asks": {"type": "object", "description": "What the active intent has to do with it."},
    "governance": _object(
        ("intent_id", "mutations", "blocked", "approvals", "out_of_scope", "state_id"),
        intent_id={"type": ["string", "null"], "description": "What the changes were made for."},
        mutations=_COUNT,
        blocked=_COUNT,
        approvals=_COUNT,
        out_of_scope=_PARTS,
        state_id={"type": ["string", "null"], "description": "What the ledger was in the end."},
        criteria={
            "type": "array",
            "items": _object(
                ("id", "state", "text"),
                id=_WORDS,
                state={"enum": ["passed", "failed", "not_run", "manual"]},
                text=_WORDS,
            ),
        },
    ),
    "permission_denials": {
        "type": "array",
        "description": "The calls that were refused.",
        "items": _object(
            ("tool_name", "tool_use_id", "tool_input", "reason"),
            tool_name=_WORDS,
            tool_use_id=_WORDS,
            tool_input={"type": "object"},
            reason=_WORDS,
        ),
    },
    "schemaVersion": {"const": SCHEMA_VERSION},
    "protocol": {"const": PROTOCOL},
    "capabilities": _PARTS,
}


class EventShape(Struct, frozen=True):
    """One kind of event, with its required and optional fields."""

    type: str
    subtypes: tuple[str, ...]
    """Empty if it has none."""
    always: str
    sometimes: str = ""
    codes: tuple[str, ...] = ()


_CALLS = ("tool", "command", "mcp", "browser")
EVENTS = (
    EventShape("system", ("init",), "content schemaVersion protocol capabilities", "taskId"),
    EventShape("system", ("waiting",), "id code content", "taskId asks", tuple(AskKind)),
    EventShape("system", ("note",), "content"),
    EventShape("control", ("ack",), "requestId command content code success", "taskId", ACK_CODES),
    EventShape(
        "control", ("done",), "requestId command content code success done", "taskId", DONE_CODES
    ),
    EventShape("control", ("error",), "content code success", "command taskId", ERROR_CODES),
    EventShape(
        "queue",
        ("enqueued", "dequeued", "drained", "updated", "snapshot"),
        "taskId content queueDepth queue",
    ),
    EventShape("user", (), "id content done", "taskId"),
    EventShape("assistant", (), "id content", "done"),
    EventShape("assistant", ("note", *AskKind), "id content done", "taskId"),
    EventShape("thinking", (), "id content", "done"),
    EventShape("tool_use", _CALLS, "id tool_use", "content done taskId"),
    EventShape("tool_result", _CALLS, "id tool_result", "done taskId"),
    EventShape("error", (), "content", "id code taskId"),
    EventShape(
        "result",
        (),
        "done success taskId",
        "id content code error cost governance permission_denials",
    ),
)
"""All kinds. Any event may have the id of the request that caused it."""


def events_schema() -> dict[str, Any]:
    title = "Events of rookery --output-format stream-json"
    return document(title, list(map(_event, EVENTS)), FIELDS)


def commands_schema() -> dict[str, Any]:
    return document("Commands of rookery --stdin-prompt-stream", list(map(_command, COMMANDS)), {})


def _event(shape: EventShape) -> dict[str, Any]:
    always = shape.always.split()
    names = list(dict.fromkeys([*always, *shape.sometimes.split(), "requestId"]))
    fields: dict[str, Any] = {name: {"$ref": f"#/$defs/{name}"} for name in names}
    if shape.codes:
        fields["code"] = {"enum": list(map(str, shape.codes))}
    if shape.subtypes == ("waiting",):
        fields["content"] = {"enum": [each.value for each in RequiredAction]}
    kind: dict[str, Any] = {"type": {"const": shape.type}}
    if shape.subtypes:
        kind["subtype"] = {"enum": list(map(str, shape.subtypes))}
    required = ["type", *(["subtype"] if shape.subtypes else []), *always]
    described = {"type": "object", "properties": kind | fields, "required": required}
    return described if shape.subtypes else {**described, "not": {"required": ["subtype"]}}


def _command(name: str) -> dict[str, Any]:
    fields = (REQUEST_ID, *COMMANDS[name])
    described = {
        "type": "object",
        "properties": {
            "command": {"const": name},
            **{field.name: dict(field.shape.schema) for field in fields},
        },
        "required": ["command", *(field.name for field in fields if field.required)],
    }
    if name != "answer":
        return described
    text = {"required": ["text"], "properties": {"text": {"pattern": "\\S"}}}
    return {**described, "anyOf": [text, {"required": ["choice"]}]}


FOLDER = Path(__file__).parents[2] / "docs" / "schemas"
SCHEMAS: dict[str, Callable[[], dict[str, Any]]] = {
    "stream-json-events.schema.json": events_schema,
    "stream-json-commands.schema.json": commands_schema,
}


def closed(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema without unknown fields, so that tests notice fields missing from it."""
    shut = {name: _shut(value) for name, value in schema.items()}
    if "properties" in schema:
        shut["additionalProperties"] = False
    return shut


def _shut(value: Any) -> Any:
    match value:
        case dict():
            return closed(value)
        case list():
            return [_shut(each) for each in value]
        case _:
            return value


def problem_with(event: dict[str, Any]) -> str:
    """Why an event does not match the schema; empty if it does."""
    kinds = _KINDS.get(event.get("type", ""), [])
    problems = [next(kind.iter_errors(event), None) for kind in kinds]
    if None in problems:
        return ""
    return "; ".join(problem.message for problem in problems if problem) or "there is no such type"


def _by_type() -> dict[str, list[jsonschema.Draft202012Validator]]:
    """Validators by type: trying all of them on every event would take most of a test's time."""
    schema = closed(events_schema())
    kinds: dict[str, list[jsonschema.Draft202012Validator]] = {}
    for kind in schema["anyOf"]:
        name = kind["properties"]["type"]["const"]
        validator = jsonschema.Draft202012Validator({**kind, "$defs": schema["$defs"]})
        kinds.setdefault(name, []).append(validator)
    return kinds


_KINDS = _by_type()


def text(name: str) -> str:
    return json.dumps(SCHEMAS[name](), indent=2) + "\n"


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for name in SCHEMAS:
        (FOLDER / name).write_text(text(name), encoding="utf-8")
