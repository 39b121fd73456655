"""The screens for the use of the context window and for the rule files."""

from collections.abc import Sequence
from typing import ClassVar

from rich.text import Text
from textual.binding import BindingType

from rookery.core.queries import AskContext, ContextPart, KnownContext
from rookery.core.text.characters import best_matches
from rookery.core.text.terminal_text import counted
from rookery.errors import CommandRejected
from rookery.protocol.context_text import NO_RULES, file_path, rules_files, usage_lines
from rookery.tui.interfaces import Controller
from rookery.tui.keys import MEMORY_KEYS
from rookery.tui.pick_list import ListScreen, run_latest
from rookery.tui.pickers import two_columns
from rookery.tui.rows.lines import wrapped
from rookery.tui.screens.side_screen import ReadingScreen
from rookery.tui.theme import Theme, theme_of

MAX_FILES = 500


class ContextScreen(ReadingScreen[None]):
    """Shows how the session uses the context window."""

    TITLE_TEXT = "Context"

    def on_mount(self) -> None:
        super().on_mount()
        run_latest(self, self._load)

    async def _load(self) -> None:
        try:
            known = await self._controller.ask(AskContext(task_id=self._controller.task_id or ""))
        except CommandRejected as refusal:
            lines = [str(refusal)]
        else:
            lines = list(usage_lines(known))
        self.write(lambda width: _drawn(lines, width, theme_of(self)))


def _drawn(lines: Sequence[str], width: int, theme: Theme) -> list[Text]:
    drawn: list[Text] = []
    for line in lines:
        ink = theme.fg(theme.muted) if line.startswith("  ") else theme.fg(theme.text)
        drawn += wrapped(Text(line, ink), width)
    return drawn


class MemoryScreen(ListScreen[ContextPart]):
    """Lists the rule files in use, and opens one in the user's editor."""

    TITLE_TEXT = "Rules files"
    NOTHING = NO_RULES
    BINDINGS: ClassVar[list[BindingType]] = MEMORY_KEYS

    def __init__(self, controller: Controller) -> None:
        super().__init__(controller)
        self._known = KnownContext()

    async def find(self, words: str) -> Sequence[ContextPart]:
        task_id = self._controller.task_id or ""
        self._known = await self._controller.ask(AskContext(task_id=task_id))
        return best_matches(rules_files(self._known), words, MAX_FILES, self.name_of)

    async def take(self, item: ContextPart) -> None:
        self.dismiss(None)
        self._controller.press(f"edit_file({file_path(item, self._known)!r})")

    def name_of(self, item: ContextPart) -> str:
        return item.path

    def draw(self, item: ContextPart, width: int, theme: Theme) -> Text:
        size = f"{counted(item.tokens, 'token')}, {item.source}"
        return two_columns(item.path, size, min(50, width * 2 // 3), width, theme)
