"""What opens below the input area behind a trigger: rows that fit what is typed."""

from collections.abc import Sequence
from functools import partial
from typing import ClassVar

import anyio
from rich.text import Text
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.message import Message

from rookery.core.text.terminal_text import harmless_line
from rookery.errors import CommandRejected
from rookery.tui.interfaces import Choice, Desk
from rookery.tui.pickers.background_work import do_latest
from rookery.tui.pickers.pick_list import PickList
from rookery.tui.rows.lines import cut
from rookery.tui.theme import Look

ROWS = 9
"""Rows of a picker that are seen at once."""


class Picker(Vertical):
    """Is a `Listing`. A kind of picker says what its rows are, and how long typing must have
    paused before they are looked for."""

    DEFAULT_CSS = "Picker { height: auto; width: 1fr; }"
    PAUSE: ClassVar[float] = 0.15
    """Seconds."""
    MOST: ClassVar[int] = 20
    NOTHING: ClassVar[str] = "Nothing fits."

    class Picked(Message):
        """A row was clicked."""

        def __init__(self, choice: Choice) -> None:
            super().__init__()
            self.choice = choice

    def __init__(self, desk: Desk) -> None:
        super().__init__()
        self._desk = desk
        self._wanted = ""
        self._found_for: str | None = None
        self._list = PickList[Choice](self._draw, _name, most=ROWS)

    def compose(self) -> ComposeResult:
        yield self._list

    async def candidates(self, text: str) -> Sequence[Choice]:
        """What fits the text, the best first."""
        return self.known(text) or ()

    def known(self, text: str) -> Sequence[Choice] | None:
        """The same, if it takes no time; so Enter need not wait until typing has paused."""
        return None

    async def look_for(self, text: str) -> None:
        self._wanted = text
        do_latest(self, partial(self._look_for, text))

    def move(self, by: int) -> None:
        self._list.move(by)

    @property
    def chosen(self) -> Choice | None:
        """Of what was found for the text as it is now; what is seen may be of an older one."""
        if self._found_for == self._wanted:
            return self._list.marked
        known = self.known(self._wanted)
        return known[0] if known else None

    async def settle(self) -> Choice | None:
        """The choice for the text as it is now, even if typing has not paused yet."""
        if self._found_for != self._wanted:
            self.workers.cancel_node(self)
            await self._find(self._wanted)
        return self.chosen

    @property
    def choices(self) -> Sequence[Choice]:
        return self._list.items

    async def _look_for(self, text: str) -> None:
        if self._found_for is not None:
            await anyio.sleep(self.PAUSE)
        await self._find(text)

    async def _find(self, text: str) -> None:
        try:
            found, nothing = await self.candidates(text), self.NOTHING
        except CommandRejected as refusal:
            found, nothing = (), harmless_line(str(refusal))
        fresh = self._found_for != text
        self._found_for = text
        self._list.show(found, nothing=nothing, best_first=fresh)

    def _draw(self, choice: Choice, width: int, look: Look) -> Text:
        widest = max(Text(harmless_line(each.label)).cell_len for each in self._list.items)
        return in_two_columns(choice.label, choice.detail, min(widest, width * 3 // 5), width, look)

    def on_pick_list_picked(self, message: PickList.Picked) -> None:
        message.stop()
        if choice := self.chosen:
            self.post_message(self.Picked(choice))


def _name(choice: Choice) -> str:
    return f"{choice.label}\n{choice.insert}"


def in_two_columns(label: str, detail: str, first: int, width: int, look: Look) -> Text:
    """What it is called, and what there is to say about it."""
    line = cut(Text(harmless_line(label), look.ink(look.words)), first)
    if detail:
        line.pad_right(max(0, first - line.cell_len) + 2)
        line.append(harmless_line(detail), look.ink(look.quiet))
    return cut(line, width)
