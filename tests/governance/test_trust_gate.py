"""TRUST-1: nothing is run or changed in a folder that is not trusted."""

import pytest

from rookery.core.blocks import ToolCall
from rookery.core.facts import Change
from rookery.core.rulings import Ruling, deny
from rookery.engine.ports import Action, Outcome, Permit
from rookery.governance.trust_gate import NOT_TRUSTED, TrustGate

pytestmark = pytest.mark.anyio
CALL = ToolCall(id="c1", name="any")


async def nothing(_: Permit) -> Outcome:
    raise AssertionError("A gate performs nothing.")


READ = Action(title="Read", perform=nothing, reads=["a"])
CHANGE = Action(title="Write", perform=nothing, changes=[Change(path="a", after="x")])
COMMAND = Action(title="Run", perform=nothing, command="ls")
EXTERNAL = Action(title="Fetch", perform=nothing, external="https://example.org")


@pytest.mark.parametrize("action", [CHANGE, COMMAND, EXTERNAL], ids=lambda action: action.title)
async def test_TRUST_1_what_changes_things_is_refused(action: Action):
    gate = TrustGate(trusted=False, acts_anyway=False)
    assert await gate.before(CALL, action) == deny(NOT_TRUSTED)


async def test_TRUST_1_reading_is_no_matter_of_trust():
    assert await TrustGate(trusted=False, acts_anyway=False).before(CALL, READ) == Ruling()


@pytest.mark.parametrize("action", [READ, CHANGE, COMMAND, EXTERNAL], ids=lambda act: act.title)
@pytest.mark.parametrize(("trusted", "acts_anyway"), [(True, False), (False, True), (True, True)])
async def test_TRUST_1_otherwise_it_has_no_opinion_and_others_may_still_ask(
    action: Action, trusted: bool, acts_anyway: bool
):
    gate = TrustGate(trusted=trusted, acts_anyway=acts_anyway)
    assert await gate.before(CALL, action) == Ruling()
    await gate.after(CALL, action, Outcome(text=""))


def test_the_refusal_says_what_to_do():
    assert "rookery trust" in NOT_TRUSTED
