"""Modes, skills and sub-tasks: how the work goes on, and with which instructions."""

from collections.abc import Callable, Sequence
from typing import Annotated, ClassVar

import msgspec

from rookery.core.facts import ModeSwitched
from rookery.core.instructions import Skill, skill_text
from rookery.core.modes import Mode, find_mode, gains
from rookery.core.tool_traits import ToolGroup, ToolTraits
from rookery.engine.ports.actions import Action, Outcome, Permit
from rookery.engine.ports.tool import ChildTask, ToolContext
from rookery.errors import BadArguments, ToolError
from rookery.tools.conversation import checklist
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


class SwitchModeArgs(msgspec.Struct, forbid_unknown_fields=True):
    mode_slug: Annotated[str, msgspec.Meta(description="The mode to go on in.")]
    reason: Annotated[str, msgspec.Meta(description="Why, for the user.")] = ""


class SwitchModeTool:
    name: ClassVar[str] = "switch_mode"
    description: ClassVar[str] = "Propose to go on in another mode, if this one does not fit."
    arguments: ClassVar[type[msgspec.Struct]] = SwitchModeArgs
    group: ClassVar[ToolGroup] = ToolGroup.ALWAYS

    def __init__(self, modes: Callable[[], Sequence[Mode]]) -> None:
        self._modes = modes

    async def prepare(self, args: SwitchModeArgs, ctx: ToolContext) -> Action:
        target = self._wanted(args.mode_slug, ctx.mode)
        before = ctx.mode

        async def perform(permit: Permit) -> Outcome:
            ctx.append(ModeSwitched(mode=target.slug))
            why = f" Reason: {args.reason.strip()}" if args.reason.strip() else ""
            return Outcome(text=f"The mode is now {target.slug}; it was {before}.{why}")

        return Action(
            title=f"Switch to mode {target.slug}",
            perform=perform,
            mode=target.slug,
            diff=args.reason.strip(),
            payload={"tool": "switchMode", "mode": target.slug, "reason": args.reason},
        )

    def _wanted(self, slug: str, current: str) -> Mode:
        modes = self._modes()
        others = ", ".join(mode.slug for mode in modes if mode.slug != current)
        if slug == current:
            raise BadArguments(f"The mode is {current} already. The other modes are: {others}.")
        mode = find_mode(modes, slug)
        if mode is None:
            raise BadArguments(f"There is no mode {slug[:100]!r}. There are: {others}.")
        return mode


class NewTaskArgs(msgspec.Struct, forbid_unknown_fields=True):
    mode: Annotated[str, msgspec.Meta(description="Slug of the mode to work in.")]
    message: Annotated[
        str,
        msgspec.Meta(description="All it must know: context, what to do, where to stop, result."),
    ]
    todos: Annotated[
        str | None, msgspec.Meta(description="Its first checklist, as in update_todo_list.")
    ] = None


class NewTask:
    name: ClassVar[str] = "new_task"
    description: ClassVar[str] = (
        "Have a part of the work done by a task of its own, which knows only the message; you get "
        "its result."
    )
    arguments: ClassVar[type[msgspec.Struct]] = NewTaskArgs
    group: ClassVar[ToolGroup] = ToolGroup.ALWAYS
    traits: ClassVar[ToolTraits] = ToolTraits(
        hook_name="Task",
        hook_arguments={"message": "prompt", "mode": "subagent_type"},
        aliases=("Agent",),
        explained=frozenset({"todos"}),
    )

    def __init__(self, modes: Callable[[], Sequence[Mode]]) -> None:
        self._modes = modes

    async def prepare(self, args: NewTaskArgs, ctx: ToolContext) -> Action:
        children = ctx.children
        if children is None:
            raise ToolError("No task can be begun from here.")
        if ctx.depth >= ctx.limits.task_depth:
            raise ToolError(
                f"{ctx.depth} tasks are waiting for one another already, which is the most. Do "
                "this part yourself."
            )
        mode = find_mode(self._modes(), args.mode)
        if mode is None:
            known = ", ".join(each.slug for each in self._modes())
            raise BadArguments(f"There is no mode {args.mode!r}. There are: {known}.")
        if not args.message.strip():
            raise BadArguments("new_task was called without a message.")
        child = ChildTask(
            task_id=children.new_id(),
            text=args.message,
            mode=args.mode,
            todos=checklist(args.todos or ""),
        )

        async def perform(permit: Permit) -> Outcome:
            return await children.attend(ctx.call_id, child)

        return Action(
            title=f"Begin a task in {args.mode} mode",
            perform=perform,
            child=child.task_id,
            notes=self._gains(ctx.mode, mode),
            diff="\n".join([args.message, *(f"[ ] {todo.content}" for todo in child.todos)]),
            payload=child.payload(),
        )

    def _gains(self, slug: str, target: Mode) -> list[str]:
        here = find_mode(self._modes(), slug)
        more = ", ".join(gains(here, target)) if here else ""
        return [f"Mode {target.slug} may do more than mode {slug}: {more}."] if more else []
