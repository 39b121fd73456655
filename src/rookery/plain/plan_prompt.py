"""The question about a plan on a plain terminal: approve it with a level, edit it, or comment."""

import os
from collections.abc import Awaitable, Callable

from rookery.core.facts import Asked
from rookery.core.modes import Level
from rookery.core.plans import BARE_ANSWERS, comment_on, plan_steps
from rookery.core.text.terminal_text import harmless, visible_line
from rookery.plain.screen import LEFT_AT_PROMPT, Screen
from rookery.platform.editor import edit_text
from rookery.protocol.attend import Leave, Response, Say

_LEVELS = {"a": Level.ASK, "e": Level.EDITS, "u": Level.AUTO}
_KEYS = """\
a  carry it out, and ask before each change
e  carry it out, and edit files without asking
u  carry it out without asking
o  open it in your editor first
Anything else is a comment. The model then presents a new version."""
_UNCLEAR = "Type a, e or u to carry it out, or say what to change."
_QUESTION = "Carry out this plan? [a/e/u/o, or a comment] "


class PlanPrompt:
    """`line` asks for a line; None at the end of input."""

    def __init__(self, screen: Screen, line: Callable[[str], Awaitable[str | None]]) -> None:
        self._screen = screen
        self._line = line

    async def ask(self, asked: Asked) -> Response:
        plan = asked.plan
        for row in _KEYS.splitlines():
            self._screen.line(self._screen.paint.dim(f"  {row}"))
        while (line := await self._line(_QUESTION)) is not None:
            word = line.strip().lower()
            if level := _LEVELS.get(word):
                return Say("message", plan, level=level)
            if word == "o":
                plan = self._edited(plan)
            elif word in BARE_ANSWERS:
                self._screen.sentence(_UNCLEAR)
            elif word:
                return Say("message", comment_on(plan, line.strip(), proposed=asked.plan))
        return Leave(LEFT_AT_PROMPT, code="task_aborted")

    def _edited(self, plan: str) -> str:
        """The plan after editing; unchanged if the editor fails."""
        try:
            text = edit_text(plan, os.environ, "plan.md")
        except (OSError, ValueError) as error:
            self._screen.sentence(f"Could not use the editor: {harmless(str(error))}")
            return plan
        if text is None:
            self._screen.sentence("The editor failed, so the plan is unchanged.")
            return plan
        if not text.strip():
            self._screen.sentence("The file was empty, so the plan is unchanged.")
            return plan
        for step in plan_steps(text):
            self._screen.line(f"  ☐ {visible_line(step.content)}")
        self._screen.sentence("Your version is the plan now.")
        return text
