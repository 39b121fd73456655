"""Go on in another mode."""

from collections.abc import Callable, Sequence
from typing import Annotated, ClassVar

import msgspec

from rookery.core.facts import ModeSwitched
from rookery.core.modes import Mode, find_mode
from rookery.core.tool_traits import ToolGroup
from rookery.engine.ports.actions import Action, Outcome, Permit
from rookery.engine.ports.tool import ToolContext
from rookery.errors import BadArguments


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
