"""Long rows in pieces, so that only those near what is seen are laid out."""

from collections.abc import Callable, Iterable, Iterator
from itertools import groupby

from msgspec import Struct
from rich.style import Style
from rich.text import Text

from rookery.tui.rows.lines import indented, wrapped
from rookery.tui.rows.markdown_parts import PART, PART_LINES, good_place


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
