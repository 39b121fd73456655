"""What the user agreed to for a run, by flags, settings or an answer.

A run may do nothing that needs an agreement which is not in here.
"""

from pathlib import Path

from msgspec import Struct

from rookery.core.settings import Settings


class Consent(Struct, frozen=True, kw_only=True):
    automatic: bool = False
    """Actions are allowed without a question."""
    trusted: bool = False
    acts_anyway: bool = False
    """The folder may be worked in, for this run, although it is not trusted."""
    outside: bool = False
    protected: bool = False
    mode: str = ""
    """The mode that was chosen for this run; nothing if it is only the usual one."""
    intent: str = ""
    """The intent that the task works for."""
    governance_allow: frozenset[str] = frozenset()
    """Which questions of governance are answered with yes."""
    attended: bool = True
    """Somebody can be asked."""

    @property
    def may_act(self) -> bool:
        return self.trusted or self.acts_anyway


def check_intent(settings: Settings, workspace: Path, intent_id: str) -> None:
    """Raises `IntentNotSelectable` if a run could not work for the intent."""
    from rookery.governance.intents.selection import check_selectable

    check_selectable(settings, workspace, intent_id)
