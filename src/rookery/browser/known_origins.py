"""What need not be asked about again in a browser that somebody allowed."""

from collections.abc import Callable, Collection, Mapping
from typing import Any

from rookery.core.blocks import ToolCall
from rookery.core.rulings import Ruling, allow
from rookery.core.web_addresses import web_address
from rookery.engine.ports import Action, Outcome

_KEYS = frozenset(
    (
        *("Enter", "Tab", "Escape", "Backspace", "Delete", "Insert"),
        *("ArrowUp", "ArrowDown", "ArrowLeft", "ArrowRight", "Home", "End", "PageUp", "PageDown"),
        *(f"F{number}" for number in range(1, 13)),
    )
)
"""Keys that write nothing. All others are letters of a word that may be typed key by key."""


class KnownOrigins:
    """A hook. Pages of this machine that were allowed once may be used freely, in the same task.
    On pages from elsewhere whatever the model composes, addresses and texts, is asked about
    every time."""

    def __init__(self, allowed: Callable[[], Collection[str]]) -> None:
        self._allowed = allowed

    async def before(self, call: ToolCall, action: Action) -> Ruling:
        kind, _, origin = action.external.partition(" ")
        if kind != "browser" or origin not in self._allowed():
            return Ruling()
        harmless = _is_wordless(action.payload) or web_address(origin).is_loopback
        return allow() if harmless else Ruling()

    async def after(self, call: ToolCall, action: Action, outcome: Outcome) -> None:
        pass


def _is_wordless(payload: Mapping[str, Any]) -> bool:
    """Whether it carries none of the model's own words out of the house."""
    match payload:
        case {"action": "click"}:
            return True
        case {"action": "press", "text": str(key)}:
            return key.removeprefix("Shift+") in _KEYS
        case _:
            return False
