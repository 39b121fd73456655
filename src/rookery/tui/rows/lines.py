"""Text as lines of the screen: wrapped, cut, in pieces, and laid out when needed.

A long row is a list of pieces. `LazyLines` lays out only those near what is seen and guesses the
height of the others, so that a long conversation costs no more than a short one.
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
from rookery.tui.rows.markdown_parts import PART, PART_LINES, good_place


class Family(Enum):
    HIDDEN = "nothing to see"
    USER = "said by the user"
    ANSWER = "said by the model"
    THOUGHT = "thought by the model"
    CALL = "a call of a tool"
    OUTPUT = "what a command wrote"
    TROUBLE = "something went wrong"
    RESULT = "what the task came to"
    QUESTION = "asked in words"
    NOTE = "something to know"
    SUMMARY = "where the conversation was made shorter"


_SAYS = {
    "text": Family.ANSWER,
    "reasoning": Family.THOUGHT,
    "user_feedback": Family.USER,
    "user_feedback_diff": Family.USER,
    "completion_result": Family.RESULT,
    "command_output": Family.OUTPUT,
    "browser_action_result": Family.OUTPUT,
    "error": Family.TROUBLE,
    "diff_error": Family.TROUBLE,
    "condense_context_error": Family.TROUBLE,
    "condense_context": Family.SUMMARY,
    "sliding_window_truncation": Family.SUMMARY,
    "checkpoint_saved": Family.HIDDEN,
    "api_req_finished": Family.HIDDEN,
    "api_req_started": Family.HIDDEN,
}
_CALLS = {"tool", "command", "use_mcp_server", "browser_action_launch"}


class ShownRow(Struct, frozen=True, kw_only=True):
    """A row with all that its drawing depends on."""

    message: Message
    opening: bool = False
    """It is what the task was opened with."""
    ended: str = ""
    """How its call ended: empty while it has not, `done`, `failed`, `denied` and so on."""
    result: str = ""
    """What its call came to, as the model was told."""
    exit_code: int | None = None
    tries: int = 1
    """How often a request was tried that this row tells of; 0 if a later row tells it."""
    unfolded: bool = False
    depth: int = 0


def family_of(shown: ShownRow) -> Family:
    if not shown.tries:
        return Family.HIDDEN
    return family(shown.message, opening=shown.opening)


def family(message: Message, *, opening: bool = False) -> Family:
    if opening:
        return Family.USER
    if message.type == "say":
        if message.say == "api_req_started":
            return (
                Family.TROUBLE
                if "streamingFailedMessage" in (message.text or "")
                else (Family.HIDDEN)
            )
        return _SAYS.get(message.say or "", Family.NOTE)
    if message.ask in _CALLS:
        return Family.CALL
    if message.ask == "resume_task":
        return Family.NOTE
    if message.ask == "followup":
        return Family.QUESTION
    return Family.HIDDEN


_BELONGS = {Family.TROUBLE, Family.OUTPUT}
"""What stands right below the call it is about."""


def gap_between(above: Family, below: Family, *, tall: bool) -> int:
    """Empty lines between two rows: what belongs together stands together. `tall` if what is
    above has several lines."""
    if below in _BELONGS and above in (Family.CALL, Family.OUTPUT):
        return 0
    return int(tall) if above is below is Family.CALL else 1


TAB = 4
_CONSOLE = Console(width=10_000, color_system="truecolor", legacy_windows=False)


def clean(text: str) -> str:
    """What a model, tool or file wrote, as it may stand on a terminal."""
    return harmless(text.replace("\r\n", "\n").replace("\r", "")).expandtabs(TAB)


def wrapped(text: Text, width: int) -> list[Text]:
    """The text in lines of at most `width` columns; words stay whole where they can."""
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
    """The text on one line, with an ellipsis where it does not fit."""
    line = text.copy()
    line.truncate(max(1, width), overflow="ellipsis")
    return line


def indented(lines: Iterable[Text], first: Text, rest: Text) -> Iterator[Text]:
    """The lines behind a margin, which differs for the first."""
    margin = first
    for line in lines:
        yield Text.assemble(margin, line)
        margin = rest


def padded(line: Text, width: int, style: Style) -> Text:
    """The line on a ground of its own that reaches to the edge."""
    line = line.copy()
    line.pad_right(max(0, width - line.cell_len))
    line.stylize_before(style)
    return line


def strip_of(line: Text) -> Strip:
    """The line as the screen takes it."""
    if not line.spans and line.style:
        style = Style.parse(line.style) if isinstance(line.style, str) else line.style
        return Strip([Segment(line.plain, style)], line.cell_len)
    return Strip(line.render(_CONSOLE), line.cell_len)


class Piece(Struct, frozen=True):
    """Some lines of a row, and how many there will be about."""

    height: int
    draw: Callable[[], Iterable[Text]]
    gap: int = 0
    """Blank lines between it and the piece above."""
    key: object = None
    """Another piece in its place with the very same key looks the same."""


def guessed_height(text: str, width: int) -> int:
    return sum(1 + max(0, len(line) - 1) // max(1, width) for line in text.split("\n"))


def single(lines: Iterable[Text]) -> list[Piece]:
    """A row that is short in any case."""
    drawn = list(lines)
    return [Piece(len(drawn), lambda: drawn)] if drawn else []


def all_lines(pieces: Iterable[Piece]) -> list[Text]:
    lines: list[Text] = []
    for piece in pieces:
        drawn = list(piece.draw())
        lines += [Text()] * (piece.gap if lines and drawn else 0) + drawn
    return lines


def together(parts: Iterable[Text | Piece]) -> list[Piece]:
    """Pieces with single lines between them."""
    pieces: list[Piece] = []
    for are_lines, group in groupby(parts, lambda part: isinstance(part, Text)):
        found = list(group)
        if are_lines:
            pieces += single(line for line in found if isinstance(line, Text))
        else:
            pieces += [piece for piece in found if isinstance(piece, Piece)]
    return pieces


def behind(pieces: Iterable[Piece], first: Text, rest: Text) -> Iterator[Piece]:
    """The pieces behind a margin, which differs for the very first line."""
    margin = first
    for piece in pieces:
        yield Piece(piece.height, _indented(piece, margin, rest), piece.gap, piece.key)
        margin = rest


def _indented(piece: Piece, first: Text, rest: Text) -> Callable[[], Iterable[Text]]:
    return lambda: indented(piece.draw(), first, rest)


def text_pieces(text: str, width: int, style: Style) -> list[Piece]:
    """A text that is no Markdown, wrapped."""
    return [
        Piece(guessed_height(chunk, width), _wrapped(chunk, width, style)) for chunk in chunks(text)
    ]


def _wrapped(chunk: str, width: int, style: Style) -> Callable[[], Iterable[Text]]:
    return lambda: wrapped(Text(chunk, style), width)


def chunks(text: str) -> Iterator[str]:
    """The text in parts of some lines each; a line that is too long is cut behind a word."""
    kept: list[str] = []
    size = 0
    for line in text.split("\n"):
        while len(line) > PART:
            at = good_place(line)
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
        """`gap` blank lines come first, if there is anything at all. What stays as it was
        `before` is not laid out again."""
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
        """It has more to show than one line."""
        if len(self._pieces) > 1:
            return True
        return sum(bool(strip.cell_length) for strips in self._strips for strip in strips or ()) > 1

    def lay_out(self, first: int, last: int) -> bool:
        """The pieces between two lines. Whether some were not laid out before."""
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
        """A line by its piece and its place in that, which stay when others are laid out."""
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
