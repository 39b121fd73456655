"""Lists the themes, and shows each while it is marked."""

from collections.abc import Sequence
from typing import ClassVar

from rich.text import Text
from textual.binding import BindingType

from rookery.core.text.characters import best_matches
from rookery.tui.interfaces import Controller
from rookery.tui.keys import THEME_KEYS
from rookery.tui.pick_list import ListScreen, PickList
from rookery.tui.rows.lines import column
from rookery.tui.theme import THEMES, Theme

NAME_COLUMNS = 20
_SAMPLE = (("accent", "accent"), ("good", "good"), ("warning", "warning"), ("bad", "bad"))


class ThemeScreen(ListScreen[Theme]):
    TITLE_TEXT = "Theme"
    NOTHING = "No matching theme."
    BINDINGS: ClassVar[list[BindingType]] = THEME_KEYS

    def __init__(self, controller: Controller) -> None:
        super().__init__(controller)
        self._before = self.app.theme

    async def find(self, words: str) -> Sequence[Theme]:
        return best_matches(list(THEMES.values()), words, len(THEMES), self.name_of)

    @property
    def current(self) -> str:
        return self._before

    def on_pick_list_marked(self, message: PickList.Marked) -> None:
        message.stop()
        if (theme := self.list.marked) and self._found_for is not None:
            self._controller.press(f"use_theme({theme.name!r})")

    async def take(self, item: Theme) -> None:
        self.dismiss(None)
        self._controller.press(f"use_theme({item.name!r})")
        keep = f"To keep it: rookery config set ui.theme {item.name}"
        self._controller.toast(f"Theme: {item.name}. {keep}", "success")

    def action_close(self) -> None:
        self.dismiss(None)
        self._controller.press(f"use_theme({self._before!r})")

    def name_of(self, item: Theme) -> str:
        return item.name

    def draw(self, item: Theme, width: int, theme: Theme) -> Text:
        line = column(Text(item.name, theme.fg(theme.text)), NAME_COLUMNS)
        line.append(" text ", item.on(item.text, item.background))
        for word, colour in _SAMPLE:
            line.append(f" {word} ", item.on(getattr(item, colour), item.background))
        line.append(" + added ", item.on(item.text, item.added))
        line.append(" − removed ", item.on(item.text, item.removed))
        return line
