"""Which intent the task works for, or the next one."""

from collections.abc import Sequence
from typing import ClassVar

from rich.text import Text
from textual.binding import Binding, BindingType

from rookery.core.commands import SelectIntent
from rookery.core.queries import AskIntents, KnownIntent
from rookery.core.text.fuzzy import best_matches
from rookery.core.text.terminal_text import harmless_line
from rookery.tui.rows.lines import cut
from rookery.tui.screens.list_screen import ListScreen
from rookery.tui.theme import Look

MOST = 500
NONE = KnownIntent(id="", name="nothing in particular")
ID_COLUMNS = 16


class IntentScreen(ListScreen[KnownIntent]):
    """Those that cannot be selected are shown with what is wrong with them."""

    TITLE_WORDS = "Intent"
    NOTHING = "There are no intents to work for here; see: rookery intents"
    BINDINGS: ClassVar[list[BindingType]] = [Binding("enter", "take", "work for it")]

    async def find(self, words: str) -> Sequence[KnownIntent]:
        known = await self._desk.ask(AskIntents())
        found = best_matches(known, words, MOST, _spelled)
        return [*found, NONE] if self._desk.intent and not words else found

    def put(self, items: Sequence[KnownIntent], nothing: str, *, best_first: bool) -> None:
        first = not self.list.items
        super().put(items, nothing, best_first=best_first)
        if first:
            self.list.mark(self._desk.intent)

    async def take(self, item: KnownIntent) -> None:
        if item.problem:
            self._desk.toast(f"{item.id} cannot be selected: {item.problem}.", "warning")
            return
        self.dismiss(None)
        task_id = self._desk.task_id or ""
        if await self._desk.send(SelectIntent(task_id=task_id, intent_id=item.id)):
            self._desk.toast(f"Intent: {item.id or 'none'}", "success")

    def name_of(self, item: KnownIntent) -> str:
        return item.id

    def draw(self, item: KnownIntent, width: int, look: Look) -> Text:
        widest = max(Text(harmless_line(_label(each))).cell_len for each in self.list.items)
        now = item is not NONE and item.id == self._desk.intent
        return drawn_intent(item, min(widest, ID_COLUMNS), width, look, now=now)


def _spelled(intent: KnownIntent) -> str:
    return f"{intent.id} {intent.name}"


def _label(intent: KnownIntent) -> str:
    return intent.id or "none"


def drawn_intent(intent: KnownIntent, first: int, width: int, look: Look, *, now: bool) -> Text:
    """Its id and name, and where it leads; or what is wrong with it, all of it dimmed."""
    quiet = look.ink(look.quiet)
    words = look.ink(look.accent, bold=True) if now else look.ink(look.words)
    ink = quiet if intent.problem else words
    line = cut(Text(harmless_line(_label(intent)), ink), first)
    line.pad_right(max(0, first - line.cell_len) + 2)
    line.append(harmless_line(intent.name), ink)
    if now:
        line.append("  now", look.ink(look.accent))
    told = intent.problem or ", ".join(intent.scope)
    if told:
        line.append(f"  {harmless_line(told)}", quiet)
    return cut(line, width)
