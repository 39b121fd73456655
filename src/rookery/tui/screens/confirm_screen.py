"""A question before something that cannot be taken back."""

from typing import ClassVar

from rich.text import Text
from textual.binding import Binding, BindingType
from textual.widget import Widget
from textual.widgets import Static

from rookery.core.text.terminal_text import visible_line
from rookery.tui.interfaces import Desk
from rookery.tui.screens.side_screen import SideScreen


class Confirming(SideScreen[bool]):
    """Only `y` is a yes: Enter may have been meant for what was there before."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "agree", "yes"),
        Binding("n", "close", "no", show=False),
        Binding("escape", "close", "no"),
    ]
    DEFAULT_CSS = """
    Confirming > .frame { width: 64; height: auto; }
    Confirming Static { height: auto; padding: 1 1 0 1; }
    """

    def __init__(self, desk: Desk, title: str, what: str) -> None:
        super().__init__(desk)
        self._heading = title
        self._what = what

    def parts(self) -> list[Widget]:
        return [Static(Text(visible_line(self._what)))]

    def on_mount(self) -> None:
        super().on_mount()
        self.call(self._heading)

    def action_agree(self) -> None:
        self.dismiss(True)

    def action_close(self) -> None:
        self.dismiss(False)
