"""The keys of the app, wherever the focus is."""

from textual.binding import Binding, BindingType

APP_KEYS: list[BindingType] = [
    Binding("escape", "back", "Close what is open, stop the work, or clear", priority=True),
    Binding("ctrl+c", "interrupt", "Leave, pressed twice", priority=True),
    Binding("tab", "next_place", "Input, question, conversation", priority=True),
    Binding("shift+tab", "next_mode", "Next mode", priority=True),
    Binding("ctrl+m", "next_mode", "Next mode", priority=True, system=True),
    Binding("pageup", "page(-1)", "Half a page up", show=False, priority=True),
    Binding("pagedown", "page(1)", "Half a page down", show=False, priority=True),
    Binding("ctrl+o", "unfold_all", "Unfold or fold everything", priority=True),
    Binding("ctrl+t", "todos", "What is to be done", priority=True),
    Binding("ctrl+b", "background", "Let the running command run on", priority=True),
    Binding("ctrl+y", "copy", "Copy what is marked, or the last answer", priority=True),
    Binding("ctrl+l", "change_look", "Dark or light", priority=True),
    Binding("ctrl+z", "suspend_process", "To the shell; `fg` comes back", priority=True),
    Binding("f1", "command('help')", "Help", priority=True),
    Binding("f2,ctrl+r", "command('tasks')", "Earlier tasks", priority=True),
    Binding("f3", "command('checkpoints')", "Checkpoints", priority=True),
    Binding("f4", "command('model')", "Model", priority=True),
    Binding("f5", "command('tree')", "Tasks that work for this one", priority=True),
    Binding("f6", "command('queue')", "What is not heard yet", priority=True),
    Binding("f7", "command('cost')", "What it cost", priority=True),
]
BEHIND_A_SIDE_SCREEN = ("interrupt", "leave", "command", "copy", "change_look", "suspend_process")
"""What keys do behind a side screen too."""
