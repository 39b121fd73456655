"""Widgets that pickers and side screens share: a list to pick from, and text fields.

Textual puts letters into a field at once, but sends other keys a long way round before it
acts on them. `is_done` keeps keys in the order in which they were typed.
"""

from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from rich.style import Style
from rich.text import Text
from textual import events
from textual.dom import DOMNode
from textual.geometry import Size
from textual.message import Message
from textual.widget import Widget
from textual.widgets import Input, TextArea
from textual.worker import WorkType

from rookery.tui.rows.lines import cut, padded
from rookery.tui.theme import Theme, theme_of


def do_latest(of: DOMNode, work: WorkType[None]) -> None:
    """Do this instead of what was begun before it and is no longer of interest."""
    of.run_worker(work, exclusive=True)


def do_beside(of: DOMNode, work: WorkType[None]) -> None:
    of.run_worker(work, group="beside")


T = TypeVar("T")
Draw = Callable[[T, int, Theme], Text]
"""Draws a row for a number of columns."""
MARK = "▸ "


def first_seen(count: int, marked: int, first: int, height: int) -> int:
    """Which row comes first, if `first` did before: the marked one is always seen."""
    seen = rows_seen(count, height)
    first = max(min(first, marked), marked - seen + 1)
    return max(0, min(first, count - seen))


def rows_seen(count: int, height: int) -> int:
    """One line less than there are if some are out of sight: it tells how many."""
    return count if count <= height else max(1, height - 1)


class PickList(Widget, Generic[T], can_focus=False):
    """`name` tells rows apart, so that the mark stays where it is when they come anew. A list of
    `most` rows is as high as it has ever been: what is around it does not jump."""

    DEFAULT_CSS = "PickList { height: 1fr; width: 100%; }"

    class Marked(Message):
        """Another row is marked now, or there is none."""

        def __init__(self, of: "PickList[T]") -> None:
            super().__init__()
            self.of = of

        @property
        def control(self) -> Widget:
            return self.of

    class Picked(Marked):
        """The marked row is wanted: it was clicked."""

    def __init__(
        self, draw: Draw[T], name: Callable[[T], str], *, most: int = 0, id: str | None = None
    ) -> None:
        super().__init__(id=id)
        self._draw = draw
        self._name_of = name
        self._items: Sequence[T] = ()
        self._at = 0
        self._chosen = False
        """Somebody has moved the mark to where it is."""
        self._first = 0
        self._nothing = ""
        self._most = most
        self._highest = 1
        if most:
            self.styles.height = "auto"

    @property
    def items(self) -> Sequence[T]:
        return self._items

    @property
    def marked(self) -> T | None:
        return self._items[self._at] if self._items else None

    @property
    def place(self) -> int:
        return self._at

    def show(self, items: Sequence[T], *, nothing: str = "", best_first: bool = False) -> None:
        """Show these instead; `nothing` is told if there are none. With `best_first` the first is
        marked, unless somebody has marked another one that is still there."""
        before = self.marked
        self._items, self._nothing = items, nothing
        self._at = self._found(before)
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

    def _found(self, before: T | None) -> int:
        """Where the row is now that was marked; else the mark stays where it was."""
        if before is None:
            return 0
        name = self._name_of(before)
        for at, item in enumerate(self._items):
            if self._name_of(item) == name:
                return at
        return max(0, min(self._at, len(self._items) - 1))

    def move(self, by: int) -> None:
        """Up or down, and round."""
        if self._items:
            self._choose((self._at + by) % len(self._items))

    def page(self, by: int) -> None:
        """By as many rows as are seen, up to the ends."""
        self.step(by * max(1, rows_seen(len(self._items), self.size.height) - 1))

    def step(self, by: int) -> None:
        """Up or down, not further than to the ends."""
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
            return cut(Text(f"  {self._nothing}", theme.ink(theme.quiet)), width)
        count = len(self._items)
        self._first = first_seen(count, self._at, self._first, height)
        last = self._first + rows_seen(count, height)
        lines = [self._row(at, width, theme) for at in range(self._first, last)]
        if count > height > 1:
            lines.append(_out_of_sight(self._first, count - last, theme))
        return Text("\n", no_wrap=True, end="").join(lines)

    def _row(self, at: int, width: int, theme: Theme) -> Text:
        words = cut(self._draw(self._items[at], width - len(MARK), theme), width - len(MARK))
        if at != self._at:
            return Text.assemble(" " * len(MARK), words)
        line = Text.assemble((MARK, theme.ink(theme.accent, bold=True)), words)
        return padded(line, width, Style(bgcolor=theme.line))

    def on_click(self, event: events.Click) -> None:
        offset = event.get_content_offset(self)
        if offset is None or not self._items:
            return
        event.stop()
        seen = rows_seen(len(self._items), self.size.height)
        if offset.y < seen:
            self._choose(min(len(self._items) - 1, self._first + offset.y))
            self.post_message(self.Picked(self))

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        event.stop()
        self.step(1)

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        event.stop()
        self.step(-1)


def _out_of_sight(above: int, below: int, theme: Theme) -> Text:
    parts = [f"↑ {above} above" if above else "", f"↓ {below} below" if below else ""]
    return Text(f"  {'   '.join(filter(None, parts))}", theme.ink(theme.quiet))


async def is_done(field: Widget, event: events.Key) -> bool:
    """Whether the key means something other than a letter here; then that is done now."""
    if event.is_printable or not await field.app._check_bindings(event.key):
        return False
    event.stop()
    event.prevent_default()
    return True


class LineField(Input):
    async def _on_key(self, event: events.Key) -> None:
        if not await is_done(self, event):
            await super()._on_key(event)


class TextField(TextArea):
    async def _on_key(self, event: events.Key) -> None:
        if not await is_done(self, event):
            await super()._on_key(event)
