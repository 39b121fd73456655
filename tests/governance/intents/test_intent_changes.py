from datetime import UTC, datetime

import pytest
from msgspec.structs import replace

from rookery.governance.intents.intent import (
    Constraint,
    Criterion,
    Intent,
    IntentBudget,
    Permissions,
    Policy,
    Status,
    Verify,
    digest,
)
from rookery.governance.intents.intent_changes import Definition, Effect, change

NOW = datetime(2026, 2, 20, tzinfo=UTC)
LATER = datetime(2026, 3, 1, tzinfo=UTC)
INTENT = Intent(
    id="INT-001",
    name="n",
    status=Status.IN_PROGRESS,
    owned_scope=("src/**", "docs/**"),
    constraints=(Constraint(text="a"),),
    acceptance_criteria=(Criterion(text="t", verify=Verify(command="pytest")),),
    permissions=Permissions(allow=("Bash(pytest *)",), ask=("Bash(rm *)",), deny=("Bash(curl *)",)),
    budget=IntentBudget(max_files=10, expires_at=LATER),
)
POLICY = Policy(protect=("infra/**",))


def effect(policy: Policy = POLICY, **fields: object) -> Effect:
    new = Definition(replace(INTENT, **fields), policy)
    return change(Definition(INTENT, POLICY), new, now=NOW).effect


ROWS = [
    ("narrower", {"owned_scope": ("src/**",)}, Effect.NARROWED),
    ("narrower inside", {"owned_scope": ("src/a/**", "docs/x.md")}, Effect.NARROWED),
    ("a subtraction", {"owned_scope": ("src/**", "docs/**", "!src/gen")}, Effect.NARROWED),
    ("wider", {"owned_scope": ("src/**", "docs/**", "lib/**")}, Effect.WIDENED),
    ("shifted", {"owned_scope": ("src/**", "doc/**")}, Effect.WIDENED),
    ("unreadable", {"owned_scope": ("../x",)}, Effect.WIDENED),
    ("same in another order", {"owned_scope": ("docs/**", "src/**")}, Effect.NONE),
    (
        "constraint added",
        {"constraints": (Constraint(text="a"), Constraint(text="b"))},
        Effect.NARROWED,
    ),
    ("constraint removed", {"constraints": ()}, Effect.WIDENED),
    ("criterion removed", {"acceptance_criteria": ()}, Effect.WIDENED),
    (
        "check changed",
        {"acceptance_criteria": (Criterion(text="t", verify=Verify(command="true")),)},
        Effect.WIDENED,
    ),
    ("permission added", {"permissions": Permissions(allow=("Bash",))}, Effect.WIDENED),
    (
        "denial removed",
        {"permissions": replace(INTENT.permissions, deny=())},
        Effect.WIDENED,
    ),
    (
        "ask became deny",
        {"permissions": replace(INTENT.permissions, ask=(), deny=("Bash(curl *)", "Bash(rm *)"))},
        Effect.NARROWED,
    ),
    ("allow removed", {"permissions": replace(INTENT.permissions, allow=())}, Effect.NARROWED),
    ("budget raised", {"budget": replace(INTENT.budget, max_files=11)}, Effect.WIDENED),
    ("budget dropped", {"budget": IntentBudget()}, Effect.WIDENED),
    ("budget lowered", {"budget": replace(INTENT.budget, max_files=9)}, Effect.NARROWED),
    ("limit added", {"budget": replace(INTENT.budget, max_tool_calls=9)}, Effect.NARROWED),
    ("parent", {"parent": "INT-000"}, Effect.WIDENED),
    ("words only", {"name": "m", "description": "d", "tags": ("x",)}, Effect.NONE),
    ("paused", {"status": Status.PAUSED}, Effect.LOST),
    ("expired", {"budget": replace(INTENT.budget, expires_at=NOW)}, Effect.LOST),
]


@pytest.mark.parametrize(
    ("fields", "expected"), [row[1:] for row in ROWS], ids=[r[0] for r in ROWS]
)
def test_what_a_change_means(fields: dict[str, object], expected: Effect):
    assert effect(**fields) is expected
    changed = Definition(replace(INTENT, **fields), POLICY)
    same = digest(changed.intent, POLICY) == digest(INTENT, POLICY)
    assert same == (expected is Effect.NONE)


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        (replace(POLICY, unknown_targets="deny"), Effect.NARROWED),
        (replace(POLICY, deletes="allow"), Effect.WIDENED),
        (replace(POLICY, protect=()), Effect.WIDENED),
        (replace(POLICY, protect=("infra/**", "x")), Effect.NARROWED),
        (replace(POLICY, same_turn_writes="allow"), Effect.WIDENED),
        (replace(POLICY, stale="strict", deletes="allow"), Effect.WIDENED),
        (POLICY, Effect.NONE),
    ],
)
def test_the_policy_counts(policy: Policy, expected: Effect):
    assert effect(policy) is expected


def test_an_intent_that_is_gone_is_lost():
    found = change(Definition(INTENT, POLICY), None, now=NOW)
    assert (found.effect, found.reason) == (Effect.LOST, "removed")


def test_a_change_by_a_tool_needs_a_persons_yes():
    old = Definition(INTENT, POLICY)
    for fields in ({"owned_scope": ("src/**",)}, {"owned_scope": ("**",)}):
        new = Definition(replace(INTENT, **fields), POLICY)
        found = change(old, new, now=NOW, during_own_call=True)
        assert (found.effect, found.fields) == (Effect.LOST_TO_TOOL, ("owned_scope",))
    assert change(old, old, now=NOW, during_own_call=True).effect is Effect.NONE
