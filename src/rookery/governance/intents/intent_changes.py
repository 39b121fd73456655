"""What it means for a task that its intent was rewritten while it worked.

Whatever takes something away holds at once. Whatever gives something holds when the intent is
selected again, so that no task gains power unseen. A difference that is not known to be one of the
first kind counts as one of the second. `difference` shows both wordings to a person.
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
    """In force at once; the context is given again; the call at hand is judged by it."""
    WIDENED = "widened"
    """Nothing destructive until the intent is selected again."""
    LOST = "lost"
    """There is no active intent any more."""
    LOST_TO_TOOL = "lost_to_tool"
    """The same, and a person must agree to the difference before it is selected again."""


class IntentChange(Struct, frozen=True, kw_only=True):
    """`fields` are what differs. `reason` says it in a word where the intent was lost."""

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
    during_own_call: bool = False,
) -> IntentChange:
    """`new` is None if the intent is no longer there, or is broken."""
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
    if during_own_call:
        return IntentChange(
            effect=ScopeEffect.LOST_TO_TOOL, fields=fields, reason="changed_by_tool"
        )
    if ScopeEffect.WIDENED in effects.values():
        return IntentChange(effect=ScopeEffect.WIDENED, fields=fields)
    return IntentChange(effect=ScopeEffect.NARROWED, fields=fields)


def difference(old: IntentDefinition, new: IntentDefinition) -> tuple[str, ...]:
    """What was taken out of an intent, then what was put in."""
    before, after = list(_lines(old)), list(_lines(new))
    out = [f"- {line}" for line in before if line not in after]
    put = [f"+ {line}" for line in after if line not in before]
    return (*out, *put) or (UNCHANGED,)


def _effects(old: IntentDefinition, new: IntentDefinition) -> dict[str, ScopeEffect]:
    """What each field that differs amounts to."""
    a, b = old.intent, new.intent
    found = {
        "owned_scope": _scope(a.owned_scope, b.owned_scope),
        "constraints": _texts(a.constraints, b.constraints),
        "acceptance_criteria": _texts(a.acceptance_criteria, b.acceptance_criteria),
        "permissions": _permissions(a.permissions, b.permissions),
        "budget": _budget(a.budget, b.budget),
        "parent": ScopeEffect.NONE if a.parent == b.parent else ScopeEffect.WIDENED,
        "policy": _policy(old.policy, new.policy),
    }
    return {field: effect for field, effect in found.items() if effect is not ScopeEffect.NONE}


def _scope(old: Sequence[str], new: Sequence[str]) -> ScopeEffect:
    if set(old) == set(new):
        return ScopeEffect.NONE
    try:
        return ScopeEffect.NARROWED if within(new, old) else ScopeEffect.WIDENED
    except PatternError:
        return ScopeEffect.WIDENED


def _texts(
    old: Sequence[Constraint] | Sequence[Criterion], new: Sequence[Constraint] | Sequence[Criterion]
) -> ScopeEffect:
    if tuple(old) == tuple(new):
        return ScopeEffect.NONE
    return ScopeEffect.NARROWED if set(old) <= set(new) else ScopeEffect.WIDENED


def _permissions(old: IntentPermissions, new: IntentPermissions) -> ScopeEffect:
    if old == new:
        return ScopeEffect.NONE
    before, after = set(old.deny), set(new.deny)
    stricter = (
        set(new.allow) <= set(old.allow)
        and before <= after
        and set(old.ask) <= set(new.ask) | after
    )
    return ScopeEffect.NARROWED if stricter else ScopeEffect.WIDENED


def _budget(old: IntentBudget, new: IntentBudget) -> ScopeEffect:
    if old == new:
        return ScopeEffect.NONE
    pairs = (
        (old.max_files, new.max_files),
        (old.max_changed_lines, new.max_changed_lines),
        (old.max_tool_calls, new.max_tool_calls),
        (old.expires_at, new.expires_at),
    )
    return ScopeEffect.NARROWED if all(_lower(a, b) for a, b in pairs) else ScopeEffect.WIDENED


def _lower(old: Any, new: Any) -> bool:
    return old is None or (new is not None and new <= old)


def _policy(old: Policy, new: Policy) -> ScopeEffect:
    if old == new:
        return ScopeEffect.NONE
    stricter = set(old.protect) <= set(new.protect) and all(
        order.index(getattr(old, key)) <= order.index(getattr(new, key))
        for key, order in _FROM_LOOSE_TO_STRICT.items()
    )
    return ScopeEffect.NARROWED if stricter else ScopeEffect.WIDENED


def _lines(worded: IntentDefinition) -> Iterator[str]:
    intent, policy = worded.intent, worded.policy
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
