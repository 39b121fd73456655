"""A frame over the conversation for one thing at a time: a list, a text, a question.

The line at the bottom stays free, so that what the app has to tell is seen behind the frame.
While such a screen is open, the app's own keys that come before all others have to stand back.
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
from rookery.tui.rows.lines import LazyLines, Piece, cut, together
from rookery.tui.theme import theme_of

Write = Callable[[int], Iterable[Text | Piece]]
"""What is written for a width."""
SCREENFUL = 120
"""Lines that are laid out beyond those in sight, so that a short text has its exact height."""


class TextScrollView(ScrollView, can_focus=False):
    DEFAULT_CSS = "TextScrollView { overflow-x: hidden; overflow-y: auto; }"

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._write: Write = lambda width: []
        self._lines = LazyLines([])
        self._written: dict[int, LazyLines] = {}
        """For each width, so that what is long is laid out once."""
        self._written_for = 0

    def show(self, write: Write) -> None:
        """Show what `write` makes for a width, from its beginning."""
        self._write = write
        self._written = {}
        self._written_for = 0
        self._lay_out()
        self.scroll_to(0, 0, animate=False)

    def lines_at(self, width: int) -> int:
        """How many lines there are, if it is so wide; about how many, if it is long."""
        return self._laid_out(width).height

    @property
    def room(self) -> int:
        """How wide the lines are."""
        return max(8, self.scrollable_content_region.width - 1)

    @property
    def is_seen_whole(self) -> bool:
        return self._lines.height <= self.size.height

    @property
    def position(self) -> tuple[int, int, int]:
        """The first and the last line that are seen, counted from one, and how many there are.
        The last one that is seen is the last one only if that was laid out."""
        self._lay_out_near()
        first, count = round(self.scroll_y), self._lines.height
        return first + 1, min(count, first + self.size.height), count

    def on_resize(self, event: events.Resize) -> None:
        self._lay_out()

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        super().watch_scroll_y(old_value, new_value)
        self._lay_out_near()

    def _lay_out(self) -> None:
        width = self.room
        if width != self._written_for:
            self._lines, self._written_for = self._laid_out(width), width
        self._lay_out_near()
        self.virtual_size = Size(width, self._lines.height)
        self.refresh()

    def _lay_out_near(self) -> None:
        """What is in sight, and a screen around it, which stays where it is."""
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

    def _laid_out(self, width: int) -> LazyLines:
        if width not in self._written:
            lines = self._written[width] = LazyLines(together(self._write(width)))
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
    """A key as it is written on a keyboard, and what it does."""

    key: str
    what: str
    action: str
    shown: bool = True

    @property
    def name(self) -> str:
        """The action without what it is given."""
        return self.action.partition("(")[0]


def spelled(key: str) -> str:
    """A key's name as people write it."""
    parts = key.split("+")
    names = [_NAMES.get(part, part) for part in parts]
    if len(parts) > 1 and len(names[-1]) == 1:
        names[-1] = names[-1].upper()
    if key[:1] == "f" and key[1:].isdecimal():
        names = [key.upper()]
    return "+".join(names)


def key_uses(bindings: Iterable[BindingType]) -> Iterator[KeyUse]:
    """What bindings say, one for each; several keys for one thing stand together. Those of the
    system work only where a terminal tells them apart."""
    for each in bindings:
        binding = each if isinstance(each, Binding) else Binding(*each)
        if binding.description and not binding.system:
            keys = " or ".join(map(spelled, _keys(binding)))
            yield KeyUse(keys, binding.description, binding.action, binding.show)


def own_bindings(of: type[DOMNode]) -> list[BindingType]:
    """The bindings that a class has from us, what it says itself before what it inherits."""
    found: list[BindingType] = []
    taken: set[str] = set()
    for each in of.__mro__:
        if not each.__module__.startswith("textual."):
            said: Sequence[BindingType] = each.__dict__.get("BINDINGS", ())
            found += [binding for binding in said if taken.isdisjoint(_keys(binding))]
            taken.update(key for binding in said for key in _keys(binding))
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
            line.append(use.key.partition(" or ")[0], theme.ink(theme.accent, bold=True))
            line.append(f" {use.what}", theme.ink(theme.quiet))
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

"""The lines for a number of columns."""
LOOK_AGAIN_SECONDS = 0.25
"""How often a screen looks whether what it shows is still so."""

CLOSE: BindingType = Binding("escape", "close", "close")


class SideScreen(ModalScreen[R]):
    """`TITLE_WORDS` stand in the frame; `parts` are between them and the keys."""

    TITLE_WORDS: ClassVar[str] = ""
    AUTO_FOCUS = ""
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (120, "-wide")]  # noqa: RUF012 (Textual's own type)
    BINDINGS: ClassVar[list[BindingType]] = [CLOSE]
    SCOPED_CSS = False
    CSS = ".side { background: $background 55%; }"
    DEFAULT_CSS = """
    SideScreen { align: center middle; }
    SideScreen > .frame {
        width: 100%; max-width: 132; height: 1fr; max-height: 28; margin: 0 0 1 0; padding: 0;
        background: $background; border: round $line; border-title-color: $primary;
        border-title-style: bold; border-subtitle-color: $quiet;
    }
    SideScreen .rule { height: 1; border-top: solid $line; }
    SideScreen LineField, SideScreen LineField:focus {
        border: none; height: 1; padding: 0 1; background: $band; margin: 0 1 1 1;
    }
    SideScreen LineField > .input--placeholder { color: $quiet; }
    SideScreen KeyLine { margin-top: 1; }
    SideScreen PickList { padding: 0 1; }
    SideScreen TextScrollView { padding: 0 1; scrollbar-size-vertical: 1; }
    """

    def __init__(self, controller: Controller) -> None:
        super().__init__(classes="side")
        self._controller = controller
        self._keys = KeyLine()
        self._frame = Vertical(classes="frame")
        self._frame.border_title = self.TITLE_WORDS

    def compose(self) -> ComposeResult:
        with self._frame:
            yield from self.parts()
            yield self._keys

    def parts(self) -> list[Widget]:
        raise NotImplementedError

    def on_mount(self) -> None:
        self.watch(self.app, "theme", self.theme_changed, init=False)

    def theme_changed(self) -> None:
        """Other colours hold from now on; what draws itself anew has them already."""

    def call(self, words: str) -> None:
        """What the frame says above it all."""
        self._frame.border_title = Content(words)

    def tell(self, words: str) -> None:
        """Beside the frame's foot: how many there are, or what goes on."""
        self._frame.border_subtitle = Content(words)

    def change_keys(self) -> None:
        """Other keys mean something now."""
        self.refresh_bindings()
        self._keys.refresh()

    def action_close(self) -> None:
        self.dismiss(None)


SCROLLING: list[BindingType] = [
    Binding("up", "scroll_lines(-1)", "Up", show=False),
    Binding("down", "scroll_lines(1)", "Down", show=False),
    Binding("pageup", "scroll_pages(-1)", "A page up", show=False),
    Binding("pagedown,space", "scroll_pages(1)", "A page down", show=False),
    Binding("home", "scroll_far(-1)", "To the beginning", show=False),
    Binding("end", "scroll_far(1)", "To the end", show=False),
]


class ReadingScreen(SideScreen[R]):
    """A screen with a text to read."""

    DEFAULT_CSS = "ReadingScreen > .frame { max-height: 42; }"
    BINDINGS: ClassVar[list[BindingType]] = SCROLLING

    def __init__(self, controller: Controller) -> None:
        super().__init__(controller)
        self.scroll_view = TextScrollView()
        self._write: Write = lambda width: []

    def parts(self) -> list[Widget]:
        return [self.scroll_view]

    def write(self, write: Write) -> None:
        """Show another text, from its beginning."""
        self._write = write
        self.scroll_view.show(write)

    def write_on(self, write: Write) -> None:
        """Show another text, scrolled to where it was."""
        where = self.scroll_view.scroll_y
        self.write(write)
        self.scroll_view.scroll_to(y=where, animate=False)

    def theme_changed(self) -> None:
        self.write_on(self._write)

    def action_scroll_lines(self, by: int) -> None:
        self.scroll_view.scroll_relative(y=by, animate=False)

    def action_scroll_pages(self, by: int) -> None:
        self.scroll_view.scroll_relative(
            y=by * max(1, self.scroll_view.size.height - 1), animate=False
        )

    def action_scroll_far(self, way: int) -> None:
        self.scroll_view.scroll_to(y=0 if way < 0 else self.scroll_view.max_scroll_y, animate=False)
