from datetime import UTC, datetime
from typing import Any

import pytest
from msgspec.structs import replace

from rookery.core.modes import GovernanceMode, ModeWishes, latched
from rookery.core.refusals import Problem, Refusal
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
from rookery.governance.intents.selection import Selected, select, wanted_id

NOW = datetime(2026, 2, 20, tzinfo=UTC)
ONE = Intent(id="INT-001", name="one", status=IntentStatus.IN_PROGRESS, owned_scope=("src/**",))
TWO = Intent(id="INT-002", name="two", status=IntentStatus.PENDING, depends_on=("INT-003",))
THREE = replace(ONE, id="INT-003", budget=IntentBudget(expires_at=NOW))
FOUR = replace(ONE, id="INT-004", depends_on=("INT-002",))
FILE = IntentFile(intents=(ONE, TWO, THREE, FOUR))


def code(found: Selected | Refusal) -> str:
    return found.code if isinstance(found, Refusal) else found.intent.id


def test_an_intent_is_selected_in_any_spelling():
    assert code(select(FILE, "INT-001", now=NOW)) == "INT-001"
    loose = select(FILE, "int-001", now=NOW)
    assert isinstance(loose, Selected)
    assert loose.intent.id == "INT-001"
    assert "INT-001" in " ".join(loose.notes)


def test_an_unknown_id_lists_those_there_are():
    found = select(FILE, "INT-999", now=NOW)
    assert isinstance(found, Refusal)
    assert found.code == "REQ-006"
    assert "INT-001, INT-004" in found.message


def test_an_intent_that_is_not_in_progress():
    pending, expired = select(FILE, "INT-002", now=NOW), select(FILE, "INT-003", now=NOW)
    assert isinstance(pending, Refusal)
    assert isinstance(expired, Refusal)
    assert (pending.code, pending.reason) == ("REQ-010", "status")
    assert pending.to_json()["status"] == "PENDING"
    assert (expired.code, expired.reason) == ("REQ-010", "expired")


REMEDIES = {
    "REQ-010 pending": (TWO, "rookery intents start INT-002"),
    "REQ-010 paused": (replace(ONE, status=IntentStatus.PAUSED), "rookery intents start INT-001"),
    "REQ-010 completed": (
        replace(ONE, status=IntentStatus.COMPLETED),
        "rookery intents reopen INT-001",
    ),
    "REQ-010 abandoned": (
        replace(ONE, status=IntentStatus.ABANDONED),
        "rookery intents reopen INT-001",
    ),
    "REQ-010 expired": (THREE, "budget.expires_at"),
}


@pytest.mark.parametrize("case", REMEDIES.values(), ids=REMEDIES.keys())
def test_what_cannot_be_selected_is_refused_with_the_command_that_helps(case: tuple[Intent, str]):
    intent, remedy = case
    found = select(IntentFile(intents=(intent,)), intent.id, now=NOW)
    assert isinstance(found, Refusal)
    assert found.code == "REQ-010"
    assert remedy in found.message


def test_a_missing_or_broken_file_names_the_command_that_helps():
    fault = Problem(file="f", code="E206", message="m", intent_id="INT-001")
    missing = select(None, "INT-001", now=NOW)
    broken = select(replace(FILE, problems=(fault,)), "INT-001", now=NOW)
    assert isinstance(missing, Refusal)
    assert isinstance(broken, Refusal)
    assert "rookery intents init" in missing.message
    assert "rookery intents validate" in broken.message


def test_an_empty_id():
    single = IntentFile(intents=(ONE, TWO))
    assert code(select(single, "", now=NOW)) == "HOOK-INT-001"
    assert code(select(single, "", now=NOW, auto_single=True)) == "INT-001"
    assert code(select(FILE, "", now=NOW, auto_single=True)) == "HOOK-INT-001"


def test_what_is_broken_cannot_be_selected():
    whole = replace(FILE, problems=(Problem(file="f", code="E103", message="m"),))
    single = replace(
        FILE, problems=(Problem(file="f", code="E206", message="m", intent_id="INT-001"),)
    )
    policy = replace(FILE, problems=(Problem(file="f", code="E207", message="m", path="policy.x"),))
    assert code(select(None, "INT-001", now=NOW)) == "REQ-011"
    assert code(select(whole, "INT-001", now=NOW)) == "REQ-013"
    assert code(select(policy, "INT-001", now=NOW)) == "REQ-013"
    assert code(select(single, "INT-001", now=NOW)) == "REQ-013"
    assert code(select(single, "INT-004", now=NOW)) == "INT-004"


def test_dependencies_and_overlaps_warn_or_block():
    warned = select(FILE, "INT-004", now=NOW, overlapping=["INT-001"])
    assert isinstance(warned, Selected)
    assert len(warned.notes) == 2
    strict = replace(FILE, policy=Policy(dependencies="block", overlap="block"))
    assert code(select(strict, "INT-004", now=NOW)) == "REQ-017"
    assert code(select(strict, "INT-001", now=NOW, overlapping=["INT-009"])) == "REQ-018"


@pytest.mark.parametrize(
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


@pytest.mark.parametrize(
    ("command", "status", "after"),
    [
        ("new", None, IntentStatus.PENDING),
        ("start", IntentStatus.PENDING, IntentStatus.IN_PROGRESS),
        ("start", IntentStatus.PAUSED, IntentStatus.IN_PROGRESS),
        ("start", IntentStatus.COMPLETED, None),
        ("pause", IntentStatus.IN_PROGRESS, IntentStatus.PAUSED),
        ("pause", IntentStatus.PENDING, None),
        ("close", IntentStatus.IN_PROGRESS, IntentStatus.COMPLETED),
        ("close", IntentStatus.PENDING, None),
        ("abandon", IntentStatus.PAUSED, IntentStatus.ABANDONED),
        ("abandon", IntentStatus.COMPLETED, None),
        ("reopen", IntentStatus.COMPLETED, IntentStatus.IN_PROGRESS),
        ("reopen", IntentStatus.ABANDONED, IntentStatus.PENDING),
        ("reopen", IntentStatus.PENDING, None),
    ],
)
def test_the_lifecycle(command: str, status: IntentStatus | None, after: IntentStatus | None):
    found = move(command, status)
    assert (found and found.after) == after


def test_what_a_move_needs():
    assert {each.command for each in LIFECYCLE if each.needs_checks} == {"close"}
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


@pytest.mark.parametrize(
    ("wishes", "there", "mode"),
    [
        (ModeWishes(), False, GovernanceMode.OFF),
        (ModeWishes(), True, GovernanceMode.ENFORCE),
        (ModeWishes(user=GovernanceMode.REQUIRED), False, GovernanceMode.REQUIRED),
        (
            ModeWishes(user=GovernanceMode.OFF, command_line=GovernanceMode.OBSERVE),
            True,
            GovernanceMode.OBSERVE,
        ),
        (
            ModeWishes(administrator=GovernanceMode.ENFORCE, command_line=GovernanceMode.OFF),
            True,
            GovernanceMode.ENFORCE,
        ),
    ],
    ids=["off", "auto", "required", "flag", "administrator"],
)
def test_the_mode(wishes: ModeWishes, there: bool, mode: GovernanceMode):
    assert latched(wishes, there=there).mode is mode


def test_switching_off_where_there_are_intents_is_said_once():
    assert latched(ModeWishes(user=GovernanceMode.OFF), there=True).notice
    assert not latched(ModeWishes(user=GovernanceMode.OFF), there=False).notice


@pytest.mark.parametrize(
    ("command", "status", "first"),
    [
        ("start", IntentStatus.IN_PROGRESS, None),
        ("start", IntentStatus.COMPLETED, "reopen"),
        ("pause", IntentStatus.PENDING, "start"),
        ("close", IntentStatus.PENDING, "start"),
        ("close", IntentStatus.PAUSED, "start"),
        ("close", IntentStatus.COMPLETED, None),
        ("close", IntentStatus.ABANDONED, "reopen"),
        ("reopen", IntentStatus.PAUSED, "start"),
        ("reopen", IntentStatus.PENDING, None),
    ],
)
def test_what_must_be_done_first(command: str, status: IntentStatus, first: str | None):
    found = first_step(command, status)
    assert (found and found.command) == first
