from datetime import UTC, datetime

import pytest
from msgspec.structs import replace

from rookery.governance.intents.intent import (
    Constraint,
    Criterion,
    Intent,
    IntentBudget,
    IntentPermissions,
    IntentStatus,
    Policy,
    Verify,
    digest,
)
from rookery.governance.intents.intent_changes import IntentDefinition, ScopeEffect, change

NOW = datetime(2026, 2, 20, tzinfo=UTC)
LATER = datetime(2026, 3, 1, tzinfo=UTC)
INTENT = Intent(
    id="INT-001",
    name="n",
    status=IntentStatus.IN_PROGRESS,
    owned_scope=("src/**", "docs/**"),
    constraints=(Constraint(text="a"),),
    acceptance_criteria=(Criterion(text="t", verify=Verify(command="pytest")),),
    permissions=IntentPermissions(
        allow=("Bash(pytest *)",), ask=("Bash(rm *)",), deny=("Bash(curl *)",)
    ),
    budget=IntentBudget(max_files=10, expires_at=LATER),
)
POLICY = Policy(protect=("infra/**",))


def effect(policy: Policy = POLICY, **fields: object) -> ScopeEffect:
    new = IntentDefinition(replace(INTENT, **fields), policy)
    return change(IntentDefinition(INTENT, POLICY), new, now=NOW).effect


ROWS = [
    ("narrower", {"owned_scope": ("src/**",)}, ScopeEffect.NARROWED),
    ("narrower inside", {"owned_scope": ("src/a/**", "docs/x.md")}, ScopeEffect.NARROWED),
    ("a subtraction", {"owned_scope": ("src/**", "docs/**", "!src/gen")}, ScopeEffect.NARROWED),
    ("wider", {"owned_scope": ("src/**", "docs/**", "lib/**")}, ScopeEffect.WIDENED),
    ("shifted", {"owned_scope": ("src/**", "doc/**")}, ScopeEffect.WIDENED),
    ("unreadable", {"owned_scope": ("../x",)}, ScopeEffect.WIDENED),
    ("same in another order", {"owned_scope": ("docs/**", "src/**")}, ScopeEffect.NONE),
    (
        "constraint added",
        {"constraints": (Constraint(text="a"), Constraint(text="b"))},
        ScopeEffect.NARROWED,
    ),
    ("constraint removed", {"constraints": ()}, ScopeEffect.WIDENED),
    ("criterion removed", {"acceptance_criteria": ()}, ScopeEffect.WIDENED),
    (
        "check changed",
        {"acceptance_criteria": (Criterion(text="t", verify=Verify(command="true")),)},
        ScopeEffect.WIDENED,
    ),
    ("permission added", {"permissions": IntentPermissions(allow=("Bash",))}, ScopeEffect.WIDENED),
    (
        "denial removed",
        {"permissions": replace(INTENT.permissions, deny=())},
        ScopeEffect.WIDENED,
    ),
    (
        "ask became deny",
        {"permissions": replace(INTENT.permissions, ask=(), deny=("Bash(curl *)", "Bash(rm *)"))},
        ScopeEffect.NARROWED,
    ),
    ("allow removed", {"permissions": replace(INTENT.permissions, allow=())}, ScopeEffect.NARROWED),
    ("budget raised", {"budget": replace(INTENT.budget, max_files=11)}, ScopeEffect.WIDENED),
    ("budget dropped", {"budget": IntentBudget()}, ScopeEffect.WIDENED),
    ("budget lowered", {"budget": replace(INTENT.budget, max_files=9)}, ScopeEffect.NARROWED),
    ("limit added", {"budget": replace(INTENT.budget, max_tool_calls=9)}, ScopeEffect.NARROWED),
    ("parent", {"parent": "INT-000"}, ScopeEffect.WIDENED),
    ("words only", {"name": "m", "description": "d", "tags": ("x",)}, ScopeEffect.NONE),
    ("paused", {"status": IntentStatus.PAUSED}, ScopeEffect.LOST),
    ("expired", {"budget": replace(INTENT.budget, expires_at=NOW)}, ScopeEffect.LOST),
]


@pytest.mark.parametrize(
    ("fields", "expected"), [row[1:] for row in ROWS], ids=[r[0] for r in ROWS]
)
def test_what_a_change_means(fields: dict[str, object], expected: ScopeEffect):
    assert effect(**fields) is expected
    changed = IntentDefinition(replace(INTENT, **fields), POLICY)
    same = digest(changed.intent, POLICY) == digest(INTENT, POLICY)
    assert same == (expected is ScopeEffect.NONE)


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        (replace(POLICY, unknown_targets="deny"), ScopeEffect.NARROWED),
        (replace(POLICY, deletes="allow"), ScopeEffect.WIDENED),
        (replace(POLICY, protect=()), ScopeEffect.WIDENED),
        (replace(POLICY, protect=("infra/**", "x")), ScopeEffect.NARROWED),
        (replace(POLICY, same_turn_writes="allow"), ScopeEffect.WIDENED),
        (replace(POLICY, stale="strict", deletes="allow"), ScopeEffect.WIDENED),
        (POLICY, ScopeEffect.NONE),
    ],
)
def test_the_policy_counts(policy: Policy, expected: ScopeEffect):
    assert effect(policy) is expected


def test_an_intent_that_is_gone_is_lost():
    found = change(IntentDefinition(INTENT, POLICY), None, now=NOW)
    assert (found.effect, found.reason) == (ScopeEffect.LOST, "removed")


def test_a_change_by_a_tool_needs_a_persons_yes():
    old = IntentDefinition(INTENT, POLICY)
    for fields in ({"owned_scope": ("src/**",)}, {"owned_scope": ("**",)}):
        new = IntentDefinition(replace(INTENT, **fields), POLICY)
        found = change(old, new, now=NOW, during_own_call=True)
        assert (found.effect, found.fields) == (ScopeEffect.LOST_TO_TOOL, ("owned_scope",))
    assert change(old, old, now=NOW, during_own_call=True).effect is ScopeEffect.NONE
