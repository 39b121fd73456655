"""What the keys of the full screen do, outside of the input area, panels and side screens."""

import time
from collections.abc import Awaitable, Sequence

from msgspec import Struct
from msgspec.structs import replace
from textual.actions import SkipAction
from textual.widget import Widget

from rookery.core.asks import AskKind
from rookery.core.commands import SwitchApproval, SwitchMode
from rookery.core.facts import Asked
from rookery.core.modes import GUARD, Level, next_level
from rookery.core.plans import PLAN_ANSWERS
from rookery.core.queries import AskModes, AskPermissions
from rookery.errors import CommandRejected
from rookery.protocol.attend import Fate, RunEnd, Say
from rookery.tui.own_commands import run_command
from rookery.tui.question_page import has_key_problem
from rookery.tui.rows.lines import RowKind
from rookery.tui.session_view import BUSY, OpenQuestion
from rookery.tui.status_updates import REWIND_AGAIN, STOP_AGAIN
from rookery.tui.task_controller import TaskController
from rookery.tui.theme import THEMES, load_themes, textual_theme
from rookery.tui.vim_keys import VimState

MOMENT = 1.0
"""Seconds in which a session confirms a new level."""
CLEARED = "Cleared. ↑ brings it back."


def next_name(here: str, names: Sequence[str]) -> str:
    """The next name, wrapping around; the first if `here` is not among them."""
    at = names.index(here) if here in names else -1
    return names[(at + 1) % len(names)]


class ChosenLevel(Struct, frozen=True, kw_only=True):
    """The level that a key has just chosen, while the screen still shows the one before: a second
    press at once goes on from here."""

    level: Level = Level.ASK
    shown: Level | None = None
    at: float = 0.0

    def holds(self, shown: Level) -> bool:
        return self.shown is shown and time.monotonic() - self.at < MOMENT


class KeyActions(TaskController):
    _level_chosen = ChosenLevel()
    _tab_from: Widget | None = None
    """What had the focus before Tab moved it to the question."""

    async def action_command(self, name: str) -> None:
        if len(self.screen_stack) <= 1:
            await run_command(f"/{name}", self, self)

    async def action_interrupt(self) -> None:
        if len(self.screen_stack) <= 1 and self._picker_control.is_picking:
            await self._picker_control.cancel()
            return
        if self._status_updates.is_leaving:
            await self.action_leave()
        else:
            self._status_updates.warn_before_exit()

    async def action_leave(self) -> None:
        question = self._session.question
        done = question and question.asked.ask is AskKind.COMPLETION_RESULT
        if question and done and not question.asked.plan:
            await self.send(question.answer(Say("yes")))
        self.exit(RunEnd(Fate.LEFT))

    async def action_quit(self) -> None:
        await self.action_leave()

    async def action_back(self) -> None:
        """Close what is open, else stop the work, else clear the input."""
        page = self._page
        can_leave_mode = page.composer.has_focus and not self._picker_control.is_open
        if can_leave_mode and page.composer.leave_insert_mode():
            return
        if await self._picker_control.cancel():
            self.give_keys_back()
            return
        if page.panel.has_focus and page.panel.back():
            return
        if page.panel.takes_text and page.composer.has_focus:
            page.panel.focus()
            return
        asking = page.panel.asked is not None
        stops = self._session.is_working or (asking and self._status_updates.was_warned(STOP_AGAIN))
        if stops and (stop := self._session.stop()):
            self._status_updates.clear_escape_warning()
            await self.send(stop)
        elif asking and page.composer.has_focus and page.composer.text:
            page.composer.clear_draft()
            self._questions.input_emptied()
            self.toast(CLEARED)
            return
        elif asking:
            self._status_updates.warn_before_escape(STOP_AGAIN)
        elif page.composer.text:
            page.composer.clear_draft()
            self.toast(CLEARED)
        elif self._attachments.attached:
            self._attachments.clear()
        elif self._status_updates.was_warned(REWIND_AGAIN):
            self._status_updates.clear_escape_warning()
            await self.action_command("checkpoints")
            return
        elif self.task_id:
            self._status_updates.warn_before_escape(REWIND_AGAIN)
        page.composer.focus()

    def give_keys_back(self) -> None:
        """Let keys answer the open question again, once a command or a list is done with them."""
        if not (self._page.composer.text or self._picker_control.is_open):
            self._questions.input_emptied()

    async def action_next_place(self) -> None:
        """Move to the open question first, and from there to the place not visited last."""
        page = self._page
        if self._picker_control.is_picking:
            await self._picker_control.key("tab")
            return
        here = self._tab_from if page.panel.has_focus else self.focused
        if page.panel.asked and not page.panel.has_focus:
            self._tab_from = here
            page.panel.focus()
        elif here is page.transcript:
            page.composer.focus()
        else:
            page.transcript.focus()

    async def answer_plan(self, question: OpenQuestion, shown: Asked, answer: str) -> None:
        """Approve the plan as it is shown, or open it in the user's editor."""
        if level := PLAN_ANSWERS.get(answer):
            approved = question.answer(Say("message", shown.plan, level=level))
            await self._questions.answer(question, approved)
        else:
            text = await self._drafting.edited_plan(shown.plan)
            self._questions.show_again(replace(shown, plan=text))

    async def action_next_level(self) -> None:
        """Change the level of the session, or of the next one."""
        try:
            known = await self.ask(AskPermissions())
        except CommandRejected as refusal:
            self.toast(str(refusal), "warning")
            return
        shown = self._status_updates.level
        here = self._level_chosen.level if self._level_chosen.holds(shown) else shown
        level = next_level(here, sandboxed=Level.SANDBOXED in known.levels)
        if await self.send(SwitchApproval(task_id=self.task_id or "", level=level)):
            self._level_chosen = ChosenLevel(level=level, shown=shown, at=time.monotonic())
            guard = f" {GUARD}" if level is Level.AUTO else ""
            self.toast(f"{level.sentence.capitalize()}.{guard}")
            self._status_updates.update_all()

    async def action_next_mode(self) -> None:
        modes = [mode.slug for mode in await self.ask(AskModes())]
        if self._session.is_working:
            self.toast(BUSY, "warning")
        elif len(modes) < 2:
            self.toast("There is only one mode.")
        else:
            await self.action_use_mode(next_name(self._status_updates.mode_now, modes))

    async def action_use_mode(self, mode: str) -> None:
        """Switch the mode of the session, or of the next one."""
        if await self.send(SwitchMode(task_id=self.task_id or "", mode=mode)):
            self.toast(f"Mode: {mode}", "success")
            self._status_updates.update_header()

    def action_page(self, direction: int) -> None:
        """Scroll the conversation, or first a question that does not fit."""
        panel = self._page.panel
        if panel.has_focus and not panel.body.fits_view:
            panel.action_page(direction)
        else:
            self._page.transcript.action_half_page(direction)

    def action_follow(self) -> None:
        """Show the end of the conversation, unless text or a long question needs the key."""
        page = self._page
        in_question = page.panel.has_focus and page.panel.body.fits_view
        if not (in_question or (page.composer.has_focus and not page.composer.text)):
            raise SkipAction
        page.transcript.action_to_bottom()

    def action_unfold_all(self) -> None:
        self._page.transcript.toggle_all()

    async def action_todos(self) -> None:
        await self._picker_control.toggle_todos()

    async def action_find(self, words: str = "") -> None:
        await self._picker_control.open_find(self._page.transcript, words)
        self.run_worker(self.read_past())

    async def action_background(self) -> None:
        if question := self._session.background_question:
            await self.send(question.answer(Say("yes")))
        else:
            self.toast("No command is running.")

    def action_edit_draft(self) -> None:
        """Open the draft in the user's editor."""
        self.run_worker(self._outside(self._drafting.edit()))

    def action_edit_file(self, path: str) -> None:
        self.run_worker(self._outside(self._drafting.edit_file(path)))

    async def _outside(self, editing: Awaitable[None]) -> None:
        """Wait for a program that has the terminal."""
        await editing
        self._questions.suspend()

    def action_sign_in(self, provider: str) -> None:
        """Ask for a key in the terminal; without a provider, for that of the current model if
        its key was rejected, else for one from a list."""
        question = self._questions.open
        rejected = question is not None and has_key_problem(question.asked)
        self.run_worker(self._sign_in(provider or (self.about.provider if rejected else "")))

    async def _sign_in(self, provider: str) -> None:
        stored = await self._drafting.sign_in(provider)
        self._questions.suspend()
        if stored:
            self.toast("The key is stored.", "success")

    def action_toggle_vim(self) -> None:
        composer = self._page.composer
        composer.vim = None if composer.vim else VimState()
        self.toast(f"Vim keys: {'on' if composer.vim else 'off'}")

    def action_attach(self) -> None:
        """Attach the image in the clipboard."""
        self.run_worker(self._page.composer.action_attach())

    def action_copy(self) -> None:
        answer = self._page.transcript.last_text(RowKind.RESULT, RowKind.ANSWER)
        if text := self.screen.get_selected_text() or answer:
            self.copy_to_clipboard(text)
            self.toast("Copied.", "success")
        else:
            self.toast("There is nothing to copy yet.")

    def action_redraw(self) -> None:
        """Paint everything again, after another program wrote to the terminal."""
        self._page.redraw()
        self.refresh(layout=True)

    def action_choose_theme(self, name: str = "") -> None:
        """Use the theme, or list all of them."""
        from rookery.tui.screens.setting_screens import ThemeScreen

        themes = self._opening.themes
        for problem in load_themes(themes) if themes else ():
            self.toast(str(problem), "warning")
        if not name:
            self.push_screen(ThemeScreen(self))
        elif name in THEMES:
            self.action_use_theme(name)
        else:
            self.toast(f"No such theme: {name}. /theme lists all.", "warning")

    def action_use_theme(self, name: str) -> None:
        if name == self.theme:
            return
        self.register_theme(textual_theme(THEMES[name]))
        self.theme = name
        self._page.redraw()
        self._status_updates.update_all()
