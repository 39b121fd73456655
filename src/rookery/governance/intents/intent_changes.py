"""The effect of an edit to the intent while a task works under it.

Restrictions apply immediately. Anything that may widen the scope applies only after the intent is
selected again, so that a task never gains rights unnoticed. A change that is not certainly a
restriction counts as widening.
"""

from collections.abc import Iterator, Sequence
from datetime import datetime
from enum import StrEnum
from typing import Any

from msgspec import Struct, structs
from msgspec.structs import fields

from rookery.governance.intents.intent import (
    Intent,
    IntentBudget,
    IntentPermissions,
    IntentStatus,
    Policy,
    expired,
)
from rookery.governance.scope.name_patterns import PatternError
from rookery.governance.scope.scope_patterns import within

_FROM_LOOSE_TO_STRICT: dict[str, tuple[str, ...]] = {
    "unknown_targets": ("ask", "deny"),
    "out_of_scope": ("ask", "deny"),
    "deletes": ("allow", "ask", "deny"),
    "same_turn_writes": ("allow", "deny"),
    "sandbox": ("off", "auto", "required"),
    "on_out_of_scope_write": ("report", "ask_revert"),
    "overlap": ("warn", "block"),
    "dependencies": ("warn", "block"),
    "stale": ("context", "strict"),
}
UNCHANGED = "Its wording did not change."


class ScopeEffect(StrEnum):
    NONE = "none"
    NARROWED = "narrowed"
    """Applies immediately, also to the current call; the context is sent again."""
    WIDENED = "widened"
    """Destructive calls are refused until the intent is selected again."""
    LOST = "lost"
    """There is no active intent any more."""


class IntentChange(Struct, frozen=True, kw_only=True):
    """`fields` are the fields that differ; `reason` is set if the intent was lost."""

    effect: ScopeEffect
    fields: tuple[str, ...] = ()
    reason: str = ""


class IntentDefinition(Struct, frozen=True):
    intent: Intent
    policy: Policy


def change(old: IntentDefinition, new: IntentDefinition, *, now: datetime) -> IntentChange:
    """Compare two definitions."""
    if new.intent.status is not IntentStatus.IN_PROGRESS:
        reason = str(new.intent.status)
        return IntentChange(effect=ScopeEffect.LOST, fields=("status",), reason=reason)
    if expired(new.intent, now):
        return IntentChange(effect=ScopeEffect.LOST, fields=("budget",), reason="expired")
    stricter = _changed_fields(old, new)
    fields = tuple(stricter)
    if not fields:
        return IntentChange(effect=ScopeEffect.NONE)
    effect = ScopeEffect.NARROWED if all(stricter.values()) else ScopeEffect.WIDENED
    return IntentChange(effect=effect, fields=fields)


def difference(old: IntentDefinition, new: IntentDefinition) -> tuple[str, ...]:
    """A diff for the user: removed lines, then added ones."""
    before, after = list(_lines(old)), list(_lines(new))
    removed = [f"- {line}" for line in before if line not in after]
    added = [f"+ {line}" for line in after if line not in before]
    return (*removed, *added) or (UNCHANGED,)


def _changed_fields(old: IntentDefinition, new: IntentDefinition) -> dict[str, bool]:
    """The fields that differ, and whether each new value certainly restricts the intent."""
    a, b = old.intent, new.intent
    restricts = {
        "owned_scope": _is_within(b.owned_scope, a.owned_scope),
        "constraints": set(a.constraints) <= set(b.constraints),
        "acceptance_criteria": set(a.acceptance_criteria) <= set(b.acceptance_criteria),
        "permissions": _are_stricter(a.permissions, b.permissions),
        "budget": _is_smaller(a.budget, b.budget),
        "parent": False,
        "policy": _is_stricter(old.policy, new.policy),
    }
    before, after = _values(old), _values(new)
    return {name: yes for name, yes in restricts.items() if before[name] != after[name]}


def _values(definition: IntentDefinition) -> dict[str, object]:
    intent = definition.intent
    scope = set(intent.owned_scope)  # the order does not matter
    return {**structs.asdict(intent), "owned_scope": scope, "policy": definition.policy}


def _is_within(new: Sequence[str], old: Sequence[str]) -> bool:
    try:
        return within(new, old)
    except PatternError:
        return False


def _are_stricter(old: IntentPermissions, new: IntentPermissions) -> bool:
    before, after = set(old.deny), set(new.deny)
    return (
        set(new.allow) <= set(old.allow)
        and before <= after
        and set(old.ask) <= set(new.ask) | after
    )


def _is_smaller(old: IntentBudget, new: IntentBudget) -> bool:
    limits = (each.name for each in fields(IntentBudget))
    return all(_is_lower(getattr(old, limit), getattr(new, limit)) for limit in limits)


def _is_lower(old: Any, new: Any) -> bool:
    return old is None or (new is not None and new <= old)


def _is_stricter(old: Policy, new: Policy) -> bool:
    return set(old.protect) <= set(new.protect) and all(
        order.index(getattr(old, key)) <= order.index(getattr(new, key))
        for key, order in _FROM_LOOSE_TO_STRICT.items()
    )


def _lines(definition: IntentDefinition) -> Iterator[str]:
    intent, policy = definition.intent, definition.policy
    yield f"status: {intent.status}"
    yield from (f"scope: {each}" for each in intent.owned_scope)
    yield from (f"constraint: {each.text}" for each in intent.constraints)
    for criterion in intent.acceptance_criteria:
        check = f" (checked by {criterion.verify.command})" if criterion.verify else ""
        yield f"criterion: {criterion.text}{check}"
    for kind in fields(intent.permissions):
        yield from (f"{kind.name}: {rule}" for rule in getattr(intent.permissions, kind.name))
    for limit in fields(intent.budget):
        if (most := getattr(intent.budget, limit.name)) is not None:
            yield f"{limit.name}: {most}"
    if intent.parent:
        yield f"parent: {intent.parent}"
    for rule in fields(policy):
        yield f"policy {rule.name}: {getattr(policy, rule.name)}"
