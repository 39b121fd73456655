"""The points of the task, what was done to files since each, and the way back."""

from collections.abc import Iterator, Sequence
from typing import ClassVar

import anyio
from rich.text import Text
from textual.binding import Binding, BindingType
from textual.containers import Container
from textual.widget import Widget

from rookery.core.folds.points import Point, points
from rookery.core.queries import AskDifferences, FileDifference
from rookery.core.text.terminal_text import harmless_line, visible_line
from rookery.errors import CommandRejected
from rookery.tui.interfaces import Controller
from rookery.tui.pickers.pick_list import PickList, do_latest
from rookery.tui.rows.diffs import diff_lines, diff_pieces
from rookery.tui.rows.lines import Piece, cut, wrapped
from rookery.tui.screens.restore_screen import Back, RestoreScreen
from rookery.tui.screens.side_screen import LOOK_AGAIN_SECONDS, ReadingScreen
from rookery.tui.short_texts import clock, counted, one_line
from rookery.tui.theme import Theme, theme_of

PAUSE_SECONDS = 0.15


class CheckpointScreen(ReadingScreen[None]):
    TITLE_WORDS = "Checkpoints"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("b,enter", "back('BOTH')", "go back"),
        Binding("f", "back('FILES')", "only files"),
        Binding("c", "back('WORDS')", "only conversation"),
        Binding("t", "only_step", "one step"),
        Binding("up", "move(-1)", "Up", show=False),
        Binding("down", "move(1)", "Down", show=False),
        Binding("pageup", "scroll_pages(-1)", "Changes: a page up", show=False),
        Binding("pagedown,space", "scroll_pages(1)", "Changes: a page down", show=False),
    ]
    DEFAULT_CSS = """
    CheckpointScreen .both { layout: vertical; height: 1fr; }
    CheckpointScreen PickList { height: 2fr; }
    CheckpointScreen TextScrollView { height: 3fr; border-top: solid $line; }
    CheckpointScreen.-wide .both { layout: horizontal; }
    CheckpointScreen.-wide PickList { height: 1fr; width: 2fr; }
    CheckpointScreen.-wide TextScrollView {
        height: 1fr; width: 3fr; border-top: none; border-left: solid $line;
    }
    """

    def __init__(self, controller: Controller) -> None:
        super().__init__(controller)
        self._task_id = controller.task_id or ""
        self._events = 0
        self._only_step = False
        self.list = PickList[Point](drawn_point, lambda point: f"{point.to} {point.ts}")

    def parts(self) -> list[Widget]:
        return [Container(self.list, self.scroll_view, classes="both")]

    def on_mount(self) -> None:
        super().on_mount()
        self._look()
        self.set_interval(LOOK_AGAIN_SECONDS, self._look)

    def _look(self) -> None:
        events = self._controller.events(self._task_id)
        if len(events) == self._events and self._events:
            return
        self._events = len(events)
        found = points(events)[::-1]
        self.list.show(found, nothing="There is nothing to go back to yet.")
        self.tell(counted(len(found), "point"))
        self._show_changes()

    def action_move(self, by: int) -> None:
        self.list.move(by)

    def action_only_step(self) -> None:
        self._only_step = not self._only_step
        self._show_changes()

    def on_pick_list_marked(self, message: PickList.Marked) -> None:
        message.stop()
        self._show_changes()

    def on_pick_list_picked(self, message: PickList.Picked) -> None:
        """A click shows what was done; to go back takes more."""
        message.stop()

    def _show_changes(self) -> None:
        do_latest(self, self._changes)

    async def _changes(self) -> None:
        if (point := self.list.marked) is None:
            return
        await anyio.sleep(PAUSE_SECONDS)
        step = self._only_step
        until = self._next_of(point) if step else None
        try:
            found = await self._controller.ask(
                AskDifferences(task_id=self._task_id, since=point.to, until=until)
            )
            problem = ""
        except CommandRejected as refusal:
            found, problem = (), str(refusal)
        heading = "Done to files in this step" if step else "Done to files since then"
        self.write(
            lambda width: list(drawn_changes(heading, found, problem, width, theme_of(self)))
        )

    def _next_of(self, point: Point) -> int | None:
        later = [each.to for each in self.list.items if each.to > point.to]
        return min(later, default=None)

    def action_back(self, what: str) -> None:
        if point := self.list.marked:
            going = RestoreScreen(self._controller, point, Back[what])
            self.app.push_screen(going, self._went_back)

    def _went_back(self, went: bool | None) -> None:
        if went:
            self.dismiss(None)


def drawn_point(point: Point, width: int, theme: Theme) -> Text:
    mark = Text("›", theme.ink(theme.accent)) if point.by_user else Text(" ")
    if point.changed_files:
        mark = Text("±", theme.ink(theme.good))
    ink = theme.ink(theme.words, bold=point.by_user)
    if not (point.by_user or point.changed_files):
        ink = theme.ink(theme.quiet)
    what = Text(harmless_line(one_line(point.what)), ink)
    return Text.assemble(
        (f"{clock(point.ts)} ", theme.ink(theme.quiet)), mark, " ", cut(what, width)
    )


def drawn_changes(
    heading: str, found: Sequence[FileDifference], problem: str, width: int, theme: Theme
) -> Iterator[Text | Piece]:
    quiet = theme.ink(theme.quiet)
    if problem:
        yield from wrapped(Text(harmless_line(problem), theme.ink(theme.careful)), width)
        return
    if not found:
        yield Text(f"{heading}: nothing.", quiet)
        return
    files = "file" if len(found) == 1 else "files"
    yield Text(f"{heading}: {len(found)} {files}.", quiet)
    for each in found:
        yield Text()
        yield cut(_head(each, theme), width)
        if each.diff:
            yield from diff_pieces(each.diff, width, theme)
        else:
            yield Text("not a text", quiet)


_MARKS = {"added": ("new", "good"), "changed": ("", "quiet"), "removed": ("removed", "bad")}


def _head(change: FileDifference, theme: Theme) -> Text:
    signs = [line.sign for line in diff_lines(change.diff)]
    word, ink = _MARKS[change.change]
    head = Text(visible_line(change.path), theme.ink(theme.words, bold=True))
    if signs:
        head.append(f"  +{signs.count('+')}", theme.ink(theme.good))
        head.append(f" −{signs.count('-')}", theme.ink(theme.bad))
    head.append(f"  {word}" if word else "", theme.ink(getattr(theme, ink)))
    return head
