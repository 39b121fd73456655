"""The effect of an edit to the intent while a task works under it.

Restrictions apply immediately. Anything that may widen the scope applies only after the intent is
selected again, so that a task never gains rights unnoticed. A change that is not certainly a
restriction counts as widening.
"""

from collections.abc import Iterator, Sequence
from datetime import datetime
from enum import StrEnum
from typing import Any

from msgspec import Struct
from msgspec.structs import fields

from rookery.governance.intents.intent import (
    Constraint,
    Criterion,
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


def change(
    old: IntentDefinition,
    new: IntentDefinition | None,
    *,
    now: datetime,
) -> IntentChange:
    """Compare two definitions. `new` is None if the intent was removed or has errors."""
    if new is None:
        return IntentChange(effect=ScopeEffect.LOST, fields=("intent",), reason="removed")
    if new.intent.status is not IntentStatus.IN_PROGRESS:
        return IntentChange(
            effect=ScopeEffect.LOST, fields=("status",), reason=str(new.intent.status)
        )
    if expired(new.intent, now):
        return IntentChange(effect=ScopeEffect.LOST, fields=("budget",), reason="expired")
    effects = _effects(old, new)
    fields = tuple(effects)
    if not fields:
        return IntentChange(effect=ScopeEffect.NONE)
    if ScopeEffect.WIDENED in effects.values():
        return IntentChange(effect=ScopeEffect.WIDENED, fields=fields)
    return IntentChange(effect=ScopeEffect.NARROWED, fields=fields)


def difference(old: IntentDefinition, new: IntentDefinition) -> tuple[str, ...]:
    """A diff for the user: removed lines, then added ones."""
    before, after = list(_lines(old)), list(_lines(new))
    removed = [f"- {line}" for line in before if line not in after]
    added = [f"+ {line}" for line in after if line not in before]
    return (*removed, *added) or (UNCHANGED,)


def _effects(old: IntentDefinition, new: IntentDefinition) -> dict[str, ScopeEffect]:
    """The effect of each field that differs."""
    a, b = old.intent, new.intent
    found = {
        "owned_scope": _scope_effect(a.owned_scope, b.owned_scope),
        "constraints": _list_effect(a.constraints, b.constraints),
        "acceptance_criteria": _list_effect(a.acceptance_criteria, b.acceptance_criteria),
        "permissions": _permissions_effect(a.permissions, b.permissions),
        "budget": _budget_effect(a.budget, b.budget),
        "parent": ScopeEffect.NONE if a.parent == b.parent else ScopeEffect.WIDENED,
        "policy": _policy_effect(old.policy, new.policy),
    }
    return {field: effect for field, effect in found.items() if effect is not ScopeEffect.NONE}


def _scope_effect(old: Sequence[str], new: Sequence[str]) -> ScopeEffect:
    if set(old) == set(new):
        return ScopeEffect.NONE
    try:
        return ScopeEffect.NARROWED if within(new, old) else ScopeEffect.WIDENED
    except PatternError:
        return ScopeEffect.WIDENED


def _list_effect(
    old: Sequence[Constraint] | Sequence[Criterion], new: Sequence[Constraint] | Sequence[Criterion]
) -> ScopeEffect:
    if tuple(old) == tuple(new):
        return ScopeEffect.NONE
    return ScopeEffect.NARROWED if set(old) <= set(new) else ScopeEffect.WIDENED


def _permissions_effect(old: IntentPermissions, new: IntentPermissions) -> ScopeEffect:
    if old == new:
        return ScopeEffect.NONE
    before, after = set(old.deny), set(new.deny)
    stricter = (
        set(new.allow) <= set(old.allow)
        and before <= after
        and set(old.ask) <= set(new.ask) | after
    )
    return ScopeEffect.NARROWED if stricter else ScopeEffect.WIDENED


def _budget_effect(old: IntentBudget, new: IntentBudget) -> ScopeEffect:
    if old == new:
        return ScopeEffect.NONE
    pairs = (
        (old.max_files, new.max_files),
        (old.max_changed_lines, new.max_changed_lines),
        (old.max_tool_calls, new.max_tool_calls),
        (old.expires_at, new.expires_at),
    )
    return ScopeEffect.NARROWED if all(_is_lower(a, b) for a, b in pairs) else ScopeEffect.WIDENED


def _is_lower(old: Any, new: Any) -> bool:
    return old is None or (new is not None and new <= old)


def _policy_effect(old: Policy, new: Policy) -> ScopeEffect:
    if old == new:
        return ScopeEffect.NONE
    stricter = set(old.protect) <= set(new.protect) and all(
        order.index(getattr(old, key)) <= order.index(getattr(new, key))
        for key, order in _FROM_LOOSE_TO_STRICT.items()
    )
    return ScopeEffect.NARROWED if stricter else ScopeEffect.WIDENED


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
