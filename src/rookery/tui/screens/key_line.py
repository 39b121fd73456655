"""The keys of a screen, as its bindings say, on one line. Each can be clicked."""

from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct
from rich.text import Text
from textual import events
from textual.binding import Binding, BindingType
from textual.dom import DOMNode
from textual.widget import Widget

from rookery.tui.pickers.current_theme import worn
from rookery.tui.rows.lines import cut

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
        look = worn(self)
        line = Text(no_wrap=True, end="")
        self._places = []
        for use in self._uses():
            begin = line.cell_len
            line.append(use.key.partition(" or ")[0], look.ink(look.accent, bold=True))
            line.append(f" {use.what}", look.ink(look.quiet))
            self._places.append((begin, line.cell_len, use.action))
            line.append("   ")
        return cut(line, self.content_size.width)

    async def on_click(self, event: events.Click) -> None:
        offset = event.get_content_offset(self)
        for begin, end, action in self._places:
            if offset is not None and begin <= offset.x < end:
                event.stop()
                await self.screen.run_action(action)
