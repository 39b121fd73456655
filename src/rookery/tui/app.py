"""The full-screen app: one session at a time, with its sub-tasks.

`FullScreen` binds keys and messages to what they do; it holds no state of the task.
"""

from typing import ClassVar

from msgspec import Struct
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.driver import Driver
from textual.events import AppBlur, AppFocus, Key, Paste
from textual.events import Event as ScreenEvent
from textual.worker import WorkerFailed

from rookery.core.asks import APPROVALS, AskKind
from rookery.core.commands import OpenTask
from rookery.core.queries import AskAbout
from rookery.protocol.attend import Fate, RunEnd, Say
from rookery.protocol.codec import Host
from rookery.protocol.slash_words import LEAVING
from rookery.tui.ask_panel import AskPanel
from rookery.tui.composer import Composer
from rookery.tui.input_files import InputHistory
from rookery.tui.input_router import InputRouter
from rookery.tui.key_actions import KeyActions
from rookery.tui.keys import APP_KEYS, ASKS_TWICE
from rookery.tui.own_commands import run_command
from rookery.tui.own_status import OwnStatus
from rookery.tui.page import CSS
from rookery.tui.pickers import Picker, run_in_shell, shell_line
from rookery.tui.rows.lines import RowKind
from rookery.tui.session_view import Draft
from rookery.tui.task_controller import StartOptions
from rookery.tui.vim_keys import VimState

SIDE_SCREEN_ACTIONS = (
    *("interrupt", "leave", "command", "copy", "redraw", "use_theme", "suspend_process"),
)
"""Actions that stay available while a side screen is open."""


SPIN_SECONDS = 0.12
SHORT_ANSWER = 3
"""Characters of a yes or no. A longer text that is refused is put back into the input area."""


class LastSession(Struct, frozen=True, kw_only=True):
    """What remains of a session after the screen is gone."""

    id: str = ""
    answer: str = ""
    cost: float = 0.0


class FullScreen(KeyActions):
    """The app: dispatches keys and messages."""

    CSS = CSS
    TITLE = "rookery"
    ENABLE_COMMAND_PALETTE = False
    AUTO_FOCUS = "Composer"
    BINDINGS: ClassVar[list[BindingType]] = APP_KEYS

    def __init__(
        self,
        host: Host,
        opening: StartOptions,
        inputs: InputHistory | None = None,
        driver: type[Driver] | None = None,
    ) -> None:
        super().__init__(host, opening, inputs or InputHistory(), driver)
        page = self._page
        self._early_events: list[ScreenEvent] | None = []
        """Keys and pastes received before the input area had the focus; None afterwards."""
        self._status_updates.next.mode = opening.mode
        ui = opening.ui
        self._own_status = OwnStatus(ui.status_line, ui.status_command, page.show_own_status)
        page.composer.vim = VimState() if ui.keys == "vim" else None
        self._router = InputRouter(
            self,
            self._session,
            self._switcher,
            self._questions,
            self._status_updates,
            page.panel,
            opening.first_message,
        )

    def compose(self) -> ComposeResult:
        yield self._page

    def on_mount(self) -> None:
        opening = self._opening
        self._page.composer.focus()
        typed_ahead = bool(opening.draft) or getattr(self._driver, "typed_ahead", False)
        has_task = isinstance(opening.first, OpenTask)
        self._drafting.restore(opening.draft, typed_ahead=typed_ahead or has_task)
        if problem := opening.problem or self._own_status.problem:
            self.toast(problem, "warning")
        self._status_updates.update_all()
        # after Ctrl-Z and `fg` the screen is empty
        self.app_resume_signal.subscribe(self, lambda _: self.refresh(layout=True))
        self.set_interval(SPIN_SECONDS, self._tick)
        self.run_worker(self._open_first())

    async def _open_first(self) -> None:
        self._status_updates.about = await self._host.query(AskAbout())
        self._status_updates.update_all()
        if self._opening.unfolded:
            self.action_unfold_all()
        if first := self._opening.first:
            await self._switcher.begin(first)
        elif self._opening.command:
            await self.action_command(self._opening.command)

    def _fatal_error(self) -> None:
        # Textual's crash report shows the values of all variables, including API keys
        self._close_messages_no_wait()

    @property
    def last_session(self) -> LastSession:
        """The session on the screen, for the scrollback."""
        view = self._session.view
        return LastSession(
            id=self.task_id or "",
            answer=self._page.transcript.last_text(RowKind.RESULT, RowKind.ANSWER),
            cost=view.usage.cost if view else 0.0,
        )

    @property
    def is_editing(self) -> bool:
        """Whether the user's editor has the terminal, and with it Ctrl+C."""
        return self._drafting.is_editing

    @property
    def crash(self) -> Exception | None:
        """The exception that ended the app, unwrapped."""
        error = self._exception
        while isinstance(error, WorkerFailed) and isinstance(error.error, Exception):
            error = error.error
        return error

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """While a side screen is open, only its own keys and a few app actions work."""
        is_main = len(self.screen_stack) <= 1
        return is_main or action in SIDE_SCREEN_ACTIONS

    def _on_drawn(self) -> None:
        once, root = self._opening.ui.oneshot, self._session.root
        if answering := self._router.automatic_answer(once=once):
            self.run_worker(answering)
        if once and root and root.over:
            failed = RunEnd(Fate.FAILED, root.failure, "task_failed")
            self.exit(failed if root.failure else RunEnd(Fate.COMPLETED))

    async def _tick(self) -> None:
        if len(self.screen_stack) > 1:
            self._questions.suspend()
        self._status_updates.update_status()
        self._page.status.spin()
        seconds = self._opening.suggestion_seconds
        if self._own_status.is_used:
            self._own_status.update(
                self._status_updates.fields, self.about.workspace, self.run_worker
            )
        await self._questions.count_down(seconds, automatic=self._status_updates.automatic)

    # events

    async def on_event(self, event: ScreenEvent) -> None:
        if self._early_events is not None and isinstance(event, Key | Paste):
            self._early_events.append(event)
            return
        match event:
            case Key(key=key):
                if key not in ASKS_TWICE:
                    self._status_updates.other_key()
                self._attention.key()
                self._questions.cancel_countdown()
            case AppFocus() | AppBlur():
                self._attention.focus_changed(isinstance(event, AppFocus))
            case _:
                pass
        await super().on_event(event)

    async def on_descendant_focus(self) -> None:
        """Replay early keys once a widget can receive them."""
        early, self._early_events = self._early_events, None
        for event in early or ():
            await self.on_event(event)

    async def on_composer_triggered(self, message: Composer.Triggered) -> None:
        await self._picker_control.on_typed(message.typed)

    async def on_composer_listed(self, message: Composer.Listed) -> None:
        if not await self._picker_control.key(message.key):
            await self._picker_control.close()
            self._page.composer.action_submit()
        self.give_keys_back()

    def on_transcript_view_at_top(self) -> None:
        self.run_worker(self.read_past())

    async def on_picker_picked(self, message: Picker.Picked) -> None:
        await self._picker_control.take(message.choice)
        self.give_keys_back()

    async def on_composer_submitted(self, message: Composer.Submitted) -> None:
        text = message.text
        await self._picker_control.close()
        if command := shell_line(text):
            await run_in_shell(self, self, command)
        elif self._means_leaving(text):
            await self.action_leave()
        elif await run_command(text, self, self):
            self.give_keys_back()
        else:
            await self._send_message(text)

    def _means_leaving(self, text: str) -> bool:
        question = self._questions.open
        answers = question is not None and question.asked.ask is AskKind.FOLLOWUP
        return text.strip().lower() in LEAVING and not answers

    async def _send_message(self, text: str) -> None:
        """Send a message with what is attached. Output of a command does not answer a question."""
        if (question := self._questions.open) and question.asked.ask in APPROVALS:
            taken = self._attachments.take(texts=False)
        else:
            taken = self._attachments.take()
        parts = [text, *(each.text for each in taken if each.text)]
        images = tuple(each.image for each in taken if each.image)
        message = Draft(text="\n\n".join(filter(None, parts)), images=images)
        if not (message.text or images):
            return
        if not await self._router.send(message):
            self._attachments.put_back(taken)
            if len(text) > SHORT_ANSWER:
                self.restore_text(text)
        self._page.transcript.action_to_bottom()

    async def on_composer_unused(self) -> None:
        question = self._questions.open
        if self._attachments.attached:
            await self._send_message("")
        elif question and question.asked.ask is AskKind.RESUME_TASK:
            await self._questions.answer(question, question.answer(Say("yes")))

    async def on_composer_leave_wanted(self) -> None:
        await self.action_interrupt()

    def on_composer_editor_wanted(self) -> None:
        self.action_edit_draft()

    def on_composer_erased(self) -> None:
        self._attachments.drop_last()

    def on_composer_emptied(self) -> None:
        self._questions.input_emptied()

    async def on_ask_panel_answered(self, message: AskPanel.Answered) -> None:
        question = self._questions.open
        if question and question.asked is message.asked:
            await self._questions.answer(question, question.answer(message.said))

    async def on_ask_panel_chosen(self, message: AskPanel.Chosen) -> None:
        question = self._questions.open
        if question and question.asked.plan:
            await self.answer_plan(question, message.asked, message.suggestion.answer)
        elif question and question.asked is message.asked:
            await self._questions.answer(question, *question.chosen(message.suggestion))

    def on_ask_panel_ignored(self, message: AskPanel.Ignored) -> None:
        self.toast(message.why, "warning")

    def on_ask_panel_left(self) -> None:
        self._questions.skip()
