"""What a hook is told: one JSON document for each event."""

import json
from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from rookery.core.blocks import ToolCall
from rookery.governance.external_hooks.hook_calls import Presented
from rookery.governance.external_hooks.hook_config import HookEvent

_MATCHED_BY: dict[HookEvent, str] = {
    HookEvent.SESSION_START: "source",
    HookEvent.PRE_COMPACT: "trigger",
    HookEvent.NOTIFICATION: "type",
    HookEvent.SESSION_END: "reason",
}
"""The field of an event that matchers look at; those of other events look at nothing."""
_NOTIFIED_AS = "notification_type"
"""How others call the type of a notification."""


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
