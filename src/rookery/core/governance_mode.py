"""Whether intents are asked for at all. Who may say so, and in which order they are heard."""

from enum import StrEnum
from itertools import pairwise

from msgspec import Struct

from rookery.core.tool_traits import ToolTraits

GOVERNANCE_FOLDER = ".orchestration"
LEDGER_NAMES = frozenset({".state", "trace", "agent_trace.jsonl"})
"""What tasks of any process add to at any time, and nothing may take away."""
SELECT, EXPAND = "select_active_intent", "request_scope_expansion"
INTENT_TOOLS = (ToolTraits(name=SELECT), ToolTraits(name=EXPAND))
"""Declared here, so that no governed task is imported for it."""
_HOST_WRITTEN = LEDGER_NAMES | {
    *("active_intents.yaml", "AGENT.md", "AGENT.archive.md", "intent_map.md"),
}


def is_hosts_own(path: str) -> bool:
    """Whether a file of governance is one that the host itself writes, for whichever task or
    person: that it has changed while a command ran does not mean that the command did it."""
    names = path.split("/")
    return any(
        folder == GOVERNANCE_FOLDER and name in _HOST_WRITTEN for folder, name in pairwise(names)
    )


class GovernanceMode(StrEnum):
    AUTO = "auto"
    OFF = "off"
    OBSERVE = "observe"
    ENFORCE = "enforce"
    REQUIRED = "required"


class ModeWishes(Struct, frozen=True, kw_only=True):
    """Nothing inside the workspace can say anything here. None is for who said nothing."""

    administrator: GovernanceMode | None = None
    command_line: GovernanceMode | None = None
    user: GovernanceMode | None = None

    @property
    def wanted(self) -> GovernanceMode:
        return self.administrator or self.command_line or self.user or GovernanceMode.AUTO


class Latched(Struct, frozen=True, kw_only=True):
    """The mode a task keeps from its beginning to its end. `notice` is for the user, once."""

    mode: GovernanceMode
    notice: str = ""


def latched(wishes: ModeWishes, *, there: bool) -> Latched:
    """`there` if the intent file is."""
    wanted = wishes.wanted
    if wanted is GovernanceMode.AUTO:
        return Latched(mode=GovernanceMode.ENFORCE if there else GovernanceMode.OFF)
    if wanted is GovernanceMode.OFF and there:
        return Latched(
            mode=GovernanceMode.OFF,
            notice="This project has intents, but governance is turned off in the user's settings.",
        )
    return Latched(mode=wanted)
