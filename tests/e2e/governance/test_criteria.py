"""Work that is said to be done: its criteria are run through the gate, and what they say counts."""

import pytest

from llm_server import Part, call, finish, say
from rookery.core.facts import Asked, CriteriaChecked, Noted, StepCancelled
from support.governed_session import FILE, Governed, choose, intents, run, write
from support.ledger_lines import told_of

from .test_commands import codes, program

UNKNOWN = ("--governance-allow", "unknown")
DONE = "src/auth/done.py"
CHECK = (
    "acceptance_criteria:\n"
    "  - id: AC-1\n    text: The file is there.\n"
    '    verify: { command: "./check.sh" }\n'
)
BY_HAND = "acceptance_criteria:\n  - id: AC-2\n    text: It reads well.\n"


@pytest.fixture
def checked(governed: Governed) -> Governed:
    governed.put(FILE, intents(more=CHECK))
    program(governed, "check.sh", f"test -e {DONE} || {{ echo no such file; exit 3; }}")
    return governed


def states(governed_run: dict[str, object] | None) -> list[tuple[str, str]]:
    assert governed_run
    criteria = governed_run["criteria"]
    assert isinstance(criteria, list)
    return [(each["id"], each["state"]) for each in criteria]


def test_what_is_claimed_and_passes_is_a_success_with_its_check_on_record(checked: Governed):
    told = checked.alone([choose()], [write(DONE)], flags=UNKNOWN)
    assert (told.exit_code, states(told.governance)) == (0, [("AC-1", "passed")])
    [check] = told_of(checked.root, "command")
    assert (check["tool_name"], check["command"]["text"]) == ("intent_check", "./check.sh")
    assert (check["outcome"], check["command"]["exit_code"]) == ("success", 0)
    assert checked.is_whole()


@pytest.mark.parametrize("claim", [finish("It is done."), say("It is done.")])
def test_what_fails_goes_back_to_the_model_which_mends_it(checked: Governed, claim: Part):
    told = checked.alone([choose()], [claim], [write(DONE)], flags=UNKNOWN)
    assert (told.exit_code, states(told.governance)) == (0, [("AC-1", "passed")])
    assert "AC-1 (./check.sh) failed:\\nno such file" in told.requests[2]
    assert [each["outcome"] for each in told_of(checked.root, "command")] == ["failure", "success"]


def test_what_fails_again_and_again_is_no_success(checked: Governed):
    told = checked.alone(
        [choose()], [finish("Done.")], [finish("Really.")], [finish("I swear.")], flags=UNKNOWN
    )
    assert (told.exit_code, states(told.governance)) == (20, [("AC-1", "failed")])
    assert "The criteria of INT-001 are not met: AC-1 (./check.sh) failed" in str(told.output)
    assert len(told.requests) == 4, "it is told twice, and then the run ends"


def test_what_nobody_can_run_is_claimed_not_checked(governed: Governed):
    governed.put(FILE, intents(more=BY_HAND))
    told = governed.play([choose()], [write(DONE)])
    [fact] = told.of(CriteriaChecked)
    assert [(each.id, each.state) for each in fact.checks] == [("AC-2", "manual")]
    assert any("AC-2 claimed, not checked: It reads well." in each.text for each in told.of(Noted))


def test_a_check_that_may_not_run_proves_nothing(checked: Governed):
    checked.settings('[commands]\ndeny = ["./check.sh"]\n')
    checked.put(DONE)
    told = checked.alone([choose()])
    assert states(told.governance) == [("AC-1", "not_run")]
    assert told_of(checked.root, "command") == []


def test_a_task_for_no_intent_claims_nothing(checked: Governed):
    told = checked.alone()
    assert told.exit_code == 0
    assert told.governance is None or "criteria" not in told.governance


def test_a_call_that_bears_the_name_of_a_check_is_none(governed: Governed):
    """The names of calls are the model's to choose."""
    program(governed, "gen.sh", "mkdir -p src/api; echo made > src/api/gen.py")
    disguised = call(
        "execute_command", id="check-INT-001-AC-1", command="./gen.sh", cwd=None, timeout=None
    )
    told = governed.alone([choose()], [disguised], flags=UNKNOWN)
    assert told.exit_code == 20
    assert "CMD-002" in told.requests[2]
    assert told.governance
    assert told.governance["out_of_scope"] == ["src/api/gen.py"]


def test_who_answers_halt_is_not_asked_again_and_the_step_ends(governed: Governed):
    told = governed.play(
        [choose()], [write("src/api/a.py"), write("src/api/b.py")], book=["halt", "no"]
    )
    first = told.questions[0]
    assert codes(first)
    assert told.of(StepCancelled)
    assert not governed.there("src/api/a.py")
    assert not governed.there("src/api/b.py")
    assert [each.call_id for each in told.of(Asked) if each.governance] == [first.call_id]


def test_what_governance_asks_cannot_be_allowed_for_ever(governed: Governed):
    governed.put("src/api/a.py")
    told = governed.play([choose()], [run("rm src/api/a.py")], book=["no"])
    [asked] = told.questions
    assert codes(asked)
    assert asked.rule == ""
