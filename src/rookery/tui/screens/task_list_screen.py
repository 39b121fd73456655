"""The list of sessions: search, open or delete one."""

import time
from abc import abstractmethod
from collections.abc import Sequence
from functools import partial
from typing import ClassVar, Generic, TypeVar

import anyio
from rich.text import Text
from textual.binding import Binding, BindingType
from textual.widget import Widget
from textual.widgets import Input, Static

from rookery.core.commands import DeleteTask
from rookery.core.queries import AskTasks, KnownTask
from rookery.core.text.terminal_text import harmless_line, visible_line
from rookery.errors import CommandRejected
from rookery.tui.interfaces import Controller
from rookery.tui.pickers.pick_list import LineField, PickList, run_latest
from rookery.tui.rows.lines import cut, wrapped
from rookery.tui.screens.side_screen import SideScreen
from rookery.tui.short_texts import ago, money, one_line, state_mark
from rookery.tui.status import short_number
from rookery.tui.theme import Theme, theme_of

T = TypeVar("T")
PAUSE_SECONDS = 0.15

MOVING: list[BindingType] = [
    Binding("up", "move(-1)", "Up", show=False),
    Binding("down", "move(1)", "Down", show=False),
    Binding("pageup", "page(-1)", "A page up", show=False),
    Binding("pagedown", "page(1)", "A page down", show=False),
]


class ListScreen(SideScreen[None], Generic[T]):
    """A list with a filter. `find` returns the rows for the filter, `take` handles the picked
    row."""

    INVITATION: ClassVar[str] = "Type to filter"
    NOTHING: ClassVar[str] = "No matches."
    BINDINGS: ClassVar[list[BindingType]] = MOVING

    def __init__(self, controller: Controller) -> None:
        super().__init__(controller)
        self.list = PickList[T](self.draw, self.name_of)
        self._input = LineField(placeholder=self.INVITATION, select_on_focus=False)
        self._found_for: str | None = None
        self._take_when_found = False
        """Whether to take the best row as soon as the search has finished."""

    def parts(self) -> list[Widget]:
        return [self._input, self.list]

    def on_mount(self) -> None:
        super().on_mount()
        self._input.focus()
        self.reload()

    @abstractmethod
    async def find(self, words: str) -> Sequence[T]: ...

    @abstractmethod
    async def take(self, item: T) -> None: ...

    @abstractmethod
    def draw(self, item: T, width: int, theme: Theme) -> Text: ...

    @abstractmethod
    def name_of(self, item: T) -> str: ...

    def reload(self, *, after: float = 0.0) -> None:
        """Search again; cancelled if the filter changes."""
        run_latest(self, partial(self._reload, self._input.value, after))

    async def _reload(self, words: str, after: float) -> None:
        await anyio.sleep(after)
        nothing = self.NOTHING
        try:
            found = await self.find(words)
        except CommandRejected as refusal:
            found, nothing = (), harmless_line(str(refusal))
        fresh, self._found_for = self._found_for not in (None, words), words
        self.put(found, nothing, best_first=fresh)
        if self._take_when_found:
            self.call_later(self.action_take)

    def put(self, items: Sequence[T], nothing: str, *, best_first: bool) -> None:
        self.list.show(items, nothing=nothing, best_first=best_first)
        self.set_subtitle(f"{len(items)}")

    def on_input_changed(self, message: Input.Changed) -> None:
        message.stop()
        self._take_when_found = False
        self.reload(after=PAUSE_SECONDS)

    async def on_input_submitted(self, message: Input.Submitted) -> None:
        message.stop()
        await self.action_take()

    async def on_pick_list_picked(self, message: PickList.Picked) -> None:
        message.stop()
        await self.action_take()

    async def action_take(self) -> None:
        self._take_when_found = self._found_for != self._input.value
        if self._take_when_found:
            self.reload()
        elif (item := self.list.marked) is not None:
            await self.take(item)

    def action_move(self, by: int) -> None:
        self.list.move(by)

    def action_page(self, by: int) -> None:
        self.list.page(by)


DETAIL_LINES = 3


class TaskListScreen(ListScreen[KnownTask]):
    TITLE_TEXT = "Tasks"
    INVITATION = "Search"
    NOTHING = "No matching session in this workspace."
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "take", "open"),
        Binding("ctrl+d", "delete", "delete", priority=True),
    ]
    DEFAULT_CSS = """
    TaskListScreen #detail { height: 4; padding: 1 3 0 3; color: $muted; }
    """

    def __init__(self, controller: Controller) -> None:
        super().__init__(controller)
        self._detail = Static(id="detail")

    def parts(self) -> list[Widget]:
        return [*super().parts(), self._detail]

    async def find(self, words: str) -> Sequence[KnownTask]:
        """Sub-tasks are listed only if they match a search."""
        found = await self._controller.ask(AskTasks(words=words))
        return [task for task in found if words.strip() or task.parent is None]

    async def take(self, item: KnownTask) -> None:
        self.dismiss(None)
        await self._controller.open_task(item.task_id)

    def name_of(self, item: KnownTask) -> str:
        return item.task_id

    def draw(self, item: KnownTask, width: int, theme: Theme) -> Text:
        return draw_task(item, width, theme, here=item.task_id == self._controller.task_id)

    def on_pick_list_marked(self, message: PickList.Marked) -> None:
        message.stop()
        self.theme_changed()

    def on_resize(self) -> None:
        self.theme_changed()

    def theme_changed(self) -> None:
        width = min(122, max(20, self.size.width - 10))
        task = self.list.marked
        self._detail.update(task_detail(task, width, theme_of(self)) if task else "")

    def action_delete(self) -> None:
        if task := self.list.marked:
            what = f"“{_title(task)}” and everything stored of it. Your files stay."
            asking = ConfirmScreen(self._controller, "Delete this session?", what)
            self.app.push_screen(asking, lambda yes: self._delete(task, yes=bool(yes)))

    async def _delete(self, task: KnownTask, *, yes: bool) -> None:
        if not yes:
            return
        if task.task_id == self._controller.task_id:
            self._controller.toast("This session is open. Start a new one first (/new).", "warning")
        elif await self._controller.send(DeleteTask(task_id=task.task_id)):
            self._controller.toast("Deleted.", "success")
            self.reload()


def _title(task: KnownTask) -> str:
    return harmless_line(one_line(task.title)) or "(untitled)"


def draw_task(task: KnownTask, width: int, theme: Theme, *, here: bool) -> Text:
    muted = theme.fg(theme.muted)
    when = ago(task.updated, time.time_ns() // 1_000_000)
    tail = Text(f"{money(task.cost):>8}  {when:>10}", muted)
    ink = theme.fg(theme.accent, bold=True) if here else theme.fg(theme.text)
    room = width - tail.cell_len - 4
    title = cut(Text(_title(task), ink), room)
    title.pad_right(max(0, room - title.cell_len))
    return Text.assemble(state_mark(task.status, theme), " ", title, "  ", tail)


def task_detail(task: KnownTask, width: int, theme: Theme) -> Text:
    """The excerpt that matches the search, or the title; below it status, mode, tokens and id."""
    words = harmless_line(one_line(task.excerpt)) or _title(task)
    lines = wrapped(Text(words, theme.fg(theme.text)), width)
    if len(lines) > DETAIL_LINES - 1:
        lines = [*lines[: DETAIL_LINES - 2], cut(Text(" ").join(lines[DETAIL_LINES - 2 :]), width)]
    tokens = f"↑{short_number(task.tokens_in)} ↓{short_number(task.tokens_out)}"
    facts = [task.status, harmless_line(task.mode), tokens, task.task_id]
    return Text("\n").join([*lines, cut(Text(" · ".join(filter(None, facts))), width)])


class ConfirmScreen(SideScreen[bool]):
    """Only `y` confirms: Enter may have been meant for the screen below."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "agree", "yes"),
        Binding("n", "close", "no", show=False),
        Binding("escape", "close", "no"),
    ]
    DEFAULT_CSS = """
    ConfirmScreen > .frame { width: 64; height: auto; }
    ConfirmScreen Static { height: auto; padding: 1 1 0 1; }
    """

    def __init__(self, controller: Controller, title: str, what: str) -> None:
        super().__init__(controller)
        self._heading = title
        self._what = what

    def parts(self) -> list[Widget]:
        return [Static(Text(visible_line(self._what)))]

    def on_mount(self) -> None:
        super().on_mount()
        self.set_title(self._heading)

    def action_agree(self) -> None:
        self.dismiss(True)

    def action_close(self) -> None:
        self.dismiss(False)
