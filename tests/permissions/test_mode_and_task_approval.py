"""Each approval setting allows exactly the actions it names."""

import hashlib

import pytest

from rookery.core.asks import Decision, strictest
from rookery.core.blocks import ToolCall
from rookery.core.facts import Change
from rookery.core.modes import BUILT_IN, Level, find_mode
from rookery.engine.ports.actions import Action
from rookery.permissions.approval import ApprovalGate
from rookery.permissions.restrictions import ModeLimits
from support.actions import never
from support.each_row import each_row

pytestmark = pytest.mark.anyio

CALL = ToolCall(id="c", name="any")


class NoRules:
    """Nothing was allowed for good."""

    def allows(self, action: Action) -> bool:
        return False

    def rule_for(self, action: Action) -> str:
        return ""

    def add(self, action: Action) -> None:
        raise AssertionError("Nobody wanted a rule.")


def action(**more: object) -> Action:
    return Action(title="Act", perform=never, **more)  # type: ignore[arg-type]


def gate(**settings: bool) -> ApprovalGate:
    return ApprovalGate(NoRules(), level=lambda: Level.ASK, **settings)


AN_EDIT = [Change(path="a", before="x", after="y")]
LOOK = action(reads=["a"])
EDIT = action(changes=AN_EDIT)
EDITING_COMMAND = action(changes=AN_EDIT, command="sed -i s/x/y/ a")
EDITING_SERVER = action(changes=AN_EDIT, external="mcp one write")
COMMAND = action(command="ls")
SWITCH = action(mode="ask")
CHILD = action(child="t2")

WHAT_EACH_ALLOWS = {
    "edits": [LOOK, EDIT],
    "modes": [LOOK, SWITCH],
    "children": [LOOK, CHILD],
    "": [LOOK],
}
ALL = {
    "look": LOOK,
    "edit": EDIT,
    "editing-command": EDITING_COMMAND,
    "editing-server": EDITING_SERVER,
    "command": COMMAND,
    "switch": SWITCH,
    "child": CHILD,
}


@pytest.mark.parametrize("act", ALL.values(), ids=ALL)
@pytest.mark.parametrize("setting", WHAT_EACH_ALLOWS)
async def test_each_setting_allows_what_it_names_and_nothing_else(setting: str, act: Action):
    ruling = await gate(**({setting: True} if setting else {})).before(CALL, act)
    allowed = any(act is each for each in WHAT_EACH_ALLOWS[setting])
    assert ruling.decision is (Decision.ALLOW if allowed else Decision.NONE)


async def test_a_mode_switch_that_also_edits_is_not_auto_approved():
    besides = action(mode="ask", changes=AN_EDIT)
    assert (await gate(modes=True).before(CALL, besides)).decision is Decision.NONE


async def test_an_edit_that_empties_a_file_always_asks():
    nothing_left = hashlib.sha256(b"").hexdigest()
    emptied = action(changes=[Change(path="a", before="x", after=nothing_left)])
    assert (await gate(edits=True).before(CALL, emptied)).decision is Decision.ASK


@each_row(
    ("settings", "act", "held"),
    [
        ({"modes": True}, action(mode="code"), Decision.ALLOW),
        ({"modes": True}, action(child="t2", payload={"mode": "code"}), Decision.ASK),
        ({"children": True}, action(mode="code"), Decision.ASK),
        ({"children": True}, action(child="t2", payload={"mode": "code"}), Decision.ASK),
        ({"children": True}, action(child="t2", payload={"mode": "ask"}), Decision.ALLOW),
        (
            {"modes": True, "children": True},
            action(child="t2", payload={"mode": "code"}),
            Decision.ALLOW,
        ),
    ],
)
async def test_more_rights_need_approval_unless_other_modes_are_approved(
    settings: dict[str, bool], act: Action, held: Decision
):
    mode = find_mode(BUILT_IN, "ask")
    assert mode
    approved = settings.get("modes", False)
    hooks = [ModeLimits(lambda: mode, lambda _: "always", approved=approved), gate(**settings)]
    assert strictest([await hook.before(CALL, act) for hook in hooks]).decision is held
