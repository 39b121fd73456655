"""Lists the checkpoints, shows the file changes since each, and rewinds to one."""

from collections.abc import Iterator, Sequence
from typing import ClassVar

import anyio
from rich.text import Text
from textual.binding import BindingType
from textual.containers import Container
from textual.widget import Widget

from rookery.core.commands import RestoreFiles, Rewind
from rookery.core.folds.points import Point, points
from rookery.core.queries import AskDifferences, AskRehearsal, FileDifference, RestoreRehearsal
from rookery.core.replies import NO_FILE_PUT_BACK
from rookery.core.text.terminal_text import counted, harmless_line, visible_line
from rookery.errors import CommandRejected
from rookery.protocol.rewind_text import (
    FILES_STAY,
    FORGETS,
    NO_FILE_CHANGES,
    Extent,
    file_groups,
)
from rookery.tui.interfaces import Controller
from rookery.tui.keys import CHECKPOINT_KEYS, RESTORE_KEYS
from rookery.tui.pick_list import PickList, run_latest
from rookery.tui.rows.lines import Piece, cut, indented, wrapped
from rookery.tui.rows.tool_calls import diff_lines, diff_pieces
from rookery.tui.screens.side_screen import RELOAD_SECONDS, ReadingScreen
from rookery.tui.short_texts import clock, one_line
from rookery.tui.theme import Theme, theme_of


class RestoreScreen(ReadingScreen[bool]):
    """Confirms a rewind with `y`. Changes by others are kept unless `o` is pressed; what would
    be lost then is shown before another `y`."""

    BINDINGS: ClassVar[list[BindingType]] = RESTORE_KEYS
    DEFAULT_CSS = "RestoreScreen > .frame { max-width: 100; max-height: 30; }"

    def __init__(self, controller: Controller, point: Point, back: Extent) -> None:
        super().__init__(controller)
        self._task_id = controller.task_id or ""
        self._point = point
        self._extent = back
        self._overwrite = False
        self._rehearsal: RestoreRehearsal | None = None
        self._is_rewinding = False

    def on_mount(self) -> None:
        super().on_mount()
        self.set_title(self._extent.question)
        self._rehearse()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action == "go_back":
            return self._can_rewind
        if action == "overwrite":
            return bool(self._rehearsal and self._rehearsal.kept and not self._overwrite)
        return True

    @property
    def _can_rewind(self) -> bool:
        if self._is_rewinding:
            return False
        is_possible = bool(self._rehearsal and not self._rehearsal.problem)
        return self._extent is Extent.CONVERSATION or is_possible

    def _rehearse(self) -> None:
        self._rehearsal = None
        if self._extent is Extent.CONVERSATION:
            self._draw()
        else:
            run_latest(self, self._ask)

    async def _ask(self) -> None:
        self.set_subtitle("checking what would change")
        try:
            self._rehearsal = await self._controller.ask(
                AskRehearsal(task_id=self._task_id, to=self._point.to, overwrite=self._overwrite)
            )
        except CommandRejected as refusal:
            self._rehearsal = RestoreRehearsal(problem=str(refusal))
        self.set_subtitle("")
        self._draw()

    def _draw(self) -> None:
        point, back, rehearsal = self._point, self._extent, self._rehearsal
        overwrite = self._overwrite
        self.write(
            lambda width: list(
                draw_rehearsal(point, back, rehearsal, width, theme_of(self), overwrite=overwrite)
            )
        )
        self.refresh_keys()

    def close_for_text(self) -> None:
        self.dismiss(True)  # with the list of points below it

    def action_overwrite(self) -> None:
        self._overwrite = True
        self._rehearse()

    async def action_go_back(self) -> None:
        self._is_rewinding = True
        if await self._rewind():
            self._controller.toast(self._success_text, "success")
            if self._restores_message:
                self._controller.restore_text(self._point.what)
            self.dismiss(True)
        else:
            self._is_rewinding = False

    @property
    def _success_text(self) -> str:
        plan = self._rehearsal
        if self._extent is Extent.CONVERSATION or (plan and (plan.written or plan.removed)):
            return f"Rewound: {self._extent.value}."
        words = f"Rewound: {Extent.CONVERSATION.value}. " if self._extent is Extent.BOTH else ""
        return f"{words}{NO_FILE_PUT_BACK}"

    @property
    def _restores_message(self) -> bool:
        """Whether to put the user's message back into the input area; the initial prompt stays."""
        first_ts = next((event.ts for event in self._controller.events(self._task_id)), None)
        is_later = self._point.by_user and self._point.ts != first_ts
        return is_later and self._extent is not Extent.FILES

    async def _rewind(self) -> bool:
        to = self._point.to
        restore = RestoreFiles(task_id=self._task_id, to=to, overwrite=self._overwrite)
        if self._extent is not Extent.CONVERSATION and not await self._controller.send(restore):
            return False
        rewind = Rewind(task_id=self._task_id, to=to)
        return self._extent is Extent.FILES or await self._controller.send(rewind)

    def action_close(self) -> None:
        self.dismiss(False)


def draw_rehearsal(
    point: Point,
    back: Extent,
    rehearsal: RestoreRehearsal | None,
    width: int,
    theme: Theme,
    *,
    overwrite: bool = False,
) -> Iterator[Text]:
    muted = theme.fg(theme.muted)
    what = Text(visible_line(one_line(point.what)), theme.fg(theme.text, bold=True))
    yield Text("To the point before:", muted)
    yield from indented([cut(what, width - 2)], Text("  "), Text("  "))
    if back is not Extent.FILES:
        yield Text()
        yield from wrapped(Text(FORGETS), width)
    if back is Extent.CONVERSATION:
        yield from wrapped(Text(FILES_STAY, muted), width)
        return
    if rehearsal is None:
        return
    if rehearsal.problem:
        yield Text()
        yield from wrapped(Text(harmless_line(rehearsal.problem), theme.fg(theme.bad)), width)
        return
    if overwrite:
        yield Text()
        warning = "Changes that others made to these files will be lost."
        yield from wrapped(Text(warning, theme.fg(theme.bad, bold=True)), width)
    if not (rehearsal.written or rehearsal.removed):
        yield Text()
        yield Text(NO_FILE_CHANGES, muted)
    inks = {"←": theme.good, "−": theme.bad}
    for heading, mark, paths in file_groups(rehearsal):
        yield Text()
        yield from wrapped(Text(heading, theme.fg(theme.muted)), width)
        for path in paths:
            lines = wrapped(Text(visible_line(path)), width - 4)
            sign = Text(f"  {mark} ", theme.fg(inks.get(mark, theme.warning), bold=True))
            yield from indented(lines, sign, Text("    "))


PAUSE_SECONDS = 0.15


class CheckpointScreen(ReadingScreen[None]):
    TITLE_TEXT = "Checkpoints"
    IS_PANEL = True
    BINDINGS: ClassVar[list[BindingType]] = CHECKPOINT_KEYS
    DEFAULT_CSS = """
    CheckpointScreen.-panel > .frame { height: 60%; }
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
        self.list = PickList[Point](draw_point, lambda point: f"{point.to} {point.ts}")

    def parts(self) -> list[Widget]:
        return [Container(self.list, self.scroll_view, classes="both")]

    def on_mount(self) -> None:
        super().on_mount()
        self._reload()
        self.set_interval(RELOAD_SECONDS, self._reload)

    def _reload(self) -> None:
        events = self._controller.events(self._task_id)
        if len(events) == self._events and self._events:
            return
        self._events = len(events)
        found = points(events)[::-1]
        self.list.show(found, nothing="There is nothing to rewind yet.")
        self.set_subtitle(counted(len(found), "point"))
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
        """A click only shows the changes."""
        message.stop()

    def _show_changes(self) -> None:
        run_latest(self, self._changes)

    async def _changes(self) -> None:
        if (point := self.list.marked) is None:
            return
        await anyio.sleep(PAUSE_SECONDS)
        step = self._only_step
        until = self._next_of(point) if step else None
        query = AskDifferences(task_id=self._task_id, since=point.to, until=until)
        found, problem = await _differences(self._controller, query)
        heading = "File changes in this step" if step else "File changes since then"
        self.write(lambda width: list(draw_changes(heading, found, problem, width, theme_of(self))))

    def _next_of(self, point: Point) -> int | None:
        later = [each.to for each in self.list.items if each.to > point.to]
        return min(later, default=None)

    def action_back(self, what: str) -> None:
        if point := self.list.marked:
            screen = RestoreScreen(self._controller, point, Extent[what])
            self.app.push_screen(screen, self._on_result)

    def _on_result(self, done: bool | None) -> None:
        if done:
            self.dismiss(None)


class ChangesScreen(ReadingScreen[None]):
    """Shows what the session changed in files."""

    TITLE_TEXT = "Changes"
    DEFAULT_CSS = "ChangesScreen > .frame { max-width: 120; }"

    def on_mount(self) -> None:
        super().on_mount()
        run_latest(self, self._load)

    async def _load(self) -> None:
        query = AskDifferences(task_id=self._controller.task_id or "")
        found, problem = await _differences(self._controller, query)
        heading = "File changes of this session"
        self.write(lambda width: list(draw_changes(heading, found, problem, width, theme_of(self))))


async def _differences(
    controller: Controller, query: AskDifferences
) -> tuple[Sequence[FileDifference], str]:
    """What changed, or why that is not known."""
    try:
        return await controller.ask(query), ""
    except CommandRejected as refusal:
        return (), str(refusal)


def draw_point(point: Point, width: int, theme: Theme) -> Text:
    mark = Text("›", theme.fg(theme.accent)) if point.by_user else Text(" ")
    if point.changed_files:
        mark = Text("±", theme.fg(theme.good))
    ink = theme.fg(theme.text, bold=point.by_user)
    if not (point.by_user or point.changed_files):
        ink = theme.fg(theme.muted)
    what = Text(harmless_line(one_line(point.what)), ink)
    return Text.assemble(
        (f"{clock(point.ts)} ", theme.fg(theme.muted)), mark, " ", cut(what, width)
    )


def draw_changes(
    heading: str, found: Sequence[FileDifference], problem: str, width: int, theme: Theme
) -> Iterator[Text | Piece]:
    muted = theme.fg(theme.muted)
    if problem:
        yield from wrapped(Text(harmless_line(problem), theme.fg(theme.warning)), width)
        return
    if not found:
        yield Text(f"{heading}: none.", muted)
        return
    yield Text(f"{heading}: {counted(len(found), 'file')}.", muted)
    for each in found:
        yield Text()
        yield cut(_head(each, theme), width)
        if each.diff:
            yield from diff_pieces(each.diff, width, theme)
        else:
            yield Text("not a text file", muted)


_MARKS = {"added": ("new", "good"), "changed": ("", "muted"), "removed": ("removed", "bad")}


def _head(change: FileDifference, theme: Theme) -> Text:
    signs = [line.sign for line in diff_lines(change.diff)]
    word, ink = _MARKS[change.change]
    head = Text(visible_line(change.path), theme.fg(theme.text, bold=True))
    if signs:
        head.append(f"  +{signs.count('+')}", theme.fg(theme.good))
        head.append(f" −{signs.count('-')}", theme.fg(theme.bad))
    head.append(f"  {word}" if word else "", theme.fg(getattr(theme, ink)))
    return head
