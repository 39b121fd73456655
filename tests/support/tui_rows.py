"""Whole rows and whole Markdown texts, drawn at once."""

from rich.text import Text
from textual.strip import Strip

from rookery.tui.rows.lines import ShownRow, all_lines, strip_of
from rookery.tui.rows.markdown import GrowingMarkdownLines
from rookery.tui.rows.markdown_parts import Part, Parts
from rookery.tui.rows.row_view import pieces_of
from rookery.tui.theme import Theme


def draw_row(shown: ShownRow, width: int, theme: Theme) -> list[Strip]:
    """All lines of a row."""
    pieces = pieces_of(shown, width, theme, GrowingMarkdownLines())
    return [strip_of(line) for line in all_lines(pieces)]


def markdown(text: str, width: int, theme: Theme) -> list[Text]:
    return all_lines(GrowingMarkdownLines().pieces(text, width, theme))


def parts_of(text: str) -> list[Part]:
    done, rest = Parts().of(text)
    return [*done, *rest]
