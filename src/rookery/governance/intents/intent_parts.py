"""Parsing of the nested parts of an intent file: criteria, permissions, the policy."""

from typing import Any

from rookery.governance.intents.file_nodes import MapNode, Node, NodeReader, TextNode
from rookery.governance.intents.intent import (
    DEFAULT_VERIFY_SECONDS,
    Constraint,
    Criterion,
    IntentBudget,
    IntentPermissions,
    LastVerification,
    Policy,
    Related,
    StatusChange,
    Verify,
)
from rookery.governance.scope.permission_rules import rule_fault
from rookery.governance.scope.project_rules import ignore_pattern_fault

LONGEST_CONSTRAINT = 500
LONGEST_CHECK_SECONDS = 3600
_CHOICES: dict[str, tuple[str, ...]] = {
    "unknown_targets": ("ask", "deny"),
    "out_of_scope": ("ask", "deny"),
    "deletes": ("ask", "allow", "deny"),
    "same_turn_writes": ("deny", "allow"),
    "overlap": ("warn", "block"),
    "dependencies": ("warn", "block"),
    "stale": ("context", "strict"),
}
_COMMAND_CHOICES: dict[str, tuple[str, ...]] = {
    "sandbox": ("off", "auto", "required"),
    "on_out_of_scope_write": ("ask_revert", "report"),
}
_DOTTED = tuple(f"commands.{key}" for key in _COMMAND_CHOICES)
_KEYS = (*_CHOICES, "commands", *_DOTTED, "protect", "max_in_progress")
DEFAULT = Policy()


def constraints(node: MapNode, reader: NodeReader) -> tuple[Constraint, ...]:
    found: list[Constraint] = []
    for each, path in reader.entries(node.get("constraints"), "constraints"):
        if isinstance(each, MapNode):
            fields = reader.fields(each, path, ("id", "text"))
            its_id = reader.text(each.get("id"), f"{path}.id", longest=64)
            text = reader.text(
                fields and fields.get("text"), f"{path}.text", longest=LONGEST_CONSTRAINT
            )
            found.append(Constraint(text=text, id=its_id))
        else:
            found.append(Constraint(text=reader.text(each, path, longest=LONGEST_CONSTRAINT)))
    return tuple(found)


def criteria(node: MapNode, reader: NodeReader) -> tuple[Criterion, ...]:
    found: list[Criterion] = []
    for each, path in reader.entries(node.get("acceptance_criteria"), "acceptance_criteria"):
        if isinstance(each, MapNode):
            reader.unknown_keys(each, path, ("id", "text", "verify"))
            found.append(
                Criterion(
                    text=reader.text(each.get("text"), f"{path}.text"),
                    id=reader.text(each.get("id"), f"{path}.id", longest=64),
                    verify=_verify(each.get("verify"), f"{path}.verify", reader),
                )
            )
        else:
            found.append(Criterion(text=reader.text(each, path)))
    return tuple(found)


def permissions(node: MapNode, reader: NodeReader) -> IntentPermissions:
    fields = reader.fields(node.get("permissions"), "permissions", ("allow", "ask", "deny"))
    if fields is None:
        return IntentPermissions()
    lists: dict[str, tuple[str, ...]] = {}
    for name in ("allow", "ask", "deny"):
        rules = list(reader.entries(fields.get(name), f"permissions.{name}"))
        lists[name] = tuple(reader.text(each, path) for each, path in rules)
        for each, path in rules:
            if fault := rule_fault(each.text) if isinstance(each, TextNode) else None:
                reader.note("E214", each, path, str(fault), fault.fix)
    return IntentPermissions(**lists)


def budget(node: MapNode, reader: NodeReader) -> IntentBudget:
    limits = ("max_files", "max_changed_lines", "max_tool_calls")
    fields = reader.fields(node.get("budget"), "budget", (*limits, "expires_at"))
    if fields is None:
        return IntentBudget()
    numbers = {
        key: reader.number(fields.get(key), f"budget.{key}", least=1, code="E215") for key in limits
    }
    end = reader.time(fields.get("expires_at"), "budget.expires_at")
    return IntentBudget(**numbers, expires_at=end)


def related(node: MapNode, reader: NodeReader) -> tuple[Related, ...]:
    found: list[Related] = []
    for each, path in reader.entries(node.get("related"), "related"):
        if fields := reader.fields(each, path, ("type", "url")):
            kind = reader.text(fields.get("type"), f"{path}.type")
            found.append(Related(type=kind, url=reader.text(fields.get("url"), f"{path}.url")))
    return tuple(found)


def history(node: MapNode, reader: NodeReader) -> tuple[StatusChange, ...]:
    found: list[StatusChange] = []
    for each, path in reader.entries(node.get("status_history"), "status_history"):
        if fields := reader.fields(each, path, ("status", "at", "by", "reason")):
            found.append(
                StatusChange(
                    status=reader.text(fields.get("status"), f"{path}.status"),
                    at=time_text(fields, "at", reader, f"{path}.at"),
                    by=reader.text(fields.get("by"), f"{path}.by"),
                    reason=reader.text(fields.get("reason"), f"{path}.reason"),
                )
            )
    return tuple(found)


def verification(node: MapNode, reader: NodeReader) -> LastVerification | None:
    path = "last_verification"
    fields = reader.fields(node.get(path), path, ("at", "ok", "criteria", "trace_id"))
    if fields is None:
        return None
    ok = reader.choice(fields.get("ok"), f"{path}.ok", ("false", "true"))
    return LastVerification(
        at=time_text(fields, "at", reader, f"{path}.at"),
        ok=ok == "true",
        criteria=reader.texts(fields.get("criteria"), f"{path}.criteria"),
        trace_id=reader.text(fields.get("trace_id"), f"{path}.trace_id"),
    )


def time_text(node: MapNode, key: str, reader: NodeReader, path: str = "") -> str:
    """A time for display, as written; empty if it is not a valid time."""
    its = node.get(key)
    return its.text if reader.time(its, path or key) and isinstance(its, TextNode) else ""


def read_policy(reader: NodeReader, node: Node | None) -> Policy:
    fields = reader.fields(node, "policy", _KEYS)
    if fields is None:
        return DEFAULT
    chosen: dict[str, Any] = {
        key: reader.choice(fields.get(key), f"policy.{key}", choices)
        for key, choices in _CHOICES.items()
    }
    most = reader.number(fields.get("max_in_progress"), "policy.max_in_progress", least=1)
    return Policy(
        **chosen,
        **_commands(reader, fields),
        protect=_protect(reader, fields.get("protect")),
        max_in_progress=most or DEFAULT.max_in_progress,
    )


def _verify(node: Node | None, path: str, reader: NodeReader) -> Verify | None:
    fields = reader.fields(node, path, ("command", "timeout_s", "cwd"))
    if fields is None:
        return None
    command = reader.text(fields.get("command"), f"{path}.command")
    if not command.strip():
        reader.note("E207", fields, path, "verify needs a command", 'e.g. command: "pytest -q"')
    seconds = reader.number(fields.get("timeout_s"), f"{path}.timeout_s", least=1)
    if seconds is not None and seconds > LONGEST_CHECK_SECONDS:
        reader.note(
            "E208",
            fields.get("timeout_s") or fields,
            f"{path}.timeout_s",
            f"{seconds} seconds are too long",
            f"use at most {LONGEST_CHECK_SECONDS}",
        )
    cwd = reader.text(fields.get("cwd"), f"{path}.cwd")
    if cwd.startswith(("/", "~")) or ".." in cwd.split("/"):
        at = fields.get("cwd") or fields
        reader.note("E207", at, f"{path}.cwd", "it is outside the workspace", "e.g. cwd: tests")
    return Verify(command=command, timeout_s=seconds or DEFAULT_VERIFY_SECONDS, cwd=cwd)


def _commands(reader: NodeReader, fields: MapNode) -> dict[str, Any]:
    nested = reader.fields(fields.get("commands"), "policy.commands", _COMMAND_CHOICES)
    return {
        key: reader.choice(
            (nested and nested.get(key)) or fields.get(f"commands.{key}"),
            f"policy.commands.{key}",
            choices,
        )
        for key, choices in _COMMAND_CHOICES.items()
    }


def _protect(reader: NodeReader, node: Node | None) -> tuple[str, ...]:
    kept: list[str] = []
    for each, path in reader.entries(node, "policy.protect"):
        text = reader.text(each, path)
        if text and (wrong := ignore_pattern_fault(text)):
            reader.note("E206", each, path, wrong, "write it as in .gitignore")
        elif text:
            kept.append(text)
    return tuple(kept)
