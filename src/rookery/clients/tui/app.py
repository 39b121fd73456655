"""The full-screen client: one task at a time, with all that work for it."""

import time
from collections.abc import Coroutine, Mapping, Sequence
from typing import Any, ClassVar, TypeVar

from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.driver import Driver
from textual.events import AppBlur, AppFocus, Key
from textual.events import Event as ScreenEvent
from textual.worker import WorkerFailed

from rookery.clients.attendant import Fate, RunEnd
from rookery.clients.questions import chosen, suggestions
from rookery.clients.tui.ask_panel import AskPanel
from rookery.clients.tui.asking import APPROVALS, TRIES
from rookery.clients.tui.attachments import Attachments
from rookery.clients.tui.attention import Attention, Caller, Notify
from rookery.clients.tui.composer import Composer, Memory, Remembered
from rookery.clients.tui.look import DARK, LOOKS, theme_of
from rookery.clients.tui.page import Page
from rookery.clients.tui.pickers.own_commands import obey
from rookery.clients.tui.pickers.picker import Picker
from rookery.clients.tui.pickers.shell import run_in_shell, shell_line
from rookery.clients.tui.picking import Picking
from rookery.clients.tui.questions import Questions
from rookery.clients.tui.rendering import Rendering
from rookery.clients.tui.rows.families import Family
from rookery.clients.tui.seam import ToastKind
from rookery.clients.tui.session import RESUMES, Question, Said, Session
from rookery.clients.tui.showing import Showing
from rookery.clients.tui.style import CSS
from rookery.core.asks import AskKind, Reply
from rookery.core.commands import (
    CloseTask,
    Command,
    OpenTask,
    ReopenTask,
    SwitchApproval,
    SwitchMode,
    SwitchModel,
)
from rookery.core.facts import Event
from rookery.core.queries import About, AskAbout, Asking, AskModes
from rookery.core.values import value
from rookery.core.view import View
from rookery.errors import CommandRejected, StorageError
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
TYPED_AHEAD = "That was typed before the question was in sight. Answer it now: y or n."
UNREAD = "Read it to its end first: Tab, then ↓."
_YES, _NO = ("y", "yes"), ("n", "no")
_ALWAYS = ("interrupt", "leave", "command", "copy", "change_look", "suspend_process")
"""What keys do behind a side screen too."""


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
        self._words = Said(text=opening.words) if opening.words else None
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
        self._attachments = page.composer.attaching = Attachments(
            self, page.attached.show, opening.home
        )
        self._picture_due = False
        self._picture_at = 0.0
        self.has_begun = False
        """There was a task, which one may want to go on with."""

    def compose(self) -> ComposeResult:
        yield self._page

    def on_mount(self) -> None:
        self._page.composer.focus()
        self._showing.all()
        # of what was on the screen before it was left to the shell nothing is there any more
        self.app_resume_signal.subscribe(self, lambda _: self.refresh(layout=True))
        self.set_interval(SPIN_SECONDS, self._tick)
        self._start(self._begin())

    async def _begin(self) -> None:
        self._showing.about = await self._host.query(AskAbout())
        self._showing.all()
        if first := self._opening.first:
            self._leave_task()
            try:
                await self._host.send(first)
            except CommandRejected as refusal:
                self.toast(str(refusal), "warning")
            else:
                self._look_at(first.task_id)

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
        """What broke it, as it was raised."""
        error = self._exception
        while isinstance(error, WorkerFailed) and isinstance(error.error, Exception):
            error = error.error
        return error

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """While a side screen is open, the keys are its own; leaving is always possible."""
        alone = len(self.screen_stack) <= 1
        return alone or action in _ALWAYS

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
            match command:
                case SwitchModel(task_id="") | SwitchApproval(task_id=""):
                    await self._showing.next.choose(command, self._host)
                    self._showing.around()
                case SwitchMode(task_id="", mode=mode):
                    self._showing.mode = mode
                    self._showing.around()
                case _:
                    await self._host.send(command)
        except (CommandRejected, StorageError) as refusal:
            self.toast(str(refusal), "warning")
            return False
        if isinstance(command, SwitchModel):
            self._showing.next.remember(command)
        return True

    async def ask(self, query: Asking[T]) -> T:
        try:
            return await self._host.query(query)
        except StorageError as error:
            raise CommandRejected(str(error)) from error

    def toast(self, text: str, kind: ToastKind = "info") -> None:
        self._showing.toast(text, kind)

    async def open_task(self, task_id: str) -> None:
        if task_id == self.task_id:
            return
        if self._session.works:
            self.toast(AT_WORK, "warning")
            return
        if await self.send(ReopenTask(task_id=task_id)):
            await self._put_away()
            self._leave_task()
            self._look_at(task_id)

    async def new_task(self) -> None:
        if self._session.works:
            self.toast(AT_WORK, "warning")
            return
        await self._put_away()
        self._leave_task()

    def insert(self, text: str) -> None:
        self._page.composer.insert(text)
        self._page.composer.focus()

    def take_back(self, text: str) -> None:
        if not self._page.composer.text:
            self._page.composer.put(text)

    def press(self, action: str) -> None:
        self.call_later(self.run_action, action)

    # following

    async def _take_up(self, command: OpenTask | ReopenTask) -> bool:
        self._leave_task()
        accepted = await self.send(command)
        if accepted:
            self._look_at(command.task_id)
        return accepted

    def _look_at(self, task_id: str) -> None:
        self.has_begun = True
        self._start_following(self._follow(task_id))

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
            self._words = None if question.asked.ask in RESUMES else self._words
            self._start(self._answer(question, commands))
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
        if command := shell_line(text):
            await run_in_shell(self, self, command)
        elif not await obey(text, self, self):
            await self._say(text)

    async def _say(self, text: str) -> None:
        """To whoever listens, with the pictures that are attached."""
        taken = self._attachments.take()
        said = Said(text=text, images=tuple(each.image for each in taken))
        accepted = await (self._tell(said) if self._session.root else self._open(said))
        if not accepted:
            self._attachments.give_back(taken)
        self._page.transcript.action_to_bottom()

    async def _open(self, said: Said) -> bool:
        mode, task_id = self._showing.mode_now, self._showing.next.task_id
        opening = OpenTask(task_id=task_id, text=said.text, images=said.images, mode=mode)
        if not await self.send(opening):
            return False
        for choice in self._showing.next.begun():
            await self.send(choice)
        self._leave_task()
        self._look_at(task_id)
        return True

    async def _tell(self, said: Said) -> bool:
        """Words are the answer to what is asked, or else wait for the model's next step."""
        question, root = self._questions.open, self._session.root
        assert root
        if question and (word := _yes_or_no(said, question)) and not self._panel_wants_words:
            return await self._say_yes_or_no(question, word)
        if question and self._questions.is_ripe(question) and _can_answer(said, question):
            return await self._questions.answer(question, *_in_words(question, said))
        if root.over:
            self._words = said
            return await self._take_up(ReopenTask(task_id=root.task_id))
        words = self._session.words(said)
        if words is None or not await self.send(words):
            return False
        if question:
            self._questions.draft_is_sent()
            self.toast("The model hears it with its next step. The question is still open.")
        return True

    @property
    def _panel_wants_words(self) -> bool:
        return self._page.panel.wants_reason

    async def _say_yes_or_no(self, question: Question, word: Reply) -> bool:
        """As the keys of the panel do, and only what was begun when it was in sight (GATE-4)."""
        panel = self._page.panel
        if not (panel.live and self._questions.was_seen_first(question)):
            self.toast(TYPED_AHEAD, "warning")
        elif word == "yes" and panel.unread:
            self.toast(UNREAD, "warning")
        elif word == "no" and question.asked.ask not in APPROVALS:
            self._questions.leave_alone()
        else:
            return await self._questions.answer(question, question.answer(word))
        return False

    async def _answer(self, question: Question, commands: Sequence[Command]) -> None:
        await self._questions.answer(question, *commands)

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
            await self._picking.give_up()
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
        if await self._picking.give_up() or (page.panel.has_focus and page.panel.back()):
            return
        if page.panel.is_typed_to and page.composer.has_focus:
            page.panel.focus()
            return
        asking = page.panel.asked is not None
        stops = self._session.works or (asking and self._showing.is_stopping)
        if stops and (stop := self._session.stop()):
            self._showing.stopped()
            await self.send(stop)
        elif asking:
            if page.composer.has_focus:
                page.composer.empty()
            self._showing.warn_of_stopping()
        elif page.composer.text:
            page.composer.empty()
        else:
            self._attachments.clear()
        page.composer.focus()

    async def action_next_place(self) -> None:
        page = self._page
        if self._picking.is_picking:
            await self._picking.key("tab")
            return
        places = [page.panel] if page.panel.asked else []
        order = [page.composer, *places, page.transcript]
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
        if not await self.send(SwitchMode(task_id=self.task_id or "", mode=mode)):
            return
        self.toast(f"Mode: {mode}", "success")
        self._showing.around()

    def action_page(self, direction: int) -> None:
        """The conversation, wherever the keys are; a question that does not fit comes first."""
        panel = self._page.panel
        if panel.has_focus and not panel.is_seen_whole:
            panel.action_page(direction)
        else:
            self._page.transcript.action_half_page(direction)

    def action_unfold_all(self) -> None:
        self._page.transcript.toggle_all()

    async def action_todos(self) -> None:
        await self._picking.toggle_todos()

    async def action_background(self) -> None:
        if offer := self._session.offer:
            await self.send(offer.answer("yes"))
        else:
            self.toast("No command is running that could run on.")

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

    def action_change_look(self) -> None:
        names = list(LOOKS)
        self._look = LOOKS[names[(names.index(self._look.name) + 1) % len(names)]]
        self.theme = self._look.name
        self._page.wear(self._look)
        self._showing.all()


def _yes_or_no(said: Said, question: Question) -> Reply | None:
    """What a word alone answers, where yes and no are answers."""
    word = said.text.strip().lower()
    if said.images or question.asked.ask not in (*APPROVALS, *TRIES):
        return None
    return "yes" if word in _YES else "no" if word in _NO else None


def _can_answer(said: Said, question: Question) -> bool:
    """Pictures alone refuse nothing."""
    return bool(said.text) or question.asked.ask not in APPROVALS


def _in_words(question: Question, said: Said) -> Sequence[Command]:
    if question.asked.ask is AskKind.FOLLOWUP:
        suggestion = chosen(said.text, suggestions(question.asked.text))
        return question.chosen(suggestion, said.images)
    return question.in_words(said)
