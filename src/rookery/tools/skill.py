"""Load the instructions of a skill."""

from collections.abc import Callable, Sequence
from typing import Annotated, ClassVar

import msgspec

from rookery.core.instructions import Skill, skill_text
from rookery.core.tool_traits import ToolGroup
from rookery.engine.ports.actions import Action, Outcome, Permit
from rookery.engine.ports.tool import ToolContext
from rookery.errors import BadArguments
from rookery.tools.threads import beside


class SkillArgs(msgspec.Struct, forbid_unknown_fields=True):
    skill: Annotated[str, msgspec.Meta(description="Its name.")]
    args: Annotated[str | None, msgspec.Meta(description="What it is to be applied to.")] = None


class LoadSkill:
    """`skills` are those of a mode, `body` is what one of them says."""

    name: ClassVar[str] = "skill"
    description: ClassVar[str] = "Load the instructions of a skill that fits the task."
    arguments: ClassVar[type[msgspec.Struct]] = SkillArgs
    group: ClassVar[ToolGroup] = ToolGroup.ALWAYS

    def __init__(
        self, skills: Callable[[str], Sequence[Skill]], body: Callable[[Skill], str]
    ) -> None:
        self._skills = skills
        self._body = body

    async def prepare(self, args: SkillArgs, ctx: ToolContext) -> Action:
        skill = self._wanted(args.skill, ctx.mode)
        arguments = (args.args or "").strip()

        async def perform(permit: Permit) -> Outcome:
            body = await beside(lambda: self._body(skill))
            return Outcome(text=skill_text(skill, body, arguments))

        return Action(
            title=f"Load the skill {skill.name}",
            perform=perform,
            payload={
                "tool": "skill",
                "skill": skill.name,
                **({"args": arguments} if arguments else {}),
                "source": skill.origin,
                "description": skill.description,
            },
        )

    def _wanted(self, name: str, mode: str) -> Skill:
        skills = {skill.name: skill for skill in self._skills(mode)}
        if name not in skills:
            known = ", ".join(skills) or "none"
            raise BadArguments(
                f"There is no skill {name[:100]!r} in mode {mode}. There are: {known}."
            )
        return skills[name]
