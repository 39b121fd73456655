"""Completion claims: the criteria run through the gate, and their results count."""

import pytest

from llm_server import finish, say
from rookery.core.facts import Asked, CriteriaChecked, Noted, StepCancelled
from support.governed_session import (
    FILE,
    UNKNOWN,
    Alone,
    Governed,
    choose,
    intents,
    reasons,
    write,
)
from support.ledger_lines import own_records

pytestmark = pytest.mark.usefixtures("unconfined")

DONE = "src/auth/done.py"
CHECK = (
    "acceptance_criteria:\n"
    "  - id: AC-1\n    text: The file is there.\n"
    '    verify: { command: "./check.sh" }\n'
)
BY_HAND = "  - id: AC-2\n    text: It reads well.\n"


def govern(governed: Governed, criteria: str) -> None:
    governed.put(FILE, intents(more=criteria))
    governed.program("check.sh", f"test -e {DONE} || {{ echo no such file; exit 3; }}")


def ended(reported: Alone) -> tuple[int, list[tuple[str, str]]]:
    """The exit code and the result of each criterion."""
    assert reported.governance
    return reported.exit_code, [
        (each["id"], each["state"]) for each in reported.governance["criteria"]
    ]


def test_a_failed_criterion_is_returned_to_the_model(governed: Governed):
    govern(governed, CHECK)
    claims = [finish("It is done.")], [say("It is done.")]
    reported = governed.alone([choose()], *claims, [write(DONE)], flags=UNKNOWN)
    assert ended(reported) == (0, [("AC-1", "passed")])
    for request in reported.requests[2:4]:
        assert "AC-1 (./check.sh) failed:\\nno such file" in request
    checks = own_records(governed.root, "command")
    assert [each["outcome"] for each in checks] == ["failure", "failure", "success"]
    assert (checks[2]["tool_name"], checks[2]["command"]["text"]) == ("intent_check", "./check.sh")
    assert checks[2]["command"]["exit_code"] == 0
    assert governed.is_whole()


def test_a_run_whose_criteria_keep_failing_is_not_a_success(governed: Governed):
    govern(governed, CHECK)
    claims = [finish("Done.")], [finish("Really.")], [finish("I swear.")]
    reported = governed.alone([choose()], *claims, flags=UNKNOWN)
    assert ended(reported) == (20, [("AC-1", "failed")])
    assert "The criteria of INT-001 are not met: AC-1 (./check.sh) failed" in str(reported.output)
    assert len(reported.requests) == 4, "the model is told twice, and then the run ends"


def test_a_denied_or_manual_check_is_not_counted_as_passed(governed: Governed):
    """And a task for no intent claims nothing."""
    govern(governed, CHECK + BY_HAND)
    governed.settings('[commands]\ndeny = ["./check.sh"]\n')
    with governed.attended([choose()], [write(DONE)], [finish()], [finish()]) as person:
        reported, of_no_intent = person.follow(), person.follow()
    [fact] = reported.of(CriteriaChecked)
    states = [(each.id, each.state) for each in fact.checks]
    assert states == [("AC-1", "not_run"), ("AC-2", "manual")]
    assert any(
        "AC-2 claimed, not checked: It reads well." in each.text for each in reported.of(Noted)
    )
    assert own_records(governed.root, "command") == []
    assert of_no_intent.of(CriteriaChecked) == []


def test_the_answer_halt_ends_the_step_without_more_questions(governed: Governed):
    reported = governed.play(
        [choose()], [write("src/api/a.py"), write("src/api/b.py")], book=["halt", "no"]
    )
    first = reported.questions[0]
    assert reasons(first)
    assert reported.of(StepCancelled)
    assert not governed.there("src/api/a.py")
    assert not governed.there("src/api/b.py")
    assert [each.call_id for each in reported.of(Asked) if each.governance] == [first.call_id]
