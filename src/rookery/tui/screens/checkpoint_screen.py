"""The points of the task, what was done to files since each, and the way back."""

from collections.abc import Iterator, Sequence
from enum import Enum
from typing import ClassVar

import anyio
from rich.text import Text
from textual.binding import Binding, BindingType
from textual.containers import Container
from textual.widget import Widget

from rookery.core.commands import RestoreFiles, Rewind
from rookery.core.folds.points import Point, points
from rookery.core.queries import AskDifferences, AskRehearsal, FileDifference, RestoreRehearsal
from rookery.core.replies import NO_FILE_PUT_BACK
from rookery.core.text.terminal_text import harmless_line, visible_line
from rookery.errors import CommandRejected
from rookery.tui.interfaces import Controller
from rookery.tui.pickers.pick_list import PickList, do_latest
from rookery.tui.rows.lines import Piece, cut, indented, wrapped
from rookery.tui.rows.tool_calls import diff_lines, diff_pieces
from rookery.tui.screens.side_screen import LOOK_AGAIN_SECONDS, ReadingScreen
from rookery.tui.short_texts import clock, counted, one_line
from rookery.tui.theme import Theme, theme_of


class Back(Enum):
    """What goes back."""

    WORDS = "the conversation"
    FILES = "the files"
    BOTH = "the conversation and the files"


class RestoreScreen(ReadingScreen[bool]):
    """Only `y` does it. Changes of others are kept unless `o` says otherwise, and what would be
    lost then is shown before there is another `y`."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "go_back", "rewind"),
        Binding("o", "overwrite", "overwrite changes of others"),
        Binding("escape", "close", "cancel"),
    ]
    DEFAULT_CSS = "RestoreScreen > .frame { max-width: 100; max-height: 30; }"

    def __init__(self, controller: Controller, point: Point, back: Back) -> None:
        super().__init__(controller)
        self._task_id = controller.task_id or ""
        self._point = point
        self._back = back
        self._overwrite = False
        self._rehearsal: RestoreRehearsal | None = None
        self._going = False

    def on_mount(self) -> None:
        super().on_mount()
        self.call(f"Rewind {self._back.value}?")
        self._rehearse()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action == "go_back":
            return self._may_go
        if action == "overwrite":
            return bool(self._rehearsal and self._rehearsal.kept and not self._overwrite)
        return True

    @property
    def _may_go(self) -> bool:
        if self._going:
            return False
        return self._back is Back.WORDS or bool(self._rehearsal and not self._rehearsal.problem)

    def _rehearse(self) -> None:
        self._rehearsal = None
        if self._back is Back.WORDS:
            self._draw()
        else:
            do_latest(self, self._ask)

    async def _ask(self) -> None:
        self.tell("checking what would change")
        try:
            self._rehearsal = await self._controller.ask(
                AskRehearsal(task_id=self._task_id, to=self._point.to, overwrite=self._overwrite)
            )
        except CommandRejected as refusal:
            self._rehearsal = RestoreRehearsal(problem=str(refusal))
        self.tell("")
        self._draw()

    def _draw(self) -> None:
        point, back, rehearsal = self._point, self._back, self._rehearsal
        overwrite = self._overwrite
        self.write(
            lambda width: list(
                drawn_rehearsal(point, back, rehearsal, width, theme_of(self), overwrite=overwrite)
            )
        )
        self.change_keys()

    def action_overwrite(self) -> None:
        self._overwrite = True
        self._rehearse()

    async def action_go_back(self) -> None:
        self._going = True
        if await self._went_back():
            self._controller.toast(self._said, "success")
            if self._takes_back_words:
                self._controller.take_back(self._point.what)
            self.dismiss(True)
        else:
            self._going = False

    @property
    def _said(self) -> str:
        plan = self._rehearsal
        if self._back is Back.WORDS or (plan and (plan.written or plan.removed)):
            return f"Rewound: {self._back.value}."
        words = f"Rewound: {Back.WORDS.value}. " if self._back is Back.BOTH else ""
        return f"{words}{NO_FILE_PUT_BACK}"

    @property
    def _takes_back_words(self) -> bool:
        """Words of the user, and not those with which the task began: they stay."""
        began = next((event.ts for event in self._controller.events(self._task_id)), None)
        said_later = self._point.by_user and self._point.ts != began
        return said_later and self._back is not Back.FILES

    async def _went_back(self) -> bool:
        to = self._point.to
        restore = RestoreFiles(task_id=self._task_id, to=to, overwrite=self._overwrite)
        if self._back is not Back.WORDS and not await self._controller.send(restore):
            return False
        rewind = Rewind(task_id=self._task_id, to=to)
        return self._back is Back.FILES or await self._controller.send(rewind)

    def action_close(self) -> None:
        self.dismiss(False)


def drawn_rehearsal(
    point: Point,
    back: Back,
    rehearsal: RestoreRehearsal | None,
    width: int,
    theme: Theme,
    *,
    overwrite: bool = False,
) -> Iterator[Text]:
    quiet = theme.ink(theme.quiet)
    what = Text(visible_line(one_line(point.what)), theme.ink(theme.words, bold=True))
    yield Text("To the point before:", quiet)
    yield from indented([cut(what, width - 2)], Text("  "), Text("  "))
    if back is not Back.FILES:
        yield Text()
        yield from wrapped(Text("The model forgets this and everything after it."), width)
    if back is Back.WORDS:
        yield from wrapped(Text("The files stay as they are.", quiet), width)
        return
    if rehearsal is None:
        return
    if rehearsal.problem:
        yield Text()
        yield from wrapped(Text(harmless_line(rehearsal.problem), theme.ink(theme.bad)), width)
        return
    if overwrite:
        yield Text()
        warning = "Changes that others made to these files will be lost."
        yield from wrapped(Text(warning, theme.ink(theme.bad, bold=True)), width)
    if not (rehearsal.written or rehearsal.removed):
        yield Text()
        yield Text("No file changes.", quiet)
    yield from _paths("restored", rehearsal.written, theme.good, "←", width, theme)
    yield from _paths("removed", rehearsal.removed, theme.bad, "−", width, theme)
    kept = "kept, because someone else changed it"
    yield from _paths(kept, rehearsal.kept, theme.careful, "=", width, theme)
    unsaved = "not stored, so it cannot be restored"
    yield from _paths(unsaved, rehearsal.unsaved, theme.careful, "?", width, theme)


def _paths(
    what: str, paths: tuple[str, ...], ink: str, mark: str, width: int, theme: Theme
) -> Iterator[Text]:
    if not paths:
        return
    yield Text()
    files = "file" if len(paths) == 1 else "files"
    yield from wrapped(Text(f"{len(paths)} {files} {what}:", theme.ink(theme.quiet)), width)
    for path in paths:
        lines = wrapped(Text(visible_line(path)), width - 4)
        yield from indented(lines, Text(f"  {mark} ", theme.ink(ink, bold=True)), Text("    "))


PAUSE_SECONDS = 0.15


class CheckpointScreen(ReadingScreen[None]):
    TITLE_WORDS = "Checkpoints"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("b,enter", "back('BOTH')", "rewind"),
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
        self.list.show(found, nothing="There is nothing to rewind yet.")
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
        heading = "File changes in this step" if step else "File changes since then"
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
            yield Text("not a text file", quiet)


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
