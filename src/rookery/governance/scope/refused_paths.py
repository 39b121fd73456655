"""Paths that are refused without being judged: nobody can tell where they lead, or they lead
somewhere else than they did when they were judged."""

from os.path import realpath

from rookery.core.blocks import ToolCall
from rookery.core.refusals import Refusal, RefusedTarget
from rookery.engine.ports.actions import Action
from rookery.governance.layout import Layout
from rookery.governance.scope.scope_verdict import path_fault
from rookery.governance.scope.touched_paths import CHANGING_TOOLS, said_paths

_UNREADABLE = {
    "nul": "it holds a NUL character",
    "control_char": "it holds characters that cannot be seen",
}


def unreadable(call: ToolCall, intent_id: str) -> Refusal | None:
    """Before a tool looks for the file, which would refuse it in its own words."""
    if call.name not in CHANGING_TOOLS:
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
            why = "it leads somewhere else than it did a moment ago"
            return _refusal(change.path, "path_changed", why, intent_id)
    return None


def _refusal(path: str, reason: str, why: str, intent_id: str) -> Refusal:
    shown = path.encode("unicode_escape").decode() if reason in _UNREADABLE else path
    return Refusal(
        code="REQ-015",
        message=f"{shown} is not touched: {why}.",
        intent_id=intent_id,
        targets=(RefusedTarget(shown, "modify", "rejected"),),
        reason=reason,
    )
