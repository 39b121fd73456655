"""The screens for the level and the rules, the context window, the rule files, and the theme."""

from collections.abc import Sequence
from typing import ClassVar

from rich.text import Text
from textual.binding import BindingType

from rookery.core.commands import RemoveRule, SwitchApproval
from rookery.core.modes import ALWAYS_ASK, level_named
from rookery.core.queries import AskContext, AskPermissions, ContextPart, KnownContext, KnownRule
from rookery.core.text.terminal_text import counted
from rookery.errors import CommandRejected
from rookery.protocol.context_text import NO_RULES, file_path, rules_files, usage_lines
from rookery.tui.interfaces import Controller
from rookery.tui.keys import PERMISSION_KEYS, enter_binding
from rookery.tui.pick_list import ListScreen, PickList, run_latest
from rookery.tui.pickers import two_columns
from rookery.tui.rows.lines import column, wrapped
from rookery.tui.screens.side_screen import ReadingScreen
from rookery.tui.short_texts import one_line
from rookery.tui.theme import THEMES, Theme, theme_of

NAME_COLUMNS = 20
GUARD_ROW = KnownRule(id="always ask", text=ALWAYS_ASK)
_SAMPLE = (("accent", "accent"), ("good", "good"), ("warning", "warning"), ("bad", "bad"))


class PermissionScreen(ListScreen[KnownRule]):
    """The levels, and below them the rules in force."""

    TITLE_TEXT = "Permissions"
    NOTHING = "No such level or rule."
    BINDINGS: ClassVar[list[BindingType]] = PERMISSION_KEYS

    async def known(self) -> Sequence[KnownRule]:
        task_id = self._controller.task_id or ""
        known = await self._controller.ask(AskPermissions(task_id=task_id))
        levels = [KnownRule(id=each, text=each.sentence) for each in known.levels]
        return [*levels, *known.rules, GUARD_ROW]

    def words_of(self, item: KnownRule) -> str:
        return f"{item.id} {item.text}"

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
    BINDINGS: ClassVar[list[BindingType]] = enter_binding("open it in your editor")

    def __init__(self, controller: Controller) -> None:
        super().__init__(controller)
        self._known = KnownContext()

    async def known(self) -> Sequence[ContextPart]:
        task_id = self._controller.task_id or ""
        self._known = await self._controller.ask(AskContext(task_id=task_id))
        return rules_files(self._known)

    async def take(self, item: ContextPart) -> None:
        self.dismiss(None)
        self._controller.press(f"edit_file({file_path(item, self._known)!r})")

    def name_of(self, item: ContextPart) -> str:
        return item.path

    def draw(self, item: ContextPart, width: int, theme: Theme) -> Text:
        size = f"{counted(item.tokens, 'token')}, {item.source}"
        return two_columns(item.path, size, min(50, width * 2 // 3), width, theme)


class ThemeScreen(ListScreen[Theme]):
    """Lists the themes, and shows each while it is marked."""

    TITLE_TEXT = "Theme"
    NOTHING = "No matching theme."
    BINDINGS: ClassVar[list[BindingType]] = enter_binding("use it")

    def __init__(self, controller: Controller) -> None:
        super().__init__(controller)
        self._before = self.app.theme

    async def known(self) -> Sequence[Theme]:
        return list(THEMES.values())

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
