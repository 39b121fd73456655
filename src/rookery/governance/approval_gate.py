"""Ask the user before anything changes, unless the settings say not to."""

from rookery.core.blocks import ToolCall
from rookery.core.rulings import Ruling, allow, ask
from rookery.engine.ports import Action, Outcome


class ApprovalGate:
    """Reading is allowed; what changes things is asked about, or allowed in automatic runs."""

    def __init__(self, *, automatic: bool) -> None:
        self._automatic = automatic

    async def before(self, call: ToolCall, action: Action) -> Ruling:
        if self._automatic or not action.changes_things:
            return allow()
        return ask(action.title)

    async def after(self, call: ToolCall, action: Action, outcome: Outcome) -> None:
        pass
