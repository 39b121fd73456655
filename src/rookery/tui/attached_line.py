"""The line above the input area that tells which pictures go with the next words."""

from collections.abc import Sequence

from rich.text import Text
from textual.widgets import Static

from rookery.core.text.terminal_text import harmless_line
from rookery.tui.attachments import Attached
from rookery.tui.rows.lines import cut
from rookery.tui.rows.picture_line import labels
from rookery.tui.theme import Look


def attached_line(attached: Sequence[Attached], width: int) -> Text:
    """Where there is no room for all, the last are shown: those are the first to be removed."""
    parts = labels((harmless_line(each.name), each.image) for each in attached)
    line = Text("  ".join(parts))
    while len(parts) > 1 and line.cell_len > width:
        parts = parts[1:]
        line = Text("  ".join(["…", *parts]))
    return cut(line, width)


class AttachedLine(Static):
    def __init__(self, look: Look) -> None:
        super().__init__()
        self.look = look
        self._attached: Sequence[Attached] = ()

    def show(self, attached: Sequence[Attached]) -> None:
        self._attached = attached
        self.display = bool(attached)
        self.refresh()

    def wear(self, look: Look) -> None:
        self.look = look
        self.refresh()

    def render(self) -> Text:
        line = attached_line(self._attached, max(20, self.content_size.width))
        line.stylize(self.look.ink(self.look.accent))
        return line
