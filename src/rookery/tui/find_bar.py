"""Search in the conversation: a field below the input area, and highlights in the transcript.

Rows are searched by their text, without layout, so that long conversations are searched at once.
"""

from collections.abc import Iterator, Sequence
from typing import ClassVar

from msgspec import Struct
from rich.text import Text
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal
from textual.widgets import Input, Static

from rookery.core.message import diff_in
from rookery.tui.keys import FIND_KEYS
from rookery.tui.pick_list import LineField
from rookery.tui.rows.lines import RowKind, ShownRow, clean, kind_of
from rookery.tui.rows.tool_calls import payload_of
from rookery.tui.theme import theme_of
from rookery.tui.transcript_view import TranscriptView
from rookery.tui.virtual_list import Name, Row

LOOK_AGAIN_SECONDS = 0.5


class Hit(Struct, frozen=True):
    """An occurrence of the words: the row, and which of those in the row."""

    row: Name
    number: int


def row_text(shown: ShownRow) -> str:
    """What an unfolded row shows, without its layout."""
    message = shown.message
    match kind_of(shown):
        case RowKind.HIDDEN:
            return ""
        case RowKind.CALL if message.ask == "command":
            return clean(f"{message.text or ''}\n{shown.result}")
        case RowKind.CALL:
            details = diff_in(payload_of(message)) or shown.result
            return clean(f"{message.title or ''}\n{details}")
        case _:
            return clean(message.text or "")


class FoundTexts:
    """Lower-case texts of the rows, kept while the search is open."""

    def __init__(self) -> None:
        self._texts: dict[Name, tuple[ShownRow, str]] = {}

    def hits(self, rows: Sequence[Row], words: str) -> list[Hit]:
        """All occurrences, from the first row to the last."""
        wanted = words.lower()
        return list(self._hits(rows, wanted)) if wanted.strip() else []

    def _hits(self, rows: Sequence[Row], wanted: str) -> Iterator[Hit]:
        for row in rows:
            for number in range(self._text(row).count(wanted)):
                yield Hit(row.name, number)

    def _text(self, row: Row) -> str:
        known = self._texts.get(row.name)
        if known is None or known[0].message is not row.shown.message:
            known = self._texts[row.name] = (row.shown, row_text(row.shown).lower())
        return known[1]


class FindBar(Horizontal):
    """Searches as you type, from the end of the visible part upwards."""

    BINDINGS: ClassVar[list[BindingType]] = FIND_KEYS
    DEFAULT_CSS = """
    FindBar { height: 1; }
    FindBar > #find-label { width: 6; color: $primary; }
    FindBar > #find-count { width: auto; padding: 0 1; color: $muted; }
    FindBar LineField, FindBar LineField:focus {
        border: none; height: 1; width: 1fr; padding: 0; background: $background;
    }
    """

    def __init__(self, transcript: TranscriptView, words: str = "") -> None:
        super().__init__()
        self._transcript = transcript
        self._field = LineField(words, select_on_focus=False)
        self._count = Static(id="find-count")
        self._texts = FoundTexts()
        self._hit: Hit | None = None
        self._searched = 0
        """Number of rows that were searched."""

    def compose(self) -> ComposeResult:
        yield Static("Find", id="find-label")
        yield self._field
        yield self._count

    def on_mount(self) -> None:
        self._field.focus()
        self._search()
        self.set_interval(LOOK_AGAIN_SECONDS, self._look_again)

    def on_unmount(self) -> None:
        self._transcript.highlight("")

    def on_input_changed(self, message: Input.Changed) -> None:
        message.stop()
        self._search()

    def on_input_submitted(self, message: Input.Submitted) -> None:
        message.stop()
        self.action_step(-1)

    def _search(self) -> None:
        """Go to the last hit that is not below the visible part."""
        hits = self._hits()
        seen = self._transcript.rows_to_view_end
        above = [hit for hit in hits if hit.row in seen]
        self._hit = (above or hits)[-1] if hits else None
        self._show(hits)

    def _look_again(self) -> None:
        """Count the hits in rows that arrived meanwhile, or go to one if there was none."""
        if len(self._transcript.rows) == self._searched:
            return
        if self._hit is None:
            self._search()
        else:
            self._count.update(self._count_text(self._hits()))

    def action_step(self, by: int) -> None:
        """Go to the hit above or below, wrapping around."""
        hits = self._hits()
        if hits:
            here = hits.index(self._hit) if self._hit in hits else len(hits)
            self._hit = hits[(here + by) % len(hits)]
        self._show(hits)

    def _hits(self) -> list[Hit]:
        self._searched = len(self._transcript.rows)
        return self._texts.hits(self._transcript.rows, self._field.value)

    def _show(self, hits: Sequence[Hit]) -> None:
        words = self._field.value
        self._transcript.highlight(words if hits else "")
        if self._hit and hits:
            self._transcript.show_hit(self._hit.row, self._hit.number)
        self._count.update(self._count_text(hits))

    def _count_text(self, hits: Sequence[Hit]) -> Text:
        theme = theme_of(self)
        if not self._field.value.strip():
            return Text("Enter or ↑ older   ↓ newer   Esc close", theme.fg(theme.muted))
        if not hits or self._hit is None:
            return Text("no matches", theme.fg(theme.warning))
        return Text(f"{hits.index(self._hit) + 1} of {len(hits)}", theme.fg(theme.muted))
