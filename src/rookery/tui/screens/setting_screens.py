"""The screen for the level and the rules: what happens without asking."""

from collections.abc import Sequence
from typing import ClassVar

from rich.text import Text
from textual.binding import BindingType

from rookery.core.commands import RemoveRule, SwitchApproval
from rookery.core.levels import ALWAYS_ASK, level_named
from rookery.core.queries import AskPermissions, KnownRule
from rookery.core.text.characters import best_matches
from rookery.tui.keys import PERMISSION_KEYS
from rookery.tui.pick_list import ListScreen
from rookery.tui.pickers import two_columns
from rookery.tui.short_texts import one_line
from rookery.tui.theme import Theme

MAX_ROWS = 500
GUARD_ROW = KnownRule(id="always ask", text=ALWAYS_ASK)


class PermissionScreen(ListScreen[KnownRule]):
    """The levels, and below them the rules in force."""

    TITLE_TEXT = "Permissions"
    NOTHING = "No such level or rule."
    BINDINGS: ClassVar[list[BindingType]] = PERMISSION_KEYS

    async def find(self, words: str) -> Sequence[KnownRule]:
        task_id = self._controller.task_id or ""
        known = await self._controller.ask(AskPermissions(task_id=task_id))
        levels = [KnownRule(id=each, text=each.sentence) for each in known.levels]
        return best_matches([*levels, *known.rules, GUARD_ROW], words, MAX_ROWS, _rule_words)

    @property
    def current(self) -> str:
        view = self._controller.view
        return (view.level if view else None) or self._controller.about.level

    async def take(self, item: KnownRule) -> None:
        level = level_named(item.id)
        if level is None:
            self._controller.toast(ALWAYS_ASK if item is GUARD_ROW else "Ctrl+D removes a rule.")
            return
        self.dismiss(None)
        task_id = self._controller.task_id or ""
        if await self._controller.send(SwitchApproval(task_id=task_id, level=level)):
            self._controller.toast(f"{level}: {level.sentence}.", "success")

    async def action_remove(self) -> None:
        rule, task_id = self.list.marked, self._controller.task_id
        if rule is None or rule is GUARD_ROW or level_named(rule.id):
            self._controller.toast("Mark a rule to remove it.")
        elif task_id is None:
            self._controller.toast(f"Without a session: rookery trust --forget-rule {rule.id}")
        elif await self._controller.send(RemoveRule(task_id=task_id, rule_id=rule.id)):
            self.reload()

    def name_of(self, item: KnownRule) -> str:
        return item.id

    def draw(self, item: KnownRule, width: int, theme: Theme) -> Text:
        first = max(len(each.id) for each in self.list.items)
        line = two_columns(item.id, one_line(item.text), first, width, theme)
        if item.id == self.current:
            line.stylize(theme.fg(theme.accent, bold=True), 0, len(item.id))
        return line


def _rule_words(rule: KnownRule) -> str:
    return f"{rule.id} {rule.text}"
