"""The level in the full screen, and questions that one key answers."""

import pytest
from msgspec.structs import replace

from rookery.core.asks import AskKind
from rookery.core.commands import Answer, SwitchApproval
from rookery.core.facts import Answered, Asked, CompletionOffered, switched_to
from rookery.core.modes import Level
from rookery.core.queries import AskPermissions, KnownRule, Permissions
from support.tui_scenes import COMMAND, EDIT
from support.tui_session import play

pytestmark = pytest.mark.anyio
LEVELS = (Level.ASK, Level.EDITS, Level.PLAN, Level.AUTO)
PREFIX = "pytest …: commands in /work that begin with these words, for 30 days"


async def test_shift_tab_changes_the_level_which_is_always_shown():
    async with play() as it:
        it.host.answer(AskPermissions, Permissions(levels=LEVELS))
        await it.settle()
        assert it.lines[-1].strip().startswith("ask")
        await it.press("shift+tab")
        assert it.sent(SwitchApproval) == [SwitchApproval(task_id="t1", level=Level.EDITS)]
        it.host.tell(switched_to(Level.PLAN))
        await it.until(lambda: it.lines[-1].strip().startswith("plan"))
        await it.press("shift+tab")
        assert it.sent(SwitchApproval)[-1].level is Level.AUTO
        await it.see("Destructive actions always ask.")


async def test_two_quick_presses_change_the_level_twice():
    """The second comes before the session has confirmed the first."""
    async with play() as it:
        it.host.answer(AskPermissions, Permissions(levels=LEVELS))
        await it.settle()
        await it.press("shift+tab", "shift+tab")
        assert [each.level for each in it.sent(SwitchApproval)] == [Level.EDITS, Level.PLAN]


async def test_the_screen_of_permissions_lists_levels_and_rules():
    rule = KnownRule(id="a1b2c3", text=PREFIX)
    async with play(size=(120, 30)) as it:
        it.host.answer(AskPermissions, Permissions(levels=LEVELS, rules=(rule,)))
        await it.type("/permissions")
        await it.press("enter")
        await it.see("a1b2c3")
        await it.press("down", "enter")
        assert it.sent(SwitchApproval) == [SwitchApproval(task_id="t1", level=Level.EDITS)]


async def test_one_key_approves_harmless_edits_one_after_the_other():
    async with play() as it:
        for number in range(3):
            it.host.tell(replace(EDIT, ask_id=f"edit {number}", diff=EDIT.diff * 40, harmless=True))
            await it.until(lambda: it.panel.live and it.panel.has_focus)
            await it.key_by_key("y")
            assert [each.ask_id for each in it.sent(Answer)][number:] == [f"edit {number}"]
        it.host.tell(replace(COMMAND, ask_id="command"))
        await it.until(lambda: it.panel.asked is not None)
        await it.key_by_key("y")
        assert len(it.sent(Answer)) == 3, "a command still has to be seen first"


async def test_a_rule_for_commands_that_begin_alike_is_shown_before_it_is_kept():
    async with play() as it:
        await it.ask(replace(COMMAND, text="pytest -q", notes=(), prefix=PREFIX))
        await it.see("p always pytest …")
        await it.press("p")
        await it.see("Always approve commands that start like this?")
        assert "pytest …" in it.screen
        assert it.sent(Answer) == []
        await it.until(lambda: it.panel.live)
        await it.press("y")
        await it.until(lambda: bool(it.sent(Answer)))
        (answer,) = it.sent(Answer)
        assert (answer.reply, answer.prefix, answer.always) == ("yes", True, False)


PLAN = Asked(ask_id="p", ask=AskKind.COMPLETION_RESULT, plan="# Plan\n\n- [ ] Write a.txt")


async def test_a_plan_is_approved_with_a_level_or_commented():
    async with play() as it:
        it.host.tell(CompletionOffered(result=PLAN.plan, plan="plan-1.md"), PLAN)
        await it.see("Carry out this plan?")
        await it.until(lambda: it.panel.live and it.panel.has_focus)
        mine = replace(PLAN, plan="- [ ] Mine")
        it.app._questions.show_again(mine)  # as after editing it
        await it.see("[ ] Mine")
        await it.until(lambda: it.panel.live and it.panel.has_focus)
        await it.press("2")
        await it.until(lambda: bool(it.sent(Answer)))
        (answer,) = it.sent(Answer)
        assert (answer.text, answer.level) == (mine.plan, Level.EDITS)
        it.host.sent.clear()
        it.host.tell(CompletionOffered(result="x", plan="p"), replace(PLAN, ask_id="p2"))
        await it.until(lambda: it.panel.live and it.panel.has_focus)
        await it.key_by_key("yes", pause=0.01)
        await it.press("enter")
        await it.see("or say what to change")
        assert not it.sent(Answer)
        await it.press("ctrl+u")
        await it.key_by_key("no, b.txt", pause=0.01)
        await it.press("enter")
        await it.until(lambda: bool(it.sent(Answer)))
        (answer,) = it.sent(Answer)
        assert (answer.reply, answer.text, answer.level) == ("message", "no, b.txt", None)


async def test_a_comment_goes_with_the_edited_version_of_a_plan():
    async with play() as it:
        it.host.tell(CompletionOffered(result=PLAN.plan, plan="plan-1.md"), PLAN)
        await it.until(lambda: it.panel.live and it.panel.has_focus)
        it.app._questions.show_again(replace(PLAN, plan="- [ ] Mine"))
        await it.until(lambda: it.panel.live and it.panel.has_focus)
        await it.press("tab")
        await it.type("2")
        await it.press("enter")
        await it.see("Press Tab to choose")
        assert not it.sent(Answer)
        await it.press("ctrl+u")
        await it.type("add docs")
        await it.press("enter")
        await it.until(lambda: bool(it.sent(Answer)))
        (answer,) = it.sent(Answer)
        assert answer.level is None
        assert answer.text.startswith("add docs\n")
        assert answer.text.endswith("\n- [ ] Mine")


async def test_a_long_plan_is_carried_out_only_after_its_end_was_visible():
    steps = "\n".join(f"- [ ] Step {number}" for number in range(40))
    async with play() as it:
        it.host.tell(CompletionOffered(result=steps, plan="p"), replace(PLAN, plan=steps))
        await it.until(lambda: it.panel.live and it.panel.has_focus)
        await it.press("enter")
        await it.see("Read to the end first")
        await it.press("2")
        await it.settle()
        assert not it.sent(Answer)
        await it.press("end", "enter")
        await it.until(lambda: bool(it.sent(Answer)))
        assert it.sent(Answer)[0].level is Level.ASK


async def test_a_plan_that_is_approved_unchanged_is_not_repeated():
    async with play() as it:
        it.host.tell(CompletionOffered(result=PLAN.plan, plan="plan-1.md"), PLAN)
        await it.see("Say what to change in the plan")
        it.host.tell(
            Answered(
                ask_id="p",
                ask=PLAN.ask,
                reply="message",
                text=PLAN.plan,
                by="user",
                level=Level.ASK,
            )
        )
        await it.see("› Carry out the plan.")
        assert it.screen.count("Write a.txt") == 1


HIDDEN = """\
[//]: # (comment)
- [ ] [Read](https://example.org "title") ![picture](target.png)
```sh info
```
| a |
|---|
| b | cell |
"""


async def test_a_plan_is_shown_as_it_was_written():
    """Rendered Markdown would hide words that an approval sends to the model."""
    async with play(size=(80, 40)) as it:
        it.host.tell(CompletionOffered(result=HIDDEN, plan="p"), replace(PLAN, plan=HIDDEN))
        await it.see("Carry out this plan?")
        shown = [line.strip() for line in it.lines]
        assert set(HIDDEN.splitlines()) <= set(shown)
