"""Which model goes on."""

from collections.abc import Sequence
from typing import ClassVar

from rich.text import Text
from textual.binding import Binding, BindingType

from rookery.core.commands import SwitchModel
from rookery.core.queries import AskModels, KnownModel
from rookery.core.text.fuzzy import best_matches
from rookery.core.text.terminal_text import harmless_line
from rookery.errors import CommandRejected
from rookery.tui.interfaces import Desk
from rookery.tui.pickers.background_work import do_beside
from rookery.tui.rows.lines import cut
from rookery.tui.screens.list_screen import ListScreen
from rookery.tui.status import short_number
from rookery.tui.theme import Look

MOST = 500
PROVIDER_COLUMNS = 18


class ModelScreen(ListScreen[KnownModel]):
    """Shows at once what is known; what servers on this machine offer comes when it is found."""

    TITLE_WORDS = "Model"
    NOTHING = "No model fits. Another one can be named: /model PROVIDER NAME"
    BINDINGS: ClassVar[list[BindingType]] = [Binding("enter", "take", "go on with it")]

    def __init__(self, desk: Desk) -> None:
        super().__init__(desk)
        self._known: Sequence[KnownModel] | None = None
        self._now = ""
        self._widest = 0

    def on_mount(self) -> None:
        super().on_mount()
        do_beside(self, self._find_local)

    async def find(self, words: str) -> Sequence[KnownModel]:
        if self._known is None:
            self._known = await self._desk.ask(AskModels())
        return best_matches(self._known, words, MOST, _spelled)

    async def _find_local(self) -> None:
        try:
            self._known = await self._desk.ask(AskModels(local=True))
        except CommandRejected as refusal:
            self._desk.toast(str(refusal), "warning")
        else:
            self.look_again()

    def put(self, items: Sequence[KnownModel], nothing: str, *, best_first: bool) -> None:
        first = not self.list.items
        self._now = self._asked_now(items)
        self._widest = max((len(harmless_line(each.provider)) for each in items), default=0)
        super().put(items, nothing, best_first=best_first)
        if first:
            self.list.mark(self._now)

    def _asked_now(self, items: Sequence[KnownModel]) -> str:
        """The model that is asked now, as the list calls it."""
        view, about = self._desk.view, self._desk.about
        model = (view.model if view else "") or about.model
        named = [each for each in items if each.model == model]
        near = [each for each in named if each.provider == about.provider]
        return next((_spelled(each) for each in near or named), "")

    async def take(self, item: KnownModel) -> None:
        task_id = self._desk.task_id or ""
        self.dismiss(None)
        switch = SwitchModel(task_id=task_id, provider=item.provider, model=item.model)
        if await self._desk.send(switch):
            self._desk.toast(f"Model: {item.model}", "success")

    def name_of(self, item: KnownModel) -> str:
        return _spelled(item)

    def draw(self, item: KnownModel, width: int, look: Look) -> Text:
        first = min(self._widest, PROVIDER_COLUMNS)
        return drawn_model(item, first, width, look, now=_spelled(item) == self._now)


def _spelled(model: KnownModel) -> str:
    return f"{model.provider} {model.model}"


def drawn_model(model: KnownModel, first: int, width: int, look: Look, *, now: bool) -> Text:
    quiet = look.ink(look.quiet)
    window = f"{short_number(model.window)}" if model.window else ""
    tail = f"{'images' if model.images else '':<6} {window:>7}  {_price(model):>15}"
    ink = look.ink(look.accent, bold=True) if now else look.ink(look.words)
    name = Text(harmless_line(model.model), ink)
    if now:
        name.append("  now", look.ink(look.accent))
    room = width - first - len(tail) - 4
    name = cut(name, room)
    name.pad_right(max(0, room - name.cell_len))
    provider = cut(Text(harmless_line(model.provider), quiet), first)
    provider.pad_right(max(0, first - provider.cell_len))
    return Text.assemble(provider, "  ", name, "  ", (tail, quiet))


def _price(model: KnownModel) -> str:
    """Dollars for a million tokens in and out."""
    if model.price_in is None and model.price_out is None:
        return ""
    return f"${model.price_in or 0:g} / ${model.price_out or 0:g}"
