"""Terminal lines: wrapping, truncating, and layout on demand.

A long row is a list of pieces. `LazyLines` lays out only the pieces near the visible area and
estimates the height of the others, so that the cost does not depend on the conversation's length.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import Enum
from itertools import groupby

from msgspec import Struct
from rich.console import Console
from rich.segment import Segment
from rich.style import Style
from rich.text import Text
from textual.strip import Strip

from rookery.core.message import Message
from rookery.core.text.terminal_text import harmless
from rookery.tui.rows.markdown_parts import PART, PART_LINES, split_position


class RowKind(Enum):
    HIDDEN = "nothing to see"
    USER = "a message of the user"
    ANSWER = "a message of the model"
    THOUGHT = "reasoning of the model"
    CALL = "a tool call"
    OUTPUT = "output of a command"
    TROUBLE = "an error"
    RESULT = "the result of the task"
    QUESTION = "a follow-up question"
    NOTE = "a note"
    SUMMARY = "where the conversation was condensed"


_SAYS = {
    "text": RowKind.ANSWER,
    "reasoning": RowKind.THOUGHT,
    "user_feedback": RowKind.USER,
    "user_feedback_diff": RowKind.USER,
    "completion_result": RowKind.RESULT,
    "command_output": RowKind.OUTPUT,
    "browser_action_result": RowKind.OUTPUT,
    "error": RowKind.TROUBLE,
    "diff_error": RowKind.TROUBLE,
    "condense_context_error": RowKind.TROUBLE,
    "condense_context": RowKind.SUMMARY,
    "sliding_window_truncation": RowKind.SUMMARY,
    "checkpoint_saved": RowKind.HIDDEN,
    "api_req_finished": RowKind.HIDDEN,
    "api_req_started": RowKind.HIDDEN,
}
_CALLS = {"tool", "command", "use_mcp_server", "browser_action_launch"}


class ShownRow(Struct, frozen=True, kw_only=True):
    """A row with everything its rendering depends on."""

    message: Message
    opening: bool = False
    """Whether this is the message that started the session."""
    ended: str = ""
    """How the call ended (`done`, `failed`, `denied` and so on); empty while it runs."""
    result: str = ""
    """The result of the call, as sent to the model."""
    exit_code: int | None = None
    tries: int = 1
    """Number of attempts this row reports for a request; 0 if a later row reports them."""
    unfolded: bool = False
    depth: int = 0


def kind_of(shown: ShownRow) -> RowKind:
    message = shown.message
    if not shown.tries:
        return RowKind.HIDDEN
    if shown.opening:
        return RowKind.USER
    if message.type == "say":
        if message.failure:
            return RowKind.TROUBLE
        return _SAYS.get(message.say or "", RowKind.NOTE)
    if message.ask in _CALLS:
        return RowKind.CALL
    if message.ask == "resume_task":
        return RowKind.NOTE
    if message.ask == "followup":
        return RowKind.QUESTION
    return RowKind.HIDDEN


_ATTACHED = {RowKind.TROUBLE, RowKind.OUTPUT}
"""Rows that belong to the call above them and get no gap."""


def gap_between(above: RowKind, below: RowKind, *, tall: bool) -> int:
    """Blank lines between two rows. `tall` means that the row above has several lines."""
    if below in _ATTACHED and above in (RowKind.CALL, RowKind.OUTPUT):
        return 0
    return int(tall) if above is below is RowKind.CALL else 1


TAB = 4
_CONSOLE = Console(width=10_000, color_system="truecolor", legacy_windows=False)


def clean(text: str) -> str:
    """Make text of a model, tool or file safe to show; expands tabs."""
    return harmless(text.replace("\r\n", "\n").replace("\r", "")).expandtabs(TAB)


def wrapped(text: Text, width: int) -> list[Text]:
    """Wrap the text to `width` columns, between words where possible."""
    if not text.plain:
        return [Text()]
    lines: list[Text] = []
    for line in text.split("\n", allow_blank=True):
        if line.cell_len <= width:
            lines.append(line)
        else:
            lines.extend(line.wrap(_CONSOLE, max(1, width), tab_size=TAB, overflow="fold"))
    for line in lines:
        line.rstrip()
    return lines


def cut(text: Text, width: int) -> Text:
    """Truncate to one line, with an ellipsis if the text does not fit."""
    line = text.copy()
    line.truncate(max(1, width), overflow="ellipsis")
    return line


def column(text: Text, width: int) -> Text:
    """Truncate or pad to this width."""
    line = cut(text, width)
    line.pad_right(max(0, width - line.cell_len))
    return line


def indented(lines: Iterable[Text], first: Text, rest: Text) -> Iterator[Text]:
    """Prefix the lines with a margin; the first line has its own."""
    margin = first
    for line in lines:
        yield Text.assemble(margin, line)
        margin = rest


def padded(line: Text, width: int, style: Style) -> Text:
    """Fill the line to the full width with a background."""
    line = line.copy()
    line.pad_right(max(0, width - line.cell_len))
    line.stylize_before(style)
    return line


def strip_of(line: Text) -> Strip:
    if not line.spans and line.style:
        style = Style.parse(line.style) if isinstance(line.style, str) else line.style
        return Strip([Segment(line.plain, style)], line.cell_len)
    return Strip(line.render(_CONSOLE), line.cell_len)


class Piece(Struct, frozen=True):
    """Some lines of a row, drawn on demand, with an estimated height."""

    height: int
    draw: Callable[[], Iterable[Text]]
    gap: int = 0
    """Blank lines above this piece."""
    key: object = None
    """If the piece at the same position had the identical key before, its lines are reused."""


def guess_height(text: str, width: int) -> int:
    return sum(1 + max(0, len(line) - 1) // max(1, width) for line in text.split("\n"))


def as_piece(lines: Iterable[Text]) -> list[Piece]:
    """The lines as one piece, for rows that are always short."""
    drawn = list(lines)
    return [Piece(len(drawn), lambda: drawn)] if drawn else []


def all_lines(pieces: Iterable[Piece]) -> list[Text]:
    lines: list[Text] = []
    for piece in pieces:
        drawn = list(piece.draw())
        lines += [Text()] * (piece.gap if lines and drawn else 0) + drawn
    return lines


def as_pieces(parts: Iterable[Text | Piece]) -> list[Piece]:
    """Convert a mix of lines and pieces to pieces."""
    pieces: list[Piece] = []
    for are_lines, group in groupby(parts, lambda part: isinstance(part, Text)):
        found = list(group)
        if are_lines:
            pieces += as_piece(line for line in found if isinstance(line, Text))
        else:
            pieces += [piece for piece in found if isinstance(piece, Piece)]
    return pieces


def with_margin(pieces: Iterable[Piece], first: Text, rest: Text) -> Iterator[Piece]:
    """Prefix the pieces with a margin; the first line has its own."""
    margin = first
    for piece in pieces:
        yield Piece(piece.height, _indented(piece, margin, rest), piece.gap, piece.key)
        margin = rest


def _indented(piece: Piece, first: Text, rest: Text) -> Callable[[], Iterable[Text]]:
    return lambda: indented(piece.draw(), first, rest)


def text_pieces(text: str, width: int, style: Style) -> list[Piece]:
    """Wrapped text that is not Markdown."""
    return [
        Piece(guess_height(chunk, width), _wrapped(chunk, width, style)) for chunk in chunks(text)
    ]


def _wrapped(chunk: str, width: int, style: Style) -> Callable[[], Iterable[Text]]:
    return lambda: wrapped(Text(chunk, style), width)


def chunks(text: str) -> Iterator[str]:
    """Split the text into chunks of several lines; too long lines are split between words."""
    kept: list[str] = []
    size = 0
    for line in text.split("\n"):
        while len(line) > PART:
            at = split_position(line)
            kept.append(line[:at])
            yield "\n".join(kept)
            kept, size, line = [], 0, line[at:]
        kept.append(line)
        size += len(line)
        if size >= PART or len(kept) >= PART_LINES:
            yield "\n".join(kept)
            kept, size = [], 0
    if kept:
        yield "\n".join(kept)


NOTHING = Strip([], 0)


class LazyLines:
    def __init__(
        self, pieces: Sequence[Piece], gap: int = 0, before: "LazyLines | None" = None
    ) -> None:
        """`gap` blank lines come first, unless there is no content. Unchanged pieces of `before`
        are reused."""
        self._pieces = pieces
        self._gap = gap
        self._strips: list[list[Strip] | None] = [None] * len(pieces)
        self._heights = [piece.height + self._gap_above(at) for at, piece in enumerate(pieces)]
        self._tops: list[int] = []
        if before and before._gap == gap:
            self._keep(before)

    def _keep(self, before: "LazyLines") -> None:
        for at, (new, old) in enumerate(zip(self._pieces, before._pieces, strict=False)):
            if new.key is None or new.key is not old.key:
                return
            self._strips[at] = before._strips[at]
            self._heights[at] = before._heights[at]

    @property
    def height(self) -> int:
        return self._top(len(self._pieces))

    @property
    def is_tall(self) -> bool:
        """Whether there is more than one line of content."""
        if len(self._pieces) > 1:
            return True
        return sum(bool(strip.cell_length) for strips in self._strips for strip in strips or ()) > 1

    def lay_out(self, first: int, last: int) -> bool:
        """Lay out the pieces between two lines. Returns whether any was new."""
        found = False
        at = self.piece_at(first)
        while at < len(self._pieces) and self._top(at) <= last:
            found = self._lay_out(at) or found
            at += 1
        return found

    def strip(self, line: int) -> Strip:
        if not 0 <= line < self.height:
            return NOTHING
        at = self.piece_at(line)
        self._lay_out(at)
        strips, inside = self._strips[at], line - self._top(at)
        return strips[inside] if strips and inside < len(strips) else NOTHING

    def piece_at(self, line: int) -> int:
        self._top(len(self._pieces))
        at = bisect_right(self._tops, line) - 1
        return min(max(0, at), max(0, len(self._pieces) - 1))

    def anchor(self, line: int) -> tuple[int, int]:
        """A line as piece index and offset, which stay valid when other pieces are laid out."""
        at = self.piece_at(line)
        return at, line - self._top(at)

    def line_of(self, anchor: tuple[int, int]) -> int:
        at = min(anchor[0], len(self._pieces))
        return self._top(at) + anchor[1]

    def _top(self, at: int) -> int:
        if not self._tops:
            self._tops = [0]
            for height in self._heights:
                self._tops.append(self._tops[-1] + height)
        return self._tops[at]

    def _gap_above(self, at: int) -> int:
        return self._pieces[at].gap if at else self._gap

    def _lay_out(self, at: int) -> bool:
        if self._strips[at] is not None:
            return False
        strips = [strip_of(line) for line in self._pieces[at].draw()]
        if strips:
            strips[:0] = [NOTHING] * self._gap_above(at)
        self._strips[at] = strips
        if self._heights[at] != len(strips):
            self._heights[at] = len(strips)
            self._tops = []
        return True
