"""An untrusted folder is read-only: nothing in it is changed and nothing of it is run."""

from rookery.commands.wrappers import program_name
from rookery.core.blocks import ToolCall
from rookery.core.rulings import Ruling, deny
from rookery.engine.ports.actions import Action, Outcome

NOT_TRUSTED = (
    "This folder is not trusted, so it is read-only: nothing in it may be run or changed. "
    "The user can trust it with `rookery trust`, or by answering yes at the start; `--trust` or "
    "`-y` allows it for one run."
)


class TrustGate:
    """`acts_anyway` is the user's word for this run (`-y`), or that of the program that drives
    it. What the folder itself configures is not applied for that.
    """

    def __init__(self, *, trusted: bool, acts_anyway: bool) -> None:
        self._may_act = trusted or acts_anyway

    async def before(self, call: ToolCall, action: Action) -> Ruling:
        if self._may_act or not action.changes_things or _is_known_reader(action):
            return Ruling()
        return deny(NOT_TRUSTED)

    async def after(self, call: ToolCall, action: Action, outcome: Outcome) -> None:
        pass


def _is_known_reader(action: Action) -> bool:
    """A command of known programs that only read. Git is not one of them here: it runs
    programs that the repository's configuration names."""
    judged = action.judgement
    if judged is None or action.may_change_files or action.changes or action.external:
        return False
    return all(program_name(said[0]) != "git" for said in judged.commands)
