"""Nothing is run or changed in a folder that is not trusted."""

import pytest
from msgspec.structs import replace

from rookery.core.asks import Ruling, deny
from rookery.core.blocks import ToolCall
from rookery.core.facts import Change
from rookery.engine.ports.actions import Action, Judgement, Outcome, Pipeline, PlainCommand
from rookery.permissions.restrictions import NOT_TRUSTED, READ_ONLY, TrustGate
from support.actions import never

pytestmark = pytest.mark.anyio
CALL = ToolCall(id="c1", name="any")


READ = Action(title="Read", perform=never, reads=["a"])
CHANGE = Action(title="Write", perform=never, changes=[Change(path="a", after="x")])
COMMAND = Action(title="Run", perform=never, command="ls")


def judged(*words: str, only_reads: bool = True) -> Action:
    line = (Pipeline((PlainCommand(words),)),)
    judgement = Judgement(commands=(words,), plain=line if only_reads else None)
    return Action(title=words[0], perform=never, command=" ".join(words), judgement=judgement)


READER = judged("grep", "-n", "todo", "a.txt")
EXTERNAL = Action(title="Fetch", perform=never, external="https://example.org")


@pytest.mark.parametrize(
    "action",
    [
        *(CHANGE, COMMAND, EXTERNAL),
        judged("touch", "a", only_reads=False),
        judged("git", "log"),
        judged("/usr/bin/git", "status"),
        replace(READER, changes=[Change(path="a", after="x")]),
        replace(READER, external="https://example.org"),
    ],
    ids=lambda action: action.command or action.title,
)
async def test_changes_are_refused_in_an_untrusted_folder(action: Action):
    gate = TrustGate(trusted=False, acts_anyway=False)
    assert await gate.before(CALL, action) == deny(NOT_TRUSTED)


async def test_a_folder_that_can_never_be_trusted_says_why():
    gate = TrustGate(trusted=False, acts_anyway=False, never="It is your home folder.")
    ruling = await gate.before(CALL, CHANGE)
    assert ruling == deny(f"{READ_ONLY} It is your home folder.")


@pytest.mark.parametrize("action", [READ, READER], ids=lambda action: action.title)
async def test_reading_needs_no_trust(action: Action):
    assert await TrustGate(trusted=False, acts_anyway=False).before(CALL, action) == Ruling()


@pytest.mark.parametrize("action", [READ, CHANGE, COMMAND, EXTERNAL], ids=lambda act: act.title)
@pytest.mark.parametrize(("trusted", "acts_anyway"), [(True, False), (False, True), (True, True)])
async def test_other_actions_are_left_to_other_hooks(
    action: Action, trusted: bool, acts_anyway: bool
):
    gate = TrustGate(trusted=trusted, acts_anyway=acts_anyway)
    assert await gate.before(CALL, action) == Ruling()
    await gate.after(CALL, action, Outcome(text=""))
