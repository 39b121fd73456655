"""The keys that hold everywhere, and the triggers, behind `?`."""

from collections.abc import Awaitable, Callable, Sequence

from rookery.core.text.fuzzy import best_matches
from rookery.tui.interfaces import Choice
from rookery.tui.pickers.picker import Picker
from rookery.tui.pickers.triggers import TRIGGERS
from rookery.tui.screens.key_line import KeyUse, key_uses, own_bindings


class ShortcutPicker(Picker):
    """Picking a trigger types it, picking a key does what it does."""

    PAUSE = 0.0

    def known(self, text: str) -> Sequence[Choice]:
        others = [each for each in TRIGGERS if each.char != "?"]
        triggers = [Choice(label=each.char, detail=each.what, insert=each.char) for each in others]
        uses = [use for use in key_uses(own_bindings(type(self.app))) if use.shown]
        keys = [Choice(label=use.key, detail=use.what, action=self._do(use)) for use in uses]
        return best_matches([*triggers, *keys], text, self.MOST, _spelled)

    def _do(self, use: KeyUse) -> Callable[[], Awaitable[None]]:
        async def do() -> None:
            self._desk.press(use.action)

        return do


def _spelled(choice: Choice) -> str:
    return f"{choice.label} {choice.detail}"
