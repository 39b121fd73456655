"""Screens for choosing the model, mode or intent, and for the queued messages."""

from collections.abc import Sequence
from typing import ClassVar

from msgspec import Struct
from rich.text import Text
from textual import events
from textual.binding import BindingType
from textual.widget import Widget
from textual.widgets import TextArea

from rookery.core.commands import EditQueue, SelectIntent, SwitchMode, SwitchModel
from rookery.core.facts import UserSpoke
from rookery.core.queries import AskIntents, AskModels, AskModes, KnownIntent, KnownMode, KnownModel
from rookery.core.text.terminal_text import counted, harmless, harmless_line
from rookery.errors import CommandRejected
from rookery.tui.interfaces import Controller
from rookery.tui.keys import MESSAGE_FIELD_KEYS, QUEUE_KEYS, enter_binding
from rookery.tui.pick_list import ListScreen, PickList, PickScreen, run_beside, run_binding
from rookery.tui.pickers import two_columns
from rookery.tui.rows.lines import column, cut
from rookery.tui.screens.side_screen import RELOAD_SECONDS
from rookery.tui.short_texts import one_line, short_number
from rookery.tui.theme import Theme


class QueuedEntry(Struct, frozen=True):
    """A queued message and the task it was sent to."""

    task_id: str
    message: UserSpoke


def queued_entries(controller: Controller) -> list[QueuedEntry]:
    return [
        QueuedEntry(task_id, message)
        for task_id, view in controller.views.items()
        for message in view.queue
    ]


class MessageField(TextArea):
    """A text field in which the screen handles Enter."""

    BINDINGS: ClassVar[list[BindingType]] = MESSAGE_FIELD_KEYS

    async def _on_key(self, event: events.Key) -> None:
        if not await run_binding(self, event):
            await super()._on_key(event)

    def action_break_line(self) -> None:
        self.insert("\n")


class QueueScreen(PickScreen[QueuedEntry]):
    """Edits queued messages. If the model reads one meanwhile, the edit is moved to the input
    area. Esc discards an edit only when pressed twice."""

    TITLE_TEXT = "Queued messages"
    BINDINGS: ClassVar[list[BindingType]] = QUEUE_KEYS
    DEFAULT_CSS = """
    QueueScreen MessageField {
        height: 8; display: none; border: none; border-top: solid $line; padding: 0 1;
        background: $background;
    }
    QueueScreen MessageField:focus { border: none; border-top: solid $primary; }
    QueueScreen.-changing MessageField { display: block; }
    """

    def __init__(self, controller: Controller) -> None:
        super().__init__(controller)
        self.list = PickList[QueuedEntry](_draw_queued, lambda each: each.message.message_id)
        self._area = MessageField(compact=True, show_line_numbers=False)
        self._changing: QueuedEntry | None = None
        self._warned = False

    def parts(self) -> list[Widget]:
        return [self.list, self._area]

    def on_mount(self) -> None:
        super().on_mount()
        self._reload()
        self.set_interval(RELOAD_SECONDS, self._reload)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action == "keep":
            return self._changing is not None
        if action in ("change", "drop"):
            return self._changing is None and self.list.marked is not None
        return True

    def _reload(self) -> None:
        now = queued_entries(self._controller)
        if now != self.list.items or not now:
            self.list.show(now, nothing="No queued messages.")
            self.set_subtitle(str(len(now)))
            self.refresh_keys()

    def on_pick_list_picked(self, message: PickList.Picked) -> None:
        message.stop()
        self.action_change()

    def action_change(self) -> None:
        if words := self.list.marked:
            self._changing, self._warned = words, False
            self._area.load_text(harmless(words.message.text))
            self._area.move_cursor(self._area.document.end)
            self.add_class("-changing")
            self._area.focus()
            self.refresh_keys()

    async def action_keep(self) -> None:
        if not (words := self._changing):
            return
        text = self._area.text
        if words.message.message_id not in {
            each.message.message_id for each in queued_entries(self._controller)
        }:
            self._controller.insert(text)
            self._controller.toast(
                "The model has already read it. Your change is in the input.", "warning"
            )
        else:
            await self._send(words, text if text.strip() else None)
        self._stop_changing()

    async def action_drop(self) -> None:
        if words := self.list.marked:
            await self._send(words, None)

    async def _send(self, words: QueuedEntry, text: str | None) -> None:
        edit = EditQueue(task_id=words.task_id, message_id=words.message.message_id, text=text)
        if await self._controller.send(edit):
            self._controller.toast("Removed." if text is None else "Changed.", "success")

    def _stop_changing(self) -> None:
        self._changing = None
        self.remove_class("-changing")
        self.set_focus(None)
        self.refresh_keys()

    def action_close(self) -> None:
        if (words := self._changing) is None:
            self.dismiss(None)
        elif self._warned or self._area.text == harmless(words.message.text):
            self._stop_changing()
        else:
            self._warned = True
            self._controller.toast("Enter saves the change; Esc again discards it.", "warning")


def _draw_queued(words: QueuedEntry, width: int, theme: Theme) -> Text:
    line = Text(harmless_line(one_line(words.message.text)), theme.fg(theme.text))
    if words.message.images:
        line.append(f"  +{counted(len(words.message.images), 'image')}", theme.fg(theme.muted))
    return line


PROVIDER_COLUMNS = 18


class ModelScreen(ListScreen[KnownModel]):
    """Lists the known models at once, and adds those of local servers when found."""

    TITLE_TEXT = "Model"
    NOTHING = "No matching model. To use another: /model PROVIDER NAME"
    BINDINGS: ClassVar[list[BindingType]] = enter_binding("use it")

    def __init__(self, controller: Controller) -> None:
        super().__init__(controller)
        self._known: Sequence[KnownModel] | None = None

    def on_mount(self) -> None:
        super().on_mount()
        run_beside(self, self._find_local)

    async def known(self) -> Sequence[KnownModel]:
        if self._known is None:
            self._known = await self._controller.ask(AskModels())
        return self._known

    async def _find_local(self) -> None:
        try:
            self._known = await self._controller.ask(AskModels(local=True))
        except CommandRejected as refusal:
            self._controller.toast(str(refusal), "warning")
        else:
            self.reload()

    @property
    def current(self) -> str:
        view, about = self._controller.view, self._controller.about
        model = (view.model if view else "") or about.model
        named = [each for each in self.list.items if each.model == model]
        near = [each for each in named if each.provider == about.provider]
        return next((_model_words(each) for each in near or named), "")

    async def take(self, item: KnownModel) -> None:
        task_id = self._controller.task_id or ""
        self.dismiss(None)
        switch = SwitchModel(task_id=task_id, provider=item.provider, model=item.model)
        if await self._controller.send(switch):
            self._controller.toast(f"Model: {item.model}", "success")

    def name_of(self, item: KnownModel) -> str:
        return _model_words(item)

    def draw(self, item: KnownModel, width: int, theme: Theme) -> Text:
        widest = max(len(harmless_line(each.provider)) for each in self.list.items)
        first, now = min(widest, PROVIDER_COLUMNS), _model_words(item) == self.current
        return draw_model(item, first, width, theme, now=now)


def _model_words(model: KnownModel) -> str:
    return f"{model.provider} {model.model}"


def draw_model(model: KnownModel, first: int, width: int, theme: Theme, *, now: bool) -> Text:
    muted = theme.fg(theme.muted)
    window = f"{short_number(model.window)}" if model.window else ""
    tail = f"{'images' if model.images else '':<6} {window:>7}  {_price(model):>15}"
    ink = theme.fg(theme.accent, bold=True) if now else theme.fg(theme.text)
    name = Text(harmless_line(model.model), ink)
    if now:
        name.append("  now", theme.fg(theme.accent))
    room = width - first - len(tail) - 4
    provider = column(Text(harmless_line(model.provider), muted), first)
    return Text.assemble(provider, "  ", column(name, room), "  ", (tail, muted))


def _price(model: KnownModel) -> str:
    """Dollars per million input and output tokens."""
    if model.price_in is None and model.price_out is None:
        return ""
    return f"${model.price_in or 0:g} / ${model.price_out or 0:g}"


class ModeScreen(ListScreen[KnownMode]):
    TITLE_TEXT = "Mode"
    BINDINGS: ClassVar[list[BindingType]] = enter_binding("switch to it")

    async def known(self) -> Sequence[KnownMode]:
        return await self._controller.ask(AskModes())

    def words_of(self, item: KnownMode) -> str:
        return f"{item.name} {item.slug}"

    @property
    def current(self) -> str:
        view = self._controller.view
        return (view.mode if view else "") or self._controller.about.mode

    async def take(self, item: KnownMode) -> None:
        self.dismiss(None)
        if (task_id := self._controller.task_id) is None:
            self._controller.press(f"use_mode({item.slug!r})")
        elif await self._controller.send(SwitchMode(task_id=task_id, mode=item.slug)):
            self._controller.toast(f"Mode: {item.name}", "success")

    def name_of(self, item: KnownMode) -> str:
        return item.slug

    def draw(self, item: KnownMode, width: int, theme: Theme) -> Text:
        widest = max(Text(harmless_line(_mode_label(each))).cell_len for each in self.list.items)
        first = min(widest, width // 2)
        line = two_columns(_mode_label(item), one_line(item.when_to_use), first, width, theme)
        if item.slug == self.current:
            line.stylize(theme.fg(theme.accent, bold=True), 0, len(_mode_label(item)))
        return line


def _mode_label(mode: KnownMode) -> str:
    return mode.name if mode.name.casefold() == mode.slug else f"{mode.name} ({mode.slug})"


NO_INTENT = KnownIntent(id="", name="nothing in particular")
ID_COLUMNS = 16


class IntentScreen(ListScreen[KnownIntent]):
    """Intents that cannot be selected are listed with the problem."""

    TITLE_TEXT = "Intent"
    NOTHING = "This project has no intents. See: rookery intents"
    BINDINGS: ClassVar[list[BindingType]] = enter_binding("select it")

    async def known(self) -> Sequence[KnownIntent]:
        return await self._controller.ask(AskIntents())

    def words_of(self, item: KnownIntent) -> str:
        return f"{item.id} {item.name}"

    async def find(self, words: str) -> Sequence[KnownIntent]:
        found = await super().find(words)
        return [*found, NO_INTENT] if self._controller.intent and not words else found

    @property
    def current(self) -> str:
        return self._controller.intent

    async def take(self, item: KnownIntent) -> None:
        if item.problem:
            self._controller.toast(f"{item.id} cannot be selected: {item.problem}.", "warning")
            return
        self.dismiss(None)
        task_id = self._controller.task_id or ""
        if await self._controller.send(SelectIntent(task_id=task_id, intent_id=item.id)):
            self._controller.toast(f"Intent: {item.id or 'none'}", "success")

    def name_of(self, item: KnownIntent) -> str:
        return item.id

    def draw(self, item: KnownIntent, width: int, theme: Theme) -> Text:
        widest = max(Text(harmless_line(_intent_label(each))).cell_len for each in self.list.items)
        now = item is not NO_INTENT and item.id == self._controller.intent
        return draw_intent(item, min(widest, ID_COLUMNS), width, theme, now=now)


def _intent_label(intent: KnownIntent) -> str:
    return intent.id or "none"


def draw_intent(intent: KnownIntent, first: int, width: int, theme: Theme, *, now: bool) -> Text:
    """Id, name and scope; or the problem, dimmed."""
    muted = theme.fg(theme.muted)
    words = theme.fg(theme.accent, bold=True) if now else theme.fg(theme.text)
    ink = muted if intent.problem else words
    line = column(Text(harmless_line(_intent_label(intent)), ink), first)
    line.append(f"  {harmless_line(intent.name)}", ink)
    if now:
        line.append("  now", theme.fg(theme.accent))
    detail = intent.problem or ", ".join(intent.scope)
    if detail:
        line.append(f"  {harmless_line(detail)}", muted)
    return cut(line, width)
