"""What the current mode does not let an agent do, whichever way it tries.

A call that the mode has no tools for is the model's mistake, not somebody's refusal, and so is
an edit of a file that the mode does not edit. Going over to a mode that may do more is asked
about, also where a command brings it along.
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
from rookery.core.rulings import Ruling, ask
from rookery.engine.ports import Action, Outcome
from rookery.errors import BadArguments

_SWITCHING = ("switchMode", "runSlashCommand")


class ModeLimits:
    """`mode` is the task's at the moment, `group_of` the group of a tool by its name, and
    `modes` all there are. In `automatic` runs nobody is asked."""

    def __init__(
        self,
        mode: Callable[[], Mode],
        group_of: Callable[[str], str],
        *,
        modes: Callable[[], Sequence[Mode]] = lambda: BUILT_IN,
        automatic: bool = False,
    ) -> None:
        self._mode = mode
        self._group_of = group_of
        self._modes = modes
        self._automatic = automatic

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
        return self._on_switch(mode, action)

    async def after(self, call: ToolCall, action: Action, outcome: Outcome) -> None:
        pass

    def _on_switch(self, mode: Mode, action: Action) -> Ruling:
        wanted = action.payload.get("mode")
        if action.payload.get("tool") not in _SWITCHING or not wanted:
            return Ruling()
        target = find_mode(self._modes(), str(wanted))
        more = gains(mode, target) if target else ()
        if not more or self._automatic:
            return Ruling()
        return ask(f"mode {wanted} may do more than mode {mode.slug}: {', '.join(more)}")
