"""Hand part of the work to a task of its own."""

from collections.abc import Callable, Collection
from typing import Annotated, ClassVar

import msgspec

from rookery.engine.ports import Action, ChildTask, Outcome, Permit, ToolContext, ToolGroup
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

    def __init__(self, modes: Callable[[], Collection[str]]) -> None:
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
        if args.mode not in self._modes():
            known = ", ".join(self._modes())
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
            notes=[args.message],
            payload=child.payload(),
        )
