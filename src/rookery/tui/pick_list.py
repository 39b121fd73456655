"""A list to pick from, text fields, and the side screen with a list and a filter.

Textual inserts printable keys into a field at once but dispatches other keys later. Fields call
`run_binding` to handle keys in the order they were typed.
"""

from abc import abstractmethod
from collections.abc import Callable, Sequence
from functools import partial
from typing import ClassVar, Generic, TypeVar

import anyio
from rich.style import Style
from rich.text import Text
from textual import events
from textual.binding import BindingType
from textual.dom import DOMNode
from textual.geometry import Size
from textual.message import Message
from textual.widget import Widget
from textual.widgets import Input
from textual.worker import WorkType

from rookery.core.text.characters import best_matches
from rookery.core.text.terminal_text import harmless_line
from rookery.errors import CommandRejected
from rookery.tui.interfaces import Controller
from rookery.tui.keys import MOVING
from rookery.tui.rows.lines import cut, padded
from rookery.tui.screens.side_screen import SideScreen
from rookery.tui.theme import Theme, theme_of


def run_latest(of: DOMNode, work: WorkType[None]) -> None:
    """Run a worker, and cancel the previous one."""
    of.run_worker(work, exclusive=True)


def run_beside(of: DOMNode, work: WorkType[None]) -> None:
    of.run_worker(work, group="beside")


T = TypeVar("T")
Draw = Callable[[T, int, Theme], Text]
"""Draws a row for a number of columns."""
MARK = "▸ "


def first_visible(count: int, marked: int, first: int, height: int) -> int:
    """Index of the first visible row, given the previous one; keeps the marked row visible."""
    seen = visible_rows(count, height)
    first = max(min(first, marked), marked - seen + 1)
    return max(0, min(first, count - seen))


def visible_rows(count: int, height: int) -> int:
    """Number of visible rows: the last line is used for a counter if not all rows fit."""
    return count if count <= height else max(1, height - 1)


class PickList(Widget, Generic[T], can_focus=False):
    """A list with one marked row. `name` identifies a row, so that the mark stays on it when the
    rows are replaced. With `most`, the list grows up to that many rows and never shrinks, so that
    the layout does not jump."""

    DEFAULT_CSS = "PickList { height: 1fr; width: 100%; }"

    class Marked(Message):
        """Posted when another row is marked, or none."""

        def __init__(self, of: "PickList[T]") -> None:
            super().__init__()
            self.of = of

        @property
        def control(self) -> Widget:
            return self.of

    class Picked(Marked):
        """Posted when a row is clicked."""

    def __init__(
        self, draw: Draw[T], name: Callable[[T], str], *, most: int = 0, id: str | None = None
    ) -> None:
        super().__init__(id=id)
        self._draw = draw
        self._name_of = name
        self._items: Sequence[T] = ()
        self._at = 0
        self._chosen = False
        """Whether the user moved the mark."""
        self._first = 0
        self._nothing = ""
        self._most = most
        self._highest = 1
        if most:
            self.styles.height = "auto"

    def grow_to(self, most: int) -> None:
        """Let the list grow up to `most` rows."""
        self._most = most
        self._highest = max(1, min(most, len(self._items)))
        self.styles.height = "auto"
        self.refresh(layout=True)

    @property
    def items(self) -> Sequence[T]:
        return self._items

    @property
    def marked(self) -> T | None:
        return self._items[self._at] if self._items else None

    def show(self, items: Sequence[T], *, nothing: str = "", best_first: bool = False) -> None:
        """Replace the rows; `nothing` is shown if there are none.

        With `best_first` the first row is marked, unless the user marked one that is still listed.
        """
        before = self.marked
        self._items, self._nothing = items, nothing
        self._at = self._index_of(before)
        if best_first and not (self._chosen and self._is_marked(before)):
            self._at, self._chosen = 0, False
        higher = min(len(items), self._most) > self._highest
        self._highest = max(self._highest, min(len(items), self._most))
        self.refresh(layout=higher)
        if not self._is_marked(before):
            self.post_message(self.Marked(self))

    def _is_marked(self, item: T | None) -> bool:
        now = self.marked
        return item is not None and now is not None and self._name_of(item) == self._name_of(now)

    def mark(self, name: str) -> None:
        for at, item in enumerate(self._items):
            if self._name_of(item) == name:
                self._mark(at)

    def _index_of(self, before: T | None) -> int:
        """Index of the previously marked row; if it is gone, the mark keeps its position."""
        if before is None:
            return 0
        name = self._name_of(before)
        for at, item in enumerate(self._items):
            if self._name_of(item) == name:
                return at
        return max(0, min(self._at, len(self._items) - 1))

    def move(self, by: int) -> None:
        """Move the mark, wrapping around at the ends."""
        if self._items:
            self._choose((self._at + by) % len(self._items))

    def page(self, by: int) -> None:
        """Move the mark by a page, stopping at the ends."""
        self.step(by * max(1, visible_rows(len(self._items), self.size.height) - 1))

    def step(self, by: int) -> None:
        """Move the mark, stopping at the ends."""
        if self._items:
            self._choose(max(0, min(len(self._items) - 1, self._at + by)))

    def _choose(self, at: int) -> None:
        self._chosen = True
        self._mark(at)

    def _mark(self, at: int) -> None:
        if at != self._at and self._items:
            self._at = at
            self.refresh()
            self.post_message(self.Marked(self))

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        return self._highest

    def render(self) -> Text:
        theme, width, height = theme_of(self), self.size.width, self.size.height
        if not self._items:
            return cut(Text(f"  {self._nothing}", theme.fg(theme.muted)), width)
        count = len(self._items)
        self._first = first_visible(count, self._at, self._first, height)
        last = self._first + visible_rows(count, height)
        lines = [self._row(at, width, theme) for at in range(self._first, last)]
        if count > height > 1:
            lines.append(_hidden_counts(self._first, count - last, theme))
        return Text("\n", no_wrap=True, end="").join(lines)

    def _row(self, at: int, width: int, theme: Theme) -> Text:
        words = cut(self._draw(self._items[at], width - len(MARK), theme), width - len(MARK))
        if at != self._at:
            return Text.assemble(" " * len(MARK), words)
        line = Text.assemble((MARK, theme.fg(theme.accent, bold=True)), words)
        return padded(line, width, Style(bgcolor=theme.line))

    def on_click(self, event: events.Click) -> None:
        offset = event.get_content_offset(self)
        if offset is None or not self._items:
            return
        event.stop()
        seen = visible_rows(len(self._items), self.size.height)
        if offset.y < seen:
            self._choose(min(len(self._items) - 1, self._first + offset.y))
            self.post_message(self.Picked(self))

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        event.stop()
        self.step(1)

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        event.stop()
        self.step(-1)


def _hidden_counts(above: int, below: int, theme: Theme) -> Text:
    parts = [f"↑ {above} above" if above else "", f"↓ {below} below" if below else ""]
    return Text(f"  {'   '.join(filter(None, parts))}", theme.fg(theme.muted))


async def run_binding(field: Widget, event: events.Key) -> bool:
    """Run the binding of a non-printable key now. Returns whether there was one."""
    if event.is_printable or not await field.app._check_bindings(event.key):
        return False
    event.stop()
    event.prevent_default()
    return True


class LineField(Input):
    async def _on_key(self, event: events.Key) -> None:
        if not await run_binding(self, event):
            await super()._on_key(event)


PAUSE_SECONDS = 0.15
MIN_ROWS = 4
MAX_ROWS = 500


class PickScreen(SideScreen[None], Generic[T]):
    """A panel with a list, which the arrow keys move in."""

    IS_PANEL = True
    OTHER_LINES: ClassVar[int] = 3
    """Lines of the panel besides the list."""
    BINDINGS: ClassVar[list[BindingType]] = MOVING
    list: PickList[T]

    def on_mount(self) -> None:
        super().on_mount()
        self._fit_list()

    def on_resize(self) -> None:
        super().on_resize()
        self._fit_list()

    def _fit_list(self) -> None:
        self.list.grow_to(max(MIN_ROWS, self.app.size.height // 2 - self.OTHER_LINES))

    def action_move(self, by: int) -> None:
        self.list.move(by)

    def action_page(self, by: int) -> None:
        self.list.page(by)


class ListScreen(PickScreen[T]):
    """A list with a filter. `known` returns all rows, and `take` handles the picked one."""

    INVITATION: ClassVar[str] = "Type to filter"
    NOTHING: ClassVar[str] = "No matches."

    def __init__(self, controller: Controller) -> None:
        super().__init__(controller)
        self.list = PickList[T](self.draw, self.name_of)
        self._input = LineField(placeholder=self.INVITATION, select_on_focus=False)
        self._found_for: str | None = None
        self._take_when_found = False
        """Whether to take the best row as soon as the search has finished."""

    def parts(self) -> list[Widget]:
        return [self._input, self.list]

    def on_mount(self) -> None:
        super().on_mount()
        self._input.focus()
        self.reload()

    async def find(self, words: str) -> Sequence[T]:
        """The rows for the filter."""
        return best_matches(await self.known(), words, MAX_ROWS, self.words_of)

    async def known(self) -> Sequence[T]:
        raise NotImplementedError

    def words_of(self, item: T) -> str:
        """The text that the filter searches."""
        return self.name_of(item)

    @abstractmethod
    async def take(self, item: T) -> None: ...

    @abstractmethod
    def draw(self, item: T, width: int, theme: Theme) -> Text: ...

    @abstractmethod
    def name_of(self, item: T) -> str: ...

    def reload(self, *, after: float = 0.0) -> None:
        """Search again; cancelled if the filter changes."""
        run_latest(self, partial(self._reload, self._input.value, after))

    async def _reload(self, words: str, after: float) -> None:
        await anyio.sleep(after)
        nothing = self.NOTHING
        try:
            found = await self.find(words)
        except CommandRejected as refusal:
            found, nothing = (), harmless_line(str(refusal))
        fresh, self._found_for = self._found_for not in (None, words), words
        self.put(found, nothing, best_first=fresh)
        if self._take_when_found:
            self.call_later(self.action_take)

    @property
    def current(self) -> str:
        """Name of the row that is marked first, such as the current mode."""
        return ""

    def put(self, items: Sequence[T], nothing: str, *, best_first: bool) -> None:
        is_first = not self.list.items
        self.list.show(items, nothing=nothing, best_first=best_first)
        self.set_subtitle(f"{len(items)}")
        if is_first:
            self.list.mark(self.current)

    def on_input_changed(self, message: Input.Changed) -> None:
        message.stop()
        self._take_when_found = False
        self.reload(after=PAUSE_SECONDS)

    async def on_input_submitted(self, message: Input.Submitted) -> None:
        message.stop()
        await self.action_take()

    async def on_pick_list_picked(self, message: PickList.Picked) -> None:
        message.stop()
        await self.action_take()

    async def action_take(self) -> None:
        self._take_when_found = self._found_for != self._input.value
        if self._take_when_found:
            self.reload()
        elif (item := self.list.marked) is not None:
            await self.take(item)
