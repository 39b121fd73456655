"""Going back to a point: what that would do, before it is done."""

from collections.abc import Iterator
from enum import Enum
from typing import ClassVar

from rich.text import Text
from textual.binding import Binding, BindingType

from rookery.core.commands import RestoreFiles, Rewind
from rookery.core.folds.points import Point
from rookery.core.queries import AskRehearsal, RestoreRehearsal
from rookery.core.replies import NO_FILE_PUT_BACK
from rookery.core.text.terminal_text import harmless_line, visible_line
from rookery.errors import CommandRejected
from rookery.tui.interfaces import Controller
from rookery.tui.pickers.pick_list import do_latest
from rookery.tui.rows.lines import cut, indented, wrapped
from rookery.tui.screens.side_screen import ReadingScreen
from rookery.tui.short_texts import one_line
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
        Binding("y", "go_back", "go back"),
        Binding("o", "overwrite", "also over changes of others"),
        Binding("escape", "close", "leave it as it is"),
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
        self.call(f"Take back {self._back.value}?")
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
        self.tell("looking what would change")
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
            return f"Went back: {self._back.value}."
        words = f"Went back: {Back.WORDS.value}. " if self._back is Back.BOTH else ""
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
    yield Text("To before:", quiet)
    yield from indented([cut(what, width - 2)], Text("  "), Text("  "))
    if back is not Back.FILES:
        yield Text()
        yield from wrapped(Text("The model forgets this and all that came after it."), width)
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
    yield from _paths("written back", rehearsal.written, theme.good, "←", width, theme)
    yield from _paths("removed", rehearsal.removed, theme.bad, "−", width, theme)
    kept = "kept, with what somebody else has changed since"
    yield from _paths(kept, rehearsal.kept, theme.careful, "=", width, theme)
    unsaved = "not on record, so not to be brought back"
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
