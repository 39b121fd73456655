"""What opens over the conversation: a list as a panel above the input, a text or a question in a
frame.

The bottom line stays free, so that the app's status line is visible behind the frame. The app's
priority bindings would come first, so `FullScreen.check_action` disables most of them meanwhile.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import ClassVar, TypeVar

from msgspec import Struct
from rich.text import Text
from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.dom import DOMNode
from textual.geometry import Size
from textual.screen import ModalScreen
from textual.scroll_view import ScrollView
from textual.strip import Strip
from textual.widget import Widget

from rookery.tui.interfaces import Controller
from rookery.tui.keys import CLOSING, SCROLLING
from rookery.tui.rows.lines import LazyLines, Piece, as_pieces, cut
from rookery.tui.theme import theme_of

Write = Callable[[int], Iterable[Text | Piece]]
"""Returns the content for a width."""
SCREENFUL = 120
"""Lines laid out beyond the visible ones, so that the height of a short text is exact."""


class TextScrollView(ScrollView, can_focus=False):
    DEFAULT_CSS = "TextScrollView { overflow-x: hidden; overflow-y: auto; }"

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._write: Write = lambda width: []
        self._lines = LazyLines([])
        self._written: dict[int, LazyLines] = {}
        """Layouts by width."""
        self._written_for = 0

    def show(self, write: Write) -> None:
        """Replace the content, scrolled to its start."""
        self._write = write
        self._written = {}
        self._written_for = 0
        self._lay_out()
        self.scroll_to(0, 0, animate=False)

    def lines_at(self, width: int) -> int:
        """Number of lines at this width; an estimate for long content."""
        return self._layout_of(width).height

    @property
    def room(self) -> int:
        """Width of the lines."""
        return max(8, self.scrollable_content_region.width - 1)

    @property
    def fits_view(self) -> bool:
        return self._lines.height <= self.size.height

    @property
    def position(self) -> tuple[int, int, int]:
        """The first and last visible line, counted from one, and the number of lines, which is
        exact when the end is visible."""
        self._lay_out_near()
        first, count = round(self.scroll_y), self._lines.height
        return first + 1, min(count, first + self.size.height), count

    def scroll_far(self, way: int) -> None:
        """Scroll to the start or the end. Where a long text ends is known once it is laid out."""
        place = -1.0
        while place != (place := 0 if way < 0 else self.max_scroll_y):
            self.scroll_to(y=place, animate=False, immediate=True)

    def on_resize(self, event: events.Resize) -> None:
        self._lay_out()

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        super().watch_scroll_y(old_value, new_value)
        self._lay_out_near()

    def _lay_out(self) -> None:
        width = self.room
        if width != self._written_for:
            self._lines, self._written_for = self._layout_of(width), width
        self._lay_out_near()
        self.virtual_size = Size(width, self._lines.height)
        self.refresh()

    def _lay_out_near(self) -> None:
        """Lay out the visible lines and a screen around them, keeping the scroll position."""
        lines, height = self._lines, self.size.height
        anchor = lines.anchor(round(self.scroll_y))
        while lines.lay_out(
            lines.line_of(anchor) - height, lines.line_of(anchor) + 2 * height + SCREENFUL
        ):
            pass
        if self.virtual_size.height == lines.height:
            return
        self.virtual_size = Size(self.room, lines.height)
        if (place := lines.line_of(anchor)) != round(self.scroll_y):
            self.scroll_to(0, place, animate=False, force=True)

    def _layout_of(self, width: int) -> LazyLines:
        if width not in self._written:
            lines = self._written[width] = LazyLines(as_pieces(self._write(width)))
            lines.lay_out(0, SCREENFUL)
        return self._written[width]

    def render_line(self, y: int) -> Strip:
        strip = self._lines.strip(round(self.scroll_y) + y)
        return strip.adjust_cell_length(self.size.width).apply_style(self.rich_style)


_NAMES = {
    "escape": "Esc",
    "enter": "Enter",
    "tab": "Tab",
    "space": "Space",
    "backspace": "Backspace",
    "delete": "Del",
    "up": "↑",
    "down": "↓",
    "left": "←",
    "right": "→",
    "pageup": "PgUp",
    "pagedown": "PgDn",
    "home": "Home",
    "end": "End",
    "ctrl": "Ctrl",
    "shift": "Shift",
    "alt": "Alt",
    "question_mark": "?",
    "slash": "/",
}


class KeyUse(Struct, frozen=True):
    """A key, as printed on the keyboard, and what it does."""

    key: str
    what: str
    action: str
    shown: bool = True

    @property
    def name(self) -> str:
        """The action without its arguments."""
        return self.action.partition("(")[0]


def key_label(key: str) -> str:
    """The usual spelling of a key."""
    parts = key.split("+")
    names = [_NAMES.get(part, part) for part in parts]
    if len(parts) > 1 and len(names[-1]) == 1:
        names[-1] = names[-1].upper()
    if key[:1] == "f" and key[1:].isdecimal():
        names = [key.upper()]
    return "+".join(names)


def key_uses(bindings: Iterable[BindingType]) -> Iterator[KeyUse]:
    """The described bindings; alternative keys are joined. System bindings are skipped: they
    work only in some terminals."""
    for each in bindings:
        binding = each if isinstance(each, Binding) else Binding(*each)
        if binding.description and not binding.system:
            keys = " or ".join(map(key_label, _keys(binding)))
            yield KeyUse(keys, binding.description, binding.action, binding.show)


def own_bindings(of: type[DOMNode]) -> list[BindingType]:
    """Bindings declared by our classes, subclasses first, without overridden keys."""
    found: list[BindingType] = []
    taken: set[str] = set()
    for each in of.__mro__:
        if not each.__module__.startswith("textual."):
            declared: Sequence[BindingType] = each.__dict__.get("BINDINGS", ())
            found += [binding for binding in declared if taken.isdisjoint(_keys(binding))]
            taken.update(key for binding in declared for key in _keys(binding))
    return found


def _keys(binding: BindingType) -> list[str]:
    keys = binding.key if isinstance(binding, Binding) else binding[0]
    return [key.strip() for key in keys.split(",")]


class KeyLine(Widget):
    DEFAULT_CSS = "KeyLine { height: 1; width: 1fr; padding: 0 1; }"

    def __init__(self) -> None:
        super().__init__()
        self._places: list[tuple[int, int, str]] = []

    def _uses(self) -> list[KeyUse]:
        screen = self.screen
        uses = key_uses(own_bindings(type(screen)))
        return [use for use in uses if use.shown and screen.check_action(use.name, ())]

    def render(self) -> Text:
        theme = theme_of(self)
        line = Text(no_wrap=True, end="")
        self._places = []
        for use in self._uses():
            begin = line.cell_len
            line.append(use.key.partition(" or ")[0], theme.fg(theme.accent, bold=True))
            line.append(f" {use.what}", theme.fg(theme.muted))
            self._places.append((begin, line.cell_len, use.action))
            line.append("   ")
        return cut(line, self.content_size.width)

    async def on_click(self, event: events.Click) -> None:
        offset = event.get_content_offset(self)
        for begin, end, action in self._places:
            if offset is not None and begin <= offset.x < end:
                event.stop()
                await self.screen.run_action(action)


R = TypeVar("R")

RELOAD_SECONDS = 0.25
"""Interval at which a screen checks whether its content has changed."""


class SideScreen(ModalScreen[R]):
    """Base class of side screens: a title, the widgets of `parts`, and a line with the keys."""

    TITLE_TEXT: ClassVar[str] = ""
    IS_PANEL: ClassVar[bool] = False
    """Whether it opens above the input area, so that the conversation stays visible."""
    AUTO_FOCUS = ""
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (120, "-wide")]  # noqa: RUF012 (Textual's own type)
    BINDINGS: ClassVar[list[BindingType]] = CLOSING
    SCOPED_CSS = False
    CSS = ".side { background: $background 55%; } .side.-panel { background: transparent; }"
    DEFAULT_CSS = """
    SideScreen { align: center middle; }
    SideScreen > .frame {
        width: 100%; max-width: 132; height: 1fr; max-height: 28; margin: 0 0 1 0; padding: 0;
        background: $background; border: round $line; border-title-color: $primary;
        border-title-style: bold; border-subtitle-color: $muted;
    }
    SideScreen .rule { height: 1; border-top: solid $line; }
    SideScreen LineField, SideScreen LineField:focus {
        border: none; height: 1; padding: 0 1; background: $band; margin: 0 1 1 1;
    }
    SideScreen LineField > .input--placeholder { color: $muted; }
    SideScreen KeyLine { margin-top: 1; }
    SideScreen PickList { padding: 0 1; }
    SideScreen TextScrollView { padding: 0 1; scrollbar-size-vertical: 1; }
    SideScreen.-panel { align: center bottom; }
    SideScreen.-panel > .frame {
        max-width: 100%; height: auto; max-height: 100%; border: none; border-top: solid $primary;
    }
    SideScreen.-panel LineField, SideScreen.-panel LineField:focus { margin: 0 1; }
    SideScreen.-panel KeyLine { margin-top: 0; }
    """

    def __init__(self, controller: Controller) -> None:
        super().__init__(classes="side -panel" if self.IS_PANEL else "side")
        self._controller = controller
        self._keys = KeyLine()
        self._frame = Vertical(classes="frame")
        self._title, self._subtitle = self.TITLE_TEXT, ""
        self._label_frame()

    def compose(self) -> ComposeResult:
        with self._frame:
            yield from self.parts()
            yield self._keys

    def parts(self) -> list[Widget]:
        raise NotImplementedError

    def on_mount(self) -> None:
        self.watch(self.app, "theme", self.theme_changed, init=False)
        if self.IS_PANEL:
            self._place_above_input()
        self.app.screen_stack[0].add_class("-behind")

    def on_unmount(self) -> None:
        stack = self.app.screen_stack
        for base in stack[:1]:  # none is left when the app exits
            base.set_class(len(stack) > 1, "-behind")

    def on_resize(self) -> None:
        if self.IS_PANEL:
            self.call_after_refresh(self._place_above_input)

    def _place_above_input(self) -> None:
        inputs = self.app.screen_stack[0].query("#input")
        below = self.app.size.height - inputs.first().region.y if inputs else 1
        self._frame.styles.margin = (0, 0, below, 0)

    def theme_changed(self) -> None:
        """Redraw content that does not follow the theme by itself."""

    def set_title(self, words: str) -> None:
        self._title = words
        self._label_frame()

    def set_subtitle(self, words: str) -> None:
        """Set the subtitle: a count or a status."""
        self._subtitle = words
        self._label_frame()

    def _label_frame(self) -> None:
        """A panel has no lower border, so its subtitle stands behind the title."""
        if self.IS_PANEL:
            title = f"{self._title}  {self._subtitle}" if self._subtitle else self._title
            self._frame.border_title = Content(title)
        else:
            self._frame.border_title = Content(self._title)
            self._frame.border_subtitle = Content(self._subtitle)

    def refresh_keys(self) -> None:
        """Refresh the keys after `check_action` has changed."""
        self.refresh_bindings()
        self._keys.refresh()

    def action_close(self) -> None:
        self.dismiss(None)


class ReadingScreen(SideScreen[R]):
    DEFAULT_CSS = "ReadingScreen > .frame { max-height: 60; }"
    BINDINGS: ClassVar[list[BindingType]] = SCROLLING

    def __init__(self, controller: Controller) -> None:
        super().__init__(controller)
        self.scroll_view = TextScrollView()
        self._write: Write = lambda width: []

    def parts(self) -> list[Widget]:
        return [self.scroll_view]

    def write(self, write: Write) -> None:
        """Show other text from its start."""
        self._write = write
        self.scroll_view.show(write)

    def write_on(self, write: Write) -> None:
        """Show other text and keep the scroll position."""
        where = self.scroll_view.scroll_y
        self.write(write)
        self.scroll_view.scroll_to(y=where, animate=False)

    def theme_changed(self) -> None:
        self.write_on(self._write)

    @property
    def closes_for_text(self) -> bool:
        return True

    def on_key(self, event: events.Key) -> None:
        """Text is for the input area: the screen closes."""
        is_text = event.is_printable and event.key not in self.active_bindings
        if self.closes_for_text and is_text and event.character:
            event.stop()
            if self.is_current:
                self.close_for_text()
            self._controller.insert(event.character)

    def close_for_text(self) -> None:
        self.dismiss(None)

    def action_scroll_lines(self, by: int) -> None:
        self.scroll_view.scroll_relative(y=by, animate=False)

    def action_scroll_pages(self, by: int) -> None:
        self.scroll_view.scroll_relative(
            y=by * max(1, self.scroll_view.size.height - 1), animate=False
        )

    def action_scroll_far(self, way: int) -> None:
        self.scroll_view.scroll_far(way)
