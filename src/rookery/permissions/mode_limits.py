"""What the current mode does not let an agent do, whichever way it tries.

A call that the mode has no tools for is the model's mistake, not somebody's refusal, and so is
an edit of a file that the mode does not edit. Going over to a mode that may do more is asked
about, also where a command brings it along or a task of its own would be in it.
"""

from collections.abc import Callable, Sequence

from rookery.core.blocks import ToolCall
from rookery.core.modes import (
    BUILT_IN,
    EVERYWHERE,
    Mode,
    find_mode,
    gains,
    may_change,
    offers,
    why_not,
)
from rookery.core.rulings import Ruling, ask, deny
from rookery.engine.ports.actions import Action, Outcome
from rookery.errors import BadArguments


class ModeLimits:
    """`mode` is the task's at the moment, `group_of` the group of a tool by its name, and
    `modes` all there are. In `automatic` runs nobody is asked; what goes beyond the mode that
    the user has `chosen` for the run is denied there. Gains that are `approved` are left to
    whoever rules on the step itself.

    A mode without tools of its own is there to hand work on: that is what it may do, and what
    it hands on to is no gain.
    """

    def __init__(
        self,
        mode: Callable[[], Mode],
        group_of: Callable[[str], str],
        *,
        modes: Callable[[], Sequence[Mode]] = lambda: BUILT_IN,
        automatic: Callable[[], bool] = lambda: False,
        approved: bool = False,
        chosen: str = "",
    ) -> None:
        self._mode = mode
        self._group_of = group_of
        self._modes = modes
        self._automatic = automatic
        self._approved = approved
        self._chosen = chosen

    async def before(self, call: ToolCall, action: Action) -> Ruling:
        """Raises `BadArguments` if the mode forbids it."""
        mode = self._mode()
        group = self._group_of(call.name)
        if not offers(mode, group):
            raise BadArguments(why_not(mode, call.name))
        if action.external and group in EVERYWHERE and not offers(mode, "mcp"):
            raise BadArguments(why_not(mode, call.name))
        for change in action.changes:
            if not may_change(mode, change.path):
                raise BadArguments(why_not(mode, call.name, change.path))
        return self._on_other_mode(mode, action)

    async def after(self, call: ToolCall, action: Action, outcome: Outcome) -> None:
        pass

    def _on_other_mode(self, mode: Mode, action: Action) -> Ruling:
        slug = str(action.payload.get("mode", "")) if action.child else action.mode
        target = find_mode(self._modes(), slug)
        more = self._gains(mode, target, action) if target else ()
        if not (target and more):
            return Ruling()
        if self._automatic():
            return self._unasked(target, action)
        if self._approved:
            return Ruling()
        return ask(f"mode {slug} may do more than mode {mode.slug}: {', '.join(more)}")

    def _unasked(self, target: Mode, action: Action) -> Ruling:
        chosen = find_mode(self._modes(), self._chosen)
        more = self._gains(chosen, target, action) if chosen else ()
        if not (chosen and more):
            return Ruling()
        return deny(
            f"The user has chosen mode {chosen.slug} for this run, and nobody is there to allow "
            f"what mode {target.slug} may do beyond it: {', '.join(more)}. Do without it, or "
            "finish and say what is left to do."
        )

    def _gains(self, here: Mode, target: Mode, action: Action) -> tuple[str, ...]:
        """What would be gained by a step to another mode, in this task or one of its own."""
        if action.child and _hands_on(here):
            return ()
        reached = self._modes() if _hands_on(target) else (target,)
        return tuple(dict.fromkeys(name for mode in reached for name in gains(here, mode)))


def _hands_on(mode: Mode) -> bool:
    return not mode.groups
