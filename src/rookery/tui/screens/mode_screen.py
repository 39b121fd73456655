"""Which mode the task goes on in, or the next one begins in."""

from collections.abc import Sequence
from typing import ClassVar

from rich.text import Text
from textual.binding import Binding, BindingType

from rookery.core.commands import SwitchMode
from rookery.core.queries import AskModes, KnownMode
from rookery.core.text.fuzzy import best_matches
from rookery.core.text.terminal_text import harmless_line
from rookery.tui.pickers.picker import in_two_columns
from rookery.tui.screens.list_screen import ListScreen
from rookery.tui.screens.short_texts import one_line
from rookery.tui.theme import Look

MOST = 200


class ModeScreen(ListScreen[KnownMode]):
    TITLE_WORDS = "Mode"
    BINDINGS: ClassVar[list[BindingType]] = [Binding("enter", "take", "go on in it")]

    async def find(self, words: str) -> Sequence[KnownMode]:
        known = await self._desk.ask(AskModes())
        return best_matches(known, words, MOST, _spelled)

    def put(self, items: Sequence[KnownMode], nothing: str, *, best_first: bool) -> None:
        first = not self.list.items
        super().put(items, nothing, best_first=best_first)
        if first:
            self.list.mark(self._now)

    @property
    def _now(self) -> str:
        view = self._desk.view
        return (view.mode if view else "") or self._desk.about.mode

    async def take(self, item: KnownMode) -> None:
        self.dismiss(None)
        if (task_id := self._desk.task_id) is None:
            self._desk.press(f"go_on_in_mode({item.slug!r})")
        elif await self._desk.send(SwitchMode(task_id=task_id, mode=item.slug)):
            self._desk.toast(f"Mode: {item.name}", "success")

    def name_of(self, item: KnownMode) -> str:
        return item.slug

    def draw(self, item: KnownMode, width: int, look: Look) -> Text:
        widest = max(Text(harmless_line(_label(each))).cell_len for each in self.list.items)
        first = min(widest, width // 2)
        line = in_two_columns(_label(item), one_line(item.when_to_use), first, width, look)
        if item.slug == self._now:
            line.stylize(look.ink(look.accent, bold=True), 0, len(_label(item)))
        return line


def _spelled(mode: KnownMode) -> str:
    return f"{mode.name} {mode.slug}"


def _label(mode: KnownMode) -> str:
    return mode.name if mode.name.casefold() == mode.slug else f"{mode.name} ({mode.slug})"
