"""Tools that know modes and skills."""

from pathlib import Path

import pytest

from rookery.core.facts import ModeSwitched
from rookery.core.instructions import Skill
from rookery.core.limits import Limits
from rookery.core.modes import BUILT_IN
from rookery.errors import BadArguments
from rookery.tools.conversation import LoadSkill, SwitchModeTool
from support.tool_workspace import Bench

pytestmark = pytest.mark.anyio


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path, Limits())


SWITCH = SwitchModeTool(lambda: BUILT_IN)


async def test_a_switch_is_recorded_once_it_is_performed(bench: Bench):
    action = await bench.prepare(SWITCH, mode_slug="debug", reason="It fails.")
    assert bench.facts == []
    assert not action.changes_things
    assert action.payload == {"tool": "switchMode", "mode": "debug", "reason": "It fails."}
    outcome = await bench.call(SWITCH, mode_slug="debug", reason="It fails.")
    assert bench.facts == [ModeSwitched(mode="debug")]
    assert outcome.text == "The mode is now debug; it was code. Reason: It fails."


@pytest.mark.parametrize("slug", ["code", "gardener", ""])
async def test_the_same_or_an_unknown_mode_is_an_error_naming_the_others(bench: Bench, slug: str):
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
    with pytest.raises(
        BadArguments, match=r"No such skill in mode code: 'tell'\. Available: pdf\."
    ):
        await bench.prepare(LOAD, skill="tell")
