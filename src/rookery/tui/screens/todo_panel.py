"""The list of what is to be done, as a panel below the input area."""

from collections.abc import Mapping, Sequence

from rich.text import Text
from textual.geometry import Size
from textual.widget import Widget

from rookery.core.facts import Event, TaskOpened, Todo, TodosChanged, live
from rookery.core.text.terminal_text import harmless_line
from rookery.tui.interfaces import Desk
from rookery.tui.pickers.current_theme import worn
from rookery.tui.rows.lines import cut
from rookery.tui.screens.short_texts import one_line
from rookery.tui.screens.side_screen import LOOK_AGAIN_SECONDS
from rookery.tui.theme import Look

LINES = 10
CELLS = 20
_MARKS = {"pending": ("○", "quiet"), "in_progress": ("◐", "accent"), "completed": ("✔", "good")}
_CHANGES = {"completed": "done", "in_progress": "started", "pending": "reset"}


def changed(todo: Todo, before: Mapping[str, Todo]) -> str:
    """What became of an item since the list before; nothing is said of one that is as it was."""
    was = before.get(todo.content)
    if was is None:
        return "new"
    return "" if was.status == todo.status else _CHANGES[todo.status]


def last_lists(events: Sequence[Event]) -> tuple[Sequence[Todo], Sequence[Todo]]:
    """The list as it is, and as it was before."""
    now: Sequence[Todo] = ()
    before: Sequence[Todo] = ()
    for event in live(events):
        match event.fact:
            case TaskOpened(todos=todos) | TodosChanged(todos=todos) if todos != now:
                before, now = now, todos
            case _:
                pass
    return now, before


def drawn_todos(
    todos: Sequence[Todo], before: Sequence[Todo], width: int, look: Look, lines: int = LINES
) -> list[Text]:
    """How far it is, and the items around the one at hand."""
    if not todos:
        return [Text("There is no list yet.", look.ink(look.quiet))]
    earlier = {todo.content: todo for todo in before}
    first, last = _around(todos, lines - 1)
    rows = [_row(todo, earlier, width, look) for todo in todos[first:last]]
    hidden = [f"{first} above" if first else "", f"{len(todos) - last} below"]
    more = ", ".join(filter(None, hidden[: 2 if last < len(todos) else 1]))
    return [_progress(todos, more, look), *rows]


def _around(todos: Sequence[Todo], room: int) -> tuple[int, int]:
    at_hand = next((at for at, todo in enumerate(todos) if todo.status != "completed"), len(todos))
    first = max(0, min(at_hand - room // 3, len(todos) - room))
    return first, min(len(todos), first + room)


def _progress(todos: Sequence[Todo], more: str, look: Look) -> Text:
    done = sum(todo.status == "completed" for todo in todos)
    full = CELLS * done // len(todos)
    return Text.assemble(
        ("━" * full, look.ink(look.good)),
        ("━" * (CELLS - full), look.ink(look.line)),
        (f" {100 * done // len(todos)}%", look.ink(look.words, bold=True)),
        (f"  {done} of {len(todos)} done", look.ink(look.quiet)),
        (f"   {more}" if more else "", look.ink(look.quiet)),
    )


def _row(todo: Todo, before: Mapping[str, Todo], width: int, look: Look) -> Text:
    mark, ink = _MARKS[todo.status]
    words = look.words if todo.status == "in_progress" else look.quiet
    news = changed(todo, before) if before else ""
    content = Text(harmless_line(one_line(todo.content)), look.ink(words))
    content = cut(content, width - 4 - len(news))
    return Text.assemble(
        (f"{mark} ", look.ink(getattr(look, ink))),
        content,
        (f"  {news}" if news else "", look.ink(look.accent, italic=True)),
    )


class TodoPanel(Widget):
    DEFAULT_CSS = "TodoPanel { height: auto; width: 1fr; padding: 0 1; }"

    def __init__(self, desk: Desk) -> None:
        super().__init__()
        self._desk = desk
        self._lists = self._now()

    def _now(self) -> tuple[Sequence[Todo], Sequence[Todo]]:
        desk = self._desk
        todos = desk.view.todos if desk.view else ()
        before = last_lists(desk.events(desk.task_id))[1] if desk.task_id else ()
        return todos, before

    def on_mount(self) -> None:
        self.set_interval(LOOK_AGAIN_SECONDS, self._look)

    def _look(self) -> None:
        todos = self._desk.view.todos if self._desk.view else ()
        if todos != self._lists[0]:
            self._lists = self._now()
            self.refresh(layout=True)

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        return min(LINES, 1 + len(self._lists[0]))

    def render(self) -> Text:
        width = self.content_size.width
        return Text("\n", no_wrap=True, end="").join(drawn_todos(*self._lists, width, worn(self)))
