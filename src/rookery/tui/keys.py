"""Every key of the full screen, by the place where it works.

`?` and F1 list these tables. Textual's own keys of text fields are not repeated here.
"""

from textual.binding import Binding, BindingType

ASKS_TWICE = ("escape", "ctrl+c", "ctrl+d")
"""Keys of which only the second in a row acts."""

APP_KEYS: list[BindingType] = [
    Binding("escape", "back", "Close, stop the work, or clear the input", priority=True),
    Binding("ctrl+c", "interrupt", "Exit (press twice)", priority=True),
    Binding("tab", "next_place", "Question, conversation, input", priority=True),
    Binding("shift+tab", "next_level", "Level: ask, edits, plan, sandboxed, auto", priority=True),
    Binding("f8", "next_mode", "Next mode", priority=True),
    Binding("ctrl+m", "next_mode", "Next mode", priority=True, system=True),
    Binding("pageup", "page(-1)", "Half a page up", show=False, priority=True),
    Binding("pagedown", "page(1)", "Half a page down", show=False, priority=True),
    Binding("end", "follow", "Follow the conversation", show=False, priority=True),
    Binding("ctrl+g", "edit_draft", "Write in your own editor (or Ctrl+X Ctrl+E)", priority=True),
    Binding("ctrl+o", "unfold_all", "Unfold or fold everything", priority=True),
    Binding("ctrl+f", "find", "Search in the conversation", priority=True),
    Binding("ctrl+t", "todos", "To-do list", priority=True),
    Binding("ctrl+b", "background", "Move the running command to the background", priority=True),
    Binding("ctrl+y", "copy", "Copy the selection or the last answer", priority=True),
    Binding("ctrl+l", "redraw", "Redraw the screen", priority=True),
    Binding("ctrl+z", "suspend_process", "Suspend; `fg` returns", priority=True),
    Binding("f1", "command('help')", "Help", priority=True),
    Binding("f2,ctrl+r", "command('tasks')", "Earlier tasks", priority=True),
    Binding("f3", "command('checkpoints')", "Checkpoints", priority=True),
    Binding("f4", "command('model')", "Model", priority=True),
    Binding("f5", "command('tree')", "Sub-tasks", priority=True),
    Binding("f6", "command('queue')", "Queued messages", priority=True),
    Binding("f7", "command('cost')", "Cost", priority=True),
]

COMPOSER_KEYS: list[BindingType] = [
    Binding("enter", "submit", "Send", show=False, priority=False),
    Binding("shift+enter,alt+enter,ctrl+j", "break_line", "New line", show=False),
    Binding("ctrl+underscore", "undo", "Undo in the input", show=False),
    Binding("ctrl+v", "attach", "Attach the image in the clipboard", show=False),
    Binding("backspace", "erase", "In an empty input: remove the last image", show=False),
]

TRANSCRIPT_KEYS: list[BindingType] = [
    Binding("up", "scroll_by(-1)", "Scroll up", show=False),
    Binding("down", "scroll_by(1)", "Scroll down", show=False),
    Binding("pageup", "half_page(-1)", "Half a page up", show=False),
    Binding("pagedown", "half_page(1)", "Half a page down", show=False),
    Binding("ctrl+a,home", "to_top", "To the beginning", show=False),
    Binding("ctrl+e,end", "to_bottom", "To the end", show=False),
    Binding("k", "mark(-1)", "Select the row above", show=False),
    Binding("j", "mark(1)", "Select the row below", show=False),
    Binding("enter,space", "unfold", "Unfold or fold the selected row", show=False),
]

PANEL_KEYS = [
    Binding("y", "yes", "Yes", show=False),
    Binding("n", "no", "No", show=False),
    Binding("a", "always", "Always", show=False),
    Binding("p", "always_prefix", "Always, for commands that start like this", show=False),
    Binding("t", "for_task", "Yes, for the rest of the task", show=False),
    Binding("e", "expand", "Yes, and add it to the scope", show=False),
    Binding("s", "halt", "No, and stop the task", show=False),
    Binding("r", "reason", "No, with a reason", show=False),
    Binding("enter", "choose", "Choose", show=False),
    Binding("up", "move(-1)", "Up", show=False),
    Binding("down", "move(1)", "Down", show=False),
    Binding("pageup", "page(-1)", "Page up", show=False),
    Binding("pagedown", "page(1)", "Page down", show=False),
    Binding("home", "far(-1)", "To the beginning", show=False),
    Binding("end", "far(1)", "To the end", show=False),
    *(Binding(str(n), f"pick({n})", f"Suggestion {n}", show=False) for n in range(1, 10)),
]

FIND_KEYS: list[BindingType] = [
    Binding("up,enter", "step(-1)", "The match above", show=False),
    Binding("down,shift+enter", "step(1)", "The match below", show=False),
]

SCROLLING: list[BindingType] = [
    Binding("up", "scroll_lines(-1)", "Up", show=False),
    Binding("down", "scroll_lines(1)", "Down", show=False),
    Binding("pageup", "scroll_pages(-1)", "A page up", show=False),
    Binding("pagedown,space", "scroll_pages(1)", "A page down", show=False),
    Binding("home", "scroll_far(-1)", "To the beginning", show=False),
    Binding("end", "scroll_far(1)", "To the end", show=False),
]

MOVING: list[BindingType] = [
    Binding("up", "move(-1)", "Up", show=False),
    Binding("down", "move(1)", "Down", show=False),
    Binding("pageup", "page(-1)", "A page up", show=False),
    Binding("pagedown", "page(1)", "A page down", show=False),
]


def enter_binding(what: str) -> list[BindingType]:
    """Bind Enter in a list. `what` describes its effect."""
    return [Binding("enter", "take", what)]


CLOSING: list[BindingType] = [
    Binding("escape", "close", "close"),
]

SHELL_KEYS: list[BindingType] = [
    Binding("enter", "keep", "keep the output for your next message"),
    Binding("escape", "stop", "stop"),
    Binding("escape", "close", "close"),
]

RESTORE_KEYS: list[BindingType] = [
    Binding("y", "go_back", "rewind"),
    Binding("o", "overwrite", "overwrite changes of others"),
    Binding("escape", "close", "cancel"),
]

CHECKPOINT_KEYS: list[BindingType] = [
    Binding("b,enter", "back('BOTH')", "rewind"),
    Binding("f", "back('FILES')", "only files"),
    Binding("c", "back('CONVERSATION')", "only conversation"),
    Binding("t", "only_step", "one step"),
    Binding("up", "move(-1)", "Up", show=False),
    Binding("down", "move(1)", "Down", show=False),
    Binding("pageup", "scroll_pages(-1)", "Changes: a page up", show=False),
    Binding("pagedown,space", "scroll_pages(1)", "Changes: a page down", show=False),
]

TASK_LIST_KEYS: list[BindingType] = [
    Binding("enter", "take", "open"),
    Binding("ctrl+d", "delete", "delete", priority=True),
]

CONFIRM_KEYS: list[BindingType] = [
    Binding("y", "agree", "yes"),
    Binding("n", "close", "no", show=False),
    Binding("escape", "close", "no"),
]

MESSAGE_FIELD_KEYS: list[BindingType] = [
    Binding("shift+enter,alt+enter,ctrl+j", "break_line", "New line", show=False),
]

QUEUE_KEYS: list[BindingType] = [
    Binding("enter,e", "change", "change"),
    Binding("d,delete", "drop", "remove"),
    Binding("enter,ctrl+s", "keep", "save the change"),
]

PERMISSION_KEYS: list[BindingType] = [
    Binding("enter", "take", "use this level"),
    Binding("ctrl+d", "remove", "remove the rule", priority=True),
]
