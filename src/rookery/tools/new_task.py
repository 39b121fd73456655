"""Hand part of the work to a task of its own."""

from collections.abc import Callable, Sequence
from typing import Annotated, ClassVar

import msgspec

from rookery.core.modes import Mode, find_mode, gains
from rookery.core.tool_traits import ToolGroup, ToolTraits
from rookery.engine.ports.actions import Action, Outcome, Permit
from rookery.engine.ports.tool import ChildTask, ToolContext
from rookery.errors import BadArguments, ToolError
from rookery.tools.update_todo_list import checklist


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
