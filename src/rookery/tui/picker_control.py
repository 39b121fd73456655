"""What opens below the input area: a picker, the to-do list, or the search."""

from collections.abc import Mapping, Sequence

from rich.text import Text
from textual.containers import Vertical
from textual.geometry import Size
from textual.widget import Widget

from rookery.core.event_list import live
from rookery.core.facts import Event, TaskOpened, Todo, TodosChanged
from rookery.core.text.terminal_text import harmless_line
from rookery.tui.composer import Composer, TriggerText
from rookery.tui.find_bar import FindBar
from rookery.tui.interfaces import Choice, Controller
from rookery.tui.pickers import PICKERS, Picker
from rookery.tui.rows.lines import cut
from rookery.tui.screens.side_screen import RELOAD_SECONDS
from rookery.tui.short_texts import one_line
from rookery.tui.theme import Theme, theme_of
from rookery.tui.transcript_view import TranscriptView

LINES = 10
CELLS = 20
_MARKS = {"pending": ("○", "muted"), "in_progress": ("◐", "accent"), "completed": ("✔", "good")}
_CHANGES = {"completed": "done", "in_progress": "started", "pending": "reset"}


def change_of(todo: Todo, before: Mapping[str, Todo]) -> str:
    """How an item changed since the previous list; empty if it did not."""
    was = before.get(todo.content)
    if was is None:
        return "new"
    return "" if was.status == todo.status else _CHANGES[todo.status]


def last_lists(
    events: Sequence[Event], now: Sequence[Todo] = ()
) -> tuple[Sequence[Todo], Sequence[Todo]]:
    """The current list and the previous one. The first event found the list `now`."""
    before: Sequence[Todo] = ()
    for event in live(events):
        match event.fact:
            case TaskOpened(todos=todos) | TodosChanged(todos=todos) if todos != now:
                before, now = now, todos
            case _:
                pass
    return now, before


def draw_todos(
    todos: Sequence[Todo], before: Sequence[Todo], width: int, theme: Theme, lines: int = LINES
) -> list[Text]:
    """The progress and the items around the current one."""
    if not todos:
        return [Text("There is no to-do list yet.", theme.fg(theme.muted))]
    earlier = {todo.content: todo for todo in before}
    first, last = _window(todos, lines - 1)
    rows = [_row(todo, earlier, width, theme) for todo in todos[first:last]]
    hidden = [f"{first} above" if first else "", f"{len(todos) - last} below"]
    more = ", ".join(filter(None, hidden[: 2 if last < len(todos) else 1]))
    return [_progress(todos, more, theme), *rows]


def _window(todos: Sequence[Todo], room: int) -> tuple[int, int]:
    current = next((at for at, todo in enumerate(todos) if todo.status != "completed"), len(todos))
    first = max(0, min(current - room // 3, len(todos) - room))
    return first, min(len(todos), first + room)


def _progress(todos: Sequence[Todo], more: str, theme: Theme) -> Text:
    done = sum(todo.status == "completed" for todo in todos)
    full = CELLS * done // len(todos)
    return Text.assemble(
        ("━" * full, theme.fg(theme.good)),
        ("━" * (CELLS - full), theme.fg(theme.line)),
        (f" {100 * done // len(todos)}%", theme.fg(theme.text, bold=True)),
        (f"  {done} of {len(todos)} done", theme.fg(theme.muted)),
        (f"   {more}" if more else "", theme.fg(theme.muted)),
    )


def _row(todo: Todo, before: Mapping[str, Todo], width: int, theme: Theme) -> Text:
    mark, ink = _MARKS[todo.status]
    words = theme.text if todo.status == "in_progress" else theme.muted
    change = change_of(todo, before) if before else ""
    content = Text(harmless_line(one_line(todo.content)), theme.fg(words))
    content = cut(content, width - 4 - len(change))
    return Text.assemble(
        (f"{mark} ", theme.fg(getattr(theme, ink))),
        content,
        (f"  {change}" if change else "", theme.fg(theme.accent, italic=True)),
    )


class TodoPanel(Widget):
    DEFAULT_CSS = "TodoPanel { height: auto; width: 1fr; padding: 0 1; }"

    def __init__(self, controller: Controller) -> None:
        super().__init__()
        self._controller = controller
        self._lists = self._now()

    def _now(self) -> tuple[Sequence[Todo], Sequence[Todo]]:
        controller = self._controller
        todos = controller.view.todos if controller.view else ()
        if controller.task_id is None:
            return todos, ()
        events = controller.events(controller.task_id)
        return todos, last_lists(events, controller.start.state.todos)[1]

    def on_mount(self) -> None:
        self.set_interval(RELOAD_SECONDS, self._reload)

    def _reload(self) -> None:
        todos = self._controller.view.todos if self._controller.view else ()
        if todos != self._lists[0]:
            self._lists = self._now()
            self.refresh(layout=True)

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        return min(LINES, 1 + len(self._lists[0]))

    def render(self) -> Text:
        width = self.content_size.width
        return Text("\n", no_wrap=True, end="").join(
            draw_todos(*self._lists, width, theme_of(self))
        )


class PickerControl:
    """Opens and closes the slot. A closed picker stays closed until another trigger is typed."""

    def __init__(self, controller: Controller, slot: Vertical, composer: Composer) -> None:
        self._controller = controller
        self._slot = slot
        self._composer = composer
        self._picker: Picker | None = None
        self._trigger = ""
        self._closed_by_hand = False

    @property
    def is_open(self) -> bool:
        return bool(self._slot.children)

    @property
    def is_picking(self) -> bool:
        return self._picker is not None

    async def on_typed(self, typed: TriggerText | None) -> None:
        """Update the picker for the text after a trigger, or close it."""
        if typed is None:
            self._closed_by_hand = False
            if self._picker:
                await self._empty()
            return
        if self._closed_by_hand:
            return
        if self._picker is None or self._trigger != typed.trigger:
            await self._open(PICKERS[typed.trigger](self._controller))
            self._trigger = typed.trigger
        assert self._picker
        await self._picker.search(typed.text)

    async def key(self, key: str) -> bool:
        """Pass a key to the picker. Returns whether it was used."""
        if self._picker is None:
            return False
        if key in ("up", "down"):
            self._picker.move(-1 if key == "up" else 1)
            return True
        # a fast typist is ahead of the search, so search now
        if (choice := await self._picker.settle()) is None:
            return key == "tab"
        is_typed = self._trigger == "/" and choice.insert.strip() == self._composer.text.strip()
        if key == "enter" and is_typed and not choice.action:
            return False
        await self.take(choice)
        return True

    async def take(self, choice: Choice) -> None:
        await self._empty()
        self._composer.complete(choice.insert)
        self._composer.focus()
        if choice.action:
            await choice.action()

    async def close(self) -> bool:
        """Close the slot. Returns whether it was open."""
        was_open = self.is_open
        self._closed_by_hand = self._picker is not None
        await self._empty()
        return was_open

    async def cancel(self) -> bool:
        """Close the slot on Esc; also removes the `?` that opened the list of keys."""
        asked_for_keys = self._picker is not None and self._trigger == "?"
        was_open = await self.close()
        if asked_for_keys:
            self._composer.complete("")
        return was_open

    async def toggle_todos(self) -> None:
        if self._slot.query(TodoPanel):
            await self.close()
        elif self._controller.view and self._controller.view.todos:
            await self._empty()
            await self._fill(TodoPanel(self._controller))
        else:
            self._controller.toast("There is no to-do list.")

    async def open_find(self, transcript: TranscriptView, words: str) -> None:
        await self._empty()
        await self._fill(FindBar(transcript, words))

    async def _open(self, picker: Picker) -> None:
        await self._empty()
        await self._fill(picker)
        self._picker = picker
        self._composer.picking = True

    async def _fill(self, widget: Picker | TodoPanel | FindBar) -> None:
        self._slot.display = True
        await self._slot.mount(widget)

    async def _empty(self) -> None:
        self._picker = None
        self._composer.picking = False
        await self._slot.remove_children()
        self._slot.display = False
