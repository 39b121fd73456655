"""The full-screen client: one task at a time, with all that work for it."""

import time
import uuid
from collections.abc import Coroutine, Mapping, Sequence
from typing import Any, ClassVar, TypeVar

from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.driver import Driver
from textual.events import AppBlur, AppFocus, Key
from textual.events import Event as ScreenEvent

from rookery.clients.attendant import Fate, RunEnd
from rookery.clients.questions import chosen, suggestions
from rookery.clients.tui.ask_panel import AskPanel
from rookery.clients.tui.attention import Attention, Caller, Notify
from rookery.clients.tui.composer import Composer, Memory, Remembered
from rookery.clients.tui.look import DARK, LOOKS, theme_of
from rookery.clients.tui.page import Page
from rookery.clients.tui.pickers.own_commands import obey
from rookery.clients.tui.pickers.picker import Picker
from rookery.clients.tui.picking import Picking
from rookery.clients.tui.questions import Questions
from rookery.clients.tui.rendering import Rendering
from rookery.clients.tui.rows.families import Family
from rookery.clients.tui.seam import ToastKind
from rookery.clients.tui.session import RESUMES, Question, Session
from rookery.clients.tui.showing import Showing
from rookery.clients.tui.style import CSS
from rookery.core.asks import AskKind
from rookery.core.commands import CloseTask, Command, OpenTask, ReopenTask, SwitchMode
from rookery.core.facts import Event
from rookery.core.queries import About, AskAbout, Asking, AskModes
from rookery.core.values import value
from rookery.core.view import View
from rookery.errors import CommandRejected
from rookery.wire.host import Host

T = TypeVar("T")

PICTURE_SECONDS = 1 / 15
"""Between two pictures of a stream."""
PICTURE_SECONDS_WHILE_TYPING = 0.15
"""What is typed is looked at first."""
TYPING_SECONDS = 0.5
BREATH_SECONDS = 0.02
"""For the keyboard and the screen, while a long past is being folded."""
SPIN_SECONDS = 0.12
FOLLOWING = "following"
AT_WORK = "A task is at work. Esc stops it."


@value
class Opening:
    """What a session begins with."""

    first: OpenTask | ReopenTask | None = None
    words: str = ""
    """What a resumed task is told first."""
    mode: str = ""
    once: bool = False
    """Leave when the task is done."""
    home: str = ""
    look: str = DARK
    notify: Notify = "auto"
    suggestion_seconds: float = 60.0
    """After which a run that acts unasked takes the first suggestion of a question."""


class FullScreen(App[RunEnd]):
    """Is the desk that pickers and side screens are handed."""

    CSS = CSS
    TITLE = "rookery"
    ENABLE_COMMAND_PALETTE = False
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "back", "Close what is open, stop the work, or clear", priority=True),
        Binding("ctrl+c", "interrupt", "Leave, pressed twice", priority=True),
        Binding("tab", "next_place", "Input, question, conversation", priority=True),
        Binding("shift+tab,ctrl+m", "next_mode", "Next mode", priority=True),
        Binding("ctrl+o", "unfold_all", "Unfold or fold everything", priority=True),
        Binding("ctrl+t", "todos", "What is to be done", priority=True),
        Binding("ctrl+b", "background", "Let the running command run on", priority=True),
        Binding("ctrl+y", "copy", "Copy what is marked, or the last answer", priority=True),
        Binding("ctrl+l", "change_look", "Dark or light", priority=True),
        Binding("f1", "command('help')", "Help", priority=True),
        Binding("f2,ctrl+r", "command('tasks')", "Earlier tasks", priority=True),
        Binding("f3", "command('checkpoints')", "Checkpoints", priority=True),
        Binding("f4", "command('model')", "Model", priority=True),
        Binding("f5", "command('tree')", "Tasks that work for this one", priority=True),
        Binding("f6", "command('queue')", "What is not heard yet", priority=True),
        Binding("f7", "command('cost')", "What it cost", priority=True),
    ]

    def __init__(
        self,
        host: Host,
        opening: Opening,
        remembered: Remembered | None = None,
        driver: type[Driver] | None = None,
    ) -> None:
        super().__init__(driver_class=driver)
        self._host = host
        self._opening = opening
        self._words = opening.words
        self._look = LOOKS[opening.look]
        for look in LOOKS.values():
            self.register_theme(theme_of(look))
        self.theme = self._look.name
        page = self._page = Page(self._look, remembered or Memory())
        self._attention = Attention(Caller(write=self._write, notify=opening.notify), "rookery")
        self._session = Session(host, self._start_following, self._news)
        self._rendering = Rendering(page.transcript)
        self._questions = Questions(self, page.panel, page.composer, self._session, self._attention)
        self._showing = Showing(page, self._session, self._questions, opening.home)
        self._showing.mode = opening.mode
        self._picking = Picking(self, page.slot, page.composer)
        self._picture_due = False
        self._picture_at = 0.0
        self.has_begun = False
        """There was a task, which one may want to go on with."""

    def compose(self) -> ComposeResult:
        yield self._page

    def on_mount(self) -> None:
        self._page.composer.focus()
        self._showing.all()
        self.set_interval(SPIN_SECONDS, self._tick)
        self._start(self._begin())

    async def _begin(self) -> None:
        self._showing.about = await self._host.query(AskAbout())
        self._showing.all()
        if first := self._opening.first:
            await self._take_up(first)

    def _start(self, work: Coroutine[Any, Any, None]) -> object:
        return self.run_worker(work)

    def _start_following(self, work: Coroutine[Any, Any, None]) -> object:
        return self.run_worker(work, group=FOLLOWING)

    def _write(self, text: str) -> None:
        if self._driver:
            self._driver.write(text)
            self._driver.flush()

    def _fatal_error(self) -> None:
        # the usual report of a crash shows the values of all variables, keys included
        self._close_messages_no_wait()

    @property
    def result(self) -> str:
        """What the task came to last."""
        return self._page.transcript.last_text(Family.RESULT)

    @property
    def crash(self) -> Exception | None:
        return self._exception

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """While a side screen is open, the keys are its own; leaving is always possible."""
        alone = len(self.screen_stack) <= 1
        return alone or action in ("interrupt", "leave", "command", "copy", "change_look")

    # the desk

    @property
    def host(self) -> Host:
        return self._host

    @property
    def task_id(self) -> str | None:
        return self._session.task_id

    @property
    def view(self) -> View | None:
        return self._session.view

    @property
    def about(self) -> About:
        return self._showing.about

    @property
    def views(self) -> Mapping[str, View]:
        return self._session.views

    def events(self, task_id: str) -> Sequence[Event]:
        return self._session.events(task_id)

    async def send(self, command: Command) -> bool:
        try:
            await self._host.send(command)
        except CommandRejected as refusal:
            self.toast(str(refusal), "warning")
            return False
        return True

    async def ask(self, query: Asking[T]) -> T:
        return await self._host.query(query)

    def toast(self, text: str, kind: ToastKind = "info") -> None:
        self._showing.toast(text, kind)

    async def open_task(self, task_id: str) -> None:
        if task_id == self.task_id:
            return
        if self._session.works:
            self.toast(AT_WORK, "warning")
            return
        await self._put_away()
        await self._take_up(ReopenTask(task_id=task_id))

    async def new_task(self) -> None:
        if self._session.works:
            self.toast(AT_WORK, "warning")
            return
        await self._put_away()
        self._leave_task()

    def insert(self, text: str) -> None:
        self._page.composer.insert(text)
        self._page.composer.focus()

    def press(self, action: str) -> None:
        self.call_later(self.run_action, action)

    # following

    async def _take_up(self, command: OpenTask | ReopenTask) -> None:
        self._leave_task()
        if await self.send(command):
            self.has_begun = True
            self._start_following(self._follow(command.task_id))

    async def _follow(self, task_id: str) -> None:
        try:
            await self._session.following.follow(task_id)
        except CommandRejected as refusal:
            self.toast(str(refusal), "error")

    async def _put_away(self) -> None:
        """The task that was looked at is over: done if it says so, and kept in any case."""
        root, question = self._session.root, self._session.question
        if root is None or root.over:
            return
        if question and question.asked.ask is AskKind.COMPLETION_RESULT:
            await self.send(question.answer("yes"))
        else:
            await self.send(CloseTask(task_id=root.task_id))

    def _leave_task(self) -> None:
        self.workers.cancel_group(self, FOLLOWING)
        self._session.following.forget()
        self._rendering.forget()
        self._questions.forget()
        self._page.composer.focus()
        self._showing.all()

    def _news(self) -> None:
        """Something came: a picture is due, but not more of them than one can see."""
        if self._picture_due:
            return
        self._picture_due = True
        now = time.monotonic()
        typing = now - self._attention.key_at < TYPING_SECONDS
        pause = PICTURE_SECONDS_WHILE_TYPING if typing else PICTURE_SECONDS
        wait = self._picture_at + pause - now
        if wait <= 0:
            self.call_later(self._picture)
        else:
            self.set_timer(wait, self._picture)

    def _picture(self) -> None:
        self._picture_due = False
        with self.batch_update():
            more = self._rendering.catch_up(self._session.following)
            self._showing.conversation()
            if not more:
                self._showing.all()
        if more:
            self._picture_due = True
            self.set_timer(BREATH_SECONDS, self._picture)
            return
        self._picture_at = time.monotonic()
        if answers := self._questions.answers_by_rule(self._words, once=self._opening.once):
            question, commands = answers
            self._words = "" if question.asked.ask in RESUMES else self._words
            self._start(self._questions.answer(question, *commands))
        root = self._session.root
        if self._opening.once and root and root.over:
            failed = RunEnd(Fate.FAILED, root.failure, "task_failed")
            self.exit(failed if root.failure else RunEnd(Fate.COMPLETED))

    async def _tick(self) -> None:
        if len(self.screen_stack) > 1:
            self._questions.cover()
        self._showing.status()
        self._page.status.spin()
        seconds = self._opening.suggestion_seconds
        await self._questions.count_down(seconds, automatic=self._showing.automatic)

    # what the user does

    async def on_event(self, event: ScreenEvent) -> None:
        match event:
            case Key():
                self._attention.key()
                self._questions.stop_counting()
            case AppFocus() | AppBlur():
                self._attention.look(isinstance(event, AppFocus))
            case _:
                pass
        await super().on_event(event)

    async def on_composer_triggered(self, message: Composer.Triggered) -> None:
        await self._picking.typed(message.typed)

    async def on_composer_listed(self, message: Composer.Listed) -> None:
        if not await self._picking.key(message.key):
            await self._picking.close()
            self._page.composer.action_submit()

    async def on_picker_picked(self, message: Picker.Picked) -> None:
        await self._picking.take(message.choice)

    async def on_composer_submitted(self, message: Composer.Submitted) -> None:
        text = message.text
        await self._picking.close()
        if await obey(text, self, self):
            return
        if self._session.root is None:
            mode = self._showing.mode_now
            await self._take_up(OpenTask(task_id=str(uuid.uuid4()), text=text, mode=mode))
        else:
            await self._tell(text)
        self._page.transcript.action_to_bottom()

    async def _tell(self, text: str) -> None:
        """Words are the answer to what is asked, or else wait for the model's next step."""
        question, root = self._questions.open, self._session.root
        assert root
        if question and self._questions.is_ripe(question):
            await self._questions.answer(question, *_in_words(question, text))
        elif root.over:
            self._words = text
            await self._take_up(ReopenTask(task_id=root.task_id))
        elif (words := self._session.words(text)) and await self.send(words) and question:
            self._questions.draft_is_sent()
            self.toast("The model hears it with its next step. The question is still open.")

    async def on_composer_unused(self) -> None:
        question = self._questions.open
        if question and question.asked.ask is AskKind.RESUME_TASK:
            await self._questions.answer(question, question.answer("yes"))

    async def on_ask_panel_answered(self, message: AskPanel.Answered) -> None:
        question = self._questions.open
        if question and question.asked is message.asked:
            answer = question.answer(message.reply, always=message.always)
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
        if len(self.screen_stack) <= 1 and self._picking.is_picking:
            await self._picking.close()
            return
        if self._showing.is_leaving:
            await self.action_leave()
        else:
            self._showing.warn_of_leaving()

    async def action_leave(self) -> None:
        question = self._session.question
        if question and question.asked.ask is AskKind.COMPLETION_RESULT:
            await self.send(question.answer("yes"))
        self.exit(RunEnd(Fate.LEFT))

    async def action_quit(self) -> None:
        await self.action_leave()

    async def action_back(self) -> None:
        page = self._page
        if await self._picking.close() or (page.panel.has_focus and page.panel.back()):
            return
        if self._session.works and (stop := self._session.stop()):
            await self.send(stop)
        elif page.composer.text:
            page.composer.empty()
        page.composer.focus()

    async def action_next_place(self) -> None:
        page = self._page
        if self._picking.is_picking:
            await self._picking.key("tab")
            return
        places = [page.panel] if page.panel.asked else []
        order = [*places, page.composer, page.transcript]
        here = next((at for at, place in enumerate(order) if place.has_focus), -1)
        order[(here + 1) % len(order)].focus()

    async def action_next_mode(self) -> None:
        modes = [mode.slug for mode in await self.ask(AskModes())]
        if self._session.works:
            self.toast(AT_WORK, "warning")
        elif len(modes) < 2:
            self.toast("There is only one mode.")
        else:
            now = self._showing.mode_now
            here = modes.index(now) if now in modes else -1
            await self.action_go_on_in_mode(modes[(here + 1) % len(modes)])

    async def action_go_on_in_mode(self, mode: str) -> None:
        """Go on in another mode, or begin in it."""
        if not self.task_id:
            self._showing.mode = mode
        elif not await self.send(SwitchMode(task_id=self.task_id, mode=mode)):
            return
        self.toast(f"Mode: {mode}", "success")
        self._showing.around()

    def action_unfold_all(self) -> None:
        self._page.transcript.toggle_all()

    async def action_todos(self) -> None:
        await self._picking.toggle_todos()

    async def action_background(self) -> None:
        if offer := self._session.offer:
            await self.send(offer.answer("yes"))
        else:
            self.toast("No command is running that could run on.")

    def action_copy(self) -> None:
        said = self._page.transcript.last_text(Family.RESULT, Family.ANSWER)
        if text := self.screen.get_selected_text() or said:
            self.copy_to_clipboard(text)
            self.toast("Copied.", "success")
        else:
            self.toast("There is nothing to copy yet.")

    def action_change_look(self) -> None:
        names = list(LOOKS)
        self._look = LOOKS[names[(names.index(self._look.name) + 1) % len(names)]]
        self.theme = self._look.name
        self._page.wear(self._look)
        self._showing.all()


def _in_words(question: Question, text: str) -> Sequence[Command]:
    if question.asked.ask is AskKind.FOLLOWUP:
        return question.chosen(chosen(text, suggestions(question.asked.text)))
    return [question.in_words(text)]
