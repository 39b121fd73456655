"""The full-screen client: one task at a time, with all that work for it.

`FullScreen` binds keys and messages to the parts that act on them; it holds no state of the task.
"""

from typing import ClassVar

from msgspec import Struct
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.driver import Driver
from textual.events import AppBlur, AppFocus, Key, Paste
from textual.events import Event as ScreenEvent
from textual.worker import WorkerFailed

from rookery.core.asks import AskKind
from rookery.core.commands import OpenTask, ReopenTask
from rookery.core.queries import AskAbout
from rookery.protocol.attend import Fate, RunEnd
from rookery.protocol.codec import Host
from rookery.tui.ask_panel import AskPanel
from rookery.tui.attachments import Attachments
from rookery.tui.composer import Composer, InputMemory, Remembered
from rookery.tui.input_router import InputRouter, Navigation, after
from rookery.tui.page import CSS
from rookery.tui.picker_control import PickerControl
from rookery.tui.pickers.own_commands import obey
from rookery.tui.pickers.picker import Picker, run_in_shell, shell_line
from rookery.tui.question_queue import Notify
from rookery.tui.rows.lines import Family
from rookery.tui.session_view import Said
from rookery.tui.task_controller import TaskController
from rookery.tui.theme import DARK, THEMES

APP_KEYS: list[BindingType] = [
    Binding("escape", "back", "Close, stop the work, or clear the input", priority=True),
    Binding("ctrl+c", "interrupt", "Exit (press twice)", priority=True),
    Binding("tab", "next_place", "Input, question, conversation", priority=True),
    Binding("shift+tab", "next_mode", "Next mode", priority=True),
    Binding("ctrl+m", "next_mode", "Next mode", priority=True, system=True),
    Binding("pageup", "page(-1)", "Half a page up", show=False, priority=True),
    Binding("pagedown", "page(1)", "Half a page down", show=False, priority=True),
    Binding("ctrl+o", "unfold_all", "Unfold or fold everything", priority=True),
    Binding("ctrl+t", "todos", "To-do list", priority=True),
    Binding("ctrl+b", "background", "Move the running command to the background", priority=True),
    Binding("ctrl+y", "copy", "Copy the selection or the last answer", priority=True),
    Binding("ctrl+l", "toggle_theme", "Switch between dark and light", priority=True),
    Binding("ctrl+z", "suspend_process", "Suspend; `fg` returns", priority=True),
    Binding("f1", "command('help')", "Help", priority=True),
    Binding("f2,ctrl+r", "command('tasks')", "Earlier tasks", priority=True),
    Binding("f3", "command('checkpoints')", "Checkpoints", priority=True),
    Binding("f4", "command('model')", "Model", priority=True),
    Binding("f5", "command('tree')", "Sub-tasks", priority=True),
    Binding("f6", "command('queue')", "Queued messages", priority=True),
    Binding("f7", "command('cost')", "Cost", priority=True),
]
BEHIND_A_SIDE_SCREEN = ("interrupt", "leave", "command", "copy", "toggle_theme", "suspend_process")
"""What keys do behind a side screen too."""


SPIN_SECONDS = 0.12
LONGEST_ANSWER = 3
"""Letters of a yes or no. A longer text that was refused is put back into the input area."""


class Opening(Struct, frozen=True, kw_only=True):
    """What a session begins with."""

    first: OpenTask | ReopenTask | None = None
    words: str = ""
    """What a resumed task is told first."""
    draft: str = ""
    """What is in the input area from the beginning."""
    mode: str = ""
    once: bool = False
    """Leave when the task is done."""
    home: str = ""
    theme: str = DARK
    notify: Notify = "auto"
    suggestion_seconds: float = 60.0
    """After which a run that acts unasked takes the first suggestion of a question."""


class FullScreen(TaskController):
    """What keys and messages do to the task."""

    CSS = CSS
    TITLE = "rookery"
    ENABLE_COMMAND_PALETTE = False
    AUTO_FOCUS = "Composer"
    BINDINGS: ClassVar[list[BindingType]] = APP_KEYS

    def __init__(
        self,
        host: Host,
        opening: Opening,
        remembered: Remembered | None = None,
        driver: type[Driver] | None = None,
    ) -> None:
        super().__init__(
            host,
            THEMES[opening.theme],
            remembered or InputMemory(),
            home=opening.home,
            notify=opening.notify,
            driver=driver,
        )
        page = self._page
        self._opening = opening
        self._early: list[ScreenEvent] | None = []
        """What was typed before the input area was there; None once it is."""
        self._status_updates.mode = opening.mode
        self._picker_control = PickerControl(self, page.slot, page.composer)
        self._attachments = page.composer.attaching = Attachments(
            self, page.attached.show, opening.home
        )
        self._router = InputRouter(
            self,
            self._session,
            self._switcher,
            self._questions,
            self._status_updates,
            page.panel,
            opening.words,
        )
        self._navigation = Navigation(
            self, page, self._session, self._status_updates, self._picker_control, self._attachments
        )

    def compose(self) -> ComposeResult:
        yield self._page

    def on_mount(self) -> None:
        self._page.composer.focus()
        if draft := self._opening.draft:
            self._page.composer.put(draft)
        self._status_updates.all()
        # of what was on the screen before it was left to the shell nothing is there any more
        self.app_resume_signal.subscribe(self, lambda _: self.refresh(layout=True))
        self.set_interval(SPIN_SECONDS, self._tick)
        self._start(self._begin())

    async def _begin(self) -> None:
        self._status_updates.about = await self._host.query(AskAbout())
        self._status_updates.all()
        if first := self._opening.first:
            await self._switcher.begin(first)

    def _fatal_error(self) -> None:
        # the usual report of a crash shows the values of all variables, keys included
        self._close_messages_no_wait()

    @property
    def result(self) -> str:
        """What the task came to last."""
        return self._page.transcript.last_text(Family.RESULT)

    @property
    def crash(self) -> Exception | None:
        """What broke it, as it was raised."""
        error = self._exception
        while isinstance(error, WorkerFailed) and isinstance(error.error, Exception):
            error = error.error
        return error

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """While a side screen is open, the keys are its own; leaving is always possible."""
        alone = len(self.screen_stack) <= 1
        return alone or action in BEHIND_A_SIDE_SCREEN

    def _drawn(self) -> None:
        if answering := self._router.answered_by_rule(once=self._opening.once):
            self._start(answering)
        root = self._session.root
        if self._opening.once and root and root.over:
            failed = RunEnd(Fate.FAILED, root.failure, "task_failed")
            self.exit(failed if root.failure else RunEnd(Fate.COMPLETED))

    async def _tick(self) -> None:
        if len(self.screen_stack) > 1:
            self._questions.cover()
        self._status_updates.status()
        self._page.status.spin()
        seconds = self._opening.suggestion_seconds
        await self._questions.count_down(seconds, automatic=self._status_updates.automatic)

    # what the user does

    async def on_event(self, event: ScreenEvent) -> None:
        if self._early is not None and isinstance(event, Key | Paste):
            self._early.append(event)
            return
        match event:
            case Key():
                self._attention.key()
                self._questions.stop_counting()
            case AppFocus() | AppBlur():
                self._attention.focus_changed(isinstance(event, AppFocus))
            case _:
                pass
        await super().on_event(event)

    async def on_descendant_focus(self) -> None:
        """The input area is there, or something else that takes keys."""
        early, self._early = self._early, None
        for event in early or ():
            await self.on_event(event)

    async def on_composer_triggered(self, message: Composer.Triggered) -> None:
        await self._picker_control.typed(message.typed)

    async def on_composer_listed(self, message: Composer.Listed) -> None:
        if not await self._picker_control.key(message.key):
            await self._picker_control.close()
            self._page.composer.action_submit()

    async def on_picker_picked(self, message: Picker.Picked) -> None:
        await self._picker_control.take(message.choice)

    async def on_composer_submitted(self, message: Composer.Submitted) -> None:
        text = message.text
        await self._picker_control.close()
        if command := shell_line(text):
            await run_in_shell(self, self, command)
        elif not await obey(text, self, self):
            await self._say(text)

    async def _say(self, text: str) -> None:
        """To whoever listens, with the pictures that are attached."""
        taken = self._attachments.take()
        said = Said(text=text, images=tuple(each.image for each in taken))
        if not await self._router.say(said):
            self._attachments.give_back(taken)
            if len(text) > LONGEST_ANSWER:
                self.take_back(text)
        self._page.transcript.action_to_bottom()

    async def on_composer_unused(self) -> None:
        question = self._questions.open
        if self._attachments.attached:
            await self._say("")
        elif question and question.asked.ask is AskKind.RESUME_TASK:
            await self._questions.answer(question, question.answer("yes"))

    def on_composer_erased(self) -> None:
        self._attachments.drop_last()

    async def on_ask_panel_answered(self, message: AskPanel.Answered) -> None:
        question = self._questions.open
        if question and question.asked is message.asked:
            answer = question.answer(message.reply, always=message.always, choice=message.choice)
            await self._questions.answer(question, answer)

    async def on_ask_panel_chosen(self, message: AskPanel.Chosen) -> None:
        question = self._questions.open
        if question and question.asked is message.asked:
            await self._questions.answer(question, *question.chosen(message.suggestion))

    def on_ask_panel_left(self) -> None:
        self._questions.leave_alone()

    # actions

    async def action_command(self, name: str) -> None:
        if len(self.screen_stack) <= 1:
            await obey(f"/{name}", self, self)

    async def action_interrupt(self) -> None:
        if len(self.screen_stack) <= 1 and self._picker_control.is_picking:
            await self._picker_control.give_up()
            return
        if self._status_updates.is_leaving:
            await self.action_leave()
        else:
            self._status_updates.warn_of_leaving()

    async def action_leave(self) -> None:
        question = self._session.question
        if question and question.asked.ask is AskKind.COMPLETION_RESULT:
            await self.send(question.answer("yes"))
        self.exit(RunEnd(Fate.LEFT))

    async def action_quit(self) -> None:
        await self.action_leave()

    async def action_back(self) -> None:
        await self._navigation.back()

    async def action_next_place(self) -> None:
        await self._navigation.next_place()

    async def action_next_mode(self) -> None:
        await self._navigation.next_mode()

    async def action_go_on_in_mode(self, mode: str) -> None:
        await self._navigation.go_on_in_mode(mode)

    def action_page(self, direction: int) -> None:
        self._navigation.page(direction)

    def action_unfold_all(self) -> None:
        self._page.transcript.toggle_all()

    async def action_todos(self) -> None:
        await self._picker_control.toggle_todos()

    async def action_background(self) -> None:
        await self._navigation.let_run_on()

    def action_attach(self) -> None:
        """The picture in the clipboard."""
        self._start(self._page.composer.action_attach())

    def action_copy(self) -> None:
        said = self._page.transcript.last_text(Family.RESULT, Family.ANSWER)
        if text := self.screen.get_selected_text() or said:
            self.copy_to_clipboard(text)
            self.toast("Copied.", "success")
        else:
            self.toast("There is nothing to copy yet.")

    def action_toggle_theme(self) -> None:
        self._theme = THEMES[after(self._theme.name, list(THEMES))]
        self.theme = self._theme.name
        self._page.set_theme(self._theme)
        self._status_updates.all()
