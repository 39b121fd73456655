"""Ask the user to let an intent own more."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Annotated, ClassVar

import msgspec

from rookery.engine.ports.actions import Action, Outcome, Permit
from rookery.engine.ports.tool import ToolContext, ToolGroup
from rookery.errors import BadArguments


class RequestScopeExpansionArgs(msgspec.Struct, forbid_unknown_fields=True):
    paths: Annotated[
        tuple[str, ...], msgspec.Meta(description="The files that must be changed, and no more.")
    ]
    reason: Annotated[str, msgspec.Meta(description="Why the intent cannot be met without them.")]


class RequestScopeExpansion:
    name: ClassVar[str] = "request_scope_expansion"
    description: ClassVar[str] = (
        "Ask the user to add files to the scope of the selected intent, without changing them yet."
    )
    arguments: ClassVar[type[msgspec.Struct]] = RequestScopeExpansionArgs
    group: ClassVar[ToolGroup] = ToolGroup.ALWAYS

    def __init__(
        self,
        pattern: Callable[[Sequence[str]], str],
        expand: Callable[[str, str], Awaitable[str]],
    ) -> None:
        """`pattern` covers the paths, and raises `ToolError` if none may; `expand` adds it."""
        self._pattern = pattern
        self._expand = expand

    async def prepare(self, args: RequestScopeExpansionArgs, ctx: ToolContext) -> Action:
        if not args.paths or not args.reason.strip():
            raise BadArguments("request_scope_expansion needs paths and a reason.")
        pattern = self._pattern(args.paths)

        async def perform(permit: Permit) -> Outcome:
            return Outcome(text=await self._expand(pattern, ctx.call_id))

        return Action(
            title=f"Add {pattern} to the scope",
            perform=perform,
            notes=(f"reason: {args.reason.strip()}",),
            payload={
                "tool": "requestScopeExpansion",
                "paths": list(args.paths),
                "pattern": pattern,
                "reason": args.reason,
            },
        )
