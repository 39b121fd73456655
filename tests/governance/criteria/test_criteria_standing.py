"""The status of criteria: the newest proof for this revision and wording counts."""

from typing import Any

import pytest
from msgspec.structs import replace

from rookery.governance.criteria import criteria_standing
from rookery.governance.intents.intent import (
    Criterion,
    Intent,
    IntentStatus,
    LastVerification,
    Policy,
    StatusChange,
    Verify,
    digest,
)
from rookery.governance.ledger.traced import TracedRecord

CHECK = Criterion(text="It works.", verify=Verify(command="pytest"))
READ = Criterion(text="Somebody has read it.")
INTENT = Intent(
    id="INT-1", status=IntentStatus.IN_PROGRESS, revision=2, acceptance_criteria=(CHECK, READ)
)
WORDED = digest(INTENT, Policy())
DONE = LastVerification(at="2026-01-01T10:00:00Z", ok=True, criteria=("A1", "A2"), trace_id="r1")
FAILED = replace(DONE, ok=False, criteria=())
REOPENED = (
    StatusChange(status="COMPLETED", at="2026-01-01T10:00:00Z"),
    StatusChange(status="IN_PROGRESS", at="2026-01-01T11:00:00Z"),
)
PAUSED = (
    StatusChange(status="PAUSED", at="2026-01-01T10:30:00Z"),
    StatusChange(status="IN_PROGRESS", at="2026-01-01T11:00:00Z"),
)


def ran(time: str, outcome: str = "success", **more: Any) -> TracedRecord:
    reported = {
        "id": f"r{time}",
        "time": f"2026-01-01T{time}:00.123Z",
        "kind": "command",
        "tool_name": "intent_check",
        "tool_use_id": "check-INT-1-A1",
        "intent_id": "INT-1",
        "intent_rev": 2,
        "intent_digest": WORDED,
        "outcome": outcome,
        "raw": {},
    }
    return TracedRecord(**{**reported, **more})


def verified(last: LastVerification, *history: StatusChange) -> Intent:
    return replace(INTENT, last_verification=last, status_history=history)


CASES: dict[str, tuple[Intent, list[TracedRecord], tuple[str, str]]] = {
    "nothing yet": (INTENT, [], ("not_run", "manual")),
    "closed": (verified(DONE), [], ("passed", "passed")),
    "closing failed": (verified(FAILED), [], ("failed", "manual")),
    "a task ran it": (INTENT, [ran("09:00")], ("passed", "manual")),
    "newest run": (INTENT, [ran("09:00"), ran("09:30", "failure")], ("failed", "manual")),
    "run after closing": (verified(DONE), [ran("10:30", "failure")], ("failed", "passed")),
    "run before closing": (verified(DONE), [ran("09:30", "failure")], ("passed", "passed")),
    "run not done": (INTENT, [ran("09:00"), ran("09:30", "denied")], ("passed", "manual")),
    "earlier revision": (INTENT, [ran("09:00", intent_rev=1)], ("not_run_again", "manual")),
    "other wording": (INTENT, [ran("09:00", intent_digest="x")], ("not_run", "manual")),
    "other intent": (INTENT, [ran("09:00", intent_id="INT-2")], ("not_run", "manual")),
    "other criterion": (INTENT, [ran("9", tool_use_id="check-INT-1-A3")], ("not_run", "manual")),
    "reopened": (verified(DONE, *REOPENED), [], ("not_run_again", "manual")),
    "paused only": (verified(DONE, *PAUSED), [], ("passed", "passed")),
    "closed under an earlier revision": (
        verified(DONE),
        [ran("09:59", id="r1", intent_rev=1)],
        ("not_run_again", "manual"),
    ),
    "reopened and run again": (verified(DONE, *REOPENED), [ran("12:00")], ("passed", "manual")),
    "completed since": (
        replace(INTENT, status=IntentStatus.COMPLETED),
        [ran("09:00")],
        ("passed", "manual"),
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_the_newest_proof_of_this_revision_counts(
    case: tuple[Intent, list[TracedRecord], tuple[str, str]],
) -> None:
    intent, runs, expected = case
    found = criteria_standing(intent, Policy(), runs)
    assert tuple(each.state for each in found) == expected
    assert [each.id for each in found] == ["A1", "A2"]


def test_a_criterion_keeps_the_name_its_author_gave_it() -> None:
    named = replace(INTENT, acceptance_criteria=(replace(CHECK, id="fast"), READ))
    run = ran("09:00", tool_use_id="check-INT-1-fast", intent_digest="")
    first, second = criteria_standing(named, Policy(), [run])
    assert (first.id, first.state, second.id) == ("fast", "passed", "A2")
