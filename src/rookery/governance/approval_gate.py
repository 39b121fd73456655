"""Ask the user before anything changes, unless the settings say not to."""

import hashlib

from rookery.core.blocks import ToolCall
from rookery.core.rulings import Ruling, allow, ask
from rookery.engine.ports import Action, Outcome

EMPTY = hashlib.sha256(b"").hexdigest()


class ApprovalGate:
    """Reading is allowed; what changes things is asked about, or allowed in automatic runs.

    Emptying a file is asked about all the same: it is hardly ever meant.
    """

    def __init__(self, *, automatic: bool) -> None:
        self._automatic = automatic

    async def before(self, call: ToolCall, action: Action) -> Ruling:
        if not action.changes_things:
            return allow()
        empties = any(change.before and change.after == EMPTY for change in action.changes)
        return allow() if self._automatic and not empties else ask(action.title)

    async def after(self, call: ToolCall, action: Action, outcome: Outcome) -> None:
        pass
