"""Say what the work is done for, before anything is changed."""

from collections.abc import Awaitable, Callable
from typing import Annotated, ClassVar

import msgspec

from rookery.engine.ports.actions import Action, Outcome, Permit
from rookery.engine.ports.tool import ToolContext, ToolGroup


class SelectActiveIntentArgs(msgspec.Struct, forbid_unknown_fields=True):
    intent_id: Annotated[
        str, msgspec.Meta(description="One of the ids that you are given, never an invented one.")
    ] = ""


class SelectActiveIntent:
    name: ClassVar[str] = "select_active_intent"
    description: ClassVar[str] = (
        "Select the intent that you work for. Nothing can be changed and no command be run before; "
        "reading is free. Call it alone, read the context it returns, and act in your next answer. "
        "If no intent fits, ask the user."
    )
    arguments: ClassVar[type[msgspec.Struct]] = SelectActiveIntentArgs
    group: ClassVar[ToolGroup] = ToolGroup.ALWAYS

    def __init__(self, select: Callable[[str, str], Awaitable[str]]) -> None:
        """`select` is given the id and the call's own id, and answers with the context; it raises
        `Denied`."""
        self._select = select

    async def prepare(self, args: SelectActiveIntentArgs, ctx: ToolContext) -> Action:
        async def perform(permit: Permit) -> Outcome:
            return Outcome(text=await self._select(args.intent_id, ctx.call_id))

        return Action(
            title=f"Work for intent {args.intent_id}",
            perform=perform,
            payload={"tool": "selectActiveIntent", "intentId": args.intent_id},
        )
