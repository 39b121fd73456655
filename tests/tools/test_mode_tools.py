"""Tools that know modes, skills and commands."""

from pathlib import Path

import pytest

from rookery.core.facts import ModeSwitched
from rookery.core.instructions import Skill, SlashCommand
from rookery.core.limits import Limits
from rookery.core.modes import BUILT_IN
from rookery.core.values import value
from rookery.engine.ports import ToolContext
from rookery.errors import BadArguments
from rookery.tools.run_slash_command import RunSlashCommand
from rookery.tools.skill import LoadSkill
from rookery.tools.switch_mode import SwitchMode
from tool_bench import Bench

pytestmark = pytest.mark.anyio


@value
class InMode(ToolContext):
    mode: str = "code"


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    made = Bench(tmp_path, Limits())
    given = {name: getattr(made.context, name) for name in ToolContext.__dataclass_fields__}
    made.context = InMode(**{**given, "mode": "code"})
    return made


SWITCH = SwitchMode(lambda: BUILT_IN)


async def test_a_switch_is_recorded_once_it_is_performed(bench: Bench):
    action = await bench.prepare(SWITCH, mode_slug="debug", reason="It fails.")
    assert bench.facts == []
    assert not action.changes_things
    assert action.payload == {"tool": "switchMode", "mode": "debug", "reason": "It fails."}
    outcome = await bench.call(SWITCH, mode_slug="debug", reason="It fails.")
    assert bench.facts == [ModeSwitched(mode="debug")]
    assert outcome.text == "The mode is now debug; it was code. Reason: It fails."


@pytest.mark.parametrize("slug", ["code", "gardener", ""])
async def test_the_same_mode_or_none_is_a_mistake_that_names_the_others(bench: Bench, slug: str):
    with pytest.raises(BadArguments, match="ask, architect, debug, orchestrator"):
        await bench.prepare(SWITCH, mode_slug=slug)


PDF = Skill(name="pdf", description="Fill in forms", path=".roo/skills/pdf", origin="project")
FOR_ASK = Skill(name="tell", description="Tell", path="x", origin="user", modes=("ask",))


def skills(mode: str) -> list[Skill]:
    return [PDF, *([FOR_ASK] if mode == "ask" else [])]


LOAD = LoadSkill(skills, lambda skill: f"How to {skill.name}.")


async def test_a_skill_is_given_with_its_text(bench: Bench):
    action = await bench.prepare(LOAD, skill="pdf", args="form.pdf")
    assert action.payload == {
        "tool": "skill",
        "skill": "pdf",
        "args": "form.pdf",
        "source": "project",
        "description": "Fill in forms",
    }
    outcome = await bench.call(LOAD, skill="pdf", args="form.pdf")
    assert "Arguments: form.pdf" in outcome.text
    assert "<instructions>\nHow to pdf.\n</instructions>" in outcome.text


async def test_only_skills_of_the_mode_can_be_loaded(bench: Bench):
    with pytest.raises(BadArguments, match=r"no skill 'tell' in mode code\. There are: pdf\."):
        await bench.prepare(LOAD, skill="tell")


COMMANDS = [
    SlashCommand(name="init", content="Look around.", description="Begin"),
    SlashCommand(name="look", content="Look.", mode="ask", origin="project"),
    SlashCommand(name="same", content="Same.", mode="code"),
    SlashCommand(name="odd", content="Odd.", mode="gardener"),
]
RUN = RunSlashCommand(lambda: COMMANDS, lambda: [mode.slug for mode in BUILT_IN])


@pytest.mark.parametrize("said", ["init", "/init"])
async def test_a_command_is_given_with_its_text(bench: Bench, said: str):
    outcome = await bench.call(RUN, command=said, args="here")
    assert '<command name="init">\nLook around.\n</command>' in outcome.text
    assert "Arguments: here" in outcome.text
    assert bench.facts == []


async def test_S13_a_command_that_switches_the_mode_says_so(bench: Bench):
    action = await bench.prepare(RUN, command="look")
    assert action.title == "Run /look in mode ask"
    assert action.payload == {
        "tool": "runSlashCommand",
        "command": "look",
        "source": "project",
        "mode": "ask",
    }
    await bench.call(RUN, command="look")
    assert bench.facts == [ModeSwitched(mode="ask")]


@pytest.mark.parametrize("name", ["same", "odd"])
async def test_a_mode_that_is_this_one_or_none_is_not_switched_to(bench: Bench, name: str):
    assert "mode" not in (await bench.prepare(RUN, command=name)).payload
    await bench.call(RUN, command=name)
    assert bench.facts == []


async def test_an_unknown_command_is_a_mistake_that_names_the_known(bench: Bench):
    with pytest.raises(BadArguments, match=r"There are: init, look, same, odd\."):
        await bench.prepare(RUN, command="nothing")
