"""A command for the user's own shell, behind `!`."""

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from rookery.tui.interfaces import Choice, Desk
from rookery.tui.pickers.picker import Picker

if TYPE_CHECKING:
    from textual.app import App


class ShellPicker(Picker):
    """There is one row: the line that would be run."""

    PAUSE = 0.0
    NOTHING = "Type a command for your own shell; the model does not see it."

    def known(self, text: str) -> Sequence[Choice]:
        if not text.strip():
            return ()
        run = partial(run_in_shell, self.app, self._desk, text.strip())
        return [Choice(label=f"$ {text.strip()}", detail="Enter runs it as you", action=run)]


def shell_line(text: str) -> str:
    """The command in a line that begins with `!`, which is never for the model."""
    line = text.strip()
    return line[1:].strip() if line.startswith("!") and "\n" not in line else ""


async def run_in_shell(app: "App[Any]", desk: Desk, command: str) -> None:
    from rookery.tui.screens.shell_screen import ShellScreen

    app.push_screen(ShellScreen(desk, command))
