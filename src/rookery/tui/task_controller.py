"""Connects the app to the session: follows it, draws its events, and sends commands.

`RedrawPace` limits how often the screen is drawn: less often while the user types.
"""

import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from msgspec import Struct
from textual.app import App
from textual.driver import Driver

from rookery.core.commands import (
    Command,
    Condense,
    OpenTask,
    ReopenTask,
    SelectIntent,
    SwitchApproval,
    SwitchMode,
    SwitchModel,
)
from rookery.core.facts import Event
from rookery.core.folds.view import View
from rookery.core.queries import About, Asking, ViewStart
from rookery.core.settings_sections import UiSettings
from rookery.errors import CommandRejected, StorageError
from rookery.protocol.attend import RunEnd
from rookery.protocol.codec import Host
from rookery.tui.attachments import Attachments
from rookery.tui.drafting import Drafting
from rookery.tui.input_files import InputHistory
from rookery.tui.interfaces import ToastKind
from rookery.tui.page import Page
from rookery.tui.picker_control import PickerControl
from rookery.tui.question_queue import Attention, Questions
from rookery.tui.session_view import SessionView, TaskSwitcher
from rookery.tui.status_updates import StatusUpdates
from rookery.tui.theme import DARK, THEMES, textual_theme
from rookery.tui.transcript_updates import Rendering

FRAME_SECONDS = 1 / 15
"""Minimum time between two frames."""
FRAME_SECONDS_WHILE_TYPING = 0.15
"""The same while the user types, so that typing stays responsive."""
TYPING_SECONDS = 0.5
BACKLOG_PAUSE_SECONDS = 0.02
"""Pause for keyboard and screen while a long journal is folded."""


def frame_delay(now: float, *, last_at: float, key_at: float) -> float:
    """Seconds until the next frame may be drawn; negative if it is due."""
    typing = now - key_at < TYPING_SECONDS
    pause = FRAME_SECONDS_WHILE_TYPING if typing else FRAME_SECONDS
    return last_at + pause - now


class RedrawPace:
    def __init__(
        self,
        app: App[Any],
        attention: Attention,
        *,
        draw: Callable[[], bool],
        done: Callable[[], None],
    ) -> None:
        """`draw` returns whether more is left to draw; `done` is called when nothing is."""
        self._app = app
        self._attention = attention
        self._draw = draw
        self._on_drawn = done
        self._is_due = False
        self._last_at = 0.0

    def schedule(self) -> None:
        if self._is_due:
            return
        self._is_due = True
        wait = frame_delay(time.monotonic(), last_at=self._last_at, key_at=self._attention.key_at)
        if wait <= 0:
            self._app.call_later(self._draw_frame)
        else:
            self._app.set_timer(wait, self._draw_frame)

    def _draw_frame(self) -> None:
        self._is_due = False
        if self._draw():
            self._is_due = True
            self._app.set_timer(BACKLOG_PAUSE_SECONDS, self._draw_frame)
            return
        self._last_at = time.monotonic()
        self._on_drawn()


T = TypeVar("T")

FOLLOWING = "following"


class StartOptions(Struct, frozen=True, kw_only=True):
    """Options with which the app starts."""

    first: OpenTask | ReopenTask | None = None
    first_message: str = ""
    """First message to a resumed session."""
    draft: str = ""
    """Initial text of the input area."""
    mode: str = ""
    home: str = ""
    ui: UiSettings = UiSettings()
    theme: str = DARK
    themes: Path | None = None
    """Folder of the user's own themes."""
    problem: str = ""
    """A problem with the settings, to show the user."""
    suggestion_seconds: float = 60.0
    """Seconds after which auto-approve picks the first suggestion of a question."""
    unfolded: bool = False
    """Show the whole output of every step."""
    command: str = ""
    """Name of a slash command to run at the start."""


class TaskController(App[RunEnd]):
    """Implements `Controller` and keeps the page up to date."""

    def __init__(
        self,
        host: Host,
        opening: StartOptions,
        inputs: InputHistory,
        driver: type[Driver] | None,
    ) -> None:
        super().__init__(driver_class=driver)
        self._host = host
        self._opening = opening
        home = opening.home
        for known in THEMES.values():
            self.register_theme(textual_theme(known))
        self.theme = opening.theme
        page = self._page = Page(inputs)
        self._attachments = page.composer.attachments = Attachments(self, page.attached.show, home)
        self._attention = Attention(self._write, opening.ui.notify, time.monotonic)
        self._redraw_pace = RedrawPace(self, self._attention, draw=self._draw, done=self._on_drawn)
        self._session = SessionView(host, self._start_following, self._redraw_pace.schedule)
        self._rendering = Rendering(page.transcript)
        self._questions = Questions(self, page.panel, page.composer, self._session, self._attention)
        self._status_updates = StatusUpdates(page, self._session, self._questions, home)
        self._switcher = TaskSwitcher(
            self, self._session, start=self._start_following, leave=self._leave_task
        )
        self._picker_control = PickerControl(self, page.slot, page.composer)
        self._drafting = Drafting(self, self, page.composer, inputs)

    @property
    def has_opened(self) -> bool:
        """Whether a session was opened, which can be resumed after the exit."""
        return self._switcher.has_opened

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
        return self._status_updates.about_next

    @property
    def intent(self) -> str:
        return self._status_updates.intent_now[0]

    @property
    def views(self) -> Mapping[str, View]:
        return self._session.views

    def events(self, task_id: str) -> Sequence[Event]:
        return self._session.events(task_id)

    @property
    def start(self) -> ViewStart:
        return self._session.root.start if self._session.root else ViewStart()

    @property
    def misses_events(self) -> bool:
        root = self._session.root
        return root is not None and (bool(root.start.seq) or not root.begun.is_set())

    async def read_past(self) -> bool:
        if self.start.seq:
            self.toast("Reading the whole session…")
        try:
            await self._session.read_past()
        except (CommandRejected, StorageError) as error:
            self.toast(str(error), "error")
            return False
        return True

    async def send(self, command: Command) -> bool:
        try:
            match command:
                case (
                    SwitchMode(task_id="")
                    | SwitchModel(task_id="")
                    | SwitchApproval(task_id="")
                    | SelectIntent(task_id="")
                ):
                    await self._status_updates.next.choose(command, self._host)
                    self._status_updates.update_header()
                case _:
                    await self._host.send(command)
        except (CommandRejected, StorageError) as refusal:
            self.toast(str(refusal), "warning")
            return False
        if isinstance(command, SwitchModel):
            self._status_updates.next.remember(command)
        if isinstance(command, Condense):
            self._session.note_condensing(command.task_id)
            self._status_updates.update_all()
        return True

    async def ask(self, query: Asking[T]) -> T:
        try:
            return await self._host.query(query)
        except StorageError as error:
            raise CommandRejected(str(error)) from error

    def toast(self, text: str, kind: ToastKind = "info") -> None:
        self._status_updates.toast(text, kind)

    async def open_task(self, task_id: str) -> None:
        if self._session.belongs_to_work(task_id):
            self._page.transcript.show_task(task_id)
        else:
            await self._switcher.open(task_id)

    async def new_task(self) -> None:
        await self._switcher.show_empty()

    def insert(self, text: str) -> None:
        self._page.composer.insert(text)
        self._page.composer.focus()

    def attach_text(self, name: str, text: str) -> None:
        self._attachments.add_text(name, text)
        self._page.composer.focus()

    def restore_text(self, text: str) -> None:
        if not self._page.composer.text:
            self._page.composer.set_text(text)

    def press(self, action: str) -> None:
        self.call_later(self.run_action, action)

    def _start_following(self, work: Coroutine[Any, Any, object]) -> object:
        return self.run_worker(work, group=FOLLOWING)

    def _write(self, text: str) -> None:
        if self._driver and not self._batch_count:
            self._driver.write(text)
            self._driver.flush()

    def _leave_task(self) -> None:
        self.workers.cancel_group(self, FOLLOWING)
        self._session.forget()
        self._rendering.forget()
        self._questions.forget()
        self._page.composer.focus()
        self._status_updates.update_all()

    def _draw(self) -> bool:
        """Draw what has arrived. Returns whether more is left."""
        with self.batch_update():
            more = self._rendering.catch_up(self._session)
            self._status_updates.update_page()
            if not more:
                self._status_updates.update_all()
        return more

    def _on_drawn(self) -> None:
        """Called when everything that has arrived is drawn."""
