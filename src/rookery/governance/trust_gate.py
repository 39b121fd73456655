"""Nothing is run or changed in a folder that the user has not said to trust."""

from rookery.core.blocks import ToolCall
from rookery.core.rulings import Ruling, deny
from rookery.engine.ports import Action, Outcome

NOT_TRUSTED = (
    "This folder is not trusted, so nothing in it is run or changed; only reading is possible. "
    "The user can trust it with `rookery trust`, or by answering yes at the start."
)


class TrustGate:
    """Whoever starts a run with `-p` or `-y` wants it to act here (`acts_anyway`); what the
    folder itself configures is not applied for that.
    """

    def __init__(self, *, trusted: bool, acts_anyway: bool) -> None:
        self._may_act = trusted or acts_anyway

    async def before(self, call: ToolCall, action: Action) -> Ruling:
        if self._may_act or not action.changes_things:
            return Ruling()
        return deny(NOT_TRUSTED)

    async def after(self, call: ToolCall, action: Action, outcome: Outcome) -> None:
        pass
