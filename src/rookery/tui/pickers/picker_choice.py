"""Which picker a trigger opens."""

from rookery.tui.interfaces import Desk
from rookery.tui.pickers.command_picker import CommandPicker
from rookery.tui.pickers.path_picker import PathPicker
from rookery.tui.pickers.picker import Picker
from rookery.tui.pickers.shell_picker import ShellPicker
from rookery.tui.pickers.shortcut_picker import ShortcutPicker
from rookery.tui.pickers.task_picker import HistoryPicker

PICKERS: dict[str, type[Picker]] = {
    "/": CommandPicker,
    "@": PathPicker,
    "!": ShellPicker,
    "#": HistoryPicker,
    "?": ShortcutPicker,
}


def picker_for(trigger: str, desk: Desk) -> Picker:
    return PICKERS[trigger](desk)
