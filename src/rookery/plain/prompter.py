"""Asks questions on a plain terminal: approvals, yes/no and free text.

Everything the user approves must be shown in full and with invisible characters made visible
(`plainly_visible`, `visible_line`).
"""

import os
from collections.abc import Awaitable, Callable

import anyio

from rookery.core.asks import APPROVALS, AskKind, Choice, question_lines, reply_of
from rookery.core.facts import Asked
from rookery.core.modes import Level
from rookery.core.plans import BARE_ANSWERS, comment_on, plan_steps
from rookery.core.text.terminal_text import (
    folded_diff,
    harmless,
    harmless_line,
    plainly_visible,
    visible_line,
)
from rookery.plain.client_lines import YES, LineUse, Read
from rookery.plain.keyboard import Keyboard
from rookery.plain.screen import LEFT_AT_PROMPT, Screen
from rookery.protocol.attend import Leave, Response, Say
from rookery.protocol.codec import OfferedAnswer, ceiling, chosen, followup, suggestions
from rookery.protocol.outcomes import first_answer
from rookery.protocol.slash_words import LEAVING

_NO = {"n", "no"}
_LEFT = Leave(LEFT_AT_PROMPT, code="task_aborted")
_CHOICE_KEYS: dict[Choice, str] = {"task": "t", "expand": "e", "halt": "s"}
LONG_DIFF = 15
"""Diff lines after which the title is repeated below the diff."""

_LEVELS = {"a": Level.ASK, "e": Level.EDITS, "u": Level.AUTO}
_PLAN_KEYS = """\
a  carry it out, and ask before each change
e  carry it out, and edit files without asking
u  carry it out without asking
o  open it in your editor first
Anything else is a comment. The model then presents a new version."""
_PLAN_UNCLEAR = "Type a, e or u to carry it out, or say what to change."
_PLAN_QUESTION = "Carry out this plan? [a/e/u/o, or a comment] "


class Prompter:
    """Asks the user at a terminal. End of input leaves the session."""

    def __init__(
        self,
        keyboard: Keyboard,
        screen: Screen,
        *,
        opening: str = "",
        handle_line: Callable[[str, Read], Awaitable[LineUse]] | None = None,
        patience: Callable[[], float | None] = lambda: None,
        keeps_mode: bool = False,
        level: Callable[[], Level | None] = lambda: None,
    ) -> None:
        """`handle_line` handles client commands. `patience` returns the seconds after which a
        follow-up question is answered automatically, or None. With `keeps_mode` such an answer
        does not switch the mode. `level` is shown in front of every question."""
        self._keyboard = keyboard
        self._screen = screen
        self._opening = opening
        self._handle_line = handle_line
        self._patience = patience
        self._keeps_mode = keeps_mode
        self._level = level
        self._lock = anyio.Lock()

    @property
    def is_active(self) -> bool:
        """Whether a question is being asked."""
        return self._lock.locked()

    async def __call__(self, asked: Asked) -> Response:
        async with self._lock:
            return await self._ask(asked)

    async def _ask(self, asked: Asked) -> Response:
        match asked.ask:
            case AskKind.FOLLOWUP:
                return await self._ask_followup(asked)
            case AskKind.COMPLETION_RESULT if asked.plan:
                return await self._ask_about_plan(asked)
            case AskKind.COMPLETION_RESULT:
                return await self._ask_next()
            case AskKind.RESUME_TASK | AskKind.RESUME_COMPLETED_TASK if self._opening:
                opening, self._opening = self._opening, ""
                return Say("message", opening)
            case AskKind.RESUME_TASK:
                return await self._ask_to_continue("Continue? [Y/n, or say what to do instead] ")
            case AskKind.RESUME_COMPLETED_TASK:
                return Say("yes", by="policy")  # the completion question follows
            case ask if ask in APPROVALS:
                return await self._approve(asked)
            case AskKind.AUTO_APPROVAL_MAX_REQ_REACHED:
                self._screen.sentence(self._screen.paint.yellow(ceiling(asked.text)))
                return await self._ask_to_continue("Continue? [y/N] ", False)
            case AskKind.MISTAKE_LIMIT_REACHED:
                self._screen.sentence(self._screen.paint.yellow(harmless(asked.text)))
                return await self._ask_to_continue("Try again? [Y/n, or a hint] ")
            case _:
                question = "Try again? [y/N, or /model NAME for another model] "
                return await self._ask_to_continue(question, False)

    async def _approve(self, asked: Asked) -> Response:
        self._show_action(asked)
        choices = "y/n/a" if asked.rule else "/".join(["y", "n", *_choice_keys(asked)])
        choices += "/p" if asked.prefix else ""
        question = f"Approve? [{choices}, or say why not] "
        if asked.title.endswith("?"):  # the title is the question
            question = f"[{choices}] "
        while (line := await self._line(question)) is not None:
            match line.strip().lower():
                case word if word in YES:
                    return Say("yes")
                case word if word in _NO:
                    return Say("no")
                case word if word in (offered := _choice_keys(asked)):
                    return Say(reply_of(offered[word]), choice=offered[word])
                case "a" | "always" | "p" as word if rule := (
                    asked.prefix if word == "p" else asked.rule
                ):
                    sure = await self._confirm_rule(rule)
                    if sure is None:
                        break
                    if sure:
                        return Say("yes", always=word != "p", prefix=word == "p")
                case word if word in LEAVING:
                    break
                case "":
                    continue
                case word if len(word) == 1 and word.isdecimal():
                    self._screen.line("Nothing was answered. Type y for yes or n for no.")
                case _:
                    return Say("no", line.strip())
        return _LEFT

    def _show_action(self, asked: Asked) -> None:
        """Print the whole action; the most important part comes last, next to the prompt."""
        screen, paint = self._screen, self._screen.paint
        if asked.ask is AskKind.COMMAND:
            where = f" in {visible_line(asked.cwd)}" if asked.cwd else ""
            screen.line(paint.bold(f"Run this command{where}:"))
            screen.line("  " + plainly_visible(asked.text).replace("\n", "\n  "))
            if asked.where:
                screen.sentence(visible_line(asked.where), paint.dim, margin="  ")
        else:
            subject = paint.bold(visible_line(asked.title or asked.text))
            screen.line(subject)
            screen.line(paint.diff(folded_diff(asked.diff)))
            if asked.diff.count("\n") > LONG_DIFF:
                screen.line(subject)
        for note in asked.notes:
            screen.sentence(
                f"! {visible_line(note)}", lambda line: paint.yellow(paint.bold(line)), margin="  "
            )
        if asked.governance:
            for line in question_lines(asked.governance):
                screen.sentence(visible_line(line), paint.dim, margin="  ")

    async def _confirm_rule(self, rule: str) -> bool | None:
        """Ask to confirm the rule, shown in full. Returns None at the end of input."""
        question = f"Always allow {plainly_visible(rule)}? [y/n] "
        while (line := await self._line(question)) is not None:
            word = line.strip().lower()
            if word in YES | _NO:
                return word in YES
        return None

    async def _ask_followup(self, asked: Asked) -> Response:
        question, _ = followup(asked.text)
        offered = suggestions(asked.text)
        by = f"{harmless_line(asked.agent)}: " if asked.agent else ""
        self._screen.sentence(self._screen.paint.bold(f"{by}{harmless(question)}"))
        for number, each in enumerate(offered, 1):
            hint = f" (switches to {harmless_line(each.mode)} mode)" if each.mode else ""
            self._screen.sentence(f"  {number}. {harmless_line(each.answer)}{hint}")
        patience = None if asked.title else self._patience()
        if answer := await self._answer_before_timeout(patience, offered):
            return answer
        while (line := await self._line("> ")) is not None:
            if line.strip():
                return self._say_answer(line, offered)
        return _LEFT

    def _say_answer(self, line: str, offered: list[OfferedAnswer]) -> Say:
        answer = chosen(line, offered)
        if answer.answer != line.strip():
            self._screen.line(self._screen.paint.dim(f"  {harmless_line(answer.answer)}"))
        return Say("message", answer.answer, mode=answer.mode)

    async def _answer_before_timeout(
        self, seconds: float | None, offered: list[OfferedAnswer]
    ) -> Say | None:
        """Wait `seconds` for the user, then answer automatically. Returns None if the user has
        to be asked without a time limit."""
        if seconds is None:
            return None
        if seconds:
            notice = "answering 1" if offered else "the model decides"
            await self._keyboard.drain_typed()
            self._screen.ask(f"({notice} in {seconds:.3g} s, unless you type) > ")
            try:
                typed = await self._keyboard.line_within(seconds, self._screen.echo)
            finally:
                self._screen.close_question()
            if not (typed.timed_out or typed.cancelled):
                return await self._answer_typed(typed.value, offered)
        return first_answer(offered, keeps_mode=self._keeps_mode)

    async def _answer_typed(self, line: str, offered: list[OfferedAnswer]) -> Say | None:
        handle, read = self._handle_line, self._read_line
        if not line.strip() or (handle and await handle(line, read) is not LineUse.NOT_OURS):
            return None
        return self._say_answer(line, offered)

    async def _ask_next(self) -> Response:
        line = await self._line("Done. [Enter accepts, or say what else to do] ")
        if line is None or line.strip().lower() in {"", *YES, *LEAVING}:
            return Say("yes")
        return Say("message", line.strip())

    async def _ask_to_continue(self, question: str, default: bool = True) -> Response:
        line = await self._line(question)
        match (line or "").strip().lower():
            case _ if line is None:
                return _LEFT
            case "":
                return Say("yes") if default else _LEFT
            case word if word in YES:
                return Say("yes")
            case word if word in _NO | {"q", "quit"}:
                return _LEFT
            case _:
                assert line
                return Say("message", line.strip())

    async def _ask_about_plan(self, asked: Asked) -> Response:
        plan = asked.plan
        for row in _PLAN_KEYS.splitlines():
            self._screen.line(self._screen.paint.dim(f"  {row}"))
        while (line := await self._line(_PLAN_QUESTION)) is not None:
            word = line.strip().lower()
            if level := _LEVELS.get(word):
                return Say("message", plan, level=level)
            if word == "o":
                plan = self._edited_plan(plan)
            elif word in BARE_ANSWERS:
                self._screen.sentence(_PLAN_UNCLEAR)
            elif word:
                return Say("message", comment_on(plan, line.strip(), proposed=asked.plan))
        return _LEFT

    def _edited_plan(self, plan: str) -> str:
        """The plan after editing; unchanged if the editor fails."""
        from rookery.platform.editor import edit_text

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

    async def _line(self, question: str) -> str | None:
        """Ask until a line is an answer rather than a client command. Returns None at the end of
        input."""
        while (line := await self._read_line(question)) is not None and self._handle_line:
            match await self._handle_line(line, self._read_line):
                case LineUse.NOT_OURS:
                    break
                case LineUse.DONE:
                    continue
                case LineUse.LEAVES:
                    return None
                case LineUse.OVERTAKEN:
                    await anyio.sleep_forever()  # cancelled when the question is closed
        return line

    async def _read_line(self, question: str) -> str | None:
        await self._keyboard.drain_typed()
        level = self._level()
        self._screen.ask(f"{level} · {question}" if level else question)
        try:
            line = await self._keyboard.line()
        finally:
            self._screen.close_question()
        if line is not None:
            self._screen.enter()
        return line


def _choice_keys(asked: Asked) -> dict[str, Choice]:
    """Keys for the choices of a governance question besides yes and no."""
    offered = asked.governance.choices if asked.governance else ()
    return {_CHOICE_KEYS[each]: each for each in offered}
