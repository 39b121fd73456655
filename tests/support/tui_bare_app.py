"""A bare app for testing pickers and side screens."""

from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, ClassVar, TypeVar

from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.pilot import Pilot
from textual.widget import Widget
from textual.widgets import Static

from rookery.core.commands import Command
from rookery.core.facts import Event
from rookery.core.folds.view import View
from rookery.core.queries import About, AskAbout, Asking, ViewStart
from rookery.errors import CommandRejected
from rookery.protocol.codec import Host
from rookery.tui.followed_tasks import Following
from rookery.tui.interfaces import ToastKind
from rookery.tui.page import CSS
from rookery.tui.screens.side_screen import SideScreen
from rookery.tui.theme import DARK, THEMES, textual_theme
from support.scripted_host import ScriptedHost
from support.tui_screen_scenes import answering_host, worked
from support.tui_waiting import seen, until

T = TypeVar("T")


class BareApp(App[None]):
    """A `Controller` that follows a given task, and records what it is asked to do."""

    CSS = CSS
    ENABLE_COMMAND_PALETTE = False
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+o", "unfold_all", "Unfold or fold everything"),
        Binding("f1", "help", "All keys"),
    ]

    def __init__(self, host: Host, task_id: str | None = None, theme: str = DARK) -> None:
        super().__init__()
        self._bare_host = host
        self._begin_with = task_id
        self._bare_about = About()
        self._following = Following(host, self._start, lambda: None)
        self.toasts: list[str] = []
        self.inserted: list[str] = []
        self.attached: list[tuple[str, str]] = []
        self.pressed: list[str] = []
        self.opened: list[str] = []
        self.renewed = 0
        for each in THEMES.values():
            self.register_theme(textual_theme(each))
        self.theme = theme

    def compose(self) -> ComposeResult:
        yield Static(id="page")
        with Vertical(id="bottom"):
            yield Vertical(id="panel")

    async def on_mount(self) -> None:
        self._bare_about = await self._bare_host.query(AskAbout())
        if self._begin_with:
            self.run_worker(self._following.follow(self._begin_with))
        self.set_interval(0.02, self._catch_up)

    def _start(self, work: Coroutine[Any, Any, None]) -> object:
        return self.run_worker(work)

    def _catch_up(self) -> None:
        for task in self._following.tasks:
            task.catch_up(1.0)

    async def show(self, widget: Widget) -> None:
        """Mount a picker or a panel where the app would."""
        panel = self.query_one("#panel")
        panel.styles.display = "block"
        await panel.mount(widget)

    @property
    def host(self) -> Host:
        return self._bare_host

    @property
    def task_id(self) -> str | None:
        return self._following.root.task_id if self._following.root else None

    @property
    def view(self) -> View | None:
        return self._following.root.view if self._following.root else None

    @property
    def about(self) -> About:
        return self._bare_about

    @property
    def intent(self) -> str:
        view = self.view
        return view.intent.intent_id if view and view.intent else ""

    @property
    def views(self) -> Mapping[str, View]:
        return self._following.views

    def events(self, task_id: str) -> Sequence[Event]:
        task = self._following.task(task_id)
        return task.events if task else ()

    async def send(self, command: Command) -> bool:
        try:
            await self._bare_host.send(command)
        except CommandRejected as refusal:
            self.toast(str(refusal), "warning")
            return False
        return True

    async def ask(self, query: Asking[T]) -> T:
        return await self._bare_host.query(query)

    def toast(self, text: str, kind: ToastKind = "info") -> None:
        self.toasts.append(text)

    @property
    def start(self) -> ViewStart:
        return ViewStart()

    @property
    def misses_events(self) -> bool:
        return False

    async def read_past(self) -> None:
        pass

    async def open_task(self, task_id: str) -> None:
        self.opened.append(task_id)

    async def new_task(self) -> None:
        self.renewed += 1

    def insert(self, text: str) -> None:
        self.inserted.append(text)

    def attach_text(self, name: str, text: str) -> None:
        self.attached.append((name, text))

    def restore_text(self, text: str) -> None:
        self.inserted.append(text)

    def press(self, action: str) -> None:
        self.pressed.append(action)


class BareSession:
    """The app with a task in progress, and helpers to use it."""

    def __init__(self, host: ScriptedHost, app: BareApp, pilot: Pilot[Any]) -> None:
        self.host, self.app, self.pilot = host, app, pilot

    async def open(self, screen: type[SideScreen[Any]]) -> None:
        await self.app.push_screen(screen(self.app))
        await self.until(lambda: isinstance(self.app.screen, screen))

    async def until(self, happened: Callable[[], object]) -> None:
        await until(self.pilot, happened)

    async def sees(self, *words: str) -> str:
        await self.until(lambda: all(word in seen(self.pilot) for word in words))
        return seen(self.pilot)

    async def press(self, *keys: str) -> None:
        await self.pilot.press(*keys)

    @property
    def closed(self) -> bool:
        return not isinstance(self.app.screen, SideScreen)


@asynccontextmanager
async def handler(
    task: str | None = "t1", size: tuple[int, int] = (80, 24), theme: str = DARK
) -> AsyncIterator[BareSession]:
    host = answering_host()
    worked(host)
    app = BareApp(host, task, theme)
    async with app.run_test(size=size) as pilot:
        if task:
            await until(pilot, lambda: len(app.views) == 3 and app.view and app.view.queue)
        yield BareSession(host, app, pilot)
