"""Offer the result of the task to the user."""

from typing import Annotated, ClassVar

import msgspec

from rookery.core.facts import CompletionOffered
from rookery.core.tool_traits import ToolGroup
from rookery.engine.ports.actions import Action, Outcome, Permit
from rookery.engine.ports.tool import ToolContext
from rookery.errors import BadArguments


class AttemptCompletionArgs(msgspec.Struct, forbid_unknown_fields=True):
    result: Annotated[
        str, msgspec.Meta(description="What was done, final: no question, no further offer.")
    ]


class AttemptCompletion:
    name: ClassVar[str] = "attempt_completion"
    description: ClassVar[str] = (
        "Present the finished task to the user. Call it alone, once the results of all other "
        "calls have shown that they succeeded."
    )
    arguments: ClassVar[type[msgspec.Struct]] = AttemptCompletionArgs
    group: ClassVar[ToolGroup] = ToolGroup.ALWAYS

    async def prepare(self, args: AttemptCompletionArgs, ctx: ToolContext) -> Action:
        if not args.result.strip():
            raise BadArguments("attempt_completion was called without a result. Say what was done.")

        async def perform(permit: Permit) -> Outcome:
            ctx.append(CompletionOffered(result=args.result))
            return Outcome(text="The result was shown to the user.")

        return Action(
            title="Finish the task",
            perform=perform,
            payload={"tool": "attemptCompletion", "result": args.result},
        )


TOOL = AttemptCompletion()
