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
from support.each_row import each_row

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


NONE, NARROWED, WIDENED = ScopeEffect.NONE, ScopeEffect.NARROWED, ScopeEffect.WIDENED
LOST = ScopeEffect.LOST
ROWS = [
    ("narrower", {"owned_scope": ("src/**",)}, NARROWED),
    ("narrower inside", {"owned_scope": ("src/a/**", "docs/x.md")}, NARROWED),
    ("a subtraction", {"owned_scope": ("src/**", "docs/**", "!src/gen")}, NARROWED),
    ("wider", {"owned_scope": ("src/**", "docs/**", "lib/**")}, WIDENED),
    ("shifted", {"owned_scope": ("src/**", "doc/**")}, WIDENED),
    ("unreadable", {"owned_scope": ("../x",)}, WIDENED),
    ("same in another order", {"owned_scope": ("docs/**", "src/**")}, NONE),
    ("constraint added", {"constraints": (Constraint(text="a"), Constraint(text="b"))}, NARROWED),
    ("constraint removed", {"constraints": ()}, WIDENED),
    ("criterion removed", {"acceptance_criteria": ()}, WIDENED),
    (
        "check changed",
        {"acceptance_criteria": (Criterion(text="t", verify=Verify(command="true")),)},
        WIDENED,
    ),
    ("permission added", {"permissions": IntentPermissions(allow=("Bash",))}, WIDENED),
    ("denial removed", {"permissions": replace(INTENT.permissions, deny=())}, WIDENED),
    (
        "ask became deny",
        {"permissions": replace(INTENT.permissions, ask=(), deny=("Bash(curl *)", "Bash(rm *)"))},
        NARROWED,
    ),
    ("allow removed", {"permissions": replace(INTENT.permissions, allow=())}, NARROWED),
    ("budget raised", {"budget": replace(INTENT.budget, max_files=11)}, WIDENED),
    ("budget dropped", {"budget": IntentBudget()}, WIDENED),
    ("budget lowered", {"budget": replace(INTENT.budget, max_files=9)}, NARROWED),
    ("limit added", {"budget": replace(INTENT.budget, max_tool_calls=9)}, NARROWED),
    ("parent", {"parent": "INT-000"}, WIDENED),
    ("words only", {"name": "m", "description": "d", "tags": ("x",)}, NONE),
    ("paused", {"status": IntentStatus.PAUSED}, LOST),
    ("expired", {"budget": replace(INTENT.budget, expires_at=NOW)}, LOST),
]


@pytest.mark.parametrize(
    ("fields", "expected"), [row[1:] for row in ROWS], ids=[r[0] for r in ROWS]
)
def test_what_a_change_means(fields: dict[str, object], expected: ScopeEffect):
    assert effect(**fields) is expected
    changed = IntentDefinition(replace(INTENT, **fields), POLICY)
    same = digest(changed.intent, POLICY) == digest(INTENT, POLICY)
    assert same == (expected is NONE)


@each_row(
    ("policy", "expected"),
    [
        (replace(POLICY, unknown_targets="deny"), NARROWED),
        (replace(POLICY, deletes="allow"), WIDENED),
        (replace(POLICY, protect=()), WIDENED),
        (replace(POLICY, protect=("infra/**", "x")), NARROWED),
        (replace(POLICY, same_turn_writes="allow"), WIDENED),
        (replace(POLICY, stale="strict", deletes="allow"), WIDENED),
        (POLICY, NONE),
    ],
)
def test_the_policy_counts(policy: Policy, expected: ScopeEffect):
    assert effect(policy) is expected
