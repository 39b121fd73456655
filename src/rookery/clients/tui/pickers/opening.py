"""Which picker a trigger opens."""

from rookery.clients.tui.pickers.commands import CommandPicker
from rookery.clients.tui.pickers.paths import PathPicker
from rookery.clients.tui.pickers.picker import Picker
from rookery.clients.tui.pickers.shell import ShellPicker
from rookery.clients.tui.pickers.shortcuts import ShortcutPicker
from rookery.clients.tui.pickers.tasks import HistoryPicker
from rookery.clients.tui.seam import Desk

PICKERS: dict[str, type[Picker]] = {
    "/": CommandPicker,
    "@": PathPicker,
    "!": ShellPicker,
    "#": HistoryPicker,
    "?": ShortcutPicker,
}


def picker_for(trigger: str, desk: Desk) -> Picker:
    return PICKERS[trigger](desk)
