"""The user's approval settings. What nothing allows here is asked about."""

import hashlib
from collections.abc import Callable

from rookery.core.blocks import ToolCall
from rookery.core.rulings import Ruling, allow, ask
from rookery.engine.ports.actions import Action, Outcome
from rookery.engine.ports.hooks import RuleBook

EMPTY = hashlib.sha256(b"").hexdigest()


class ApprovalGate:
    """Reading is allowed. So is everything in automatic runs, what the settings say, and what the
    user has allowed for good.

    Emptying a file is asked about all the same: it is hardly ever meant.
    """

    def __init__(
        self,
        rules: RuleBook,
        *,
        automatic: Callable[[], bool],
        edits: bool = False,
        modes: bool = False,
        children: bool = False,
    ) -> None:
        self._rules = rules
        self._automatic = automatic
        self._edits = edits
        self._modes = modes
        self._children = children

    async def before(self, call: ToolCall, action: Action) -> Ruling:
        if any(change.before and change.after == EMPTY for change in action.changes):
            return ask("It would empty a file that has something in it.")
        return allow() if self._allowed(action) else Ruling()

    def _allowed(self, action: Action) -> bool:
        more = action.command or action.external or action.child or action.mode
        only_edits = bool(action.changes) and not more
        return (
            action.only_looks
            or self._automatic()
            or (self._edits and only_edits)
            or (self._modes and bool(action.mode) and not action.changes_things)
            or (self._children and bool(action.child))
            or self._rules.allows(action)
        )

    async def after(self, call: ToolCall, action: Action, outcome: Outcome) -> None:
        pass
