"""The `policy` of an intent file."""

from typing import Any

from rookery.governance.intents.file_nodes import MapNode, Node
from rookery.governance.intents.intent import Policy
from rookery.governance.intents.node_reader import Fault, Reading

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


def read_policy(reading: Reading, node: Node | None, floating_fault: Fault) -> Policy:
    """`floating_fault` says what is wrong with a pattern of the kind that forbids."""
    fields = reading.fields(node, "policy", _KEYS)
    if fields is None:
        return DEFAULT
    chosen: dict[str, Any] = {
        key: reading.choice(fields.get(key), f"policy.{key}", choices)
        for key, choices in _CHOICES.items()
    }
    most = reading.number(fields.get("max_in_progress"), "policy.max_in_progress", least=1)
    return Policy(
        **chosen,
        **_commands(reading, fields),
        protect=_protect(reading, fields.get("protect"), floating_fault),
        max_in_progress=most or DEFAULT.max_in_progress,
    )


def _commands(reading: Reading, fields: MapNode) -> dict[str, Any]:
    nested = reading.fields(fields.get("commands"), "policy.commands", _COMMAND_CHOICES)
    return {
        key: reading.choice(
            (nested and nested.get(key)) or fields.get(f"commands.{key}"),
            f"policy.commands.{key}",
            choices,
        )
        for key, choices in _COMMAND_CHOICES.items()
    }


def _protect(reading: Reading, node: Node | None, floating_fault: Fault) -> tuple[str, ...]:
    kept: list[str] = []
    for at, each in enumerate(reading.items(node, "policy.protect")):
        path = f"policy.protect[{at}]"
        text = reading.text(each, path)
        if text and (wrong := floating_fault(text)):
            reading.note("E206", each, path, wrong, "write it as in .gitignore")
        elif text:
            kept.append(text)
    return tuple(kept)
