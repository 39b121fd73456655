from datetime import UTC, datetime
from typing import Any

import pytest
from msgspec.structs import replace

from rookery.core.refusals import Problem, Refusal
from rookery.core.settings_sections import Governance
from rookery.governance.intents.intent import (
    LIFECYCLE,
    Criterion,
    Intent,
    IntentBudget,
    IntentFile,
    IntentStatus,
    Policy,
    digest,
    first_step,
    move,
    possible_moves,
)
from rookery.governance.intents.selection import select, wanted_id
from rookery.governance.layout import mode_of_task
from support.each_row import each_row

NOW = datetime(2026, 2, 20, tzinfo=UTC)
ONE = Intent(id="INT-001", name="one", status=IntentStatus.IN_PROGRESS, owned_scope=("src/**",))
TWO = Intent(id="INT-002", name="two", status=IntentStatus.PENDING, depends_on=("INT-003",))
THREE = replace(ONE, id="INT-003", budget=IntentBudget(expires_at=NOW))
FOUR = replace(ONE, id="INT-004", depends_on=("INT-002",))
FILE = IntentFile(intents=(ONE, TWO, THREE, FOUR))


def code(found: tuple[Intent, tuple[str, ...]] | Refusal) -> str:
    return found.code if isinstance(found, Refusal) else found[0].id


def test_an_intent_is_selected_in_any_spelling():
    assert code(select(FILE, "INT-001", now=NOW)) == "INT-001"
    loose = select(FILE, "int-001", now=NOW)
    assert isinstance(loose, tuple)
    assert loose[0].id == "INT-001"
    assert "INT-001" in " ".join(loose[1])


def test_an_unknown_id_lists_those_there_are():
    found = select(FILE, "INT-999", now=NOW)
    assert isinstance(found, Refusal)
    assert found.code == "REQ-006"
    assert "INT-001, INT-004" in found.message


REMEDIES = {
    "pending": (TWO, "rookery intents start INT-002"),
    "paused": (replace(ONE, status=IntentStatus.PAUSED), "rookery intents start INT-001"),
    "completed": (replace(ONE, status=IntentStatus.COMPLETED), "rookery intents reopen INT-001"),
    "abandoned": (replace(ONE, status=IntentStatus.ABANDONED), "rookery intents reopen INT-001"),
    "expired": (THREE, "budget.expires_at"),
}


@pytest.mark.parametrize("case", REMEDIES.values(), ids=REMEDIES.keys())
def test_what_cannot_be_selected_is_refused_with_the_command_that_helps(case: tuple[Intent, str]):
    intent, remedy = case
    found = select(IntentFile(intents=(intent,)), intent.id, now=NOW)
    assert isinstance(found, Refusal)
    assert found.code == "REQ-010"
    assert remedy in found.message
    expired = intent.status is IntentStatus.IN_PROGRESS
    assert found.reason == ("expired" if expired else "status")
    assert expired or found.to_json()["status"] == intent.status


def test_an_empty_id():
    single = IntentFile(intents=(ONE, TWO))
    assert code(select(single, "", now=NOW)) == "HOOK-INT-001"
    assert code(select(single, "", now=NOW, auto_single=True)) == "INT-001"
    assert code(select(FILE, "", now=NOW, auto_single=True)) == "HOOK-INT-001"


def test_a_missing_or_broken_intent_is_refused_with_the_command_that_helps():
    whole = replace(FILE, problems=(Problem(file="f", code="E103", message="m"),))
    single = replace(
        FILE, problems=(Problem(file="f", code="E206", message="m", intent_id="INT-001"),)
    )
    policy = replace(FILE, problems=(Problem(file="f", code="E207", message="m", path="policy.x"),))
    for file, expected, helps in (
        (None, "REQ-011", "rookery intents init"),
        *((each, "REQ-013", "rookery intents validate") for each in (whole, policy, single)),
    ):
        found = select(file, "INT-001", now=NOW)
        assert isinstance(found, Refusal)
        assert found.code == expected
        assert helps in found.message
    assert code(select(single, "INT-004", now=NOW)) == "INT-004"


def test_dependencies_and_overlaps_warn_or_block():
    warned = select(FILE, "INT-004", now=NOW, overlapping=["INT-001"])
    assert isinstance(warned, tuple)
    assert len(warned[1]) == 2
    strict = replace(FILE, policy=Policy(dependencies="block", overlap="block"))
    assert code(select(strict, "INT-004", now=NOW)) == "REQ-017"
    assert code(select(strict, "INT-001", now=NOW, overlapping=["INT-009"])) == "REQ-018"


@each_row(
    ("arguments", "expected"),
    [
        ({"intent_id": "INT-001"}, "INT-001"),
        ('{"intent_id": "INT-001"}', "INT-001"),
        ({"intent_id": '{"intent_id": "INT-001"}'}, "INT-001"),
        ("INT-001", "INT-001"),
        ({}, ""),
        ({"intent_id": 7}, ""),
        ("[" * 10_000, "[" * 10_000),
        (None, ""),
    ],
)
def test_the_id_is_found_where_the_model_put_it(arguments: Any, expected: str):
    assert wanted_id(arguments) == expected


PENDING, IN_PROGRESS, PAUSED = IntentStatus.PENDING, IntentStatus.IN_PROGRESS, IntentStatus.PAUSED
COMPLETED, ABANDONED = IntentStatus.COMPLETED, IntentStatus.ABANDONED
LIFE = {
    ("new", None): PENDING,
    ("start", PENDING): IN_PROGRESS,
    ("start", PAUSED): IN_PROGRESS,
    ("start", COMPLETED): None,
    ("pause", IN_PROGRESS): PAUSED,
    ("pause", PENDING): None,
    ("close", IN_PROGRESS): COMPLETED,
    ("close", PENDING): None,
    ("abandon", PAUSED): ABANDONED,
    ("abandon", COMPLETED): None,
    ("reopen", COMPLETED): IN_PROGRESS,
    ("reopen", ABANDONED): PENDING,
    ("reopen", PENDING): None,
}
FIRST = {
    ("start", IN_PROGRESS): None,
    ("start", COMPLETED): "reopen",
    ("pause", PENDING): "start",
    ("close", PENDING): "start",
    ("close", PAUSED): "start",
    ("close", COMPLETED): None,
    ("close", ABANDONED): "reopen",
    ("reopen", PAUSED): "start",
    ("reopen", PENDING): None,
}


def test_the_lifecycle_and_what_must_be_done_first():
    moves = {each: move(*each) for each in LIFE}
    assert {each: found and found.after for each, found in moves.items()} == LIFE
    steps = {each: first_step(*each) for each in FIRST}
    assert {each: found and found.command for each, found in steps.items()} == FIRST


def test_what_a_move_needs():
    assert {each.command for each in LIFECYCLE if each.needs_scope} == {"start"}
    assert {each.command for each in LIFECYCLE if each.raises_revision} == {"reopen"}
    assert possible_moves(IntentStatus.IN_PROGRESS) == ("pause", "close", "abandon")


def test_the_digest_is_over_what_governs():
    policy = Policy()
    same = replace(ONE, name="other", revision=9, tags=("x",))
    assert digest(ONE, policy) == digest(same, policy)
    scope = replace(ONE, owned_scope=("a", "b"))
    assert digest(scope, policy) == digest(replace(scope, owned_scope=("b", "a")), policy)
    others = [
        digest(replace(ONE, status=IntentStatus.PAUSED), policy),
        digest(replace(ONE, owned_scope=("x",)), policy),
        digest(replace(ONE, parent="P"), policy),
        digest(replace(ONE, acceptance_criteria=(Criterion(text="t"),)), policy),
        digest(ONE, replace(policy, deletes="deny")),
    ]
    assert len({digest(ONE, policy), *others}) == 6


MODES: dict[str, tuple[Governance, bool, Governance]] = {
    "off": ("auto", False, "off"),
    "auto": ("auto", True, "enforce"),
    "required": ("required", False, "required"),
    "observed": ("observe", True, "observe"),
    "switched off": ("off", True, "off"),
}


@pytest.mark.parametrize(("wanted", "there", "mode"), MODES.values(), ids=MODES)
def test_the_mode(wanted: Governance, there: bool, mode: Governance):
    assert mode_of_task(wanted, has_intents=there) == mode
