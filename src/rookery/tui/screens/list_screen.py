"""A screen with a list and, above it, a line to narrow it down with."""

from abc import abstractmethod
from collections.abc import Sequence
from functools import partial
from typing import ClassVar, Generic, TypeVar

import anyio
from rich.text import Text
from textual.binding import Binding, BindingType
from textual.widget import Widget
from textual.widgets import Input

from rookery.core.text.terminal_text import harmless_line
from rookery.errors import CommandRejected
from rookery.tui.interfaces import Controller
from rookery.tui.pickers.pick_list import LineField, PickList, do_latest
from rookery.tui.screens.side_screen import SideScreen
from rookery.tui.theme import Theme

T = TypeVar("T")
PAUSE_SECONDS = 0.15

MOVING: list[BindingType] = [
    Binding("up", "move(-1)", "Up", show=False),
    Binding("down", "move(1)", "Down", show=False),
    Binding("pageup", "page(-1)", "A page up", show=False),
    Binding("pagedown", "page(1)", "A page down", show=False),
]


class ListScreen(SideScreen[None], Generic[T]):
    """`find` looks up the rows for what is typed, `take` does what Enter or a click wants."""

    INVITATION: ClassVar[str] = "Type to narrow down"
    NOTHING: ClassVar[str] = "Nothing fits."
    BINDINGS: ClassVar[list[BindingType]] = MOVING

    def __init__(self, controller: Controller) -> None:
        super().__init__(controller)
        self.list = PickList[T](self.draw, self.name_of)
        self._input = LineField(placeholder=self.INVITATION, select_on_focus=False)
        self._found_for: str | None = None
        self._wanted = False
        """The best row for what is typed is to be taken as soon as it is known."""

    def parts(self) -> list[Widget]:
        return [self._input, self.list]

    def on_mount(self) -> None:
        super().on_mount()
        self._input.focus()
        self.look_again()

    @abstractmethod
    async def find(self, words: str) -> Sequence[T]: ...

    @abstractmethod
    async def take(self, item: T) -> None: ...

    @abstractmethod
    def draw(self, item: T, width: int, theme: Theme) -> Text: ...

    @abstractmethod
    def name_of(self, item: T) -> str: ...

    def look_again(self, *, after: float = 0.0) -> None:
        """Look the rows up anew, unless something else is typed meanwhile."""
        do_latest(self, partial(self._look, self._input.value, after))

    async def _look(self, words: str, after: float) -> None:
        await anyio.sleep(after)
        nothing = self.NOTHING
        try:
            found = await self.find(words)
        except CommandRejected as refusal:
            found, nothing = (), harmless_line(str(refusal))
        fresh, self._found_for = self._found_for not in (None, words), words
        self.put(found, nothing, best_first=fresh)
        if self._wanted:
            self.call_later(self.action_take)

    def put(self, items: Sequence[T], nothing: str, *, best_first: bool) -> None:
        self.list.show(items, nothing=nothing, best_first=best_first)
        self.tell(f"{len(items)}")

    def on_input_changed(self, message: Input.Changed) -> None:
        message.stop()
        self._wanted = False
        self.look_again(after=PAUSE_SECONDS)

    async def on_input_submitted(self, message: Input.Submitted) -> None:
        message.stop()
        await self.action_take()

    async def on_pick_list_picked(self, message: PickList.Picked) -> None:
        message.stop()
        await self.action_take()

    async def action_take(self) -> None:
        self._wanted = self._found_for != self._input.value
        if self._wanted:
            self.look_again()
        elif (item := self.list.marked) is not None:
            await self.take(item)

    def action_move(self, by: int) -> None:
        self.list.move(by)

    def action_page(self, by: int) -> None:
        self.list.page(by)
